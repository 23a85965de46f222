//! The table of a list of traces: its headings, and what its rows offer besides their values.

use std::collections::HashMap;

use crate::urls::{Column, Columns, StandardColumn};

use crate::Text;

/// The heading of a column.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) column: Column,
    /// The list in the order that it stands for.
    pub(crate) href: Option<String>,
    /// As `aria-sort` says it, where the list is in that order.
    pub(crate) state: Option<&'static str>,
}

/// What the table of a list is made from, besides its lines.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) heads: Vec<Head>,
    /// The address of the list with a trace beside it, up to its id; none where a list has no such place.
    pub(crate) peek: Option<String>,
    /// The id of the trace that is beside the list.
    pub(crate) beside: Option<String>,
    /// The end of the address of each trace: the list that it is opened from.
    pub(crate) within: String,
    /// Rows can be chosen, by the form with this id.
    pub(crate) choice: Option<&'static str>,
    /// What can be done with the values of each line, by its id.
    pub(crate) menus: HashMap<String, Vec<MenuItem>>,
    /// There is another table of traces before it, whose rows have the ids.
    pub(crate) is_second: bool,
    /// What has a column of its own and so is not said below the name of the trace.
    apart: Columns,
}

/// A value of a line, and the lists with it alone and without it.
#[derive(Clone, Debug)]
pub(crate) struct MenuItem {
    pub(crate) label: &'static str,
    pub(crate) text: Text,
    /// None where the filter is too long to be repeated for each value.
    pub(crate) lists: Option<(String, String)>,
}

impl Table {
    pub(crate) fn new(columns: &Columns, head: impl Fn(Head) -> Head) -> Self {
        let heads = columns
            .iter()
            .map(|column| head(Head { column: column.clone(), href: None, state: None }));
        Self {
            heads: heads.collect(),
            peek: None,
            beside: None,
            within: String::new(),
            choice: None,
            menus: HashMap::new(),
            is_second: false,
            apart: columns.clone(),
        }
    }

    /// That of the usual columns, without links.
    pub(crate) fn usual() -> Self {
        Self::new(&Columns::default(), |head| head)
    }

    pub(crate) fn second() -> Self {
        Self { is_second: true, ..Self::usual() }
    }

    pub(crate) fn menu(&self, id: &str) -> &[MenuItem] {
        self.menus.get(id).map_or(&[], Vec::as_slice)
    }

    /// Whether anything can be done in the row of this trace, besides opening it.
    pub(crate) fn has_acts(&self, id: &str) -> bool {
        self.peek.is_some() || !self.menu(id).is_empty()
    }

    pub(crate) fn is_beside(&self, id: &str) -> bool {
        self.beside.as_deref() == Some(id)
    }

    pub(crate) fn says_environment(&self) -> bool {
        !self.apart.has(StandardColumn::Environment)
    }

    pub(crate) fn says_tags(&self) -> bool {
        !self.apart.has(StandardColumn::Tags)
    }

    pub(crate) fn says_input(&self) -> bool {
        !self.apart.has(StandardColumn::Input)
    }

    pub(crate) fn says_output(&self) -> bool {
        !self.apart.has(StandardColumn::Output)
    }
}

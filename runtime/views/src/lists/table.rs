//! The table of a list of traces: headings and row actions.

use std::collections::HashMap;

use crate::urls::{Column, Columns, StandardColumn};

use crate::Text;

/// The heading of a column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnHeading {
    pub(crate) column: Column,
    /// URL of the list sorted by this column.
    pub(crate) href: Option<String>,
    /// Value of `aria-sort`, if the list is sorted by this column.
    pub(crate) state: Option<&'static str>,
}

/// Headings and row actions of a table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) heads: Vec<ColumnHeading>,
    /// URL prefix of the preview, followed by the id of a trace; absent if the list has no preview.
    pub(crate) peek: Option<String>,
    /// Id of the trace in the preview.
    pub(crate) peeked_id: Option<String>,
    /// Query string with the list, appended to the URL of each trace.
    pub(crate) within: String,
    /// Id of the form that selects rows.
    pub(crate) choice: Option<&'static str>,
    /// Menu items by trace id.
    pub(crate) menus: HashMap<String, Vec<MenuItem>>,
    /// Whether another table of traces precedes it, which then has the row ids.
    pub(crate) is_second: bool,
    /// Columns of the table, whose values are not repeated below the name.
    columns_of_own: Columns,
}

/// A value of a row with filter links.
#[derive(Clone, Debug)]
pub(crate) struct MenuItem {
    pub(crate) label: &'static str,
    pub(crate) text: Text,
    /// URLs of the lists with only this value and without it; absent if the filter is too long.
    pub(crate) lists: Option<(String, String)>,
}

impl Table {
    pub(crate) fn new(columns: &Columns, head: impl Fn(ColumnHeading) -> ColumnHeading) -> Self {
        let heads = columns
            .iter()
            .map(|column| head(ColumnHeading { column: column.clone(), href: None, state: None }));
        Self {
            heads: heads.collect(),
            peek: None,
            peeked_id: None,
            within: String::new(),
            choice: None,
            menus: HashMap::new(),
            is_second: false,
            columns_of_own: columns.clone(),
        }
    }

    /// The default columns without links.
    pub(crate) fn usual() -> Self {
        Self::new(&Columns::default(), |head| head)
    }

    pub(crate) fn second() -> Self {
        Self { is_second: true, ..Self::usual() }
    }

    pub(crate) fn menu(&self, id: &str) -> &[MenuItem] {
        self.menus.get(id).map_or(&[], Vec::as_slice)
    }

    /// Whether the row has actions.
    pub(crate) fn has_acts(&self, id: &str) -> bool {
        self.peek.is_some() || !self.menu(id).is_empty()
    }

    pub(crate) fn is_peeked(&self, id: &str) -> bool {
        self.peeked_id.as_deref() == Some(id)
    }

    pub(crate) fn shows_environment(&self) -> bool {
        !self.columns_of_own.has(StandardColumn::Environment)
    }

    pub(crate) fn shows_tags(&self) -> bool {
        !self.columns_of_own.has(StandardColumn::Tags)
    }

    pub(crate) fn shows_input(&self) -> bool {
        !self.columns_of_own.has(StandardColumn::Input)
    }

    pub(crate) fn shows_output(&self) -> bool {
        !self.columns_of_own.has(StandardColumn::Output)
    }
}

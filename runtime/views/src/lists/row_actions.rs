//! Actions of the rows of a list: a preview next to the list, a bookmark, and a menu that filters by values of the row or copies
//! them.

use perpend_domain::access::Permission;
use perpend_domain::filter::{Condition, Test, find};

use crate::lists::column::ListTable;
use crate::lists::facets::{MAX_FILTER, joined};
use crate::lists::filter::FilterView;
use crate::lists::list::ListDeclaration;
use crate::{Text, encode, segment};

/// Longer values are not in menus, because the URLs would be longer than the row.
const MAX_VALUE: usize = 256;
/// With a longer filter rows have no preview, whose URL would repeat it.
const MAX_PEEKED: usize = 2_048;

/// Actions of the rows of a list.
#[derive(Debug)]
pub struct RowActions<R: 'static> {
    /// Path of the form of bookmarks below the project, and the permission for it.
    pub bookmarks: (&'static str, Permission),
    /// Id and name of a row.
    pub row: fn(&R) -> (&str, Text),
    /// Whether a row is bookmarked.
    pub is_bookmarked: fn(&R) -> bool,
    /// Labels, filter columns and values of its menu.
    pub values: fn(&R) -> Vec<(&'static str, &'static str, Text)>,
}

/// The actions of a page.
#[derive(Clone, Debug, Default)]
pub struct PageActions {
    /// URL of this page.
    pub url: String,
    /// Id of the row whose preview is shown.
    pub peeked_id: Option<String>,
    /// Whether the user can bookmark rows.
    pub may_bookmark: bool,
}

/// The actions of a row.
#[derive(Clone, Debug)]
pub(crate) struct RowMenu {
    id: String,
    pub(crate) name: Text,
    /// URL of the page with its preview; absent if the filter is too long.
    pub(crate) peek: Option<String>,
    /// Whether it is bookmarked; absent if the user cannot change it.
    pub(crate) is_bookmarked: Option<bool>,
    pub(crate) items: Vec<MenuItem>,
}

/// A value of a row with filter links.
#[derive(Clone, Debug)]
pub(crate) struct MenuItem {
    pub(crate) label: &'static str,
    pub(crate) text: Text,
    /// URLs of the lists with only this value and without it; absent if the filter is too long.
    pub(crate) lists: Option<(String, String)>,
}

impl RowMenu {
    /// The id as a path segment.
    pub(crate) fn segment(&self) -> String {
        segment(&self.id)
    }

    /// The id as the value of a field.
    pub(crate) fn encoded(&self) -> String {
        encode(&self.id)
    }
}

/// Menu items of the values of a row.
fn menu_items(
    values: Vec<(&'static str, &'static str, Text)>,
    filter: &FilterView,
) -> Vec<MenuItem> {
    let fits = |text: &Text| !text.is_empty() && text.raw().len() <= MAX_VALUE;
    let item = |(label, column, text): (&'static str, &'static str, Text)| {
        let columns = filter.of.columns;
        let list = |test: Test| {
            let condition = Condition { column: find(columns, column), test };
            Some(filter.with(&joined(columns, &filter.q, condition)?))
        };
        let one = || vec![text.raw().to_owned()];
        let lists = match filter.q.len() <= MAX_FILTER {
            true => Some((list(Test::AnyOf(one()))?, list(Test::NoneOf(one()))?)),
            false => None,
        };
        Some(MenuItem { label, text, lists })
    };
    values.into_iter().filter(|(.., text)| fits(text)).filter_map(item).collect()
}

impl ListTable {
    /// With the actions that the list declares for these rows, which are those of the table.
    #[must_use]
    pub fn with_actions<R: 'static>(
        mut self,
        (list, rows): (&ListDeclaration<R>, &[R]),
        filter: &FilterView,
        page: &PageActions,
    ) -> Self {
        let Some(actions) = &list.actions else {
            return self;
        };
        let sign = if page.url.contains('?') { '&' } else { '?' };
        for (shown, row) in self.rows.iter_mut().zip(rows) {
            let (id, name) = (actions.row)(row);
            shown.is_current = page.peeked_id.as_deref() == Some(id);
            let peek = || format!("{}{sign}peek={}#row-{}", page.url, encode(id), segment(id));
            shown.menu = Some(RowMenu {
                peek: (filter.q.len() <= MAX_PEEKED).then(peek),
                is_bookmarked: page.may_bookmark.then(|| (actions.is_bookmarked)(row)),
                items: menu_items((actions.values)(row), filter),
                id: id.to_owned(),
                name,
            });
        }
        self.with_ids()
    }

    /// Whether rows have no preview because the filter is too long.
    pub(crate) fn is_without_peek(&self) -> bool {
        self.rows.iter().any(|row| row.menu.as_ref().is_some_and(|menu| menu.peek.is_none()))
    }
}

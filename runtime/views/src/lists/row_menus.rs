//! The actions of each row of a table, with the links of the page.

use perpend_domain::filter::{Condition, Test, find};

use crate::lists::column::ListTable;
use crate::lists::declaration::ListDeclaration;
use crate::lists::facets::{MAX_FILTER, joined};
use crate::lists::filter::FilterView;
use crate::lists::row_actions::{MenuItem, PageActions, RowMenu};
use crate::{Text, encode, segment};

/// Longer values are not in menus, because the URLs would be longer than the row.
const MAX_VALUE: usize = 256;
/// With a longer filter rows have no preview, whose URL would repeat it.
const MAX_PEEKED: usize = 2_048;

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

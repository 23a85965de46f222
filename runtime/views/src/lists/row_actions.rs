//! Actions of the rows of a list: a preview next to the list, a bookmark, and a menu that filters by values of the row or copies
//! them.

use perpend_domain::access::Permission;

use crate::{Text, encode, segment};

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
    pub(crate) id: String,
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

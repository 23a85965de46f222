//! Links between the pages of a list.

/// Links between the pages of a list; absent at its ends.
#[derive(Clone, Debug, Default)]
pub struct PageLinks {
    /// URL of the first page, unless it is this or the previous page.
    pub first: Option<String>,
    /// Label and URL of the previous page.
    pub previous: Option<(&'static str, String)>,
    /// Label and URL of the next page.
    pub next: Option<(&'static str, String)>,
    /// URL of the last page, if known.
    pub last: Option<String>,
}

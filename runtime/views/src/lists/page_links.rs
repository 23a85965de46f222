//! The links at the end of a part of a list.

/// Where a list goes on in both directions; a link is absent where the list ends.
#[derive(Clone, Debug, Default)]
pub struct PageLinks {
    /// The address of the beginning, where this is not it and another link does not lead there.
    pub first: Option<String>,
    /// The text and the address of the link to the part before.
    pub previous: Option<(&'static str, String)>,
    /// The same for the part behind.
    pub next: Option<(&'static str, String)>,
    /// The address of the end, where it is known.
    pub last: Option<String>,
}

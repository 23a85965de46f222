//! The minimap of the visible lines of an outline.

use std::fmt::Write as _;

use crate::outline::OutlineView;

/// Most columns.
const PARTS: usize = 200;
/// Height in SVG units.
const HEIGHT: u32 = 20;

/// Columns of one unit width and up to 20 units height, as SVG paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Minimap {
    /// The depth of the lines of each column.
    pub depths: String,
    /// The columns with errors.
    pub errors: String,
    /// Number of columns.
    pub n: usize,
}

impl Minimap {
    /// Draws all lines of a view.
    #[must_use]
    pub fn new(view: &OutlineView<'_>) -> Self {
        let buckets = view.map(PARTS);
        let deepest = buckets.iter().map(|bucket| bucket.depth).max();
        let deepest = deepest.unwrap_or_default().max(1);
        let (mut depths, mut errors) = (String::new(), String::new());
        for (at, bucket) in buckets.iter().enumerate() {
            let height = 2 + bucket.depth * (HEIGHT - 2) / deepest;
            // Writing to a `String` cannot fail.
            let _ = write!(depths, "M{at} 0v{height}h1v-{height}z");
            if bucket.n_errors > 0 {
                let _ = write!(errors, "M{at} 0v{HEIGHT}h1v-{HEIGHT}z");
            }
        }
        Self { depths, errors, n: buckets.len() }
    }
}

//! The visible lines of an outline as a small drawing.

use std::fmt::Write as _;

use crate::outline::OutlineView;

/// Parts of a drawing.
const PARTS: usize = 200;
/// Its height in its own units.
const HEIGHT: u32 = 20;

/// The whole as columns of equal width, each one unit wide and up to 20 high: SVG paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Minimap {
    /// How deep the lines of each part go.
    pub depths: String,
    /// The parts in which something failed.
    pub errors: String,
    /// How many columns there are.
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

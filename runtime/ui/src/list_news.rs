//! What came since a list of sessions, users or scores was shown.

use askama::Template;

use perpend_words::count;

/// A line that says so; nothing when nothing came.
#[derive(Clone, Debug, Template)]
#[template(
    source = "{% if n > 0 %}<a href=\"{{ list }}\">{{ self.words() }} · show</a>{% endif %}",
    ext = "html"
)]
pub struct ListNews {
    /// So many came.
    pub n: u64,
    /// There may be more.
    pub is_cut: bool,
    /// What one is called, and what several are.
    pub said: [&'static str; 2],
    /// The list leaves some out by a filter, which is not asked of those that are counted.
    pub is_filtered: bool,
    /// The address of the list.
    pub list: String,
}

impl ListNews {
    fn words(&self) -> String {
        let [one, several] = self.said;
        let more = if self.is_cut { "+" } else { "" };
        let said = if self.n == 1 { one } else { several };
        let filter = match self.is_filtered {
            true => ", which the filter may leave out",
            false => "",
        };
        format!("{}{more} {said}{filter}", count(self.n))
    }
}

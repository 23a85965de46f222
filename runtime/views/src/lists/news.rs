//! What came since a page or a list was shown.

use askama::Template;

use crate::format::count;

/// A line that says so; nothing when nothing came.
#[derive(Clone, Debug, Template)]
#[template(
    source = "{% if n > 0 %}<a href=\"{{ list }}\">{{ self.words() }} · show{% if is_sorted %} the newest first{% endif %}</a>{% endif %}",
    ext = "html"
)]
pub struct NewsFragment {
    /// So many came.
    pub n: u64,
    /// There may be more.
    pub is_cut: bool,
    /// What one is called, and what several are.
    pub said: [&'static str; 2],
    /// The list leaves some out by a filter, which is not asked of those that are counted.
    pub is_filtered: bool,
    /// The page is not ordered by time, so that new traces are not on top.
    pub is_sorted: bool,
    /// The address of the list by time.
    pub list: String,
}

impl NewsFragment {
    fn words(&self) -> String {
        let [one, several] = self.said;
        let said = if self.n == 1 { one } else { several };
        let more = if self.is_cut { "+" } else { "" };
        let filter = match self.is_filtered {
            true => " (may not match the filter)",
            false => "",
        };
        format!("{}{more} {said}{filter}", count(self.n))
    }
}

/// Which state of a trace is stored, for the script that follows it.
#[derive(Clone, Debug, Template)]
#[template(
    source = "<p data-version=\"{{ version }}\"{% if is_live %} data-live{% endif %}></p>",
    ext = "html"
)]
pub struct StateFragment {
    /// Another one whenever something of the trace or one of its scores changed.
    pub version: String,
    /// Whether steps may still come: then it is worth asking again soon.
    pub is_live: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_new_is_nothing_to_read_and_a_count_that_was_cut_says_so() {
        let said = |n, is_cut| {
            let list = "/project/p/traces".to_owned();
            let news = NewsFragment {
                n,
                is_cut,
                said: ["new trace", "new traces"],
                is_filtered: is_cut,
                is_sorted: is_cut,
                list,
            };
            news.render().unwrap()
        };
        assert_eq!(said(0, false), "");
        assert_eq!(said(1, false), "<a href=\"/project/p/traces\">1 new trace · show</a>");
        let cut = said(1_000, true);
        assert!(
            cut.contains("1,000+ new traces (may not match the filter) · show the newest first"),
            "{cut}"
        );
    }
}

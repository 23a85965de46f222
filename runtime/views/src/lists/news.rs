//! Fragments that report new data on an open page.

use askama::Template;

use crate::format::count;

/// Number of new items, with a link; empty without new items.
#[derive(Clone, Debug, Template)]
#[template(
    source = "{% if n > 0 %}<a href=\"{{ list }}\">{{ self.words() }} · show{% if is_sorted %} the newest first{% endif %}</a>{% endif %}",
    ext = "html"
)]
pub struct NewsFragment {
    /// Number of new items.
    pub n: u64,
    /// Whether the number is a lower bound.
    pub is_cut: bool,
    /// Noun in singular and plural.
    pub nouns: [&'static str; 2],
    /// Whether the list has a filter, which is not applied to new items.
    pub is_filtered: bool,
    /// Whether the list is not sorted by time.
    pub is_sorted: bool,
    /// URL of the list sorted by time.
    pub list: String,
}

impl NewsFragment {
    fn words(&self) -> String {
        let [one, several] = self.nouns;
        let noun = if self.n == 1 { one } else { several };
        let more = if self.is_cut { "+" } else { "" };
        let filter = match self.is_filtered {
            true => " (may not match the filter)",
            false => "",
        };
        format!("{}{more} {noun}{filter}", count(self.n))
    }
}

/// Version of a stored trace.
#[derive(Clone, Debug, Template)]
#[template(
    source = "<p data-version=\"{{ version }}\"{% if is_live %} data-live{% endif %}></p>",
    ext = "html"
)]
pub struct StateFragment {
    /// Changes with every change of the trace or its scores.
    pub version: String,
    /// Whether the trace may still receive observations, so that the script polls more often.
    pub is_live: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_new_items_the_fragment_is_empty_and_a_cut_count_has_a_plus() {
        let html = |n, is_cut| {
            let list = "/project/p/traces".to_owned();
            let news = NewsFragment {
                n,
                is_cut,
                nouns: ["new trace", "new traces"],
                is_filtered: is_cut,
                is_sorted: is_cut,
                list,
            };
            news.render().unwrap()
        };
        assert_eq!(html(0, false), "");
        assert_eq!(html(1, false), "<a href=\"/project/p/traces\">1 new trace · show</a>");
        let cut = html(1_000, true);
        assert!(
            cut.contains("1,000+ new traces (may not match the filter) · show the newest first"),
            "{cut}"
        );
    }
}

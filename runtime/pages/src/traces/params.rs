//! Query parameters of the list of traces.

use perpend_domain::list::ListPosition;
use perpend_domain::query::MAX_BYTES;
use perpend_domain::trace_list::TraceOrder;
use perpend_views::{
    Columns, END, Focus, ListPage, MAX_COLUMNS, ROWS, SearchProgress, Sort, Text, TracesQuery,
    UnknownParameters, count,
};

/// The largest page number.
const MAX_PAGE: u32 = 1_000_000;
/// Characters of an invalid value that a notice repeats.
const MAX_ECHO: usize = 100;

/// Query parameters of the list of traces. Invalid ones have their default and add a notice.
#[derive(Debug)]
pub(crate) struct TraceListParams {
    pub(crate) query: TracesQuery,
    pub(crate) page: ListPage,
    /// The position of the page in the list.
    pub(crate) position: ListPosition,
    /// The id of the trace shown next to the list.
    pub(crate) peek: Option<String>,
    /// Whether the page has facets.
    pub(crate) has_facets: bool,
    /// Whether the page has a chart of traces over time.
    pub(crate) has_bars: bool,
    /// Whether all matches are counted.
    pub(crate) counts_all: bool,
    /// Progress of the search that this page continues.
    pub(crate) searched: Option<SearchProgress>,
    pub(crate) notices: Vec<Text>,
}

impl TraceListParams {
    /// Parses a query string.
    pub(crate) fn new(raw: Option<&str>) -> Self {
        let (mut q, mut sort, mut page, mut n) = Default::default();
        let mut columns: Vec<String> = Vec::new();
        let (mut focus, mut others) = (Focus::default(), UnknownParameters::default());
        let mut peek = None;
        let [mut after, mut before] = [const { String::new() }; 2];
        let [mut has_facets, mut has_bars, mut counts_all] = [false; 3];
        let [mut looked, mut found] = [None::<u64>; 2];
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let value = value.into_owned();
            match name.as_ref() {
                "q" => q = value,
                "sort" => sort = value,
                "page" => page = value,
                "n" => n = value,
                "after" => after = value,
                "before" => before = value,
                "facets" => has_facets = value == "1",
                "bars" => has_bars = value == "1",
                "count" => counts_all = value == "exact",
                "looked" => looked = value.parse().ok(),
                "found" => found = value.parse().ok(),
                "peek" => peek = Some(value).filter(|id| !id.is_empty()),
                // One per checkbox and one for the text field.
                "cols" => columns.push(value),
                // `Viewer` reports errors of the focus.
                name => match focus.take(name, &value) {
                    Some(_) => {}
                    None => others.take(name, &value),
                },
            }
        }
        let mut notices = Vec::new();
        let query = TracesQuery {
            q: filter(&q, &mut notices),
            focus,
            sort: order(&sort, &mut notices),
            columns: columns_of(&columns.join(","), &mut notices),
            n: rows(&n, &mut notices),
            others,
        };
        let position = position(&after, &before, &query.sort, &mut notices);
        let page = match (&position.cursor, position.is_backwards) {
            (Some(cursor), false) => ListPage::After(TraceOrder::cursor_text(cursor)),
            (Some(cursor), true) => ListPage::Before(TraceOrder::cursor_text(cursor)),
            (None, true) => ListPage::Last,
            (None, false) => ListPage::Number(page_number(&page, &mut notices)),
        };
        let searched =
            looked.zip(found).map(|(n_tested, n_found)| SearchProgress { n_tested, n_found });
        Self {
            query,
            searched: searched.filter(|_| matches!(page, ListPage::After(_))),
            page,
            position,
            peek,
            has_facets,
            has_bars,
            counts_all,
            notices,
        }
    }
}

/// The filter; empty if it is too long, because each link of the page repeats it.
pub(crate) fn filter(raw: &str, notices: &mut Vec<Text>) -> String {
    let q = raw.trim();
    if q.len() <= MAX_BYTES {
        return q.to_owned();
    }
    let [most, n] = [MAX_BYTES, q.len()].map(|n| count(n as u64));
    notices.push(Text::from(format!("`q` must have at most {most} bytes, got {n}; ignored.")));
    String::new()
}

fn truncated(raw: &str) -> String {
    raw.chars().take(MAX_ECHO).collect()
}

fn order(raw: &str, notices: &mut Vec<Text>) -> Sort {
    if raw.is_empty() {
        return Sort::default();
    }
    Sort::from_name(raw).unwrap_or_else(|| {
        let all: Vec<String> = Sort::all().map(|(sort, _)| sort.to_parameter()).collect();
        let message = format!(
            "`sort` must be one of {}; got `{}`. Showing the newest first.",
            all.join(", "),
            truncated(raw)
        );
        notices.push(Text::from(message));
        Sort::default()
    })
}

/// The page number, from 1.
fn page_number(raw: &str, notices: &mut Vec<Text>) -> u32 {
    if raw.is_empty() {
        return 1;
    }
    let read = raw.parse().ok().filter(|n| (1..=MAX_PAGE).contains(n));
    read.unwrap_or_else(|| {
        let message = format!(
            "`page` must be between 1 and {}, got `{}`; showing the first page.",
            count(MAX_PAGE.into()),
            truncated(raw)
        );
        notices.push(Text::from(message));
        1
    })
}

fn position(after: &str, before: &str, sort: &Sort, notices: &mut Vec<Text>) -> ListPosition {
    let (name, raw) = match (after, before) {
        ("", "") => return ListPosition::default(),
        ("", before) => ("before", before),
        (after, _) => ("after", after),
    };
    if (name, raw) == ("before", END) {
        return ListPosition::end();
    }
    let Some(cursor) = sort.order.parse_cursor(raw) else {
        let message = format!(
            "`{name}` must be a cursor of this order, got `{}`; showing the first page.",
            truncated(raw)
        );
        notices.push(Text::from(message));
        return ListPosition::default();
    };
    ListPosition { cursor: Some(cursor), is_backwards: name == "before" }
}

/// Rows per page.
pub(crate) fn rows(raw: &str, notices: &mut Vec<Text>) -> u32 {
    if raw.is_empty() {
        return ROWS[0];
    }
    let read = raw.parse().ok().filter(|n| ROWS.contains(n));
    read.unwrap_or_else(|| {
        let message = format!(
            "`n` must be one of 25, 50, 100; got `{}`. Showing {} rows.",
            truncated(raw),
            ROWS[0]
        );
        notices.push(Text::from(message));
        ROWS[0]
    })
}

fn columns_of(raw: &str, notices: &mut Vec<Text>) -> Columns {
    let read = Columns::parse(raw);
    if !read.unknown.is_empty() {
        let message = format!(
            "`cols` has unknown columns: {}. Known columns: {}.",
            truncated(&read.unknown.join(", ")),
            Columns::names()
        );
        notices.push(Text::from(message));
    }
    if read.is_cut {
        let message = format!(
            "`cols` must have at most {MAX_COLUMNS} columns; showing the first {MAX_COLUMNS}."
        );
        notices.push(Text::from(message));
    }
    read.columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_checkboxes_and_of_the_text_field_are_combined() {
        let params = TraceListParams::new(Some(
            "cols=trace&cols=id&cols=metadata.a%2Cscore.b&n=25&sort=-errorCount",
        ));
        let columns = params.query.columns.to_parameter();
        assert_eq!(columns, "trace,id,metadata.a,score.b");
        assert_eq!(
            (params.query.n, params.page, params.notices.len()),
            (25, ListPage::Number(1), 0)
        );
    }

    #[test]
    fn a_filter_that_is_too_long_is_ignored_with_a_notice() {
        let long = TraceListParams::new(Some(&format!("q={}", "a".repeat(MAX_BYTES + 1))));
        assert_eq!(long.query.q, "");
        assert!(long.notices[0].raw().starts_with("`q` "), "{:?}", long.notices);
        let fits = TraceListParams::new(Some(&format!("q={}", "a".repeat(MAX_BYTES))));
        assert_eq!((fits.query.q.len(), fits.notices.len()), (MAX_BYTES, 0));
    }

    #[test]
    fn each_invalid_parameter_adds_a_notice_and_the_others_apply() {
        let params = TraceListParams::new(Some("q=+a+&cols=luck,id&n=7&sort=x&page=0&peculiar=1"));
        let notices: Vec<&str> = params.notices.iter().map(Text::raw).collect();
        for (notice, start) in notices.iter().zip(["`sort` ", "`cols` ", "`n` ", "`page` "]) {
            assert!(notice.starts_with(start), "{notice}");
        }
        assert_eq!(notices.len(), 4);
        assert_eq!((params.query.q.as_str(), &params.page), ("a", &ListPage::Number(1)));
        let next = params.query.address("/p", &ListPage::Last);
        assert!(next.ends_with("&peculiar=1&before=end"), "{next}");
        assert_eq!(params.query.columns.to_parameter(), "trace,id");
    }

    #[test]
    fn search_progress_applies_only_after_a_cursor() {
        let searched = |query| TraceListParams::new(Some(query)).searched;
        let so_far = SearchProgress { n_tested: 20_000, n_found: 5 };
        assert_eq!(searched("after=_5_a&looked=20000&found=5"), Some(so_far));
        assert_eq!(so_far.more(), "&looked=20000&found=5");
        for other in [
            "looked=20000&found=5",
            "before=_5_a&looked=20000&found=5",
            "after=_5_a&looked=20000",
            "after=_5_a&looked=-1&found=5",
        ] {
            assert_eq!(searched(other), None, "{other}");
        }
    }

    #[test]
    fn a_cursor_applies_in_its_order_and_adds_a_notice_in_another() {
        let params = TraceListParams::new(Some("after=_5_a&page=3"));
        assert_eq!(params.page, ListPage::After("_5_a".to_owned()));
        assert!(params.notices.is_empty());
        let params = TraceListParams::new(Some("before=_5_a&sort=-latency"));
        assert_eq!((params.page, params.position), (ListPage::Number(1), ListPosition::default()));
        assert!(params.notices[0].raw().starts_with("`before` "));
    }
}

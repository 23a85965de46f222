//! What an address asks of the list of traces.

use perpend_domain::query::MAX_BYTES;
use perpend_telemetry::{TraceCursor, TracesFrom};
use perpend_views::{
    Columns, END, Focus, ListPage, MAX_COLUMNS, ROWS, SearchProgress, Sort, Text, TracesQuery,
    UnknownParameters, count,
};

/// A list has no page behind this one.
const MAX_PAGE: u32 = 1_000_000;
/// Characters of what cannot be read that are repeated.
const SAID: usize = 100;

/// What an address asks of the list of traces, and what of it cannot be had.
#[derive(Debug)]
pub(crate) struct TraceListParams {
    pub(crate) query: TracesQuery,
    pub(crate) page: ListPage,
    /// The cursor that the page is behind or before.
    pub(crate) from: Option<TracesFrom>,
    /// The id of the trace beside the list.
    pub(crate) peek: Option<String>,
    /// The values of some columns are counted on the page.
    pub(crate) has_facets: bool,
    /// There are bars over time on the page.
    pub(crate) has_bars: bool,
    /// The list is counted to its end.
    pub(crate) counts_all: bool,
    /// How far a search came that this page goes on with.
    pub(crate) searched: Option<SearchProgress>,
    pub(crate) notices: Vec<Text>,
}

impl TraceListParams {
    /// Reads the query of an address. What it asks for and cannot have is said, and the rest holds.
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
                // Each box of the form has one, and what is typed beside them.
                "cols" => columns.push(value),
                // What is wrong with it is said by whoever reads the address for the frame of the page.
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
            columns: shown(&columns.join(","), &mut notices),
            n: rows(&n, &mut notices),
            others,
        };
        let from = cursor(&after, &before, &query.sort, &mut notices);
        let page = match &from {
            Some(TracesFrom::After(cursor)) => ListPage::After(cursor.to_string()),
            Some(TracesFrom::Before(cursor)) => ListPage::Before(cursor.to_string()),
            Some(TracesFrom::End) => ListPage::Last,
            None => ListPage::Number(number(&page, &mut notices)),
        };
        let searched =
            looked.zip(found).map(|(n_tested, n_found)| SearchProgress { n_tested, n_found });
        Self {
            query,
            searched: searched.filter(|_| matches!(page, ListPage::After(_))),
            page,
            from,
            peek,
            has_facets,
            has_bars,
            counts_all,
            notices,
        }
    }
}

/// The filter that an address asks for; none where it is too long to be read, as each link of the page would repeat it.
pub(crate) fn filter(raw: &str, notices: &mut Vec<Text>) -> String {
    let q = raw.trim();
    if q.len() <= MAX_BYTES {
        return q.to_owned();
    }
    let [most, n] = [MAX_BYTES, q.len()].map(|n| count(n as u64));
    notices.push(Text::from(format!(
        "q: a filter has at most {most} bytes; this one has {n} and is left out."
    )));
    String::new()
}

fn cut(raw: &str) -> String {
    raw.chars().take(SAID).collect()
}

/// The order that an address asks for. What it cannot have is said.
fn order(raw: &str, notices: &mut Vec<Text>) -> Sort {
    if raw.is_empty() {
        return Sort::default();
    }
    Sort::from_name(raw).unwrap_or_else(|| {
        let all: Vec<String> = Sort::all().map(|(sort, _)| sort.in_address()).collect();
        let message = format!(
            "sort: traces cannot be ordered by {}, so the newest come first; it is one of {}.",
            cut(raw),
            all.join(", ")
        );
        notices.push(Text::from(message));
        Sort::default()
    })
}

/// The number of the page that an address asks for, from 1. What cannot be read is said.
fn number(raw: &str, notices: &mut Vec<Text>) -> u32 {
    if raw.is_empty() {
        return 1;
    }
    let read = raw.parse().ok().filter(|n| (1..=MAX_PAGE).contains(n));
    read.unwrap_or_else(|| {
        let message = format!(
            "page: {} is not a number from 1 to {}, so this is the first page.",
            cut(raw),
            count(MAX_PAGE.into())
        );
        notices.push(Text::from(message));
        1
    })
}

/// The cursor of an address. A notice says when it is not one of this order.
fn cursor(after: &str, before: &str, sort: &Sort, notices: &mut Vec<Text>) -> Option<TracesFrom> {
    let (name, raw) = match (after, before) {
        ("", "") => return None,
        ("", before) => ("before", before),
        (after, _) => ("after", after),
    };
    if (name, raw) == ("before", END) {
        return Some(TracesFrom::End);
    }
    let Some(cursor) = TraceCursor::read(raw, &sort.order) else {
        let message = format!(
            "{name}: {} is not a cursor of this order, so this is the first page.",
            cut(raw)
        );
        notices.push(Text::from(message));
        return None;
    };
    Some(match name {
        "after" => TracesFrom::After(cursor),
        _ => TracesFrom::Before(cursor),
    })
}

/// How many rows an address asks for. What cannot be had is said.
pub(crate) fn rows(raw: &str, notices: &mut Vec<Text>) -> u32 {
    if raw.is_empty() {
        return ROWS[0];
    }
    let read = raw.parse().ok().filter(|n| ROWS.contains(n));
    read.unwrap_or_else(|| {
        let message = format!(
            "n: a page cannot have {} rows, so it has {}; it is 25, 50 or 100.",
            cut(raw),
            ROWS[0]
        );
        notices.push(Text::from(message));
        ROWS[0]
    })
}

/// The columns that an address asks for.
fn shown(raw: &str, notices: &mut Vec<Text>) -> Columns {
    let read = Columns::parse(raw);
    if !read.unknown.is_empty() {
        let message = format!(
            "cols: no column is named {}. The columns are {}.",
            cut(&read.unknown.join(", ")),
            Columns::names()
        );
        notices.push(Text::from(message));
    }
    if read.is_cut {
        let message =
            format!("cols: the first {MAX_COLUMNS} columns are shown, the rest is left out.");
        notices.push(Text::from(message));
    }
    read.columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_what_is_typed_beside_them_are_columns_together() {
        let params = TraceListParams::new(Some(
            "cols=trace&cols=id&cols=metadata.a%2Cscore.b&n=25&sort=-errorCount",
        ));
        let columns = params.query.columns.in_address();
        assert_eq!(columns, "trace,id,metadata.a,score.b");
        assert_eq!(
            (params.query.n, params.page, params.notices.len()),
            (25, ListPage::Number(1), 0)
        );
    }

    #[test]
    fn a_filter_that_is_too_long_is_left_out_and_named() {
        let long = TraceListParams::new(Some(&format!("q={}", "a".repeat(MAX_BYTES + 1))));
        assert_eq!(long.query.q, "");
        assert!(long.notices[0].raw().starts_with("q: "), "{:?}", long.notices);
        let fits = TraceListParams::new(Some(&format!("q={}", "a".repeat(MAX_BYTES))));
        assert_eq!((fits.query.q.len(), fits.notices.len()), (MAX_BYTES, 0));
    }

    #[test]
    fn each_parameter_that_cannot_be_read_is_named_and_the_others_hold() {
        let params = TraceListParams::new(Some("q=+a+&cols=luck,id&n=7&sort=x&page=0&peculiar=1"));
        let said: Vec<&str> = params.notices.iter().map(Text::raw).collect();
        for (said, name) in said.iter().zip(["sort: ", "cols: ", "n: ", "page: "]) {
            assert!(said.starts_with(name), "{said}");
        }
        assert_eq!(said.len(), 4);
        assert_eq!((params.query.q.as_str(), &params.page), ("a", &ListPage::Number(1)));
        let next = params.query.address("/p", &ListPage::Last);
        assert!(next.ends_with("&peculiar=1&before=end"), "{next}");
        assert_eq!(params.query.columns.in_address(), "trace,id");
    }

    #[test]
    fn how_far_a_search_came_is_that_of_the_page_behind_it() {
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
    fn a_cursor_holds_in_its_own_order_and_is_named_in_another() {
        let params = TraceListParams::new(Some("after=_5_a&page=3"));
        assert_eq!(params.page, ListPage::After("_5_a".to_owned()));
        assert!(params.notices.is_empty());
        let params = TraceListParams::new(Some("before=_5_a&sort=-latency"));
        assert_eq!((params.page, params.from), (ListPage::Number(1), None));
        assert!(params.notices[0].raw().starts_with("before: "));
    }
}

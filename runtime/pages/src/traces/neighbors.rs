//! The neighbors of a trace in the list that it was opened from.

use perpend_domain::ids::TraceId;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_views::{MAX_LIST, Neighbours, encode, segment};

use crate::list::source::ListRequest;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::list::Traces;

/// Traces tested on either side for conditions without an index.
const MAX_TESTED: u64 = 500;

/// A list URL, relative to the project; absent if invalid.
pub(crate) fn parse_list(raw: &str) -> Option<String> {
    let is_list = raw == "/traces" || raw.starts_with("/traces?");
    let is_valid = raw.len() <= MAX_LIST && raw.bytes().all(|byte| byte.is_ascii_graphic());
    (is_list && is_valid).then(|| raw.to_owned())
}

/// The previous and the next trace in the list.
pub(crate) async fn neighbors(
    app: &App,
    viewer: &Viewer,
    list: &str,
    id: &TraceId,
) -> Result<Neighbours, Problem> {
    let query = list.split_once('?').map(|(_, query)| query);
    let request = ListRequest::<Traces>::of_url(app, viewer, query)?;
    let query = TraceQuery {
        filter: request.whole(),
        order: request.source.sort.order.clone(),
        ascending: request.source.sort.ascending,
        ..TraceQuery::default()
    };
    let telemetry = &app.store.telemetry;
    let neighbors = telemetry.neighboring_traces(&viewer.project, &query, id, MAX_TESTED);
    let base = viewer.base();
    let to = |id: TraceId| {
        let trace = segment(id.as_str());
        format!("{base}/traces/{trace}?in={}", encode(list))
    };
    let [previous, next] = neighbors.await?.map(|id| id.map(to));
    Ok(Neighbours { list: list.to_owned(), previous, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_list_url_is_accepted() {
        assert_eq!(parse_list("/traces?q=a").as_deref(), Some("/traces?q=a"));
        assert!(parse_list("/traces").is_some());
        for invalid in
            ["", "https://a.example", "//a.example", "/traces/x", "/tracesx", "/traces?a\nb"]
        {
            assert_eq!(parse_list(invalid), None, "{invalid}");
        }
        assert_eq!(parse_list(&format!("/traces?q={}", "a".repeat(1_024))), None);
    }
}

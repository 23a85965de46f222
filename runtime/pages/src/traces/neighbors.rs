//! The list that a trace was opened from, and its neighbours in it.

use perpend_domain::ids::TraceId;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_views::{MAX_LIST, Neighbours, encode, segment};

use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::Conditions;
use crate::traces::params::TraceListParams;

/// Traces on either side that are tested for what no index can tell: a trace does not wait for its list.
const MAX_TESTED: u64 = 500;

/// The address of a list of traces below that of the project; nothing where it is none.
pub(crate) fn parse_list(raw: &str) -> Option<String> {
    let is_list = raw == "/traces" || raw.starts_with("/traces?");
    let is_fit = raw.len() <= MAX_LIST && raw.bytes().all(|byte| byte.is_ascii_graphic());
    (is_list && is_fit).then(|| raw.to_owned())
}

/// The traces before and behind this one in the list it was opened from.
pub(crate) async fn neighbors(
    app: &App,
    viewer: &Viewer,
    list: &str,
    id: &TraceId,
) -> Result<Neighbours, Problem> {
    let query = list.split_once('?').map(|(_, query)| query);
    let params = TraceListParams::new(query);
    let query = TraceQuery {
        filter: Conditions::new(&params.query, app.web.clock.now()).filter(),
        order: params.query.sort.order,
        ascending: params.query.sort.ascending,
        ..TraceQuery::default()
    };
    let telemetry = &app.store.telemetry;
    let beside = telemetry.traces_beside(&viewer.project, &query, id, MAX_TESTED);
    let base = viewer.base();
    let to = |id: TraceId| {
        let trace = segment(id.as_str());
        format!("{base}/traces/{trace}?in={}", encode(list))
    };
    let [previous, next] = beside.await?.map(|id| id.map(to));
    Ok(Neighbours { list: list.to_owned(), previous, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_address_of_a_list_is_one() {
        assert_eq!(parse_list("/traces?q=a").as_deref(), Some("/traces?q=a"));
        assert!(parse_list("/traces").is_some());
        for bad in ["", "https://a.example", "//a.example", "/traces/x", "/tracesx", "/traces?a\nb"]
        {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
        assert_eq!(parse_list(&format!("/traces?q={}", "a".repeat(1_024))), None);
    }
}

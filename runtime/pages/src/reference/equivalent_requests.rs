//! API requests that return the rows of a page, if an operation does.

use perpend_domain::evaluation::Execution;
use perpend_domain::filter::{Condition, Filter};
use perpend_domain::ids::{ExecutionId, TraceId};
use perpend_domain::telemetry::{GroupKey, GroupQuery, ScoreQuery};
use perpend_domain::time::Timestamp;
use perpend_views::{ApiRequest, encode};
use serde_json::json;

use crate::request::viewer::Viewer;

/// A read of one object; absent for the ids `.` and `..`, which clients resolve as relative paths even if encoded.
fn one(viewer: &Viewer, path: &str, id: &str) -> Option<ApiRequest> {
    let is_relative = matches!(id, "." | "..");
    (!is_relative).then(|| ApiRequest::new(&viewer.origin, &format!("{path}/{}", encode(id))))
}

/// The filter in the format of the API; empty without conditions.
fn filter_json(filter: &Filter) -> String {
    let conditions = filter.conditions.iter().filter_map(Condition::to_json);
    let conditions: Vec<String> = conditions.map(|condition| condition.to_string()).collect();
    match conditions.is_empty() {
        true => String::new(),
        false => format!("[{}]", conditions.join(",")),
    }
}

/// A page of the list of traces, by its number.
pub(crate) fn traces(
    viewer: &Viewer,
    filter: &Filter,
    order_by: String,
    (n, number, is_at_cursor): (u32, u32, bool),
) -> ApiRequest {
    let mut request = ApiRequest::new(&viewer.origin, "/api/public/traces")
        .with("limit", n.to_string())
        .with("orderBy", order_by);
    let filter = filter_json(filter);
    if !filter.is_empty() {
        request = request.with("filter", filter);
    }
    match (is_at_cursor, number) {
        (true, _) => request
            .with_note("It returns the first page of this list; page=2 returns the second one."),
        (false, 1) => request,
        (false, number) => request.with("page", number.to_string()),
    }
}

/// The first page of the list of observations; absent for later pages, whose cursors differ.
pub(crate) fn observations(
    viewer: &Viewer,
    filter: &Filter,
    (n, is_later): (u32, bool),
) -> Option<ApiRequest> {
    if is_later {
        return None;
    }
    let request =
        ApiRequest::new(&viewer.origin, "/api/public/v2/observations").with("limit", n.to_string());
    let filter = filter_json(filter);
    Some(match filter.is_empty() {
        true => request,
        false => request.with("filter", filter),
    })
}

/// One trace, with its observations and scores.
pub(crate) fn trace(viewer: &Viewer, id: &TraceId) -> Option<ApiRequest> {
    one(viewer, "/api/public/traces", id.as_str())
}

/// The first page of the list of sessions or users; absent for sessions with a time range, which the API applies to the first
/// trace of a session and the page to any trace.
pub(crate) fn groups(viewer: &Viewer, query: &GroupQuery, is_filtered: bool) -> Option<ApiRequest> {
    if query.position.is_later() {
        return None;
    }
    if query.by == GroupKey::User {
        return Some(users(viewer, query, is_filtered));
    }
    if query.started != (None, None) {
        return None;
    }
    let mut request = ApiRequest::new(&viewer.origin, "/api/public/sessions")
        .with("limit", query.limit.to_string());
    for name in &query.environments {
        request = request.with("environment", name);
    }
    Some(request.with_note(match is_filtered {
        true => "The API does not filter sessions, so it also returns sessions that do not match. It orders them by their first trace.",
        false => "The API orders sessions by their first trace, this page by their last.",
    }))
}

/// Users with totals over the observations of their traces. Metrics require a time range; the default contains all.
fn users(viewer: &Viewer, query: &GroupQuery, is_filtered: bool) -> ApiRequest {
    let metric = |measure: &str, aggregation: &str| json!({ "measure": measure, "aggregation": aggregation });
    let at = |time: Option<Timestamp>, usual: &str| {
        time.map_or_else(|| usual.to_owned(), |at| at.to_iso_micros())
    };
    let mut filters =
        vec![json!({ "type": "null", "column": "userId", "operator": "is not null", "value": "" })];
    if !query.environments.is_empty() {
        filters.push(json!({
            "type": "stringOptions", "column": "environment", "operator": "any of",
            "value": query.environments,
        }));
    }
    let question = json!({
        "view": "observations",
        "dimensions": [{ "field": "userId" }],
        "metrics": [
            metric("traceId", "uniq"), metric("uniqueSessionIds", "uniq"),
            metric("totalTokens", "sum"), metric("totalCost", "sum"),
        ],
        "filters": filters,
        "fromTimestamp": at(query.started.0, "2000-01-01T00:00:00Z"),
        "toTimestamp": at(query.started.1, "2100-01-01T00:00:00Z"),
        "orderBy": [{ "field": "uniq_traceId", "direction": "desc" }],
        "config": { "row_limit": query.limit },
    });
    let request = ApiRequest::new(&viewer.origin, "/api/public/v2/metrics");
    request.with("query", question.to_string()).with_note(match is_filtered {
        true => "It does not filter users, so it also returns users that do not match. It counts observations by their start time and orders by the number of traces, because it cannot order by last activity.",
        false => "It counts observations by their start time; this page counts whole traces. It orders by the number of traces, because it cannot order by last activity.",
    })
}

/// A session with its traces.
pub(crate) fn session(viewer: &Viewer, id: &str) -> Option<ApiRequest> {
    let request = one(viewer, "/api/public/sessions", id)?;
    Some(request.with_note("It returns the first 1,000 traces of the session."))
}

/// The latest traces of a user in the selected time range and environments.
pub(crate) fn user(viewer: &Viewer, query: &GroupQuery, id: &str) -> ApiRequest {
    let mut request = ApiRequest::new(&viewer.origin, "/api/public/traces")
        .with("limit", query.limit.to_string())
        .with("userId", id);
    let times = [("fromTimestamp", query.started.0), ("toTimestamp", query.started.1)];
    for (name, at) in times {
        if let Some(at) = at {
            request = request.with(name, at.to_iso_micros());
        }
    }
    for name in &query.environments {
        request = request.with("environment", name);
    }
    request.with_note("It returns the latest traces of the user.")
}

/// A page of the list of scores; absent for conditions that the API does not support, such as a fingerprint, excluded
/// environments, or several conditions on the same field.
pub(crate) fn scores(
    viewer: &Viewer,
    query: &ScoreQuery,
    (limit, is_later, shows_older): (u32, bool, bool),
) -> Option<ApiRequest> {
    let query_values = query.clone();
    let sources = query_values.sources.iter().map(ToString::to_string).collect();
    let types = query_values.data_types.iter().map(ToString::to_string).collect();
    let traces = query_values.trace_ids.iter().map(ToString::to_string).collect();
    let ones: [(&str, Vec<String>); 7] = [
        ("name", query_values.names),
        ("traceId", traces),
        ("source", sources),
        ("dataType", types),
        ("configId", query_values.config_ids),
        ("sessionId", query_values.session_ids),
        ("queueId", query_values.queue_ids),
    ];
    let rest = ScoreQuery {
        names: Vec::new(),
        trace_ids: Vec::new(),
        sources: Vec::new(),
        data_types: Vec::new(),
        config_ids: Vec::new(),
        session_ids: Vec::new(),
        queue_ids: Vec::new(),
        environments: Vec::new(),
        number: Vec::new(),
        from: None,
        to: None,
        ..query.clone()
    };
    let has_several = ones.iter().any(|(_, values)| 1 < values.len());
    if rest != ScoreQuery::default() || has_several || 1 < query.number.len() {
        return None;
    }
    let times = [("fromTimestamp", query.from), ("toTimestamp", query.to)];
    let times = times.into_iter();
    let times = times.filter_map(|(name, at)| Some((name, at?.to_iso_micros())));
    let environments = query.environments.iter().cloned();
    let number = query.number.iter().flat_map(|(order, number)| {
        [("operator", order.sign().to_owned()), ("value", number.to_string())]
    });
    let parameters = ones
        .into_iter()
        .flat_map(|(name, values)| values.into_iter().map(move |value| (name, value)))
        .chain(environments.map(|name| ("environment", name)))
        .chain(number)
        .chain(times);
    let mut request =
        ApiRequest::new(&viewer.origin, "/api/public/v2/scores").with("limit", limit.to_string());
    for (name, value) in parameters {
        request = request.with(name, value);
    }
    Some(match (is_later, shows_older) {
        (true, _) => request
            .with_note("It returns the first page of this list; page=2 returns the second one."),
        (false, true) => request.with_note("It returns scores that are not superseded."),
        (false, false) => request,
    })
}

/// The rules.
pub(crate) fn rules(viewer: &Viewer) -> [ApiRequest; 1] {
    [ApiRequest::new(&viewer.origin, "/api/public/v2/evaluation-rules").with("limit", "100")]
}

/// The failed executions, and the executions over the first target of the list.
pub(crate) fn executions(viewer: &Viewer, list: &[Execution]) -> Vec<ApiRequest> {
    let failed = ApiRequest::new(&viewer.origin, "/api/v1/failed-executions")
        .with("limit", "100")
        .with_note("The failed executions of all rules, the last failed first:");
    let target = list.first().map(|execution| &execution.made.target);
    let over = target.and_then(|target| match (target.session(), target.trace()) {
        (Some(session), _) => Some(("sessionId", session.to_string())),
        (None, Some(trace)) => Some(("traceId", trace.to_string())),
        (None, None) => None,
    });
    let over = over.map(|(name, id)| {
        ApiRequest::new(&viewer.origin, "/api/v1/executions")
            .with(name, id)
            .with_note("The executions of the trace or session of the first row:")
    });
    [failed].into_iter().chain(over).collect()
}

/// One execution with its attempts.
pub(crate) fn execution(viewer: &Viewer, id: &ExecutionId) -> Option<ApiRequest> {
    one(viewer, "/api/v1/executions", id.as_str())
}

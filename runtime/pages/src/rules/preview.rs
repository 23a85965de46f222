//! The preview of the editor: the response of the operation that previews a rule.

use axum::http::Method;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    RulePreviewExampleView, RulePreviewView, Text, count, dollars, duration, encode, href, segment,
};
use serde_json::{Value, json};

use crate::request::operations::call;
use crate::request::viewer::Viewer;
use crate::state::App;

const PREVIEW: &str = "/api/v1/evaluation-rules/preview";
/// Characters of the item of an example.
const MAX_ITEM: usize = 400;

/// Previews a rule. `names` are ids and names of evaluators.
pub(super) async fn preview(
    app: &App,
    viewer: &Viewer,
    mut body: Value,
    names: &[(String, String)],
) -> Result<RulePreviewView, Problem> {
    if body["name"].as_str().is_none_or(str::is_empty) {
        body["name"] = json!("preview");
    }
    let found = call(app, viewer, (Method::POST, PREVIEW), &body).await?;
    let list = |member: &str| found[member].as_array().map(Vec::as_slice).unwrap_or_default();
    let base = viewer.base();
    Ok(RulePreviewView {
        last_day: matches(&found["lastDay"]),
        last_week: matches(&found["lastWeek"]),
        note: examined(&found["examined"]),
        examples: list("examples").iter().map(|one| example(one, &base)).collect(),
        missing: list("missingVariables").iter().map(|one| missing(one, names)).collect(),
        n_checked: count(found["checkedCount"].as_u64().unwrap_or_default()),
        cost: cost(&found["costPerDayUsd"]),
        estimates: list("evaluators").iter().map(|one| estimate(one, names)).collect(),
        overlaps: Vec::new(),
    })
}

fn matches(found: &Value) -> String {
    let n = |member: &str| count(found[member].as_u64().unwrap_or_default());
    format!("{} match, {} in the sample", n("matching"), n("sampled"))
}

fn examined(found: &Value) -> Option<Text> {
    if found["isWhole"].as_bool() != Some(false) {
        return None;
    }
    let n = count(found["count"].as_u64().unwrap_or_default());
    let since = found["since"].as_str().unwrap_or_default();
    Some(Text::from(format!("Only the newest {n} targets, since {since}, were examined.")))
}

fn cost(found: &Value) -> String {
    found.as_f64().map_or_else(|| "? (price or tokens unknown)".to_owned(), dollars)
}

fn name_of(found: &Value, names: &[(String, String)]) -> Text {
    let id = found["evaluatorId"].as_str().unwrap_or_default();
    let known = names.iter().find(|(own, _)| own == id);
    Text::from(known.map_or(id, |(_, name)| name.as_str()))
}

fn missing(found: &Value, names: &[(String, String)]) -> (Text, Text, String) {
    let variable = found["variable"].as_str().unwrap_or_default();
    let n = count(found["count"].as_u64().unwrap_or_default());
    (name_of(found, names), Text::from(variable), n)
}

fn estimate(found: &Value, names: &[(String, String)]) -> (Text, String, &'static str, String) {
    let basis = match found["basis"].as_str() {
        Some("executions") => "from its last executions",
        Some("trial") => "from one call for the first example",
        Some("free") => "no model is called",
        _ => "no example for a call",
    };
    let seconds = found["secondsPerDay"].as_f64();
    let busy = seconds.map(|seconds| duration((seconds * 1e6) as i64)).unwrap_or_default();
    (name_of(found, names), cost(&found["costPerDayUsd"]), basis, busy)
}

fn example(found: &Value, base: &str) -> RulePreviewExampleView {
    let text = |member: &str| found[member].as_str();
    let (trace, observation) = (text("traceId"), text("observationId"));
    let href = match (text("sessionId"), trace, observation) {
        (Some(session), ..) => href(base, GroupKey::Session, session),
        (None, Some(trace), Some(observation)) => {
            format!("{base}/traces/{}?observation={}", segment(trace), encode(observation))
        }
        (None, Some(trace), None) => format!("{base}/traces/{}", segment(trace)),
        (None, None, _) => format!("{base}/experiments"),
    };
    let id = text("sessionId").or(observation).or(trace).unwrap_or_default();
    let item = Some(&found["item"]).filter(|item| !item.is_null());
    let at = text("timestamp").and_then(|at| Timestamp::parse(at).ok());
    RulePreviewExampleView {
        name: Text::from(text("name").unwrap_or(id)),
        href,
        at: at.unwrap_or(Timestamp::from_micros(0)),
        item: item.map(|item| shortened(&item.to_string())),
        problem: text("errorMessage").map(Text::from),
    }
}

fn shortened(text: &str) -> Text {
    match text.char_indices().nth(MAX_ITEM) {
        Some((end, _)) => Text::from(format!("{}…", &text[..end])),
        None => Text::from(text),
    }
}

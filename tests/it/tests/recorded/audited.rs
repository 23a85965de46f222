//! The records of the audit trail, compared with the requests of the script.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use axum::http::Method;
use perpend_server::client::{Answer, Client};
use serde_json::Value;

use super::script::{self, Request};

/// Operations whose successful calls in the script change nothing, so that their records are not compared: previews, empty
/// lists of targets, and changes of state that has ended. A new entry is a decision.
const WITHOUT_CHANGE: [&str; 7] = [
    "POST /api/v1/backfills/{backfillId}/cancel",
    "POST /api/v1/backtests/{backtestId}/cancel",
    "POST /api/v1/datasets/{datasetName}/from-traces",
    "POST /api/v1/datasets/{datasetName}/restore",
    "POST /api/v1/evaluation-rules/{ruleId}/run",
    "POST /api/v1/experiments/{experimentId}/pause",
    "PUT /api/v1/evaluators/{evaluatorId}/grants",
];

/// A request of the script.
#[derive(Debug)]
pub(crate) struct Exchange {
    method: Method,
    path: String,
    status: u16,
    request_id: String,
}

impl Exchange {
    pub(crate) fn of(request: &Request, answer: &Answer) -> Self {
        let request_id = answer.headers.get("x-request-id").and_then(|id| id.to_str().ok());
        Self {
            method: request.method.clone(),
            path: request.path.split('?').next().unwrap_or_default().to_owned(),
            status: answer.status.as_u16(),
            request_id: request_id.unwrap_or_default().to_owned(),
        }
    }
}

/// The records of an organization, by id of their request.
pub(crate) async fn trail(client: &Client) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
    let mut trail: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/organization/audit?limit=100&cursor={cursor}");
        let page = client.get(&path).await?.json();
        for record in page["data"].as_array().context("no data")? {
            let id = record["requestId"].as_str().context("no request")?.to_owned();
            trail.entry(id).or_default().push(record.clone());
        }
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return Ok(trail),
        }
    }
}

/// The operation of a request, with the class of its records.
fn operation<'d>(document: &'d Value, exchange: &Exchange) -> Option<(String, Option<&'d str>)> {
    let method = exchange.method.as_str().to_lowercase();
    let matching = document["paths"].as_object()?.iter().filter(|(template, item)| {
        item.get(&method).is_some() && script::matches(template, &exchange.path)
    });
    let (template, item) = matching.min_by_key(|(template, _)| template.matches('{').count())?;
    let class = item[&method]["x-perpend-audit"].as_str();
    Some((format!("{} {template}", exchange.method), class))
}

/// Requests with a wrong number of records, and operations that never left one.
pub(crate) fn violations(
    document: &Value,
    exchanges: &[Exchange],
    trail: &BTreeMap<String, Vec<Value>>,
) -> Vec<String> {
    let mut violations = Vec::new();
    let mut changing: BTreeMap<String, bool> = BTreeMap::new();
    for exchange in exchanges {
        let Some((name, class)) = operation(document, exchange) else {
            continue;
        };
        let records = trail.get(&exchange.request_id).map_or(&[][..], Vec::as_slice);
        let results: Vec<&str> =
            records.iter().filter_map(|record| record["result"].as_str()).collect();
        let is_success = (200..300).contains(&exchange.status);
        let is_right = match class {
            Some("change") if is_success => matches!(results.as_slice(), [] | ["done"]),
            Some("read") if is_success => results == ["done"],
            Some(_) if exchange.status == 403 => matches!(results.as_slice(), [] | ["denied"]),
            _ => results.is_empty(),
        };
        if !is_right {
            violations.push(format!("{name} {}: records {results:?}", exchange.status));
        }
        if class == Some("change") && is_success {
            *changing.entry(name).or_default() |= !results.is_empty();
        }
    }
    let silent: BTreeSet<&str> =
        changing.iter().filter(|(_, leaves)| !**leaves).map(|(name, _)| name.as_str()).collect();
    for name in silent.symmetric_difference(&BTreeSet::from(WITHOUT_CHANGE)) {
        violations.push(format!("{name}: compare its records with WITHOUT_CHANGE"));
    }
    if changing.len() < 50 {
        violations.push(format!("only {} changing operations were called", changing.len()));
    }
    violations
}

/// Secrets that the script sends.
const SECRETS: [&str; 3] = ["sk-secret-1234", "sk-brought-along", "very secret"];

/// Secrets in records.
pub(crate) fn leaks(trail: &BTreeMap<String, Vec<Value>>) -> Vec<String> {
    let records = trail.values().flatten().map(Value::to_string);
    let leaks = |record: &String| SECRETS.iter().any(|secret| record.contains(secret));
    records.filter(leaks).collect()
}

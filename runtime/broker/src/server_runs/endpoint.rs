//! Calls of the user's application: the item as JSON with a signed header, without redirects, and within the limits of
//! time and size.

use std::time::Duration;

use perpend_domain::budget::MAX_USD;
use perpend_domain::dataset::DatasetItem;
use perpend_domain::observation::Usage;
use perpend_domain::plugin::FailureClass;
use perpend_domain::quantity::Quantity;
use perpend_domain::server_run::{EndpointTask, RunAnswer, run_trace_id};
use perpend_executions::ClaimedItem;
use perpend_http_client::{Header, PostError, PostRequest, PostResponse, signature};
use serde_json::{Map, Value, json};

use super::driver::Driver;
use super::memory::{CallMemory, SMALL_ANSWER};
use super::trace::traceparent;

/// Maximum size of an answer.
const MAX_ANSWER: usize = 4 << 20;
/// Members of an answer that is more than an output.
const MEMBERS: [&str; 4] = ["output", "traceId", "usage", "costUsd"];
/// Bytes of an answer that a message quotes.
const MAX_QUOTED: usize = 200;
/// Characters of the id of a trace.
const MAX_TRACE_ID: usize = 200;

/// The reason why an endpoint gave no answer.
pub(super) enum EndpointFailure {
    /// No item can be posted to the address.
    Unreachable(String),
    /// Another call may succeed; with the wait that the application requested, milliseconds.
    Temporary(FailureClass, String, Option<u64>),
    /// Another call would fail in the same way.
    Final(FailureClass, String),
}

/// The body of a request.
fn body(driver: &Driver, item: &ClaimedItem, data: &DatasetItem) -> Value {
    let run = &driver.run;
    json!({
        "runId": run.id,
        "runName": run.name,
        "datasetId": run.dataset_id,
        "datasetName": data.dataset_name,
        "itemId": item.item_id,
        "repetition": item.repetition,
        "attempt": item.attempt,
        "traceId": run_trace_id(&run.id, &item.item_id, item.repetition, item.attempt),
        "input": data.input,
        "expectedOutput": data.expected_output,
        "metadata": data.metadata,
    })
}

/// Posts an item and reads the answer. A large answer is received when there is memory for it.
pub(super) async fn post_item(
    driver: &Driver,
    task: &EndpointTask,
    (item, data): (&ClaimedItem, &DatasetItem),
    memory: &mut CallMemory,
) -> Result<RunAnswer, EndpointFailure> {
    let body = body(driver, item, data).to_string();
    let clock = &driver.engine.clock;
    let started_at = clock.now();
    let header =
        |name: &str, value: String, is_secret| Header { name: name.to_owned(), value, is_secret };
    let agent = concat!("perpend/", env!("CARGO_PKG_VERSION"));
    let trace = run_trace_id(&driver.run.id, &item.item_id, item.repetition, item.attempt);
    let mut headers = vec![
        header("user-agent", agent.to_owned(), false),
        header("accept", "application/json".to_owned(), false),
        header("traceparent", traceparent(&driver.run, item), false),
        header("idempotency-key", trace.to_string(), false),
    ];
    if let Some(secret) = &driver.secret {
        let seconds = started_at.as_millis().div_euclid(1_000);
        let signature = signature(secret, seconds, body.as_bytes());
        headers.push(header("x-perpend-signature", signature, true));
    }
    let post = PostRequest {
        url: task.url.clone(),
        headers,
        body: body.into(),
        timeout: Duration::from_millis(u64::from(task.timeout_ms)),
        max_response_bytes: MAX_ANSWER,
    };
    let budget = &driver.engine.memory;
    let wait = async |n_bytes: usize| {
        let since = clock.now();
        budget.reserve_answer(memory, n_bytes).await;
        clock.now().micros_since(since)
    };
    let posted = driver.engine.outbound.post_json_directly(&post, SMALL_ANSWER, wait).await;
    let latency_us = clock.now().micros_since(started_at);
    let (response, waited_us) = posted.map_err(failure)?;
    budget.begin_parsing(memory).await;
    let mut answer = read(&response)?;
    answer.started_at = started_at.as_micros();
    let latency_us = latency_us - waited_us.unwrap_or(0);
    answer.latency_ms = (latency_us / 1_000).max(0).unsigned_abs();
    Ok(answer)
}

fn failure(error: PostError) -> EndpointFailure {
    let message = error.to_string();
    match error {
        PostError::Refused(_) | PostError::Unresolved(_) | PostError::InvalidRequest(_) => {
            EndpointFailure::Unreachable(message)
        }
        PostError::Unconnected(_) | PostError::Interrupted(_) => {
            EndpointFailure::Temporary(FailureClass::UpstreamUnavailable, message, None)
        }
        PostError::TimedOut(_) => EndpointFailure::Final(FailureClass::UpstreamTimeout, message),
        PostError::TooLarge(_) | PostError::Redirect(_) => {
            EndpointFailure::Final(FailureClass::MalformedOutput, message)
        }
    }
}

/// The start of a body, for messages.
fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_QUOTED)]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn read(response: &PostResponse) -> Result<RunAnswer, EndpointFailure> {
    let status = response.status;
    match status {
        200..=299 => {}
        300..=399 => {
            let message = format!("the endpoint must not redirect, got status {status}");
            return Err(EndpointFailure::Final(FailureClass::MalformedOutput, message));
        }
        _ => {
            let quoted = quoted(&response.body);
            let message =
                format!("the endpoint must respond with status 200, got {status}: {quoted}");
            let seconds = response.header("retry-after").and_then(|text| text.parse::<u64>().ok());
            let wait_ms = seconds.map(|seconds| seconds.saturating_mul(1_000));
            return Err(match status {
                429 => EndpointFailure::Temporary(FailureClass::RateLimited, message, wait_ms),
                502..=504 => {
                    EndpointFailure::Temporary(FailureClass::UpstreamUnavailable, message, wait_ms)
                }
                _ => EndpointFailure::Final(FailureClass::UpstreamUnavailable, message),
            });
        }
    }
    let value: Value = serde_json::from_slice(&response.body).map_err(|error| {
        let quoted = quoted(&response.body);
        let kind = response.header("content-type").filter(|kind| kind.len() <= MAX_QUOTED);
        let kind = kind.unwrap_or("no content type");
        let message =
            format!("the endpoint must respond with JSON, got {kind} {quoted:?}: {error}");
        EndpointFailure::Final(FailureClass::MalformedOutput, message)
    })?;
    answer(value).map_err(|message| EndpointFailure::Final(FailureClass::MalformedOutput, message))
}

/// Reads an answer: an object with `output` and no other members than those of an answer, or the output itself.
fn answer(value: Value) -> Result<RunAnswer, String> {
    let is_answer = |members: &Map<String, Value>| {
        members.contains_key("output")
            && members.keys().all(|name| MEMBERS.contains(&name.as_str()))
    };
    let mut members = match value {
        Value::Object(members) if is_answer(&members) => members,
        output => return Ok(RunAnswer { output, ..RunAnswer::default() }),
    };
    let mut member = |name: &str| members.remove(name).filter(|value| !value.is_null());
    Ok(RunAnswer {
        output: member("output").unwrap_or_default(),
        trace_id: member("traceId").map(|value| trace_id(&value)).transpose()?,
        usage: member("usage").map(|value| usage(&value)).transpose()?,
        cost_usd: member("costUsd").map(|value| cost(&value)).transpose()?,
        ..RunAnswer::default()
    })
}

fn trace_id(value: &Value) -> Result<String, String> {
    let text = value.as_str().filter(|text| !text.is_empty() && text.len() <= MAX_TRACE_ID);
    let text = text.filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned)
        .ok_or_else(|| format!("`traceId` must be a string of 1 to {MAX_TRACE_ID} bytes"))
}

fn usage(value: &Value) -> Result<Usage, String> {
    let wrong = || "`usage` must be an object of token counts, integers from 0".to_owned();
    let members = value.as_object().ok_or_else(wrong)?;
    let count = |(name, n): (&String, &Value)| {
        let n = n.as_u64().ok_or_else(wrong)?;
        Ok((name.clone(), Quantity::from(n)))
    };
    members.iter().map(count).collect()
}

fn cost(value: &Value) -> Result<f64, String> {
    let cost = value.as_f64().filter(|cost| (0.0..=MAX_USD).contains(cost));
    cost.ok_or_else(|| format!("`costUsd` must be a number from 0 to {MAX_USD:e}, got {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_object_with_an_output_or_the_output_itself() {
        let full = json!({
            "output": { "text": "hi" }, "traceId": "t", "usage": { "input": 3, "output": 4 }, "costUsd": 0.5,
        });
        let full = answer(full).unwrap();
        assert_eq!(full.output, json!({ "text": "hi" }));
        assert_eq!((full.trace_id.as_deref(), full.cost_usd), (Some("t"), Some(0.5)));
        assert_eq!(full.usage.unwrap().len(), 2);
        for output in
            [json!("hi"), json!([1]), json!({ "text": "hi" }), json!({ "output": 1, "more": 2 })]
        {
            assert_eq!(answer(output.clone()).unwrap().output, output);
        }
    }

    #[test]
    fn a_wrong_member_of_an_answer_is_named() {
        for (wrong, name) in [
            (json!({ "output": 1, "costUsd": -1 }), "costUsd"),
            (json!({ "output": 1, "costUsd": "1" }), "costUsd"),
            (json!({ "output": 1, "costUsd": 1e300 }), "costUsd"),
            (json!({ "output": 1, "usage": { "input": -1 } }), "usage"),
            (json!({ "output": 1, "usage": 3 }), "usage"),
            (json!({ "output": 1, "traceId": 3 }), "traceId"),
        ] {
            let error = answer(wrong).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }
}

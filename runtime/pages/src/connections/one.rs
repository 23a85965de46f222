//! `GET P/settings/connections/{connection}`: one connection; `POST …/test` tests it and shows the result.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::ConnectionWrite;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, ConnectionEvaluatorLine, ConnectionFailureLine, ConnectionModelLine,
    ConnectionPage, ConnectionTestCall, ConnectionTestView, EvaluatorPauseView, RejectedForm,
    ResourceLink, Section, Text, count, dollars, duration, plural,
};
use serde::Deserialize;
use serde_json::json;

use super::usage::{
    ConnectionPath, ConnectionUsage, Costs, Learned, UsedModel, UsingEvaluator, connection_href,
};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input, parsed};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// The response of the test.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestResult {
    passed: bool,
    model: String,
    error_class: Option<String>,
    error_message: Option<String>,
    model_calls: Vec<TestCall>,
    learned: Option<Learned>,
    resumed_evaluators: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestCall {
    model: String,
    model_answered: Option<String>,
    method: String,
    latency_ms: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: Option<f64>,
    error_class: Option<String>,
    error_message: Option<String>,
}

/// The test on the page: the sent model, and the result or the rejected form.
#[derive(Default)]
struct Tested {
    model: Option<String>,
    result: Option<TestResult>,
    rejected: RejectedForm,
}

/// `GET P/settings/connections/{connection}`
pub(crate) async fn connection_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ConnectionPath>,
) -> Result<Response, Problem> {
    let usage = path.usage(&app, &viewer).await?;
    page(StatusCode::OK, &view(&viewer, &usage, Tested::default()))
}

/// `POST P/settings/connections/{connection}/test`: field `model`; the button `action` is `test` or `resume`. The test
/// may be repeated, so that each submission sends a request.
pub(crate) async fn test_connection(
    State(app): State<App>,
    Path(path): Path<ConnectionPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let model = form.fields.raw("model").unwrap_or_default().trim();
    let mut body = json!({ "resume": form.fields.text("action") == Some("resume") });
    if !model.is_empty() {
        body["model"] = model.into();
    }
    let operation = path.operation("/test");
    let result = call(&app, viewer, (Method::POST, &operation), &body).await;
    let (status, tested) = match result {
        Ok(result) => (
            StatusCode::OK,
            Tested {
                model: Some(model.to_owned()),
                result: Some(parsed(result)?),
                rejected: RejectedForm::default(),
            },
        ),
        Err(problem) if is_about_input(&problem) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            Tested {
                model: Some(model.to_owned()),
                result: None,
                rejected: RejectedForm {
                    values: Vec::new(),
                    problems: field_problems(&problem, &[("model", "model")], "model"),
                },
            },
        ),
        Err(problem) => return Err(problem),
    };
    // Read after the test, which may have resumed evaluators.
    let usage = path.usage(&app, viewer).await?;
    page(status, &view(viewer, &usage, tested))
}

fn view(viewer: &Viewer, usage: &ConnectionUsage, tested: Tested) -> ConnectionPage {
    let connection = &usage.connection;
    let proposed = usage.default_model.as_ref().map(|choice| choice.model.clone());
    let proposed = proposed.or_else(|| connection.custom_models.first().cloned());
    let in_use =
        || usage.evaluators.first().and_then(|evaluator| evaluator.models.first().cloned());
    let proposed = proposed.or_else(in_use);
    let sent = tested.model.filter(|model| !model.is_empty());
    let n_resumable = usage.n_resumable();
    let path = format!("/api/v1/llm-connections/{}/usage", perpend_views::segment(&connection.id));
    ConnectionPage {
        shell: viewer
            .shell(Section::Connections)
            .with_api([ApiRequest::new(&viewer.origin, &path)]),
        name: Text::from(connection.provider.as_str()),
        href: connection_href(viewer, &connection.id),
        facts: facts(usage),
        has_key: connection.key().is_some() || connection.adapter == "mock",
        closed: usage.closed_until.map(|until| {
            let until = until.to_string();
            Text::from(format!("The provider requested a delay: the next request starts at {until}. Saving the connection ends the delay."))
        }),
        costs: costs(&usage.costs),
        models: usage.models.iter().map(model_line).collect(),
        evaluators: usage.evaluators.iter().map(evaluator_line).collect(),
        resumable: (0 < n_resumable).then(|| plural(n_resumable, "evaluator")),
        failures: usage
            .failures
            .iter()
            .map(|failure| ConnectionFailureLine {
                at: failure.at,
                model: Text::from(failure.model.as_str()),
                class: Text::from(failure.error_class.as_str()),
                message: Text::from(failure.error_message.as_str()),
            })
            .collect(),
        test_model: sent.or(proposed).unwrap_or_default(),
        test: tested.result.map(test_view),
        rejected_form: tested.rejected,
        may_write: viewer.may(ConnectionWrite),
    }
}

fn facts(usage: &ConnectionUsage) -> Vec<(&'static str, Text)> {
    let connection = &usage.connection;
    let text = |text: &str| Text::from(text);
    let models = match connection.custom_models.as_slice() {
        [] => "those of the protocol".to_owned(),
        own if connection.with_default_models => {
            format!("{} and those of the protocol", own.join(", "))
        }
        own => own.join(", "),
    };
    let default = usage.default_model.as_ref().map(|choice| choice.model.as_str());
    let mut facts = vec![
        ("Protocol", text(&connection.adapter)),
        ("Address", text(connection.base_url.as_deref().unwrap_or("default of the protocol"))),
        ("Key", connection.key().unwrap_or_else(|| text("none"))),
        ("Models", text(&models)),
        ("Default evaluation model", text(default.unwrap_or("not of this connection"))),
    ];
    if !connection.extra_header_keys.is_empty() {
        facts.push(("Extra headers", text(&connection.extra_header_keys.join(", "))));
    }
    if connection.use_responses_api {
        facts.push(("Responses API", text("used")));
    }
    let in_flight = format!(
        "at most {}; now {} sent and {} waiting",
        connection.max_in_flight, usage.in_flight, usage.queued
    );
    facts.push(("Concurrent requests", Text::from(in_flight)));
    facts
}

fn costs(costs: &Costs) -> Vec<(&'static str, String)> {
    vec![
        ("Cost", costs.cost()),
        ("Calls", count(costs.call_count)),
        ("Failed", count(costs.failed_count)),
        ("Without a known price", count(costs.unpriced_count)),
        ("Answered from the cache", count(costs.cached_count)),
        ("Input tokens", count(costs.input_tokens)),
        ("Output tokens", count(costs.output_tokens)),
    ]
}

fn model_line(model: &UsedModel) -> ConnectionModelLine {
    ConnectionModelLine {
        name: Text::from(model.model.as_str()),
        calls: count(model.costs.call_count),
        failed: model.costs.failed(),
        cost: model.costs.cost(),
        learned: model.learned.as_ref().map(Learned::words),
    }
}

fn evaluator_line(evaluator: &UsingEvaluator) -> ConnectionEvaluatorLine {
    let default = if evaluator.uses_default { " (default model)" } else { "" };
    ConnectionEvaluatorLine {
        evaluator: ResourceLink::new(&evaluator.name, &evaluator.evaluator_id),
        models: Text::from(format!("{}{default}", evaluator.models.join(", "))),
        pause: evaluator.paused.as_ref().map(|pause| EvaluatorPauseView {
            reason: Text::from(pause.reason.as_str()),
            message: Text::from(pause.message.as_str()),
            since: pause.since,
            is_of_connection: pause.is_of_connection,
        }),
        waiting: (0 < evaluator.waiting)
            .then(|| format!("{} held", plural(evaluator.waiting, "execution"))),
    }
}

fn test_view(result: TestResult) -> ConnectionTestView {
    let n_resumed = result.resumed_evaluators.len() as u64;
    let class = result.error_class.as_deref();
    ConnectionTestView {
        passed: result.passed,
        model: Text::from(result.model.as_str()),
        failure: class.map(|class| {
            let message = result.error_message.as_deref().unwrap_or_default();
            (Text::from(class), Text::from(message))
        }),
        remedy: class.and_then(remedy),
        calls: result.model_calls.iter().map(test_call).collect(),
        learned: result.learned.as_ref().map(Learned::words),
        resumed: (0 < n_resumed).then(|| format!("{} resumed.", plural(n_resumed, "evaluator"))),
    }
}

fn test_call(call: &TestCall) -> ConnectionTestCall {
    let outcome = match (&call.error_class, &call.error_message) {
        (Some(class), Some(message)) => format!("{class}: {message}"),
        (Some(class), None) => class.clone(),
        (None, _) => "answered".to_owned(),
    };
    let micros = i64::try_from(call.latency_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    ConnectionTestCall {
        model: Text::from(call.model_answered.as_deref().unwrap_or(&call.model)),
        method: Text::from(call.method.as_str()),
        latency: duration(micros),
        tokens: plural(call.input_tokens.saturating_add(call.output_tokens), "token"),
        cost: call.cost_usd.map_or_else(|| "cost unknown".to_owned(), dollars),
        outcome: Text::from(outcome),
    }
}

/// How to correct a failure of this class.
fn remedy(class: &str) -> Option<&'static str> {
    Some(match class {
        "auth_invalid" => {
            "The provider rejected the key, or none is stored: edit the connection and enter the key."
        }
        "billing_exhausted" => {
            "The account of the provider has no credit: add credit, then test again."
        }
        "model_unavailable" => {
            "The provider does not offer this model to this key: try another model."
        }
        "model_config_invalid" => "Check the protocol, the address and the configuration.",
        "endpoint_unreachable" => {
            "The address cannot be reached. A private address needs an entry in the setting exports.private_endpoints."
        }
        "account_not_ready" => "Finish the setup of the account at the provider, then test again.",
        "rate_limited" => "The provider limits the rate of requests: test again later.",
        "upstream_unavailable" | "upstream_timeout" => {
            "The provider failed or did not answer in time: check the address and test again."
        }
        "malformed_output" => {
            "The connection works, but no reply matched the JSON schema: judges need another model."
        }
        "context_too_long" | "refused" => {
            "The connection works, but the model refused the request of the test."
        }
        _ => return None,
    })
}

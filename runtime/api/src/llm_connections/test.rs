//! Test of a connection with one small request for a structured reply.

use std::sync::Arc;
use std::time::Duration;

use perpend_api_types::connection::{ConnectionTest, ConnectionTestInput};
use perpend_catalog::connections::Connection;
use perpend_domain::ids::{EvaluatorVersionId, ProjectId};
use perpend_domain::plugin::{
    CallOrigin, EvaluatorContext, FailureClass, Grants, ReplyPolicy, ReplyReuse,
};
use perpend_domain::slots::{ModelChoice, ModelFailure, ModelLimits, Slot};
use perpend_http_kit::problem::Problem;
use perpend_worker_protocol::host_call::{CacheMode, CompletionRequest, Message, Role};
use serde_json::{Map, json};

use super::usage::learned_model;
use crate::evaluators;
use crate::model_calls;
use crate::state::App;

/// Time limit of the test, including the wait for a place on the connection.
const LIMIT: Duration = Duration::from_secs(95);
/// Time limit of a request.
const CALL_TIMEOUT_MS: u32 = 60_000;
const SLOT: &str = "test";
const PROMPT: &str = "This is a test of the connection. Answer with a JSON object: `reasoning` is the text \"ok\", \
                      `score` is the number 1.";

/// Tests a connection. A failure of the provider is a result, not an error.
///
/// # Errors
/// 400 when no model is known, 503 when the server failed or is busy.
pub(super) async fn test(
    app: &App,
    project: &ProjectId,
    connection: &Connection,
    input: ConnectionTestInput,
) -> Result<ConnectionTest, Problem> {
    let choice = model(app, project, connection, input.model.as_deref()).await?;
    let _turn = app.preflights.wait(project).await?;
    let origin = origin(app, project, choice.clone())?;
    let completion = app.models.complete(&origin, 0, request());
    let outcome = tokio::time::timeout(LIMIT, completion).await;
    // A request that still waits is not sent any more.
    origin.notes.abandon();
    let failure = match outcome {
        Ok(Ok(_)) => None,
        Ok(Err(failure)) if is_server_fault(&failure) => {
            let message = format!("the connection could not be tested: {}", failure.message);
            return Err(Problem::unavailable(message));
        }
        Ok(Err(failure)) => Some((failure.class.as_str(), failure.message)),
        Err(_) => {
            let message = format!("the test did not end within {} seconds", LIMIT.as_secs());
            Some((FailureClass::WallTimeout.as_str(), message))
        }
    };
    let mut resumed = Vec::new();
    if input.resume && failure.is_none() {
        let now = app.web.clock.now();
        let catalog = &app.store.catalog;
        resumed = catalog.resume_model_users(project, &connection.provider, now).await?;
        app.scheduler.wake();
    }
    let learned = app.models.learned_models(project, connection);
    let learned = learned.iter().find(|known| known.model == choice.model);
    let (class, message) = failure.unzip();
    Ok(ConnectionTest {
        passed: class.is_none(),
        model: choice.model,
        error_class: class.map(str::to_owned),
        error_message: message,
        model_calls: origin
            .notes
            .calls()
            .into_iter()
            .map(|call| model_calls::view((0, call)))
            .collect(),
        learned: learned.map(learned_model),
        resumed_evaluators: resumed,
    })
}

/// The model of the test.
async fn model(
    app: &App,
    project: &ProjectId,
    connection: &Connection,
    requested: Option<&str>,
) -> Result<ModelChoice, Problem> {
    let default = app.store.catalog.default_model(project).await?;
    let default = default.filter(|choice| choice.provider == connection.provider);
    let of_name = |model: &str| ModelChoice {
        provider: connection.provider.clone(),
        model: model.to_owned(),
        params: Map::new(),
    };
    let Some(name) = requested.map(str::trim) else {
        let first = || connection.custom_models.first().map(|name| of_name(name));
        return default.or_else(first).ok_or_else(|| {
            let message = "is required: the default evaluation model does not belong to this \
                           connection, which has no `customModels`";
            Problem::body("model", message)
        });
    };
    match name.chars().count() {
        0 => Err(Problem::body("model", "must not be empty")),
        201.. => Err(Problem::body("model", "must have 1 to 200 characters")),
        _ => Ok(default.filter(|choice| choice.model == name).unwrap_or_else(|| of_name(name))),
    }
}

/// The caller of the model: an evaluator that is not stored.
fn origin(app: &App, project: &ProjectId, choice: ModelChoice) -> Result<Arc<CallOrigin>, Problem> {
    let id = app.web.ids.uuid().to_string();
    let version = EvaluatorVersionId::new(&id).map_err(|_| Problem::internal())?;
    let limits = ModelLimits { timeout_ms: CALL_TIMEOUT_MS, reasks: 1, ..ModelLimits::default() };
    let context = EvaluatorContext {
        project: project.clone(),
        evaluator: evaluators::parse_id(&id)?,
        version,
        grants: Grants { model: true, ..Grants::NONE },
        slots: vec![Slot { name: SLOT.to_owned(), model: Some(choice), limits }],
    };
    // No cached reply: the provider is tested now.
    let reuse = ReplyReuse { replies: ReplyPolicy::Isolated, run: 0 };
    Ok(Arc::new(CallOrigin::new(&Arc::new(context), None).reusing(reuse)))
}

/// A request for a reply of the form that judges request.
fn request() -> CompletionRequest {
    let schema = json!({
        "type": "object",
        "properties": { "reasoning": { "type": "string" }, "score": { "type": "number" } },
        "required": ["reasoning", "score"],
        "additionalProperties": false,
    });
    let mut request = CompletionRequest::new(vec![Message::text(Role::User, PROMPT)]);
    request.slot = Some(SLOT.to_owned());
    request.response_schema = Some(schema.to_string());
    request.cache = CacheMode::Bypass;
    request
}

fn is_server_fault(failure: &ModelFailure) -> bool {
    matches!(failure.class, FailureClass::Internal | FailureClass::Cancelled)
}

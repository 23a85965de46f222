//! Test of the model of a judge, before the judge is saved and before a rule uses it (evaluation.md 3.8).

use futures_util::future::try_join_all;
use perpend_domain::evaluation::{AttemptFailure, Evaluator, OnMissing};
use perpend_domain::ids::ProjectId;
use perpend_domain::mapping::ManualItem;
use perpend_domain::plugin::{FailureClass, ReplyPolicy, ReplyReuse};
use perpend_http_kit::problem::{Code, Problem};
use perpend_scheduler::{Trial, TrialSubject};
use serde_json::{Map, Value};

use super::prompt::variables_of;
use super::trial::LIMIT;
use crate::state::App;

/// Value of each variable of the prompt.
const TEXT: &str = "This is a test of the connection.";

/// Tests those of these evaluators that are judges on a small item. They share one turn and one time limit.
///
/// # Errors
/// When a model fails or its reply is not usable.
pub(crate) async fn check(
    app: &App,
    project: &ProjectId,
    evaluators: impl IntoIterator<Item = Evaluator>,
) -> Result<(), Problem> {
    let judges = evaluators.into_iter();
    let judges: Vec<Evaluator> = judges.filter(|one| one.version.is_judge()).collect();
    if judges.is_empty() {
        return Ok(());
    }
    let _turn = app.preflights.wait(project).await?;
    let all = judges.into_iter().map(|judge| test(app, project, judge));
    try_join_all(all).await.map(|_| ())
}

async fn test(app: &App, project: &ProjectId, judge: Evaluator) -> Result<(), Problem> {
    let slot = judge.version.slots.first();
    let own = slot.and_then(|slot| slot.model.clone());
    let choice = match own {
        Some(choice) => Some(choice),
        None => app.store.catalog.default_model(project).await?,
    };
    let trial = Trial {
        on: vec![TrialSubject::Written(Box::new(tiny_item(&judge)))],
        evaluator: judge.clone(),
        mapping: None,
        on_missing: OnMissing::Fail,
        // No cached reply: the model is tested now.
        reuse: ReplyReuse { replies: ReplyPolicy::Isolated, run: 0 },
        limit: LIMIT,
    };
    let results = app.scheduler.trial(project, trial).await?;
    let result = results.into_iter().next().ok_or_else(Problem::internal)?;
    let Err(why) = result.outcome else {
        return Ok(());
    };
    if is_server_fault(&why) {
        let message = format!("the evaluator could not be tested: {}", why.message);
        return Err(Problem::unavailable(message));
    }
    // In a panel, the model that failed.
    let mut failed = result.model_calls.into_iter().rev();
    let failed = failed.find(|call| call.error.is_some());
    let failed_model = failed.map(|call| (call.provider, call.model));
    let failed_model =
        failed_model.or_else(|| choice.map(|choice| (choice.provider, choice.model)));
    let of_model = failed_model
        .as_ref()
        .map_or_else(String::new, |(provider, model)| format!(" of {model:?} over {provider:?}"));
    let message = format!(
        "a test{of_model} for the evaluator {:?} failed with {}: {}",
        judge.name,
        why.class.as_str(),
        why.message
    );
    let mut problem = Problem::new(Code::PreflightFailed, message)
        .with("evaluatorName", judge.name)
        .with("class", why.class.as_str());
    if let Some((provider, model)) = failed_model {
        problem = problem.with("provider", provider).with("model", model);
    }
    Err(problem)
}

/// An item with a value for every variable of the prompt.
fn tiny_item(judge: &Evaluator) -> ManualItem {
    let text = || Some(Value::from(TEXT));
    let variables = variables_of(&judge.version.config).into_iter();
    ManualItem {
        input: text(),
        output: text(),
        expected_output: text(),
        metadata: Some(Map::from_iter([("test".to_owned(), TEXT.into())])),
        variables: variables.map(|name| (name, TEXT.into())).collect(),
    }
}

/// Whether the server failed before the call of the model.
fn is_server_fault(why: &AttemptFailure) -> bool {
    let server_faults = [
        FailureClass::Internal,
        FailureClass::WorkerLost,
        FailureClass::WorkerFull,
        FailureClass::Cancelled,
    ];
    server_faults.into_iter().any(|class| why.class == class.into())
}

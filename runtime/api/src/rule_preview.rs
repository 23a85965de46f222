//! Preview of a rule on the telemetry of the last seven days.

use axum::extract::State;
use futures_util::future::try_join_all;
use perpend_api_types::preview::{
    Estimate, EstimateBasis, ExaminedTargets, MatchCounts, MissingPart, Preview as Shown,
    RulePreviewExample,
};
use perpend_api_types::rule::RuleInput;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{Assignment, Evaluator, Rule};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{ReplyPolicy, ReplyReuse};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;
use perpend_scheduler::{Preview, PreviewExample, Trial, TrialSubject};

use crate::state::{App, Routes};
use crate::{evaluators, model_calls, rules};

const PREVIEW: &str = "/api/v1/evaluation-rules/preview";
const DAY_MICROS: f64 = 86_400e6;

pub(super) fn routes(routes: &mut Routes) {
    let preview = Operation::post(
        "previewRule",
        PREVIEW,
        "Estimate the targets and the costs of a rule without scoring",
        EvaluatorWrite,
    );
    routes.add(preview.body::<RuleInput>().unrecorded(), preview_rule);
}

async fn preview_rule(
    State(app): State<App>,
    caller: Act,
    Body(mut input): Body<RuleInput>,
) -> Result<Answer<Shown>, Problem> {
    let project = &caller.project;
    input.name.get_or_insert_with(|| "preview".to_owned());
    input.enabled = Some(false);
    let (rule, evaluators) = rules::draft(&app, project, &input).await?;
    let _turn = app.trials.wait(project).await?;
    let preview = app.scheduler.preview(project, rule.clone());
    let found = reading::limited(&app.web, project, preview).await?;
    let per_day = per_day(&app, &found);
    let mut examples = found.examples.iter();
    let tried_on = examples.find(|example| example.item.is_ok());
    let estimates = evaluators.into_iter().filter_map(|evaluator| {
        let mut all = rule.assignments.iter();
        let assignment = all.find(|each| each.evaluator_id == evaluator.id)?;
        Some((assignment, evaluator))
    });
    // Concurrently, so that they share the time limit of a trial.
    let estimates = estimates.map(async |(assignment, evaluator)| {
        let preview = AssignmentPreview { app: &app, project, rule: &rule, assignment };
        preview.estimate(evaluator, tried_on, per_day).await
    });
    let estimates = try_join_all(estimates).await?;
    let costs = estimates.iter().map(|each| each.cost_per_day_usd);
    Ok(Answer(Shown {
        cost_per_day_usd: costs.sum(),
        examined: ExaminedTargets {
            count: found.n_examined,
            is_whole: found.is_whole,
            since: found.since,
        },
        last_day: matches(found.last_day),
        last_week: matches(found.last_week),
        examples: found.examples.into_iter().map(example).collect(),
        checked_count: found.n_checked,
        missing_variables: found
            .missing
            .into_iter()
            .map(|each| MissingPart {
                evaluator_id: each.evaluator,
                variable: each.variable,
                count: each.n_targets,
            })
            .collect(),
        evaluators: estimates,
    }))
}

/// Sampled targets per day, extrapolated if less than a day was examined.
fn per_day(app: &App, found: &Preview) -> f64 {
    let now = app.web.clock.now().as_micros() as f64;
    let seen = now - found.since.as_micros() as f64;
    let n = f64::from(found.last_day.n_sampled);
    match seen < DAY_MICROS {
        true => n * DAY_MICROS / seen.max(1.0),
        false => n,
    }
}

fn matches(found: perpend_scheduler::Matches) -> MatchCounts {
    MatchCounts { matching: found.n_matching, sampled: found.n_sampled }
}

fn example(found: PreviewExample) -> RulePreviewExample {
    let (item, why) = match found.item {
        Ok(item) => (Some(evaluators::trial_item(item)), None),
        Err(why) => (None, Some(why)),
    };
    let (class, message) = why.map(|why| (why.class.as_str().to_owned(), why.message)).unzip();
    RulePreviewExample {
        trace_id: found.target.trace().cloned(),
        observation_id: found.target.observation().cloned(),
        session_id: found.target.session().cloned(),
        name: found.name,
        timestamp: found.at,
        item,
        error_class: class,
        error_message: message,
    }
}

/// An assignment of the draft.
pub(super) struct AssignmentPreview<'a> {
    pub(super) app: &'a App,
    pub(super) project: &'a ProjectId,
    pub(super) rule: &'a Rule,
    pub(super) assignment: &'a Assignment,
}

/// Mean cost and latency of an execution.
pub(super) struct ExecutionMeans {
    pub(super) basis: EstimateBasis,
    pub(super) cost: Option<f64>,
    pub(super) latency_ms: Option<f64>,
}

impl AssignmentPreview<'_> {
    async fn estimate(
        &self,
        evaluator: Evaluator,
        example: Option<&PreviewExample>,
        per_day: f64,
    ) -> Result<Estimate, Problem> {
        let concurrency = concurrency(self.app, self.project, &evaluator).await?;
        let means = self.means(evaluator, example).await?;
        let seconds = means.latency_ms.zip(concurrency);
        Ok(Estimate {
            evaluator_id: self.assignment.evaluator_id.clone(),
            executions_per_day: per_day,
            basis: means.basis,
            cost_per_execution_usd: means.cost,
            cost_per_day_usd: means.cost.map(|cost| cost * per_day),
            seconds_per_day: seconds
                .map(|(latency_ms, n)| per_day * latency_ms / 1_000.0 / f64::from(n)),
        })
    }

    /// The means over the last executions, or of a trial on the example; free without model calls.
    pub(super) async fn means(
        &self,
        evaluator: Evaluator,
        example: Option<&PreviewExample>,
    ) -> Result<ExecutionMeans, Problem> {
        let means_of = |basis, cost, latency_ms| ExecutionMeans { basis, cost, latency_ms };
        if !evaluator.version.grants.model {
            return Ok(means_of(EstimateBasis::Free, Some(0.0), None));
        }
        let ledger = &self.app.store.ledger;
        let id = &self.assignment.evaluator_id;
        if let Some(means) = ledger.latest_means(self.project, id).await? {
            return Ok(means_of(EstimateBasis::Executions, means.cost, Some(means.latency_ms)));
        }
        let Some(example) = example else {
            return Ok(means_of(EstimateBasis::Unknown, None, None));
        };
        let trial = Trial {
            evaluator,
            mapping: self.assignment.mapping.clone(),
            on_missing: self.rule.on_missing,
            on: vec![TrialSubject::Target(example.target.clone())],
            // A cached reply has neither the cost nor the latency of a future call.
            reuse: ReplyReuse { replies: ReplyPolicy::Refresh, run: 0 },
            limit: evaluators::TRIAL_LIMIT,
        };
        let results = self.app.scheduler.trial(self.project, trial).await?;
        let tried = results.into_iter().next();
        let calls = tried.map(|result| result.model_calls).unwrap_or_default();
        // Failed calls give no estimate.
        if calls.iter().all(|call| call.error.is_some()) {
            return Ok(means_of(EstimateBasis::Unknown, None, None));
        }
        let latency_ms: u64 = calls.iter().map(|call| call.latency_ms).sum();
        let cost = model_calls::cost(&calls);
        Ok(means_of(EstimateBasis::Trial, cost, Some(latency_ms as f64)))
    }
}

/// Concurrent calls of the connection of the first model.
pub(super) async fn concurrency(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
) -> Result<Option<u32>, Problem> {
    let catalog = &app.store.catalog;
    let own = evaluator.version.slots.first();
    let choice = match own.and_then(|slot| slot.model.clone()) {
        Some(choice) => Some(choice),
        None => catalog.default_model(project).await?,
    };
    let Some(choice) = choice else {
        return Ok(None);
    };
    let connection = catalog.connection(project, &choice.provider).await?;
    Ok(connection.map(|connection| connection.max_in_flight.max(1)))
}

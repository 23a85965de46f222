//! Runs of a rule over chosen targets.

use axum::extract::{Path, State};
use perpend_api_types::rule_run::{RuleRun, RuleRunInput};
use perpend_api_types::trial::TrialTarget;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::backfill::BackfillMode;
use perpend_domain::evaluation::{Rule, Target, TargetKind};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;

use super::{evaluators, rules};
use crate::state::{App, Routes};

const RUN: &str = "/api/v1/evaluation-rules/{ruleId}/run";
const MAX_TARGETS: usize = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let run = Operation::post(
        "runRule",
        RUN,
        "Score chosen targets with a rule, whether or not they match its filter and sample",
        EvaluatorWrite,
    );
    routes.add(run.body::<RuleRunInput>(), run_rule);
}

/// The mode of a backfill or run.
pub(super) fn mode(raw: Option<&str>) -> Result<BackfillMode, Problem> {
    let mode = rules::parse_choice("mode", raw, BackfillMode::ALL, BackfillMode::as_str)?;
    Ok(mode.unwrap_or(BackfillMode::Fill))
}

fn target(at: usize, input: &TrialTarget, rule: &Rule) -> Result<Target, Problem> {
    let target = evaluators::checked_target(at, input)?;
    match rule.target.is_for(&target) {
        true => Ok(target),
        false => {
            let message = format!(
                "must be a target of the rule, which scores targets of the kind `{}`; got one of the kind `{}`",
                rule.target,
                target.kind()
            );
            Err(Problem::body(&format!("targets[{at}]"), message))
        }
    }
}

async fn run_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<RuleRunInput>,
) -> Result<Answer<RuleRun>, Problem> {
    let project = &caller.project;
    let rule = rules::find(&app, project, &id).await?;
    if rule.target == TargetKind::Run {
        let message = "the rule scores whole runs: runs cannot be chosen";
        return Err(Problem::new(Code::Unprocessable, message));
    }
    if !rule.enabled {
        let message = format!("the rule {:?} is disabled: enable it first", rule.name);
        return Err(Problem::new(Code::Conflict, message));
    }
    let mode = mode(input.mode.as_deref())?;
    let n = input.targets.len();
    if n == 0 || MAX_TARGETS < n {
        let message = format!("must have 1 to {MAX_TARGETS} targets, got {n}");
        return Err(Problem::body("targets", message));
    }
    let targets = input.targets.iter().enumerate().map(|(at, input)| target(at, input, &rule));
    let targets = targets.collect::<Result<Vec<Target>, Problem>>()?;
    let run = app.scheduler.evaluate_chosen(project, rule, mode, &targets);
    let found = reading::limited(&app.web, project, run).await?;
    Ok(Answer(RuleRun {
        execution_ids: found.executions,
        item_count: found.counts.n_items,
        present_count: found.counts.n_present,
        refused_count: found.counts.n_refused,
        left_out_count: found.counts.n_left_out,
        missing_count: found.n_missing,
    }))
}

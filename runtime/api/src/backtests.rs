//! Backtests: a version of an evaluator over stored targets, compared with their live scores.

use axum::extract::{Path, State};
use perpend_api_types::backtest::{
    AdoptedBacktest, Backtest as View, BacktestCalls, BacktestEstimate as EstimateView,
    BacktestFailure, BacktestFlip, FlipSide, FollowingRule, NewBacktest,
};
use perpend_api_types::filter::Conditions;
use perpend_api_types::list::{CursorList, CursorMeta};
use perpend_api_types::preview::EstimateBasis;
use perpend_catalog::audit;
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::backfill::BackfillState;
use perpend_domain::backtest::{
    Backtest, BacktestPlan, MAX_RUNNING_BACKTESTS, PairedValue, TestedVersion,
};
use perpend_domain::budget::BudgetScope;
use perpend_domain::evaluation::{
    Evaluator, EvaluatorVersion, Mapping, OnMissing, Rule, Target, TargetKind, VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::list::ListPosition;
use perpend_executions::{BackfillChange, Flip, FlipCursor};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Body, Params};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;
use perpend_scheduler::BACKTEST_JOB;
use serde_json::json;

use super::backfills::ExaminedPart;
use super::evaluators::{self, PAGE};
use super::rule_preview::{ExecutionMeans, concurrency};
use super::{backfills, rules};
use crate::state::{App, Routes};

const ALL: &str = "/api/v1/backtests";
const ONE: &str = "/api/v1/backtests/{backtestId}";
/// Kinds of targets that can be tested.
const KINDS: [TargetKind; 4] =
    [TargetKind::Observation, TargetKind::Experiment, TargetKind::Trace, TargetKind::Session];

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createBacktest",
        ALL,
        "Run a version of an evaluator on stored targets and compare it with their live scores",
        EvaluatorWrite,
    );
    routes.add(create.body::<NewBacktest>(), create_backtest);
    let estimate = Operation::post(
        "estimateBacktest",
        "/api/v1/backtests/estimate",
        "Estimate the targets, cost and time of a backtest without starting it",
        EvaluatorWrite,
    );
    routes.add(estimate.body::<NewBacktest>().unrecorded(), estimate_backtest);
    let list = Operation::get("listBacktests", ALL, "List backtests, newest first", EvaluatorRead);
    routes.add(list.query(PAGE), list_backtests);
    let one = Operation::get(
        "getBacktest",
        ONE,
        "Get a backtest with its progress and its results",
        EvaluatorRead,
    );
    routes.add(one, get_backtest);
    let flips = Operation::get(
        "listBacktestFlips",
        "/api/v1/backtests/{backtestId}/flips",
        "List the pairs of a backtest with different values, largest change first",
        EvaluatorRead,
    );
    routes.add(flips.query(PAGE), list_flips);
    let pause = Operation::post(
        "pauseBacktest",
        "/api/v1/backtests/{backtestId}/pause",
        "Pause a backtest; calls in progress are repeated when it is resumed",
        EvaluatorWrite,
    );
    routes.add(pause, pause_backtest);
    let resume = Operation::post(
        "resumeBacktest",
        "/api/v1/backtests/{backtestId}/resume",
        "Resume a paused backtest",
        EvaluatorWrite,
    );
    routes.add(resume, resume_backtest);
    let cancel = Operation::post(
        "cancelBacktest",
        "/api/v1/backtests/{backtestId}/cancel",
        "Cancel a backtest; its results are kept",
        EvaluatorWrite,
    );
    routes.add(cancel, cancel_backtest);
    let adopt = Operation::post(
        "adoptBacktest",
        "/api/v1/backtests/{backtestId}/adopt",
        "Make the tested version the newest one of its evaluator",
        EvaluatorWrite,
    );
    routes.add(adopt, adopt_backtest);
}

/// The body of a backtest without results.
fn view(found: Backtest) -> View {
    let examined_share = found.examined_share();
    let (counts, plan) = (found.counts, found.plan);
    let failures = found.failures.into_iter().map(|each| BacktestFailure {
        class: each.class,
        count: each.n,
        message: each.message,
    });
    View {
        id: found.id,
        evaluator_id: plan.evaluator,
        evaluator_name: plan.evaluator_name,
        tested: TestedVersion::from(&plan.version),
        rule_id: plan.rule,
        target: plan.target,
        from: plan.from,
        to: plan.to,
        filter: Conditions(plan.filter.sent().to_vec()),
        max_items: plan.max_items,
        max_usd: plan.max_usd,
        state: found.state,
        reason: found.reason,
        target_count: plan.n_in_range,
        examined_count: counts.n_examined,
        examined_share,
        reached_at: found.reached_at,
        item_count: counts.n_items,
        unscored_count: counts.n_unscored,
        refused_count: counts.n_refused,
        left_out_count: counts.n_left_out,
        completed_count: counts.n_completed,
        skipped_count: counts.n_skipped,
        failed_count: counts.n_failed,
        failures: failures.collect(),
        pair_count: counts.n_pairs,
        unpaired_count: counts.n_unpaired,
        cost_usd: counts.cost_usd,
        before: BacktestCalls::new(counts.before, counts.n_completed),
        after: BacktestCalls::new(counts.after, counts.n_completed),
        adopted_version: found.adopted_version,
        created_at: found.created_at,
        updated_at: found.updated_at,
        ended_at: found.ended_at,
        scores: None,
    }
}

/// What a rule or the request says about targets.
struct Scope {
    rule: Option<Rule>,
    target: TargetKind,
    mapping: Option<Vec<Mapping>>,
    on_missing: OnMissing,
}

async fn scope(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    input: &NewBacktest,
) -> Result<Scope, Problem> {
    let on_missing = rules::parse_choice(
        "onMissing",
        input.on_missing.as_deref(),
        OnMissing::ALL,
        OnMissing::as_str,
    )?;
    let target =
        rules::parse_choice("target", input.target.as_deref(), &KINDS, TargetKind::as_str)?;
    if target == Some(TargetKind::Run) {
        return Err(Problem::body(
            "target",
            "must not be `run`: runs have no live scores of rules",
        ));
    }
    let Some(rule) = &input.rule_id else {
        return Ok(Scope {
            rule: None,
            target: target.unwrap_or(TargetKind::Observation),
            mapping: None,
            on_missing: on_missing.unwrap_or(OnMissing::Fail),
        });
    };
    if target.is_some() {
        return Err(Problem::body("target", "must be absent with ruleId"));
    }
    let rule = rules::find(app, project, rule).await?;
    if rule.target == TargetKind::Run {
        return Err(Problem::body("ruleId", "must not be a rule of runs"));
    }
    let mut assignments = rule.assignments.iter();
    let Some(assignment) = assignments.find(|each| each.evaluator_id == evaluator.id) else {
        let message = format!("must be a rule that uses the evaluator {:?}", evaluator.name);
        return Err(Problem::body("ruleId", message));
    };
    if assignment.mapping.is_some() && input.variable_mapping.is_some() {
        let message = "must be absent: the rule has a mapping of its own";
        return Err(Problem::body("variableMapping", message));
    }
    Ok(Scope {
        target: rule.target,
        mapping: assignment.mapping.clone(),
        on_missing: on_missing.unwrap_or(rule.on_missing),
        rule: Some(rule),
    })
}

/// Requires a limit of the cost if there is a budget: calls of backtests are not counted in budgets.
async fn require_limit(app: &App, project: &ProjectId, plan: &BacktestPlan) -> Result<(), Problem> {
    if plan.max_usd.is_some() || !plan.version.grants.model {
        return Ok(());
    }
    let budgets = app.store.catalog.budgets(project).await?;
    let is_limited = budgets.iter().any(|budget| match budget.scope {
        BudgetScope::Rule => false,
        BudgetScope::Evaluator => budget.id == plan.evaluator.as_str(),
        BudgetScope::Project => true,
    });
    match is_limited {
        true => {
            let message = "is required: the project or the evaluator has a budget";
            Err(Problem::body("maxUsd", message))
        }
        false => Ok(()),
    }
}

async fn checked(
    app: &App,
    project: &ProjectId,
    input: &NewBacktest,
) -> Result<BacktestPlan, Problem> {
    let evaluator = evaluators::find(app, project, &input.evaluator_id).await?;
    let Scope { rule, target, mapping, on_missing } =
        scope(app, project, &evaluator, input).await?;
    backfills::check_max_items(input.max_items)?;
    let filter = WrittenFilter::parse(input.filter.0.clone(), target.filter_columns());
    let filter = filter.map_err(filter_problem)?;
    let from = input.from.ok_or_else(|| Problem::body("from", "is required"))?;
    let to = backfills::checked_end(app, from, input.to)?;
    let of_rule = rule.as_ref().map(|rule| rule.filter.sent()).unwrap_or_default();
    let sent = [of_rule, filter.sent()].concat();
    let version = evaluators::tested_version(app, project, &evaluator, input).await?;
    let used = mapping.as_deref().unwrap_or(&version.mapping);
    evaluators::check_mapping_for("variableMapping", &version, used, target)?;
    let tested = Evaluator { version: version.clone(), ..evaluator.clone() };
    let tested = std::slice::from_ref(&tested);
    backfills::check_max_usd(app, project, input.max_usd, tested).await?;
    let usd_per_target = target_means(app, project, &evaluator, &version).await?.cost;
    Ok(BacktestPlan {
        evaluator: evaluator.id,
        evaluator_name: evaluator.name,
        version,
        rule: rule.map(|rule| rule.id),
        target,
        from,
        to,
        filter: WrittenFilter::stored(sent, target.filter_columns()).0,
        mapping,
        on_missing,
        is_fresh: input.fresh == Some(true),
        max_items: input.max_items,
        max_usd: input.max_usd,
        n_in_range: None,
        usd_per_target,
    })
}

fn too_many_running() -> Problem {
    let message = format!(
        "the project has {MAX_RUNNING_BACKTESTS} running backtests, more may not run: pause or cancel one, or wait for its end"
    );
    Problem::new(Code::Conflict, message)
}

/// Means of a target by the last executions of the evaluator; unknown if the tested version uses other models than the newest
/// one.
async fn target_means(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    tested: &EvaluatorVersion,
) -> Result<ExecutionMeans, Problem> {
    let means_of = |basis, cost, latency_ms| ExecutionMeans { basis, cost, latency_ms };
    if !tested.grants.model {
        return Ok(means_of(EstimateBasis::Free, Some(0.0), None));
    }
    let latest = match tested.slots == evaluator.version.slots {
        true => app.store.ledger.latest_means(project, &evaluator.id).await?,
        false => None,
    };
    Ok(match latest {
        Some(means) => means_of(EstimateBasis::Executions, means.cost, Some(means.latency_ms)),
        None => means_of(EstimateBasis::Unknown, None, None),
    })
}

async fn estimate_backtest(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewBacktest>,
) -> Result<Answer<EstimateView>, Problem> {
    let project = &caller.project;
    let plan = Box::pin(checked(&app, project, &input)).await?;
    let evaluator = evaluators::find(&app, project, plan.evaluator.as_str()).await?;
    let means = target_means(&app, project, &evaluator, &plan.version).await?;
    let tested = Evaluator { version: plan.version.clone(), ..evaluator };
    let concurrency = concurrency(&app, project, &tested).await?;
    let _turn = app.trials.wait(project).await?;
    let read = async {
        let in_range = app.scheduler.targets_of_backtest(project, &plan).await?;
        let found = app.scheduler.estimate_backtest(project, &plan).await?;
        Ok::<_, Problem>((in_range, found))
    };
    let (in_range, found) = reading::limited(&app.web, project, read).await?;
    let part = ExaminedPart {
        n_examined: found.n_examined,
        is_whole: found.is_whole,
        reached_at: found.reached_at,
        from: plan.from,
        to: plan.to,
        n_in_range: in_range,
    };
    let factor = part.extrapolation();
    let scaled = |n: u64| (n as f64 * factor).round();
    let n_items = scaled(found.n_items);
    let n_items = plan.max_items.map_or(n_items, |max| n_items.min(max as f64));
    Ok(Answer(EstimateView {
        target_count: in_range,
        examined_count: found.n_examined,
        is_whole: found.is_whole,
        item_count: n_items as u64,
        unscored_count: scaled(found.n_unscored) as u64,
        refused_count: scaled(found.n_refused) as u64,
        cost_per_target_usd: means.cost,
        cost_usd: means.cost.map(|cost| cost * n_items),
        seconds: backfills::seconds(n_items, &means, concurrency),
        basis: means.basis,
    }))
}

async fn create_backtest(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewBacktest>,
) -> Result<Answer<View, 201>, Problem> {
    let project = &caller.project;
    let mut plan = Box::pin(checked(&app, project, &input)).await?;
    require_limit(&app, project, &plan).await?;
    let in_range = app.scheduler.targets_of_backtest(project, &plan);
    plan.n_in_range = reading::limited(&app.web, project, in_range).await?;
    let id = app.web.ids.uuid().to_string();
    audit::note("backtest", &id, None, None);
    if !app.store.ledger.create_backtest(project, &id, &plan, app.web.clock.now()).await? {
        return Err(too_many_running());
    }
    app.jobs.wake(BACKTEST_JOB);
    Ok(Answer(view(find(&app, project, &id).await?)))
}

async fn find(app: &App, project: &ProjectId, id: &str) -> Result<Backtest, Problem> {
    let found = app.store.ledger.backtest(project, id).await?;
    found.ok_or_else(|| Problem::not_found("backtest"))
}

async fn list_backtests(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<View>>, Problem> {
    let limit = params.int("limit", 1, 100, 50)?;
    let position = cursor::position(&params)?.map(ListPosition::after).unwrap_or_default();
    let page = app.store.ledger.backtests(&caller.project, &position, limit).await?;
    Ok(Answer(CursorList {
        data: page.items.into_iter().map(view).collect(),
        meta: cursor::meta(page.older.as_ref()),
    }))
}

async fn get_backtest(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    let project = &caller.project;
    let found = find(&app, project, &id).await?;
    let scores = app.store.backtest_scores(project, &id).await?;
    Ok(Answer(View { scores: Some(scores), ..view(found) }))
}

fn side(value: PairedValue) -> FlipSide {
    FlipSide { value: (&value.value).into(), comment: value.comment }
}

fn flip_view(flip: Flip) -> BacktestFlip {
    let pair = flip.pair;
    BacktestFlip {
        change: pair.change(),
        trace_id: pair.target.trace().cloned(),
        observation_id: pair.target.observation().cloned(),
        session_id: Target::session(&pair.target).cloned(),
        scored_observation_id: pair.observation,
        name: pair.name,
        live: side(pair.live),
        tested: side(pair.tested),
        model: pair.model,
        environment: pair.environment,
        prompt: pair.prompt,
    }
}

/// The position in a list of flips.
fn flip_position(params: &Params) -> Result<Option<FlipCursor>, Problem> {
    let Some(value) = cursor::decode(params)? else {
        return Ok(None);
    };
    let position = value[0].as_i64().zip(value[1].as_i64());
    let (rank, number) = position.ok_or_else(cursor::invalid_cursor)?;
    Ok(Some(FlipCursor { rank, number }))
}

async fn list_flips(
    State(app): State<App>,
    caller: Act,
    params: Params,
    Path(id): Path<String>,
) -> Result<Answer<CursorList<BacktestFlip>>, Problem> {
    let project = &caller.project;
    let limit = params.int("limit", 1, 100, 50)?;
    let after = flip_position(&params)?;
    find(&app, project, &id).await?;
    let mut flips = app.store.ledger.backtest_flips(project, &id, after, limit + 1).await?;
    let has_more = (limit as usize) < flips.len();
    flips.truncate(limit as usize);
    let last = flips.last().map(|flip| flip.cursor).filter(|_| has_more);
    let next = last.map(|last| cursor::encode(&json!([last.rank, last.number])));
    Ok(Answer(CursorList {
        data: flips.into_iter().map(flip_view).collect(),
        meta: CursorMeta { cursor: next, limit: None },
    }))
}

/// Changes the state of a backtest. A change that was made already is repeated without effect.
async fn change(
    app: &App,
    project: &ProjectId,
    id: &str,
    change: BackfillChange,
) -> Result<Answer<View>, Problem> {
    let now = app.web.clock.now();
    let found = app.store.ledger.change_backtest(project, id, change, now).await?;
    let found = found.ok_or_else(|| Problem::not_found("backtest"))?;
    if found.state.is_final() && change != BackfillChange::Cancel {
        let message = format!("the backtest is {} and cannot be changed", found.state);
        return Err(Problem::new(Code::Conflict, message));
    }
    if found.state == BackfillState::Paused && change == BackfillChange::Resume {
        return Err(too_many_running());
    }
    app.jobs.wake(BACKTEST_JOB);
    Ok(Answer(view(found)))
}

async fn pause_backtest(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    change(&app, &caller.project, &id, BackfillChange::Pause).await
}

async fn resume_backtest(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    change(&app, &caller.project, &id, BackfillChange::Resume).await
}

async fn cancel_backtest(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    change(&app, &caller.project, &id, BackfillChange::Cancel).await
}

/// The rules that use the newest version of an evaluator, by name.
async fn following(
    app: &App,
    project: &ProjectId,
    evaluator: &EvaluatorId,
) -> Result<Vec<FollowingRule>, Problem> {
    let catalog = &app.store.catalog;
    let mut found = Vec::new();
    for used in catalog.evaluator_uses(project, evaluator).await? {
        let Some(rule) = catalog.rule(project, &used.rule_id).await? else {
            continue;
        };
        let mut assignments = rule.assignments.iter();
        let assignment = assignments.find(|each| each.id == used.assignment_id);
        if assignment.is_some_and(|each| each.version == VersionPolicy::Latest) {
            found.push(FollowingRule { id: rule.id, name: rule.name, enabled: rule.enabled });
        }
    }
    found.sort_by(|a, b| (&a.name, a.id.as_str()).cmp(&(&b.name, b.id.as_str())));
    Ok(found)
}

async fn adopt_backtest(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<AdoptedBacktest>, Problem> {
    let project = &caller.project;
    let found = find(&app, project, &id).await?;
    if !matches!(found.state, BackfillState::Completed | BackfillState::Cancelled) {
        let message = format!(
            "the backtest is {}: it can be adopted when it is completed or cancelled",
            found.state
        );
        return Err(Problem::new(Code::Conflict, message));
    }
    let plan = found.plan;
    let evaluator = evaluators::find(&app, project, plan.evaluator.as_str()).await?;
    let version = evaluators::adopt(&app, project, &evaluator, &plan.version).await?;
    let now = app.web.clock.now();
    app.store.ledger.note_adopted((project, &id), version, now).await?;
    let rules = following(&app, project, &evaluator.id).await?;
    app.scheduler.wake();
    Ok(Answer(AdoptedBacktest { evaluator_id: evaluator.id, version, rules }))
}

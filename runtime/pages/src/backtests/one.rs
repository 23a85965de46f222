//! `GET P/backtests/{backtest}`: one backtest with its progress and results; `POST P/backtests/{backtest}/state` pauses,
//! resumes or cancels it, `POST P/backtests/{backtest}/adopt` adopts its version.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::{DatasetWrite, EvaluatorWrite, QueueWrite};
use perpend_domain::backfill::BackfillState;
use perpend_domain::backtest::{Backtest, TestedVersion};
use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::describe_condition;
use perpend_domain::list::Paging;
use perpend_executions::{Flip, FlipCursor};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, BacktestPage, JobProgressFragment, Section, Text, count, dollars, encode,
};
use serde::Deserialize;
use serde_json::json;

use super::results::{calls, flip_line, score_view};
use super::{BacktestPath, OPERATION, backtest_href, line};
use crate::jobs;
use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Flips on a page.
const N_FLIPS: u32 = 20;
/// Annotation queues to choose from.
const MAX_QUEUES: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BacktestParams {
    /// The position after which flips are listed: rank and number.
    flips: String,
}

async fn find(app: &App, viewer: &Viewer, path: &BacktestPath) -> Result<Backtest, Problem> {
    let found = app.store.ledger.backtest(&viewer.project, path.id()).await?;
    found.ok_or_else(|| Problem::not_found("backtest"))
}

fn completed_percent(found: &Backtest) -> Option<u32> {
    let share = found.examined_share().unwrap_or_default();
    (found.state == BackfillState::Running).then_some((share * 100.0) as u32)
}

fn progress(found: &Backtest) -> String {
    let counts = &found.counts;
    let examined = jobs::examined(counts.n_examined, found.plan.n_in_range);
    format!("{examined}, {} evaluated, {}", count(counts.n_items), dollars(counts.cost_usd))
}

fn counts(found: &Backtest) -> Vec<(&'static str, String)> {
    let counts = &found.counts;
    let all = [
        ("Examined targets", counts.n_examined),
        ("Targets evaluated", counts.n_items),
        ("Targets without a live score", counts.n_unscored),
        ("Targets that the filter refuses", counts.n_refused),
        ("Targets that are not complete", counts.n_left_out),
        ("Evaluated targets with scores", counts.n_completed),
        ("Skipped targets", counts.n_skipped),
        ("Failed targets", counts.n_failed),
        ("Compared pairs of scores", counts.n_pairs),
        ("Scores that only one side has", counts.n_unpaired),
    ];
    all.into_iter().map(|(label, n)| (label, count(n))).collect()
}

fn tested(found: &Backtest) -> Vec<(&'static str, Text)> {
    let version = TestedVersion::from(&found.plan.version);
    let mut facts = vec![
        ("Plug-in", Text::from(format!("{} {}", version.plugin, version.evaluator))),
        ("Configuration", Text::from(version.config.to_string())),
    ];
    if !version.models.is_empty() {
        facts.push(("Models", Text::from(version.models.join(", "))));
    }
    facts
}

fn read_position(text: &str) -> Option<FlipCursor> {
    let (rank, number) = text.split_once('-')?;
    Some(FlipCursor { rank: rank.parse().ok()?, number: number.parse().ok()? })
}

/// A page of flips, and the URL of the next one.
async fn flips(
    app: &App,
    viewer: &Viewer,
    found: &Backtest,
    after: &str,
) -> Result<(Vec<Flip>, Option<String>), Problem> {
    let after = read_position(after);
    let ledger = &app.store.ledger;
    let mut flips = ledger.backtest_flips(&viewer.project, &found.id, after, N_FLIPS + 1).await?;
    let has_more = (N_FLIPS as usize) < flips.len();
    flips.truncate(N_FLIPS as usize);
    let last = flips.last().map(|flip| flip.cursor).filter(|_| has_more);
    let href = backtest_href(&viewer.base(), &found.id);
    let next = last.map(|last| format!("{href}?flips={}-{}#flips", last.rank, last.number));
    Ok((flips, next))
}

/// Ids and names of the annotation queues to which the viewer may add items, newest first.
async fn queues(app: &App, viewer: &Viewer) -> Result<Vec<(String, Text)>, Problem> {
    if !viewer.may(QueueWrite) {
        return Ok(Vec::new());
    }
    let found =
        app.store.catalog.queues(&viewer.project, Paging { page: 1, limit: MAX_QUEUES }).await?;
    Ok(found.items.into_iter().map(|queue| (queue.id, Text::from(queue.name))).collect())
}

/// `GET P/backtests/{backtest}`
pub(crate) async fn backtest_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<BacktestPath>,
    Query(params): Query<BacktestParams>,
) -> Result<Response, Problem> {
    let found = find(&app, &viewer, &path).await?;
    let base = viewer.base();
    let may_write = viewer.may(EvaluatorWrite);
    let is_adoptable = matches!(found.state, BackfillState::Completed | BackfillState::Cancelled)
        && found.adopted_version.is_none()
        && 0 < found.counts.n_pairs;
    let plan = &found.plan;
    let conditions = plan.filter.sent().iter();
    let conditions = conditions.map(|condition| Text::from(describe_condition(condition)));
    let failures = found
        .failures
        .iter()
        .map(|each| (count(each.n), each.class.clone(), Text::from(each.message.as_str())));
    let scores = app.store.backtest_scores(&viewer.project, &found.id).await?;
    let (flips, next_flips) = flips(&app, &viewer, &found, &params.flips).await?;
    let id = encode(&found.id);
    let api = ApiRequest::new(&viewer.origin, &format!("{OPERATION}/{id}"));
    let view = BacktestPage {
        shell: viewer.shell(Section::Evaluators).with_api([api]),
        line: line(&base, &found),
        evaluator_href: format!("{base}/evaluators/{}", encode(plan.evaluator.as_str())),
        rule_href: plan.rule.as_ref().map(|id| format!("{base}/rules/{}", encode(id.as_str()))),
        tested: tested(&found),
        counts: counts(&found),
        limits: jobs::limits(plan.max_items, plan.max_usd),
        conditions: conditions.collect(),
        percent: completed_percent(&found),
        progress: progress(&found),
        progress_href: format!("{base}/_/backtests/{id}/progress"),
        href: backtest_href(&base, &found.id),
        changes: jobs::changes(&viewer, found.state),
        may_adopt: may_write && is_adoptable,
        adopted: found.adopted_version,
        failures: failures.collect(),
        scores: scores.into_iter().map(score_view).collect(),
        calls: calls(&found.counts),
        flips: flips.into_iter().map(|flip| flip_line(&base, flip)).collect(),
        next_flips,
        may_add_to_dataset: viewer.may(DatasetWrite) && plan.target != TargetKind::Session,
        queues: queues(&app, &viewer).await?,
    };
    page(StatusCode::OK, &view)
}

/// `GET P/_/backtests/{backtest}/progress`
pub(crate) async fn progress_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<BacktestPath>,
) -> Result<Response, Problem> {
    let found = find(&app, &viewer, &path).await?;
    let view = JobProgressFragment {
        noun: "backtest",
        href: backtest_href(&viewer.base(), &found.id),
        percent: completed_percent(&found),
        progress: progress(&found),
    };
    page(StatusCode::OK, &view)
}

/// `POST P/backtests/{backtest}/state`: `action` is `pause`, `resume` or `cancel`.
pub(crate) async fn change_state(
    State(app): State<App>,
    Path(path): Path<BacktestPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let operation = format!("{OPERATION}/{}", encode(path.id()));
    jobs::change_state(&app, form, ("backtest", operation)).await
}

/// `POST P/backtests/{backtest}/adopt`
pub(crate) async fn adopt(
    State(app): State<App>,
    Path(path): Path<BacktestPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let operation = format!("{OPERATION}/{}/adopt", encode(path.id()));
        let adopted = call(&app, viewer, (Method::POST, operation.as_str()), &json!({})).await?;
        let rules = adopted["rules"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&str> = rules.iter().filter_map(|rule| rule["name"].as_str()).collect();
        let used = match names.as_slice() {
            [] => "No rule uses the newest version.".to_owned(),
            names => format!("Rules that score with it: {}.", names.join(", ")),
        };
        let number = adopted["version"].as_u64().unwrap_or_default();
        Ok(SubmissionOutcome::new(format!("Version {number} is current. {used}")))
    };
    Box::pin(form.run_once(&app, act)).await
}

//! `GET P/backfills/{backfill}`: one backfill with its progress; `POST P/backfills/{backfill}/state` pauses, resumes or
//! cancels it.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::backfill::{Backfill, BackfillState};
use perpend_domain::filter::describe_condition;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, BackfillPage, JobProgressFragment, Section, Text, count, dollars, encode, plural,
};
use serde::Deserialize;

use super::{OPERATION, backfill_href, line};
use crate::jobs;
use crate::request::forms::SubmittedForm;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

#[derive(Debug, Deserialize)]
pub(crate) struct BackfillPath {
    backfill: String,
}

async fn find(app: &App, viewer: &Viewer, path: &BackfillPath) -> Result<Backfill, Problem> {
    let found = app.store.ledger.backfill(&viewer.project, &path.backfill).await?;
    found.ok_or_else(|| Problem::not_found("backfill"))
}

/// The completed percentage, if the backfill runs or has executions that have not ended.
fn completed_percent(found: &Backfill) -> Option<u32> {
    let counts = &found.counts;
    let is_running = found.state == BackfillState::Running;
    let is_ending = found.state.is_final() && 0 < counts.n_open();
    let ended = match counts.n_executions {
        0 => 1.0,
        n => counts.n_ended() as f64 / n as f64,
    };
    let share = found.examined_share().unwrap_or_default() * ended;
    (is_running || is_ending).then_some((share * 100.0) as u32)
}

fn progress(found: &Backfill) -> String {
    let counts = &found.counts;
    let examined = jobs::examined(counts.n_examined, found.plan.n_in_range);
    format!(
        "{examined}, {} evaluated, {} open, {}",
        count(counts.n_items),
        plural(counts.n_open(), "execution"),
        dollars(counts.cost_usd)
    )
}

fn counts(found: &Backfill) -> Vec<(&'static str, String)> {
    let counts = &found.counts;
    let all = [
        ("Examined targets", counts.n_examined),
        ("Targets evaluated", counts.n_items),
        ("Targets with a result or an open execution", counts.n_present),
        ("Targets excluded by filter or sampling", counts.n_refused),
        ("Targets that are not complete, or whose budget is exhausted", counts.n_left_out),
        ("Executions", counts.n_executions),
        ("Executions that wait or run", counts.n_open()),
        ("Executions with scores", counts.n_completed),
        ("Skipped executions", counts.n_skipped),
        ("Failed executions", counts.n_failed),
        ("Cancelled executions", counts.n_cancelled),
    ];
    all.into_iter().map(|(label, n)| (label, count(n))).collect()
}

/// `GET P/backfills/{backfill}`
pub(crate) async fn backfill_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<BackfillPath>,
) -> Result<Response, Problem> {
    let found = find(&app, &viewer, &path).await?;
    let base = viewer.base();
    let rule = found.plan.rule.as_str();
    let conditions = found.plan.filter.sent().iter();
    let conditions = conditions.map(|condition| Text::from(describe_condition(condition)));
    let id = encode(&found.id);
    let api = ApiRequest::new(&viewer.origin, &format!("{OPERATION}/{id}"));
    let failed = format!("{base}/executions?state=failed&rule={}", encode(rule));
    let view = BackfillPage {
        shell: viewer.shell(Section::Rules).with_api([api]),
        line: line(&base, &found),
        rule_href: format!("{base}/rules/{}", encode(rule)),
        counts: counts(&found),
        limits: jobs::limits(found.plan.max_items, found.plan.max_usd),
        conditions: conditions.collect(),
        percent: completed_percent(&found),
        progress: progress(&found),
        progress_href: format!("{base}/_/backfills/{id}/progress"),
        href: backfill_href(&base, &found.id),
        changes: jobs::changes(&viewer, found.state),
        failed_href: (0 < found.counts.n_failed).then_some(failed),
    };
    page(StatusCode::OK, &view)
}

/// `GET P/_/backfills/{backfill}/progress`
pub(crate) async fn progress_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<BackfillPath>,
) -> Result<Response, Problem> {
    let found = find(&app, &viewer, &path).await?;
    let view = JobProgressFragment {
        noun: "backfill",
        href: backfill_href(&viewer.base(), &found.id),
        percent: completed_percent(&found),
        progress: progress(&found),
    };
    page(StatusCode::OK, &view)
}

/// `POST P/backfills/{backfill}/state`: `action` is `pause`, `resume` or `cancel`.
pub(crate) async fn change_state(
    State(app): State<App>,
    Path(path): Path<BackfillPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let operation = format!("{OPERATION}/{}", encode(&path.backfill));
    jobs::change_state(&app, form, ("backfill", operation)).await
}

//! `GET P/traces/{trace}?v=thread` and `?v=log`: a trace as a conversation, and as a log.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::outline::Outline;
use perpend_ui::{CALLS, Call, LOG, LogInput, LogPage, Section, ThreadInput, ThreadPage};
use perpend_web::problem::Problem;

use crate::answer::page;
use crate::lines::beginning;
use crate::look::Look;
use crate::read::{self, unknown};
use crate::state::App;
use crate::viewer::Viewer;

/// Calls before a window that are read to know what was said before it.
const BEFORE: usize = 4;

/// The conversation: generations, and other steps that failed, by their start.
pub(super) async fn thread(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    id: TraceId,
    look: Look,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let is_generation = |row: usize| rows[row].kind == ObservationKind::Generation;
    let all = by_start(outline, |row| {
        is_generation(row) || rows[row].level == Level::Error
    });
    let at = look.at.unwrap_or_default().min(all.len().saturating_sub(1));
    let first = at.saturating_sub(BEFORE);
    let window = all
        .get(first..all.len().min(at + CALLS))
        .unwrap_or_default();
    let steps = steps(app, viewer, outline, &id, window).await?;
    let is_before =
        |(row, _): &&(usize, Observation)| window.iter().take(at - first).any(|own| own == row);
    let n_before = steps.iter().filter(is_before).count();
    let calls = steps.into_iter().map(|(row, step)| Call {
        depth: agents_above(outline, row),
        is_generation: is_generation(row),
        step,
    });
    let view = ThreadPage::new(ThreadInput {
        shell: viewer.shell(Section::Traces),
        calls: calls.collect(),
        n_before,
        at,
        n_calls: all.len(),
        looking: look.looking,
        faults: look.faults,
        trace: read::narrow(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown)?,
    });
    page(StatusCode::OK, &view)
}

/// All steps by their start.
pub(super) async fn log(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    id: TraceId,
    look: Look,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let min = look.looking.min.unwrap_or(Level::Debug);
    let all = by_start(outline, |row| min <= rows[row].level);
    let at = look.at.unwrap_or_default().min(all.len().saturating_sub(1));
    let window = all.get(at..all.len().min(at + LOG)).unwrap_or_default();
    let steps = steps(app, viewer, outline, &id, window).await?;
    let steps = steps.into_iter().map(|(_, mut step)| {
        let content = std::mem::take(&mut step.content);
        let begins =
            [content.input, content.output].map(|value| value.as_ref().and_then(beginning));
        (step, begins)
    });
    let view = LogPage::new(LogInput {
        shell: viewer.shell(Section::Traces),
        steps: steps.collect(),
        start: outline.period().unwrap_or_default().0,
        at,
        n_steps: all.len(),
        n_hidden: rows.len() - all.len(),
        looking: look.looking,
        faults: look.faults,
        trace: read::narrow(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown)?,
    });
    page(StatusCode::OK, &view)
}

/// The rows that are asked for, by their start.
fn by_start(outline: &Outline, is_one: impl Fn(usize) -> bool) -> Vec<usize> {
    let rows = outline.rows();
    let mut found: Vec<usize> = (0..rows.len()).filter(|row| is_one(*row)).collect();
    // Those that begin together stand as in the tree.
    found.sort_by_key(|row| rows[*row].start);
    found
}

/// These rows with their content, in the same order. One that is gone by now is left out.
async fn steps(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    trace: &TraceId,
    rows: &[usize],
) -> Result<Vec<(usize, Observation)>, Problem> {
    let ids = rows
        .iter()
        .map(|row| ObservationId::new(outline.rows()[*row].id()));
    let keys: Vec<(TraceId, ObservationId)> = ids
        .filter_map(|id| Some((trace.clone(), id.ok()?)))
        .collect();
    let telemetry = &app.store.telemetry;
    let found = telemetry
        .target_observations(&viewer.project, &keys, true)
        .await?;
    let mut found: HashMap<String, Observation> = found
        .into_iter()
        .map(|step| (step.id.to_string(), step))
        .collect();
    let with = |row: &usize| Some((*row, found.remove(outline.rows()[*row].id())?));
    Ok(rows.iter().filter_map(with).collect())
}

/// How many agents a row is inside of; the outermost does not count.
fn agents_above(outline: &Outline, row: usize) -> u32 {
    let rows = outline.rows();
    let mut n = 0_u32;
    let mut above = rows[row].parent;
    while let Some(parent) = above {
        let parent = &rows[parent as usize];
        n += u32::from(parent.kind == ObservationKind::Agent);
        above = parent.parent;
    }
    n.saturating_sub(1)
}

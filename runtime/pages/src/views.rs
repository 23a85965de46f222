//! `GET P/traces/{trace}?v=thread` and `?v=log`: a trace as a conversation, and as a log.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_outline::Outline;
use perpend_ui::{
    CALLS, Call, HeadInput, LOG, LogInput, LogPage, Section, ThreadInput, ThreadPage,
};
use perpend_web::problem::Problem;

use crate::answer::{laid_out, page};
use crate::lines::beginning;
use crate::look::Look;
use crate::read::{self, unknown};
use crate::state::App;
use crate::viewer::Viewer;

/// Calls before a window that are read to know what was said before it.
const BEFORE: usize = 4;
/// Steps whose contents are read together.
const AT_ONCE: usize = 8;
/// Contents that a thread takes apart; the calls behind them are led to.
const MAX_BYTES: usize = 16 << 20;

/// The conversation: generations, and other steps that failed, by their start.
pub(super) async fn thread(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    (id, head): (TraceId, HeadInput),
    look: Look,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let is_generation = |row: usize| rows[row].kind == ObservationKind::Generation;
    let is_told = |row: usize| is_generation(row) || rows[row].level == Level::Error;
    let min = look.looking.min.unwrap_or(Level::Debug);
    let all = by_start(outline, |row| is_told(row) && min <= rows[row].level);
    let n_hidden = (0..rows.len()).filter(|row| is_told(*row)).count() - all.len();
    let at = look.at.unwrap_or_default().min(all.len().saturating_sub(1));
    let first = at.saturating_sub(BEFORE);
    let window = all
        .get(first..all.len().min(at + CALLS))
        .unwrap_or_default();
    let mut n_left = MAX_BYTES;
    let calls = steps(app, viewer, (outline, &id), window, |row, mut step| {
        let content = [&step.content.input, &step.content.output];
        let lengths = content
            .into_iter()
            .flatten()
            .map(|value| value.as_str().len());
        let n_bytes = lengths.sum();
        let is_large = n_left < n_bytes;
        match is_large {
            true => step.content = Content::default(),
            false => n_left -= n_bytes,
        }
        let call = Call {
            depth: agents_above(outline, row),
            is_generation: is_generation(row),
            is_large,
            step,
        };
        (row, call)
    });
    let calls = calls.await?;
    let before = window.get(..at - first).unwrap_or_default();
    let n_before = calls.iter().filter(|(row, _)| before.contains(row)).count();
    let input = ThreadInput {
        shell: viewer.shell(Section::Traces),
        calls: calls.into_iter().map(|(_, call)| call).collect(),
        n_before,
        at,
        n_calls: all.len(),
        n_hidden,
        kept: look.kept(),
        looking: look.looking,
        head,
        trace: read::narrow(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown)?,
    };
    let view = laid_out(move || ThreadPage::new(input)).await?;
    page(StatusCode::OK, &view)
}

/// All steps by their start.
pub(super) async fn log(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    (id, head): (TraceId, HeadInput),
    look: Look,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let min = look.looking.min.unwrap_or(Level::Debug);
    let all = by_start(outline, |row| min <= rows[row].level);
    let at = look.at.unwrap_or_default().min(all.len().saturating_sub(1));
    let window = all.get(at..all.len().min(at + LOG)).unwrap_or_default();
    let steps = steps(app, viewer, (outline, &id), window, |_, mut step| {
        let content = std::mem::take(&mut step.content);
        let begins = [content.input, content.output];
        (step, begins.map(|value| value.as_ref().and_then(beginning)))
    });
    let view = LogPage::new(LogInput {
        shell: viewer.shell(Section::Traces),
        steps: steps.await?,
        start: outline.period().unwrap_or_default().0,
        at,
        n_steps: all.len(),
        n_hidden: rows.len() - all.len(),
        kept: look.kept(),
        looking: look.looking,
        head,
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

/// What is made of these rows with their content, in the same order. Contents may be large: a few are read at a time. A
/// step that is gone by now is left out.
async fn steps<T>(
    app: &App,
    viewer: &Viewer,
    (outline, trace): (&Outline, &TraceId),
    rows: &[usize],
    mut made: impl FnMut(usize, Observation) -> T,
) -> Result<Vec<T>, Problem> {
    let id = |row: usize| outline.rows()[row].id();
    let mut all = Vec::with_capacity(rows.len());
    for some in rows.chunks(AT_ONCE) {
        let ids = some.iter().map(|row| ObservationId::new(id(*row)));
        let keys = ids.filter_map(|id| Some((trace.clone(), id.ok()?)));
        let keys: Vec<(TraceId, ObservationId)> = keys.collect();
        let telemetry = &app.store.telemetry;
        let found = telemetry.target_observations(&viewer.project, &keys, true);
        let found = found.await?.into_iter();
        let mut found: HashMap<String, Observation> =
            found.map(|step| (step.id.to_string(), step)).collect();
        for row in some {
            all.extend(found.remove(id(*row)).map(|step| made(*row, step)));
        }
    }
    Ok(all)
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

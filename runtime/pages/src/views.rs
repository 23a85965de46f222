//! `GET P/traces/{trace}?v=thread` and `?v=log`: a trace as a conversation, and as a log.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_outline::Outline;
use perpend_ui::{
    CALLS, Call, HeadInput, LOG, LogInput, LogPage, Section, ThreadInput, ThreadPage, Within,
};
use perpend_web::problem::Problem;

use crate::answer::{laid_out, page};
use crate::api;
use crate::lines::beginning;
use crate::look::Look;
use crate::read::{self, unknown};
use crate::state::App;
use crate::viewer::Viewer;

/// Generations before a window that are read to know what was said before it, and steps among which they are looked for.
const BEFORE: usize = 4;
const AMONG: usize = 24;
/// Steps whose contents are read together.
const AT_ONCE: usize = 8;
/// Contents that a thread takes apart; the calls behind them are led to.
const MAX_BYTES: usize = 16 << 20;

/// The conversation: generations, tool calls, and other steps that failed, by their start.
pub(super) async fn thread(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    (id, head): (TraceId, HeadInput),
    look: Look,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let is_generation = |row: usize| rows[row].kind == ObservationKind::Generation;
    let is_call = |row: usize| is_generation(row) || rows[row].kind == ObservationKind::Tool;
    let is_told = |row: usize| is_call(row) || rows[row].level == Level::Error;
    let all = by_start(outline, |row| is_told(row) && look.asks_for(&rows[row]));
    let n_hidden = (0..rows.len()).filter(|row| is_told(*row)).count() - all.len();
    let at = look.at.unwrap_or_default().min(all.len().saturating_sub(1));
    let earlier = all.get(..at).unwrap_or_default().iter().rev().take(AMONG);
    let generations = earlier.enumerate().filter(|(_, row)| is_generation(**row));
    let n_earlier = generations.map(|(n, _)| n + 1).nth(BEFORE - 1);
    let first = at.saturating_sub(n_earlier.unwrap_or(AMONG));
    let window = all
        .get(first..all.len().min(at + CALLS))
        .unwrap_or_default();
    let before = window.get(..at - first).unwrap_or_default();
    // What is only compared with takes nothing away from what is shown.
    let mut left = [MAX_BYTES / 4, MAX_BYTES];
    let calls = steps(app, viewer, (outline, &id), window, |row, mut step| {
        let content = [&step.content.input, &step.content.output];
        let lengths = content
            .into_iter()
            .flatten()
            .map(|value| value.as_str().len());
        let n_bytes = lengths.sum();
        let n_left = &mut left[usize::from(!before.contains(&row))];
        let is_large = *n_left < n_bytes;
        match is_large {
            true => step.content = Content::default(),
            false => *n_left -= n_bytes,
        }
        let (depth, within) = agents_around(outline, row);
        let call = Call {
            depth,
            within,
            is_generation: is_generation(row),
            is_large,
            step,
        };
        (row, call)
    });
    let calls = calls.await?;
    let n_before = calls.iter().filter(|(row, _)| before.contains(row)).count();
    let input = ThreadInput {
        shell: viewer
            .shell(Section::Traces)
            .with_api(api::trace(viewer, &id)),
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
    let all = by_start(outline, |row| look.asks_for(&rows[row]));
    let at = look.at.unwrap_or_default().min(all.len().saturating_sub(1));
    let window = all.get(at..all.len().min(at + LOG)).unwrap_or_default();
    let steps = steps(app, viewer, (outline, &id), window, |_, mut step| {
        let content = std::mem::take(&mut step.content);
        let begins = [content.input, content.output];
        (step, begins.map(|value| value.as_ref().and_then(beginning)))
    });
    let view = LogPage::new(LogInput {
        shell: viewer
            .shell(Section::Traces)
            .with_api(api::trace(viewer, &id)),
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

/// How many agents and chains that run in an agent a row is inside of, and the innermost of them.
fn agents_around(outline: &Outline, row: usize) -> (u32, Option<Within>) {
    let rows = outline.rows();
    let mut above = rows[row].parent;
    let mut found: Vec<usize> = Vec::new();
    // Those around the outermost agent count for nothing.
    let mut n_found = 0;
    while let Some(place) = above {
        let parent = &rows[place as usize];
        match parent.kind {
            ObservationKind::Agent => {
                n_found = found.len();
                found.push(place as usize);
            }
            ObservationKind::Chain => found.push(place as usize),
            _ => {}
        }
        above = parent.parent;
    }
    found.truncate(n_found);
    let within = found.first().map(|place| {
        let row = &rows[*place];
        Within {
            id: row.id().to_owned(),
            kind: row.kind,
            name: outline.name(row).to_owned(),
        }
    });
    (u32::try_from(found.len()).unwrap_or(u32::MAX), within)
}

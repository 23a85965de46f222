//! `GET P/traces/{trace}?v=thread` and `?v=log`: a trace as a conversation, and as a log.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::iter::successors;

use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_domain::outline::Outline;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    CALLS_PER_PAGE, Call, EnclosingAgent, HeadInput, LOG_PAGE_SIZE, LogInput, LogPage, Section,
    ThreadInput, ThreadPage,
};

use crate::read::{self, unknown_trace};
use crate::reference;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::params::TraceParams;
use crate::traces::lines::beginning;

/// Generations before a window that are read to know what was said before it, and steps among which they are looked for.
const BEFORE: usize = 4;
const AMONG: usize = 24;
/// Generations farther back that messages are compared with: among how many they are looked for, how many are read, and
/// bytes of their contents. Which of them a call repeats is not known before they are read, so the newest of each agent
/// come first: it repeats what those before it said.
const LOOKED_AT: usize = 2_000;
const COMPARED: usize = 400;
const COMPARED_BYTES: usize = 4 << 20;
/// Steps around a generation that tell its agent from others.
const LEVELS: usize = 32;
/// Steps whose contents are read together.
const AT_ONCE: usize = 8;
/// Contents that a thread takes apart; the calls behind them are led to.
const MAX_BYTES: usize = 16 << 20;

/// The conversation: generations, tool calls, and other steps that failed, by their start.
pub(crate) async fn thread(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    (id, head): (TraceId, HeadInput),
    params: TraceParams,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let is_generation = |row: usize| rows[row].kind == ObservationKind::Generation;
    let is_call = |row: usize| is_generation(row) || rows[row].kind == ObservationKind::Tool;
    let is_told = |row: usize| is_call(row) || rows[row].level == Level::Error;
    let all = by_start(outline, |row| is_told(row) && params.asks_for(&rows[row]));
    let n_hidden = (0..rows.len()).filter(|row| is_told(*row)).count() - all.len();
    let at = first(&params, outline, &all);
    let earlier = all.get(..at).unwrap_or_default().iter().rev().take(AMONG);
    let generations = earlier.enumerate().filter(|(_, row)| is_generation(**row));
    let n_earlier = generations.map(|(n, _)| n + 1).nth(BEFORE - 1);
    let first = at.saturating_sub(n_earlier.unwrap_or(AMONG));
    let window = all.get(first..all.len().min(at + CALLS_PER_PAGE)).unwrap_or_default();
    let before = window.get(..at - first).unwrap_or_default();
    // What is only compared with takes nothing away from what is shown.
    let mut left = [MAX_BYTES / 4, MAX_BYTES];
    let calls = steps(app, viewer, (outline, &id), window, |row, mut step| {
        let n_bytes = n_bytes(&step.content);
        let n_left = &mut left[usize::from(!before.contains(&row))];
        let is_large = *n_left < n_bytes;
        match is_large {
            true => step.content = Content::default(),
            false => *n_left -= n_bytes,
        }
        let (depth, within) = agents_around(outline, row);
        let call = Call {
            depth,
            enclosing_agent: within,
            is_generation: is_generation(row),
            is_large,
            observation: step,
        };
        (row, call)
    });
    let calls = calls.await?;
    let earlier = all.get(..first).unwrap_or_default().iter().copied();
    let earlier: Vec<usize> = earlier.filter(|row| is_generation(*row)).collect();
    let history = history(app, viewer, (outline, &id), &earlier).await?;
    let n_before = calls.iter().filter(|(row, _)| before.contains(row)).count();
    let input = ThreadInput {
        shell: viewer
            .shell(Section::Traces)
            .with_api(reference::equivalent_requests::trace(viewer, &id)),
        n_unread: earlier.len().saturating_sub(history.len()),
        history,
        calls: calls.into_iter().map(|(_, call)| call).collect(),
        n_before,
        at,
        n_calls: all.len(),
        n_hidden,
        row_state: params.kept(),
        view_params: params.looking,
        head,
        trace: read::trace_without_content(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown_trace)?,
    };
    let view = on_blocking_thread(move || ThreadPage::new(input)).await?;
    page(StatusCode::OK, &view)
}

/// Generations that stand before a window and say what was said before it, as many as are read, by their start.
async fn history(
    app: &App,
    viewer: &Viewer,
    (outline, id): (&Outline, &TraceId),
    earlier: &[usize],
) -> Result<Vec<Observation>, Problem> {
    let mut read: Vec<(usize, Observation)> = Vec::new();
    let mut n_read = 0;
    for some in newest_of_each(outline, earlier).chunks(AT_ONCE) {
        if COMPARED_BYTES <= n_read {
            break;
        }
        let found = steps(app, viewer, (outline, id), some, |row, step| (row, step)).await?;
        let lengths = found.iter().map(|(_, step)| n_bytes(&step.content));
        n_read += lengths.sum::<usize>();
        read.extend(found);
    }
    read.sort_by_key(|(row, _)| (outline.rows()[*row].start, *row));
    Ok(read.into_iter().map(|(_, step)| step).collect())
}

/// The newest generation of each agent, then the second newest, and so on.
fn newest_of_each(outline: &Outline, earlier: &[usize]) -> Vec<usize> {
    let mut n_of: HashMap<u64, usize> = HashMap::new();
    let newest = earlier.iter().rev().take(LOOKED_AT);
    let numbered = newest.map(|row| {
        let number = n_of.entry(agent(outline, *row)).or_default();
        *number += 1;
        (*number, *row)
    });
    let mut numbered: Vec<(usize, usize)> = numbered.collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.truncate(COMPARED);
    numbered.into_iter().map(|(_, row)| row).collect()
}

/// Equal for the generations of one agent: their names and those of the steps around them are the same. Instrumentations
/// that start an agent anew for each of its calls give it another id, and the same name.
fn agent(outline: &Outline, row: usize) -> u64 {
    let rows = outline.rows();
    let above = successors(Some(row), |row| rows[*row].parent.map(|row| row as usize));
    let mut hasher = DefaultHasher::new();
    above.take(LEVELS).for_each(|row| outline.name(&rows[row]).hash(&mut hasher));
    hasher.finish()
}

fn n_bytes(content: &Content) -> usize {
    let values = [&content.input, &content.output].into_iter().flatten();
    values.map(|value| value.as_str().len()).sum()
}

/// All steps by their start.
pub(crate) async fn log(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    (id, head): (TraceId, HeadInput),
    params: TraceParams,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let all = by_start(outline, |row| params.asks_for(&rows[row]));
    let at = first(&params, outline, &all);
    let window = all.get(at..all.len().min(at + LOG_PAGE_SIZE)).unwrap_or_default();
    let steps = steps(app, viewer, (outline, &id), window, |_, mut step| {
        let content = std::mem::take(&mut step.content);
        let begins = [content.input, content.output];
        (step, begins.map(|value| value.as_ref().and_then(beginning)))
    });
    let view = LogPage::new(LogInput {
        shell: viewer
            .shell(Section::Traces)
            .with_api(reference::equivalent_requests::trace(viewer, &id)),
        observations: steps.await?,
        start: outline.period().unwrap_or_default().0,
        at,
        n_observations: all.len(),
        n_hidden: rows.len() - all.len(),
        row_state: params.kept(),
        view_params: params.looking,
        head,
        trace: read::trace_without_content(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown_trace)?,
    });
    page(StatusCode::OK, &view)
}

/// The place of the first of these rows that is shown. In a search it is that of the selected step: a hit is led to so.
fn first(params: &TraceParams, outline: &Outline, all: &[usize]) -> usize {
    let step = params.looking.find.as_ref().and(params.observation.as_ref());
    let row = step.and_then(|step| outline.find(step.as_str()));
    let place = row.and_then(|row| all.iter().position(|one| *one == row));
    let at = params.at.or(place).unwrap_or_default();
    at.min(all.len().saturating_sub(1))
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
fn agents_around(outline: &Outline, row: usize) -> (u32, Option<EnclosingAgent>) {
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
        EnclosingAgent {
            id: row.id().to_owned(),
            kind: row.kind,
            name: outline.name(row).to_owned(),
        }
    });
    (u32::try_from(found.len()).unwrap_or(u32::MAX), within)
}

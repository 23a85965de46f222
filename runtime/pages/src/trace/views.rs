//! `GET P/traces/{trace}?v=thread` and `?v=log`: the conversation and the log of a trace.

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

/// Generations before the window that are read for messages already shown, and rows searched for them.
const CONTEXT_GENERATIONS: usize = 4;
const CONTEXT_ROWS: usize = 24;
/// Earlier generations that messages are compared with: rows searched, generations read, and bytes of their contents. The
/// newest generation of each agent is read first, because it repeats the messages of the earlier ones.
const HISTORY_ROWS: usize = 2_000;
const HISTORY_GENERATIONS: usize = 400;
const HISTORY_BYTES: usize = 4 << 20;
/// Ancestors of a generation whose names identify its agent.
const AGENT_LEVELS: usize = 32;
/// Observations whose contents are read per query.
const BATCH: usize = 8;
/// Bytes of contents shown in a thread; calls beyond are linked.
const MAX_BYTES: usize = 16 << 20;

/// The conversation: generations, tool calls and other failed observations, by start time.
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
    let is_shown = |row: usize| is_call(row) || rows[row].level == Level::Error;
    let all = by_start(outline, |row| is_shown(row) && params.includes(&rows[row]));
    let n_hidden = (0..rows.len()).filter(|row| is_shown(*row)).count() - all.len();
    let at = first_index(&params, outline, &all);
    let earlier = all.get(..at).unwrap_or_default().iter().rev().take(CONTEXT_ROWS);
    let generations = earlier.enumerate().filter(|(_, row)| is_generation(**row));
    let n_earlier = generations.map(|(n, _)| n + 1).nth(CONTEXT_GENERATIONS - 1);
    let first = at.saturating_sub(n_earlier.unwrap_or(CONTEXT_ROWS));
    let window = all.get(first..all.len().min(at + CALLS_PER_PAGE)).unwrap_or_default();
    let before = window.get(..at - first).unwrap_or_default();
    // Context and shown calls have separate limits.
    let mut left = [MAX_BYTES / 4, MAX_BYTES];
    let calls = observations(app, viewer, (outline, &id), window, |row, mut observation| {
        let n_bytes = n_bytes(&observation.content);
        let n_left = &mut left[usize::from(!before.contains(&row))];
        let is_large = *n_left < n_bytes;
        match is_large {
            true => observation.content = Content::default(),
            false => *n_left -= n_bytes,
        }
        let (depth, within) = enclosing_agents(outline, row);
        let call = Call {
            depth,
            enclosing_agent: within,
            is_generation: is_generation(row),
            is_large,
            observation,
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
        view_params: params.view_params,
        head,
        trace: read::trace_without_content(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown_trace)?,
    };
    let view = on_blocking_thread(move || ThreadPage::new(input)).await?;
    page(StatusCode::OK, &view)
}

/// Generations before the window with the messages already exchanged, by start time.
async fn history(
    app: &App,
    viewer: &Viewer,
    (outline, id): (&Outline, &TraceId),
    earlier: &[usize],
) -> Result<Vec<Observation>, Problem> {
    let mut read: Vec<(usize, Observation)> = Vec::new();
    let mut n_read = 0;
    for some in newest_of_each(outline, earlier).chunks(BATCH) {
        if HISTORY_BYTES <= n_read {
            break;
        }
        let found =
            observations(app, viewer, (outline, id), some, |row, observation| (row, observation))
                .await?;
        let lengths = found.iter().map(|(_, observation)| n_bytes(&observation.content));
        n_read += lengths.sum::<usize>();
        read.extend(found);
    }
    read.sort_by_key(|(row, _)| (outline.rows()[*row].start, *row));
    Ok(read.into_iter().map(|(_, observation)| observation).collect())
}

/// The newest generation of each agent, then the second newest of each, and so on.
fn newest_of_each(outline: &Outline, earlier: &[usize]) -> Vec<usize> {
    let mut n_of: HashMap<u64, usize> = HashMap::new();
    let newest = earlier.iter().rev().take(HISTORY_ROWS);
    let numbered = newest.map(|row| {
        let number = n_of.entry(agent_key(outline, *row)).or_default();
        *number += 1;
        (*number, *row)
    });
    let mut numbered: Vec<(usize, usize)> = numbered.collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.truncate(HISTORY_GENERATIONS);
    numbered.into_iter().map(|(_, row)| row).collect()
}

/// Identifies the agent of a generation by the names of the generation and its ancestors. Ids do not identify it, because
/// some instrumentations start a new agent span for each call.
fn agent_key(outline: &Outline, row: usize) -> u64 {
    let rows = outline.rows();
    let above = successors(Some(row), |row| rows[*row].parent.map(|row| row as usize));
    let mut hasher = DefaultHasher::new();
    above.take(AGENT_LEVELS).for_each(|row| outline.name(&rows[row]).hash(&mut hasher));
    hasher.finish()
}

fn n_bytes(content: &Content) -> usize {
    let values = [&content.input, &content.output].into_iter().flatten();
    values.map(|value| value.as_str().len()).sum()
}

/// The log: all observations by start time.
pub(crate) async fn log(
    app: &App,
    viewer: &Viewer,
    outline: &Outline,
    (id, head): (TraceId, HeadInput),
    params: TraceParams,
) -> Result<Response, Problem> {
    let rows = outline.rows();
    let all = by_start(outline, |row| params.includes(&rows[row]));
    let at = first_index(&params, outline, &all);
    let window = all.get(at..all.len().min(at + LOG_PAGE_SIZE)).unwrap_or_default();
    let listed = observations(app, viewer, (outline, &id), window, |_, mut observation| {
        let content = std::mem::take(&mut observation.content);
        let begins = [content.input, content.output];
        (observation, begins.map(|value| value.as_ref().and_then(beginning)))
    });
    let view = LogPage::new(LogInput {
        shell: viewer
            .shell(Section::Traces)
            .with_api(reference::equivalent_requests::trace(viewer, &id)),
        observations: listed.await?,
        start: outline.period().unwrap_or_default().0,
        at,
        n_observations: all.len(),
        n_hidden: rows.len() - all.len(),
        row_state: params.kept(),
        view_params: params.view_params,
        head,
        trace: read::trace_without_content(app, &viewer.project, &id)
            .await?
            .ok_or_else(unknown_trace)?,
    });
    page(StatusCode::OK, &view)
}

/// Index of the first shown row. With a search, it is that of the selected observation, which a hit links to.
fn first_index(params: &TraceParams, outline: &Outline, all: &[usize]) -> usize {
    let observation = params.view_params.find.as_ref().and(params.observation.as_ref());
    let row = observation.and_then(|observation| outline.find(observation.as_str()));
    let place = row.and_then(|row| all.iter().position(|one| *one == row));
    let at = params.at.or(place).unwrap_or_default();
    at.min(all.len().saturating_sub(1))
}

/// The matching rows by start time.
fn by_start(outline: &Outline, is_one: impl Fn(usize) -> bool) -> Vec<usize> {
    let rows = outline.rows();
    let mut found: Vec<usize> = (0..rows.len()).filter(|row| is_one(*row)).collect();
    // A stable sort keeps rows with the same start in the order of the tree.
    found.sort_by_key(|row| rows[*row].start);
    found
}

/// Maps the observations of these rows, with content, in the same order. Contents may be large, so they are read in batches.
/// Observations deleted in the meantime are omitted.
async fn observations<T>(
    app: &App,
    viewer: &Viewer,
    (outline, trace): (&Outline, &TraceId),
    rows: &[usize],
    mut made: impl FnMut(usize, Observation) -> T,
) -> Result<Vec<T>, Problem> {
    let id = |row: usize| outline.rows()[row].id();
    let mut all = Vec::with_capacity(rows.len());
    for some in rows.chunks(BATCH) {
        let ids = some.iter().map(|row| ObservationId::new(id(*row)));
        let keys = ids.filter_map(|id| Some((trace.clone(), id.ok()?)));
        let keys: Vec<(TraceId, ObservationId)> = keys.collect();
        let telemetry = &app.store.telemetry;
        let found = telemetry.target_observations(&viewer.project, &keys, true);
        let found = found.await?.into_iter();
        let mut found: HashMap<String, Observation> =
            found.map(|observation| (observation.id.to_string(), observation)).collect();
        for row in some {
            all.extend(found.remove(id(*row)).map(|observation| made(*row, observation)));
        }
    }
    Ok(all)
}

/// Number of agents and chains around a row, from the outermost agent on, and the innermost of them.
fn enclosing_agents(outline: &Outline, row: usize) -> (u32, Option<EnclosingAgent>) {
    let rows = outline.rows();
    let mut above = rows[row].parent;
    let mut found: Vec<usize> = Vec::new();
    // Chains around the outermost agent do not count.
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

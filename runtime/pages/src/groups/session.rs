//! `GET P/sessions/{session}`: a session turn by turn.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::evaluation::Target;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, TextOp, find};
use perpend_domain::ids::{SessionId, TraceId};
use perpend_domain::telemetry::{GroupKey, GroupQuery, ToolObservations};
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::apart;
use perpend_telemetry::Bounds;
use perpend_views::{
    GroupLine, Moment, PageLinks, Section, SessionPage, TURNS_PER_PAGE, Text, Turn, TurnHits,
    TurnInput, decode_segment, href, with_query,
};
use serde::Deserialize;

use crate::read;
use crate::reference;
use crate::request::query::Query;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace;
use crate::traces::lines;

/// Users named in the head.
const USERS: u32 = 10;
/// Turns shown that contain a text.
const FOUND: u32 = 20;
/// Tool calls shown of a turn.
const TOOLS: u32 = 20;
/// Steps that are looked through for the tool calls of a window. Traces that have more of them say so.
const STEPS: u32 = 5_000;

#[derive(Debug, Deserialize)]
pub(crate) struct SessionPath {
    session: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionPageParams {
    turn: String,
    at: String,
    end: String,
    find: String,
    rules: String,
}

/// The turn that is asked for by its number, or by a time: the first one that began then or later. Thousands may be apart.
/// One field takes both; links of earlier versions have the time in `at`.
async fn wanted(
    app: &App,
    viewer: &Viewer,
    session: &str,
    params: &SessionPageParams,
) -> Result<(Option<u64>, Option<&'static str>), Problem> {
    let position = match params.at.trim() {
        "" => params.turn.trim(),
        at => at,
    };
    if position.is_empty() {
        return Ok((None, None));
    }
    match (position.replace(',', "").parse::<u64>(), Moment::parse(position)) {
        (Ok(0), _) => Ok((None, Some("There is no turn 0: turns count from 1."))),
        (Ok(number), _) => Ok((Some(number), None)),
        (Err(_), Some(Moment::At(at))) => {
            let telemetry = &app.store.telemetry;
            let n_before = telemetry.turns_before(&viewer.project, session, at).await?;
            Ok((Some(n_before + 1), None))
        }
        _ => {
            let fault = "This is not understood: it is the number of a turn, or a time in UTC such as 2026-03-01 10:00.";
            Ok((None, Some(fault)))
        }
    }
}

/// So many turns behind the first `skip`. The one before them is read too: what was said in it is not repeated.
async fn turns(
    app: &App,
    viewer: &Viewer,
    session: &str,
    (skip, n): (u64, u32),
) -> Result<Vec<Turn>, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let has_before = 0 < skip;
    let from = skip - u64::from(has_before);
    let found = telemetry.session_turns(project, session, from, n + u32::from(has_before));
    let mut found = found.await?.into_iter().map(|stored| stored.trace);
    let before = if has_before { found.next() } else { None };
    let traces: Vec<Trace> = found.collect();
    let lines = lines::trace_lines(app, project, &traces).await?;
    let tools = tools(app, viewer, &traces).await?;
    let base = viewer.base();
    let make = move || {
        let turns = traces.into_iter().zip(lines).zip(tools);
        let turns = turns.map(|((trace, line), tools)| TurnInput { line, trace, tools });
        let turns = turns.collect();
        Turn::all(skip + 1, before.as_ref(), turns, &base)
    };
    on_blocking_thread(make).await
}

/// The tool calls of each of these traces; none of a trace with too many steps to look for them.
async fn tools(
    app: &App,
    viewer: &Viewer,
    traces: &[Trace],
) -> Result<Vec<Option<ToolObservations>>, Problem> {
    let mut n_left = STEPS;
    let fits = |trace: &Trace| {
        let fits = trace.n_observations <= n_left;
        n_left -= if fits { trace.n_observations } else { 0 };
        fits
    };
    let fits: Vec<bool> = traces.iter().map(fits).collect();
    // A trace of one step is its root.
    let searched = traces.iter().zip(&fits);
    let searched = searched.filter(|(trace, fits)| **fits && 1 < trace.n_observations);
    let searched: Vec<TraceId> = searched.map(|(trace, _)| trace.id.clone()).collect();
    let telemetry = &app.store.telemetry;
    let found = telemetry.tool_steps(&viewer.project, &searched, TOOLS);
    let mut found = found.await?;
    let mut of = |trace: &Trace| found.remove(&trace.id).unwrap_or_default();
    let all = traces.iter().zip(fits);
    Ok(all.map(|(trace, fits)| fits.then(|| of(trace))).collect())
}

/// The first turns that contain a text, in their input, their output or a step below.
async fn found(
    app: &App,
    viewer: &Viewer,
    session: &str,
    wanted: &str,
) -> Result<Option<TurnHits>, Problem> {
    let text = trace::params::search_text(wanted);
    if text.is_empty() {
        return Ok(None);
    }
    let condition = |column, op, value: &str| Condition {
        column: find(TRACES, column),
        test: Test::Text(op, value.to_owned()),
    };
    let query = TraceQuery {
        filter: Filter {
            conditions: vec![
                condition("sessionId", TextOp::Equal, session),
                condition("text", TextOp::MatchesAnyCase, &text),
            ],
        },
        ascending: true,
        limit: FOUND,
        with_content: true,
        max_content: lines::MAX_CONTENT,
        ..TraceQuery::default()
    };
    let bounds = Bounds { max_tested: read::MAX_TESTED, max_counted: Some(u64::from(FOUND)) };
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let tested = telemetry.traces_from(project, &query, None, bounds).await?;
    let traces = tested.traces.into_iter().map(|stored| stored.trace);
    let traces: Vec<Trace> = traces.collect();
    let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id.clone()).collect();
    let numbers = telemetry.turn_numbers(project, session, &ids).await?;
    let turns = traces.into_iter().filter_map(|trace| Some((*numbers.get(&trace.id)?, trace)));
    let turns: Vec<(u64, Trace)> = turns.collect();
    let (base, session) = (viewer.base(), session.to_owned());
    let rest = (tested.places.last.is_some(), tested.n_left);
    let make = move || TurnHits::new((&base, &session), &text, turns, rest);
    on_blocking_thread(make).await.map(Some)
}

/// How many rules stand before those that are asked why there is no score.
fn first_rule(rules: &str) -> Result<usize, &'static str> {
    match rules.trim() {
        "" => Ok(0),
        number => {
            number.parse().map_err(|_| "The parameter rules is not understood: it is a number.")
        }
    }
}

/// How many turns are before the window of a turn, and how many in it: that turn and those behind it, or, walked to from behind,
/// those before it and that turn. No turn is in two windows that follow each other.
fn window(turn: u64, is_end: bool) -> (u64, u32) {
    match is_end {
        true => {
            let skip = turn.saturating_sub(u64::from(TURNS_PER_PAGE));
            (skip, u32::try_from(turn - skip).unwrap_or(TURNS_PER_PAGE))
        }
        false => (turn.saturating_sub(1), TURNS_PER_PAGE),
    }
}

pub(crate) async fn session_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<SessionPath>,
    Query(params): Query<SessionPageParams>,
) -> Result<Response, Problem> {
    let session = decode_segment(&of.session).to_owned();
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let whole = GroupQuery::new(GroupKey::Session, 1);
    let mut query = GroupQuery::new(GroupKey::User, USERS);
    query.of = Some(session.clone());
    // Of a long session each of them keeps one processor busy.
    let (group, users) = tokio::join!(
        apart(telemetry.trace_group(project, &whole, &session)),
        apart(telemetry.group_ids(project, &query))
    );
    let (Some(group), users) = (group?, users?) else {
        return trace::scores_only::session(&app, &viewer, &session).await;
    };
    let n_turns = group.n_traces;
    let (turn, fault) = wanted(&app, &viewer, &session, &params).await?;
    let is_jump = turn.is_some();
    let is_beyond = turn.is_some_and(|turn| n_turns < turn);
    let beyond = is_beyond.then_some("The session ends before that: this is its last turn.");
    let rules = first_rule(&params.rules);
    let turn = turn.unwrap_or(1).clamp(1, n_turns.max(1));
    let (skip, n) = window(turn, !params.end.is_empty());
    let behind = skip + u64::from(n);
    // Rules have no target with an id that is not valid; earlier versions stored such ids.
    let said = async {
        let Ok(id) = SessionId::new(&session) else {
            return Ok(perpend_views::DetailInput::default());
        };
        let from = rules.unwrap_or_default();
        trace::page::detail_input(&app, &viewer, &Target::Session(id), from).await
    };
    let (turns, found, said) = tokio::try_join!(
        apart(turns(&app, &viewer, &session, (skip, n))),
        apart(found(&app, &viewer, &session, &params.find)),
        apart(said)
    )?;
    let address = href(&viewer.base(), GroupKey::Session, &session);
    // The hits of a search stay while its reader goes from one to the next.
    let sought = found.as_ref().map(|_| ("find", params.find.clone()));
    let at = |turn: u64| {
        let mut turn = vec![("turn", turn.to_string())];
        turn.extend(sought.clone());
        with_query(&address, &[turn, viewer.focus.pairs()].concat())
    };
    let view = SessionPage {
        shell: viewer
            .shell(Section::Sessions)
            .with_api(reference::equivalent_requests::session(&viewer, &session)),
        line: GroupLine::new(GroupKey::Session, group),
        users: users.into_iter().map(Text::from).collect(),
        scores: said.scores,
        outcomes: said.outcomes,
        rules: said.rules,
        turns,
        n_turns,
        wanted: turn,
        is_jump,
        at: match params.at.is_empty() {
            true => params.turn,
            false => params.at,
        },
        fault: fault.or(beyond).or(rules.err()),
        found,
        page_links: PageLinks {
            previous: (0 < skip).then(|| ("Earlier turns", format!("{}&end=1", at(skip)))),
            next: (behind < n_turns).then(|| ("Later turns", at(behind + 1))),
            ..PageLinks::default()
        },
    };
    page(StatusCode::OK, &view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_follow_each_other_share_no_turn_in_either_direction() {
        assert_eq!(window(1, false), (0, 20));
        assert_eq!(window(2_741, false), (2_740, 20));
        // The window before that of turn 2,741, and the one before that of turn 4.
        assert_eq!(window(2_740, true), (2_720, 20));
        assert_eq!(window(3, true), (0, 3));
    }
}

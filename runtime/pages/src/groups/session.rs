//! `GET P/sessions/{session}`: the turns of a session.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::evaluation::Target;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, TextOp, find};
use perpend_domain::ids::{SessionId, TraceId};
use perpend_domain::list::ListPosition;
use perpend_domain::telemetry::{GroupKey, GroupQuery, ToolObservations};
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::apart;
use perpend_telemetry::Bounds;
use perpend_views::{
    GroupLine, Moment, PageLinks, RejectedForm, Section, SessionPage, TURNS_PER_PAGE, Text, Turn,
    TurnHits, TurnInput, decode_segment, href, with_query,
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

/// Users listed in the header.
const MAX_USERS: u32 = 10;
/// Search hits shown.
const MAX_HITS: u32 = 20;
/// Tool calls shown of a turn.
const MAX_TOOL_CALLS: u32 = 20;
/// Observations searched for the tool calls of a window. A note is shown for traces beyond this limit.
const MAX_OBSERVATIONS: u32 = 5_000;

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

/// The requested turn: its number, or the first turn that started at or after a time. Thousands separators are allowed. One
/// field has both; links of earlier versions have the time in `at`.
async fn requested_turn(
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
        (Ok(0), _) => Ok((None, Some("Turns are numbered from 1."))),
        (Ok(number), _) => Ok((Some(number), None)),
        (Err(_), Some(Moment::At(at))) => {
            let telemetry = &app.store.telemetry;
            let n_before = telemetry.turns_before(&viewer.project, session, at).await?;
            Ok((Some(n_before + 1), None))
        }
        _ => {
            let fault = "Must be the number of a turn, or a time in UTC such as 2026-03-01 10:00.";
            Ok((None, Some(fault)))
        }
    }
}

/// `n` turns after the first `skip`. The previous turn is read too, because its messages are not repeated.
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

/// The tool calls of each trace; absent for traces beyond the limit of observations.
async fn tools(
    app: &App,
    viewer: &Viewer,
    traces: &[Trace],
) -> Result<Vec<Option<ToolObservations>>, Problem> {
    let mut n_left = MAX_OBSERVATIONS;
    let fits = |trace: &Trace| {
        let fits = trace.n_observations <= n_left;
        n_left -= if fits { trace.n_observations } else { 0 };
        fits
    };
    let fits: Vec<bool> = traces.iter().map(fits).collect();
    // The only observation of a trace is its root.
    let searched = traces.iter().zip(&fits);
    let searched = searched.filter(|(trace, fits)| **fits && 1 < trace.n_observations);
    let searched: Vec<TraceId> = searched.map(|(trace, _)| trace.id.clone()).collect();
    let telemetry = &app.store.telemetry;
    let found = telemetry.tool_observations(&viewer.project, &searched, MAX_TOOL_CALLS);
    let mut found = found.await?;
    let mut of = |trace: &Trace| found.remove(&trace.id).unwrap_or_default();
    let all = traces.iter().zip(fits);
    Ok(all.map(|(trace, fits)| fits.then(|| of(trace))).collect())
}

/// The first turns that contain a text in their input, output or any observation.
async fn turn_hits(
    app: &App,
    viewer: &Viewer,
    session: &str,
    text: &str,
) -> Result<Option<TurnHits>, Problem> {
    let text = trace::params::search_text(text);
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
        limit: MAX_HITS,
        with_content: true,
        max_content: lines::MAX_CONTENT,
        ..TraceQuery::default()
    };
    let bounds = Bounds { max_tested: read::MAX_TESTED, max_counted: Some(u64::from(MAX_HITS)) };
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let first = ListPosition::default();
    let tested = telemetry.traces_from(project, &query, &first, bounds).await?;
    let traces = tested.items.into_iter().map(|stored| stored.trace);
    let traces: Vec<Trace> = traces.collect();
    let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id.clone()).collect();
    let numbers = telemetry.turn_numbers(project, session, &ids).await?;
    let turns = traces.into_iter().filter_map(|trace| Some((*numbers.get(&trace.id)?, trace)));
    let turns: Vec<(u64, Trace)> = turns.collect();
    let (base, session) = (viewer.base(), session.to_owned());
    let rest = (tested.older.is_some(), tested.n_left);
    let make = move || TurnHits::new((&base, &session), &text, turns, rest);
    on_blocking_thread(make).await.map(Some)
}

/// Index of the first rule whose outcome is shown.
fn first_rule(rules: &str) -> Result<usize, &'static str> {
    match rules.trim() {
        "" => Ok(0),
        number => number.parse().map_err(|_| "`rules` must be a non-negative integer."),
    }
}

/// Turns before the window, and turns in it. The window starts with the turn or, with `is_end`, ends with it. Consecutive windows
/// do not overlap.
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
    Path(path): Path<SessionPath>,
    Query(params): Query<SessionPageParams>,
) -> Result<Response, Problem> {
    let session = decode_segment(&path.session).to_owned();
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let whole = GroupQuery::new(GroupKey::Session, 1);
    let mut query = GroupQuery::new(GroupKey::User, MAX_USERS);
    query.of = Some(session.clone());
    // For a long session, each query keeps one CPU core busy.
    let (group, users) = tokio::join!(
        apart(telemetry.trace_group(project, &whole, &session)),
        apart(telemetry.group_ids(project, &query))
    );
    let (Some(group), users) = (group?, users?) else {
        return trace::scores_only::session(&app, &viewer, &session).await;
    };
    let n_turns = group.n_traces;
    let (turn, fault) = requested_turn(&app, &viewer, &session, &params).await?;
    let is_jump = turn.is_some();
    let is_beyond = turn.is_some_and(|turn| n_turns < turn);
    let beyond = is_beyond.then_some("The session has fewer turns. Showing the last one.");
    let rules = first_rule(&params.rules);
    let turn = turn.unwrap_or(1).clamp(1, n_turns.max(1));
    let (skip, n) = window(turn, !params.end.is_empty());
    let behind = skip + u64::from(n);
    // Rules have no targets with invalid ids, which earlier versions stored.
    let detail = async {
        let Ok(id) = SessionId::new(&session) else {
            return Ok(perpend_views::DetailInput::default());
        };
        let from = rules.unwrap_or_default();
        let rejected = RejectedForm::default();
        trace::page::detail_input(&app, &viewer, &Target::Session(id), from, &rejected).await
    };
    let (turns, found, detail) = tokio::try_join!(
        apart(turns(&app, &viewer, &session, (skip, n))),
        apart(turn_hits(&app, &viewer, &session, &params.find)),
        apart(detail)
    )?;
    let address = href(&viewer.base(), GroupKey::Session, &session);
    // Links preserve the search.
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
        scores: detail.scores,
        outcomes: detail.outcomes,
        rules: detail.rules,
        turns,
        n_turns,
        current_turn: turn,
        is_jump,
        typed_turn: match params.at.is_empty() {
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
    fn consecutive_windows_do_not_overlap_in_either_direction() {
        assert_eq!(window(1, false), (0, 20));
        assert_eq!(window(2_741, false), (2_740, 20));
        // The windows before those of turns 2,741 and 4.
        assert_eq!(window(2_740, true), (2_720, 20));
        assert_eq!(window(3, true), (0, 3));
    }
}

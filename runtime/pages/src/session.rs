//! `GET P/sessions/{session}`: a session turn by turn.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::SessionId;
use perpend_domain::telemetry::{GroupQuery, GroupedBy};
use perpend_domain::trace::Trace;
use perpend_ui::{GroupLine, Section, SessionPage, TURNS, Text, Turn, Ways, href};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::lines;
use crate::state::App;
use crate::trace;
use crate::viewer::Viewer;

/// Users named in the head.
const USERS: u32 = 10;

#[derive(Debug, Deserialize)]
pub(super) struct OfSession {
    session: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    turn: String,
}

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    Path(OfSession { session }): Path<OfSession>,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let group = telemetry.trace_group(project, GroupedBy::Session, &session);
    let group = group.await?.ok_or_else(|| Problem::not_found("session"))?;
    let n_turns = group.n_traces;
    let turn: u64 = asked.turn.parse().unwrap_or(1);
    // The last window is a full one.
    let last = n_turns.saturating_sub(u64::from(TURNS));
    let skip = turn.saturating_sub(1).min(last);
    let found = telemetry
        .session_turns(project, &session, skip, TURNS)
        .await?;
    let traces: Vec<Trace> = found.into_iter().map(|stored| stored.trace).collect();
    let lines = lines::of(&app, project, &traces).await?;
    let turns = traces.iter().zip(lines).zip(skip + 1..);
    let base = viewer.base();
    let turns = turns.map(|((own, line), number)| Turn::new(number, line, own, &base));
    let mut query = GroupQuery::new(GroupedBy::User, USERS);
    query.of = Some(session.clone());
    let users = telemetry.trace_groups(project, &query).await?;
    // Rules have no target with an id that is not valid; earlier versions stored such ids.
    let said = match SessionId::new(&session) {
        Ok(id) => {
            let scores = telemetry.scores_of_session(project, &id).await?;
            trace::said(&app, &viewer, &Target::Session(id), &scores).await?
        }
        Err(_) => perpend_ui::DetailInput::default(),
    };
    let address = href(&base, GroupedBy::Session, &session);
    let window = |is_there: bool, label, turn: u64| {
        is_there.then(|| (label, format!("{address}?turn={turn}")))
    };
    let view = SessionPage {
        shell: viewer.shell(Section::Sessions),
        line: GroupLine::new(GroupedBy::Session, group),
        users: users
            .items
            .iter()
            .map(|user| Text::from(user.id.as_str()))
            .collect(),
        scores: said.scores,
        verdicts: said.verdicts,
        turns: turns.collect(),
        n_turns,
        ways: Ways {
            before: window(
                0 < skip,
                "Earlier turns",
                skip.saturating_sub(u64::from(TURNS)) + 1,
            ),
            behind: window(skip < last, "Later turns", skip + u64::from(TURNS) + 1),
            ..Ways::default()
        },
    };
    page(StatusCode::OK, &view)
}

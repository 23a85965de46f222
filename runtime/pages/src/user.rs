//! `GET P/users/{user}`: sums, sessions, latest traces, and those with low scores.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, find};
use perpend_domain::telemetry::{GroupQuery, GroupedBy};
use perpend_domain::trace::Trace;
use perpend_ui::{GroupLine, Section, Text, TraceLine, UserPage, of_segment};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::state::App;
use crate::viewer::Viewer;
use crate::{api, group_lines, lines, read};

/// Sessions, latest traces, and traces with low scores that are shown.
const SHOWN: u32 = 20;

#[derive(Debug, Deserialize)]
pub(super) struct OfUser {
    user: String,
}

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<OfUser>,
) -> Result<Response, Problem> {
    let user = of_segment(&of.user).to_owned();
    let telemetry = &app.store.telemetry;
    let group = telemetry.trace_group(&viewer.project, GroupedBy::User, &user);
    let group = group.await?.ok_or_else(|| Problem::not_found("user"))?;
    let mut query = GroupQuery::new(GroupedBy::Session, SHOWN);
    query.of = Some(user.clone());
    let sessions = telemetry.trace_groups(&viewer.project, &query).await?;
    let by_user = Filter {
        conditions: vec![group_lines::only((GroupedBy::User, &user))],
    };
    let traces = read::newest(&app, &viewer.project, by_user, SHOWN).await?;
    let (low, low_names) = low(&app, &viewer, &user).await?;
    let view = UserPage {
        shell: viewer
            .shell(Section::Users)
            .with_api([api::user(&viewer, &user, SHOWN)]),
        line: GroupLine::new(GroupedBy::User, group),
        has_more_sessions: sessions.has_more,
        sessions: group_lines::of(&app, &viewer, &query, sessions.items).await?,
        traces: lines::of(&app, &viewer.project, &traces).await?,
        low,
        low_names,
    };
    page(StatusCode::OK, &view)
}

/// The traces of a user with the lowest scores, and the names of these with the lists of all traces of the user that are low
/// in them.
async fn low(
    app: &App,
    viewer: &Viewer,
    user: &str,
) -> Result<(Vec<TraceLine>, Vec<(Text, String)>), Problem> {
    let telemetry = &app.store.telemetry;
    let lowest = telemetry.low_scores(&viewer.project, user).await?;
    let base = viewer.base();
    let mut ids: Vec<String> = Vec::new();
    let mut names: Vec<(Text, String)> = Vec::new();
    for score in &lowest {
        let id = score.trace.to_string();
        if ids.len() < SHOWN as usize && !ids.contains(&id) {
            ids.push(id);
        }
        let list = group_lines::low(user, &score.name, score.is_truth).first(&base);
        if names.iter().all(|(_, known)| *known != list) {
            names.push((Text::from(score.name.as_str()), list));
        }
    }
    if ids.is_empty() {
        return Ok((Vec::new(), names));
    }
    let place = |trace: &Trace| ids.iter().position(|id| *id == trace.id.to_string());
    let among = Filter {
        conditions: vec![Condition {
            column: find(TRACES, "id"),
            test: Test::AnyOf(ids.clone()),
        }],
    };
    let mut traces = read::newest(app, &viewer.project, among, SHOWN).await?;
    traces.sort_by_key(place);
    Ok((lines::of(app, &viewer.project, &traces).await?, names))
}

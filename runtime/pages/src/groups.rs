//! `GET P/sessions`, `GET P/users`, and the page of one user.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::filter::{Condition, Filter, TRACES, Test, TextOp, find};
use perpend_domain::list::Cursor;
use perpend_domain::telemetry::{GroupPage, GroupQuery, GroupedBy, TraceGroup};
use perpend_ui::{
    Focus, FocusView, GroupLine, GroupsPage, Section, Text, UserPage, Ways, href, list_href,
    of_segment, with_query,
};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::query::Query;
use crate::state::App;
use crate::viewer::Viewer;
use crate::{api, cursor, lines, read, setup};

const PER_PAGE: u32 = 50;
/// Sessions and traces on the page of a user.
const OF_USER: u32 = 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    after: String,
    before: String,
    id: String,
}

/// The cursor of an address, and whether the page is before it. A notice names the parameter that is not a cursor.
fn place(asked: &Asked, notices: &mut Vec<Text>) -> (Option<Cursor>, bool) {
    let (name, raw) = match asked.before.is_empty() {
        true => ("after", &asked.after),
        false => ("before", &asked.before),
    };
    let cursor = cursor::asked(name, raw, notices);
    let is_backwards = cursor.is_some() && name == "before";
    (cursor, is_backwards)
}

fn address(path: &str, focus: &Focus, (name, cursor): (&'static str, &Cursor)) -> String {
    let mut pairs = focus.pairs();
    pairs.push((name, cursor::written(cursor)));
    with_query(path, &pairs)
}

/// Where the list goes on before and behind a page of it.
fn ways(path: &str, focus: &Focus, query: &GroupQuery, found: &GroupPage) -> Ways {
    let newer = match query.is_backwards {
        true => found.has_more,
        false => query.after.is_some(),
    };
    let older = query.is_backwards || found.has_more;
    let to = |is_there: bool, name, cursor: &Option<Cursor>| {
        let cursor = cursor.as_ref().filter(|_| is_there);
        cursor.map(|cursor| address(path, focus, (name, cursor)))
    };
    Ways {
        before: to(newer, "before", &found.first).map(|address| ("Newer", address)),
        behind: to(older, "after", &found.last).map(|address| ("Older", address)),
        ..Ways::default()
    }
}

fn lines_of(by: GroupedBy, groups: Vec<TraceGroup>) -> Vec<GroupLine> {
    let line = |group| GroupLine::new(by, group);
    groups.into_iter().map(line).collect()
}

async fn list(
    app: &App,
    viewer: &Viewer,
    by: GroupedBy,
    asked: &Asked,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let section = match by {
        GroupedBy::Session => Section::Sessions,
        GroupedBy::User => Section::Users,
    };
    let base = viewer.base();
    let path = list_href(&base, by);
    let telemetry = &app.store.telemetry;
    let id = asked.id.trim();
    let mut unknown = None;
    if !id.is_empty() {
        match telemetry.trace_group(&viewer.project, by, id).await? {
            Some(_) => {
                return Ok(Redirect::to(&href(&base, by, id)).into_response());
            }
            None => unknown = Some(Text::from(id)),
        }
    }
    let mut query = GroupQuery::new(by, PER_PAGE);
    query.started = viewer.focus.range(app.web.clock.now());
    query.environments.clone_from(&viewer.focus.environments);
    let mut notices = viewer.faults.clone();
    (query.after, query.is_backwards) = place(asked, &mut notices);
    let found = telemetry.trace_groups(&viewer.project, &query).await?;
    let is_later = query.after.is_some();
    let is_whole = viewer.focus == Focus::default() && !is_later;
    let setup = match found.items.is_empty() && is_whole {
        true => Some(setup::of(app, &viewer.project, headers).await?),
        false => None,
    };
    let view = GroupsPage {
        setup,
        shell: viewer.shell(section).with_api(api::groups(viewer, &query)),
        focus: FocusView::new(
            &viewer.focus,
            (path.clone(), Vec::new()),
            ("All time", true),
        ),
        notices,
        by,
        ways: ways(&path, &viewer.focus, &query, &found),
        lines: lines_of(by, found.items),
        is_later,
        unknown,
    };
    page(StatusCode::OK, &view)
}

/// `GET P/sessions`
pub(super) async fn sessions(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    list(&app, &viewer, GroupedBy::Session, &asked, &headers).await
}

/// `GET P/users`
pub(super) async fn users(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    list(&app, &viewer, GroupedBy::User, &asked, &headers).await
}

#[derive(Debug, Deserialize)]
pub(super) struct OfUser {
    user: String,
}

/// `GET P/users/{user}`
pub(super) async fn user(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<OfUser>,
) -> Result<Response, Problem> {
    let user = of_segment(&of.user).to_owned();
    let telemetry = &app.store.telemetry;
    let group = telemetry.trace_group(&viewer.project, GroupedBy::User, &user);
    let group = group.await?.ok_or_else(|| Problem::not_found("user"))?;
    let mut query = GroupQuery::new(GroupedBy::Session, OF_USER);
    query.of = Some(user.clone());
    let sessions = telemetry.trace_groups(&viewer.project, &query).await?;
    let by_user = Filter {
        conditions: vec![Condition {
            column: find(TRACES, "userId"),
            test: Test::Text(TextOp::Equal, user.clone()),
        }],
    };
    let traces = read::newest(&app, &viewer.project, by_user, OF_USER).await?;
    let view = UserPage {
        shell: viewer
            .shell(Section::Users)
            .with_api([api::user(&viewer, &user, OF_USER)]),
        line: GroupLine::new(GroupedBy::User, group),
        has_more_sessions: sessions.has_more,
        sessions: lines_of(GroupedBy::Session, sessions.items),
        traces: lines::of(&app, &viewer.project, &traces).await?,
    };
    page(StatusCode::OK, &view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_from_its_address() {
        let cursor = Cursor {
            at: perpend_domain::time::Timestamp::from_micros(-5),
            id: "a.b&c ü".to_owned(),
        };
        let address = address("/p", &Focus::default(), ("after", &cursor));
        let (_, raw) = address.split_once('=').unwrap();
        let raw = percent_encoding::percent_decode_str(raw)
            .decode_utf8()
            .unwrap();
        let mut notices = Vec::new();
        let mut read = |after: &str, before: &str| {
            let asked = Asked {
                after: after.to_owned(),
                before: before.to_owned(),
                ..Asked::default()
            };
            place(&asked, &mut notices)
        };
        assert_eq!(read(&raw, ""), (Some(cursor.clone()), false));
        assert_eq!(read("", &raw), (Some(cursor), true));
        assert_eq!(read("", ""), (None, false));
        assert_eq!(read("yesterday", ""), (None, false));
        assert_eq!(read("", "yesterday"), (None, false));
        let named = ["after: ", "before: "];
        assert_eq!(notices.len(), named.len());
        for (said, name) in notices.iter().zip(named) {
            assert!(said.raw().starts_with(name), "{said}");
        }
    }
}

//! `GET P/sessions` and `GET P/users`.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::filter::Filter;
use perpend_domain::list::Cursor;
use perpend_domain::telemetry::{GroupQuery, GroupedBy};
use perpend_query::parse;
use perpend_telemetry::TestedGroups;
use perpend_ui::{
    FilterView, Focus, FocusView, GroupsPage, OF_SESSIONS, OF_USERS, Section, Stopped, Text, Ways,
    href, list_href, with_query,
};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::query::Query;
use crate::state::App;
use crate::terms::terms;
use crate::viewer::Viewer;
use crate::{api, cursor, group_lines, setup};

const PER_PAGE: u32 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
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

/// A list with what its address says but for the place in it.
struct Listed {
    path: String,
    kept: Vec<(&'static str, String)>,
}

impl Listed {
    fn at(&self, place: Option<(&'static str, &Cursor)>) -> String {
        let mut pairs = self.kept.clone();
        pairs.extend(place.map(|(name, cursor)| (name, cursor::written(cursor))));
        with_query(&self.path, &pairs)
    }

    /// Where the list goes on before and behind a page of it, and where a search for the page that stopped goes on.
    fn ways(&self, query: &GroupQuery, tested: &TestedGroups) -> (Ways, Option<String>) {
        let found = &tested.page;
        let newer = match query.is_backwards {
            true => found.has_more,
            false => query.after.is_some(),
        };
        let older = query.is_backwards || found.has_more;
        let to = |is_there: bool, name, cursor: &Option<Cursor>| {
            let cursor = cursor.as_ref().filter(|_| is_there)?;
            Some(self.at(Some((name, cursor))))
        };
        let name = if query.is_backwards {
            "before"
        } else {
            "after"
        };
        let on = to(true, name, &tested.stopped);
        let go_on = |is_there: bool| Some(("Go on", on.clone().filter(|_| is_there)?));
        let before = to(newer, "before", &found.first).map(|address| ("Newer", address));
        let behind = to(older, "after", &found.last).map(|address| ("Older", address));
        let ways = Ways {
            // From a page without rows no cursor leads back.
            first: (found.items.is_empty() && query.after.is_some()).then(|| self.at(None)),
            before: before.or_else(|| go_on(query.is_backwards)),
            behind: behind.or_else(|| go_on(!query.is_backwards)),
            ..Ways::default()
        };
        (ways, on)
    }
}

/// The sessions or users that fit, all of them where nothing is asked.
async fn fitting(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    filter: &Filter,
) -> Result<TestedGroups, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    if !filter.conditions.is_empty() {
        return Ok(telemetry.groups_that_fit(project, query, filter).await?);
    }
    Ok(TestedGroups {
        page: telemetry.trace_groups(project, query).await?,
        ..TestedGroups::default()
    })
}

async fn list(
    app: &App,
    viewer: &Viewer,
    by: GroupedBy,
    asked: &Asked,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (section, of) = match by {
        GroupedBy::Session => (Section::Sessions, &OF_SESSIONS),
        GroupedBy::User => (Section::Users, &OF_USERS),
    };
    let base = viewer.base();
    let mut unknown = None;
    let id = asked.id.trim();
    if !id.is_empty() {
        let known = app.store.telemetry.trace_group(&viewer.project, by, id);
        if known.await?.is_some() {
            return Ok(Redirect::to(&href(&base, by, id)).into_response());
        }
        unknown = Some(Text::from(id));
    }
    let q = asked.q.trim().to_owned();
    let parsed = parse(&q, of.columns);
    let mut query = GroupQuery::new(by, PER_PAGE);
    query.started = viewer.focus.range(app.web.clock.now());
    query.environments.clone_from(&viewer.focus.environments);
    let mut notices = viewer.faults.clone();
    (query.after, query.is_backwards) = place(asked, &mut notices);
    let mut tested = fitting(app, viewer, &query, &parsed.filter).await?;
    let own: Vec<_> = (!q.is_empty())
        .then(|| ("q", q.clone()))
        .into_iter()
        .collect();
    let listed = Listed {
        path: list_href(&base, by),
        kept: [own.clone(), viewer.focus.pairs()].concat(),
    };
    let (ways, on) = listed.ways(&query, &tested);
    let groups = std::mem::take(&mut tested.page.items);
    let is_later = query.after.is_some();
    let is_whole = viewer.focus == Focus::default() && !is_later && q.is_empty();
    let setup = match groups.is_empty() && is_whole {
        true => Some(setup::of(app, &viewer.project, headers).await?),
        false => None,
    };
    let view = GroupsPage {
        setup,
        shell: viewer.shell(section).with_api(api::groups(
            viewer,
            &query,
            !parsed.filter.conditions.is_empty(),
        )),
        focus: FocusView::new(&viewer.focus, (listed.path, own), ("All time", true)),
        notices,
        filter: FilterView {
            of,
            base,
            terms: terms(&q, &parsed),
            q,
            kept: viewer.focus.pairs(),
            sorts: Vec::new(),
        },
        stopped: tested.stopped.is_some().then_some(Stopped {
            n_tested: tested.n_tested,
            n_found: groups.len() as u64,
            on,
        }),
        n_scored: group_lines::SCORED,
        by,
        ways,
        lines: group_lines::of(app, viewer, &query, groups).await?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_from_its_address() {
        let cursor = Cursor {
            at: perpend_domain::time::Timestamp::from_micros(-5),
            id: "a.b&c ü".to_owned(),
        };
        let listed = Listed {
            path: "/p".to_owned(),
            kept: Vec::new(),
        };
        let address = listed.at(Some(("after", &cursor)));
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
    #[test]
    fn a_search_that_stopped_goes_on_in_its_direction_and_a_page_without_rows_leads_to_the_first() {
        let cursor = |id: &str| {
            Some(Cursor {
                at: perpend_domain::time::Timestamp::from_micros(5),
                id: id.to_owned(),
            })
        };
        let listed = Listed {
            path: "/p".to_owned(),
            kept: vec![("q", "a".to_owned())],
        };
        let mut query = GroupQuery::new(GroupedBy::User, 2);
        query.after = cursor("x");
        let tested = TestedGroups {
            stopped: cursor("y"),
            ..TestedGroups::default()
        };
        let (ways, on) = listed.ways(&query, &tested);
        assert_eq!(on.as_deref(), Some("/p?q=a&after=5.y"));
        assert_eq!(ways.behind, Some(("Go on", "/p?q=a&after=5.y".to_owned())));
        assert_eq!((ways.before, ways.first.as_deref()), (None, Some("/p?q=a")));
        query.is_backwards = true;
        let (ways, _) = listed.ways(&query, &tested);
        assert_eq!(ways.before, Some(("Go on", "/p?q=a&before=5.y".to_owned())));
        assert_eq!(ways.behind, None);
    }
}

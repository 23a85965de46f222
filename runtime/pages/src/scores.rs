//! `GET P/scores`: the scores of a project, the newest first.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::score::Score;
use perpend_domain::telemetry::ScoreQuery;
use perpend_ui::{ScoreLine, ScoresPage, Section, Text, Ways, encode};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::query::Query;
use crate::state::App;
use crate::trace::Names;
use crate::viewer::Viewer;
use crate::{cursor, setup};

const PER_PAGE: u32 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    name: String,
    fingerprint: String,
    after: String,
}

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut notices = Vec::new();
    let mut narrowed = Vec::new();
    let mut kept = String::new();
    let mut query = ScoreQuery::default();
    let name = asked.name.trim();
    if !name.is_empty() {
        query.names.push(name.to_owned());
        narrowed.push(("name", Text::from(name)));
        kept.push_str(&format!("&name={}", encode(name)));
    }
    let fingerprint = asked.fingerprint.trim();
    if !fingerprint.is_empty() {
        query.fingerprint = fingerprint.parse().ok();
        match query.fingerprint {
            Some(_) => {
                narrowed.push(("fingerprint", Text::from(fingerprint)));
                kept.push_str(&format!("&fingerprint={}", encode(fingerprint)));
            }
            None => {
                let fault =
                    "fingerprint: it must have 64 hexadecimal digits, so all scores are shown.";
                notices.push(Text::from(fault));
            }
        }
    }
    let after = cursor::read(&asked.after);
    if after.is_none() && !asked.after.is_empty() {
        let fault = "after: this is not a cursor of this list, so this is its first page.";
        notices.push(Text::from(fault));
    }
    let telemetry = &app.store.telemetry;
    let found = telemetry.scores(&viewer.project, &query, after.as_ref(), PER_PAGE);
    let found = found.await?;
    let origins = found.items.iter();
    let origins = origins.filter_map(|score| score.written.origin.as_ref());
    let names = Names::read(&app, &viewer, origins).await?;
    let base = viewer.base();
    let path = format!("{base}/scores");
    let address = |more: &str| match more.strip_prefix('&') {
        Some(more) => format!("{path}?{more}"),
        None => path.clone(),
    };
    let line = |score: &Score| {
        let origin = score.written.origin.as_ref();
        ScoreLine::new(score, origin.map(|origin| names.origin(origin)), &base)
    };
    let is_later = after.is_some();
    let setup = match found.items.is_empty() && narrowed.is_empty() && !is_later {
        true => Some(setup::of(&app, &viewer.project, &headers).await?),
        false => None,
    };
    let view = ScoresPage {
        setup,
        shell: viewer.shell(Section::Scores),
        name: Text::from(name),
        narrowed,
        notices,
        lines: found.items.iter().map(line).collect(),
        ways: Ways {
            before: after.map(|_| ("Newest", address(&kept))),
            behind: found.next.map(|next| {
                let more = format!("{kept}&after={}", cursor::written(&next));
                ("Older", address(&more))
            }),
            ..Ways::default()
        },
    };
    page(StatusCode::OK, &view)
}

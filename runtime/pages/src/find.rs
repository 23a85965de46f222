//! `GET P/traces/{trace}/find`: the steps of a trace that contain a text.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{Condition, Filter, OBSERVATIONS, Test, TextOp, find};
use perpend_domain::telemetry::ObservationQuery;
use perpend_ui::{FindPage, Hit, Section, Text};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::query::Query;
use crate::read::unknown;
use crate::state::App;
use crate::trace::OfTrace;
use crate::viewer::Viewer;

/// Steps that are shown.
const HITS: u32 = 100;
/// Steps that are looked through.
const MAX_TESTED: u64 = 20_000;
/// A longer text is not looked for.
const MAX_TEXT: usize = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
}

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<OfTrace>,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let id = of.id()?;
    let telemetry = &app.store.telemetry;
    let stored = telemetry.trace(&viewer.project, &id, false).await?;
    let stored = stored.ok_or_else(unknown)?;
    let text: String = asked.q.trim().chars().take(MAX_TEXT).collect();
    let mut hits = Vec::new();
    let (mut has_more, mut is_partial) = (false, false);
    if !text.is_empty() {
        let condition = |column, test| Condition {
            column: find(OBSERVATIONS, column),
            test,
        };
        let query = ObservationQuery {
            filter: Filter {
                conditions: vec![
                    condition("traceId", Test::Text(TextOp::Equal, id.to_string())),
                    condition("text", Test::Text(TextOp::MatchesAnyCase, text.clone())),
                ],
            },
            limit: HITS,
            with_content: true,
            without_records: true,
            max_tested: MAX_TESTED,
            ..ObservationQuery::default()
        };
        let found = telemetry.observations(&viewer.project, &query).await?;
        has_more = found.has_more;
        is_partial = found.given_up_at.is_some();
        let steps = found.items.iter().rev();
        hits = steps
            .map(|stored| Hit::of(&stored.observation, &text))
            .collect();
    }
    let view = FindPage {
        shell: viewer.shell(Section::Traces),
        trace: (id.to_string(), stored.trace.name.as_deref().map(Text::from)),
        text,
        hits,
        has_more,
        is_partial,
    };
    page(StatusCode::OK, &view)
}

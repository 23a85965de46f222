//! `GET P/traces/{trace}/find`: the observations of a trace that contain a text.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::ids::ObservationId;
use perpend_domain::text_search::{SearchCursor, TextPattern, TraceSearchPage};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::FindQuery;
use perpend_views::{FindInput, FindPage, Section, Text};
use serde::Deserialize;

use crate::read::unknown_trace;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::page::TracePath;
use crate::trace::params::search_text;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FindParams {
    q: String,
    after: String,
}

/// Parses the position where a search continues: the number of hits so far and the last searched observation.
fn parse_position(raw: &str) -> Option<(u64, SearchCursor)> {
    let (n_hits, cursor) = raw.split_once('.')?;
    let n_hits: u32 = n_hits.parse().ok()?;
    let (start, id) = cursor.split_once('.')?;
    let start = Timestamp::from_micros(start.parse().ok()?);
    Some((n_hits.into(), (start, ObservationId::new(id).ok()?)))
}

pub(crate) async fn find_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<TracePath>,
    Query(params): Query<FindParams>,
) -> Result<Response, Problem> {
    let id = path.id()?;
    let telemetry = &app.store.telemetry;
    let stored = telemetry.trace(&viewer.project, &id, false).await?;
    let stored = stored.ok_or_else(unknown_trace)?;
    let text = search_text(&params.q);
    let position = parse_position(&params.after);
    let is_invalid = position.is_none() && !params.after.is_empty();
    let fault = "`after` must be a position of this search; starting with the first observation.";
    let notice = is_invalid.then(|| Text::from(fault));
    let (n_before, after) = position.unzip();
    let n_before = n_before.unwrap_or_default();
    let part = match TextPattern::new(&text) {
        Some(sought) => {
            let query = FindQuery::new(sought, after);
            let found = telemetry.find_in_trace(&viewer.project, &id, &query).await?;
            found.ok_or_else(unknown_trace)?
        }
        None => TraceSearchPage::default(),
    };
    let view = FindPage::new(FindInput {
        shell: viewer.shell(Section::Traces),
        trace: (id.to_string(), stored.trace.name.as_deref().map(Text::from)),
        text,
        notice,
        n_before,
        part,
    });
    page(StatusCode::OK, &view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_parsed_and_invalid_text_is_rejected() {
        let id = ObservationId::new("a.b c").unwrap();
        let at = Timestamp::from_micros(1_760_000_000_000_000);
        let read = parse_position("112.1760000000000000.a.b c");
        assert_eq!(read, Some((112, (at, id))));
        for raw in ["", "1", "1.2", "-1.2.a", "1.x.a", "1.2."] {
            assert_eq!(parse_position(raw), None, "{raw}");
        }
    }
}

//! `GET P/traces/compare`: comparison of two traces.

use std::collections::HashMap;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::percent_decode_str;
use perpend_domain::ids::{MAX_ID_CHARS, ObservationId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::outline::{Outline, align};
use perpend_domain::score::{Score, Subject};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::apart;
use perpend_views::{
    CompareInput, ComparePage, CompareQuery, CompareSelectionPage, CompareSide,
    ComparedObservation, ScoresByName, Section, Text,
};

use crate::read;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::page::{self, TracePath};
use crate::traces;
use crate::traces::lines;

/// The path segment that is a trace id in other URLs.
const NAME: &str = "compare";

/// Parsed query parameters.
#[derive(Debug, Default)]
struct CompareParams {
    query: CompareQuery,
    /// Traces selected in a list.
    chosen: Vec<String>,
    /// Whether the URL is that of the comparison, not of a trace with the id `compare`.
    is_of_page: bool,
    notices: Vec<Text>,
}

impl CompareParams {
    fn new(raw: Option<&str>) -> Self {
        let mut params = Self::default();
        let query = &mut params.query;
        let mut fault = |name: &str, expected: &str| {
            let fault = format!("`{name}` must be {expected}; ignored.");
            params.notices.push(Text::from(fault));
        };
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let text = value.trim();
            match name.as_ref() {
                "a" => query.a = truncated_id(text),
                "b" => query.b = truncated_id(text),
                // Lists send percent-encoded ids, because an HTML form cannot contain all characters of an id.
                "trace" => {
                    let id = percent_decode_str(text).decode_utf8_lossy();
                    params.chosen.push(id.into_owned());
                }
                "pair" => match ComparedObservation::parse(&value) {
                    Some(pair) => query.pair = Some(pair),
                    None => fault("pair", "`a.` or `b.` followed by an observation id"),
                },
                "diff" => match text {
                    "inline" => query.diff.is_inline = true,
                    "" | "split" => query.diff.is_inline = false,
                    _ => fault("diff", "one of inline, split"),
                },
                "space" => match text {
                    "ignore" => query.diff.ignores_space = true,
                    "" | "count" => query.diff.ignores_space = false,
                    _ => fault("space", "one of ignore, count"),
                },
                "equal" => query.shows_equal = text == "show",
                "at" => match text.parse() {
                    Ok(at) => query.at = at,
                    Err(_) => fault("at", "a row number"),
                },
                "in" => query.list = traces::neighbors::parse_list(&value),
                _ => {}
            }
            params.is_of_page |= matches!(name.as_ref(), "a" | "b" | "choose");
        }
        params
    }
}

pub(crate) async fn compare_page(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let CompareParams { mut query, chosen, is_of_page, notices } =
        CompareParams::new(raw.as_deref());
    if !is_of_page {
        // A trace may have the id `compare`. Its URL has no parameters of a comparison.
        let id = TraceId::new(NAME).ok();
        let is_trace = match &id {
            Some(id) => read::trace_without_content(&app, &viewer.project, id).await?.is_some(),
            None => false,
        };
        if is_trace {
            let path = Path(TracePath::new(NAME));
            let page = page::trace_page(State(app), viewer, path, RawQuery(raw));
            return Box::pin(page).await;
        }
    }
    if let [a, b] = chosen.as_slice() {
        (query.a, query.b) = (a.clone(), b.clone());
        return Ok(Redirect::to(&query.address(&viewer.base())).into_response());
    }
    if query.a.is_empty() || query.b.is_empty() {
        let ids = [&query.a, &query.b].into_iter().chain(&chosen);
        let ids = ids.filter(|id| !id.is_empty()).take(100);
        let view = CompareSelectionPage {
            shell: viewer.shell(Section::Traces),
            selected: ids.map(|id| Text::from(id.as_str())).collect(),
            list: query.list,
        };
        return page(StatusCode::OK, &view);
    }
    comparison(&app, &viewer, query, notices).await
}

async fn comparison(
    app: &App,
    viewer: &Viewer,
    mut query: CompareQuery,
    mut notices: Vec<Text>,
) -> Result<Response, Problem> {
    // Reading a large trace keeps one CPU core busy.
    let sides =
        tokio::try_join!(apart(side(app, viewer, &query.a)), apart(side(app, viewer, &query.b)))?;
    let mut sides = <[_; 2]>::from(sides);
    let outlines = sides.each_ref().map(|side| side.as_ref().map(|side| &*side.outline));
    let nothing = Outline::default();
    let pairs = {
        let [a, b] = outlines.map(|outline| outline.unwrap_or(&nothing));
        align(a, b)
    };
    let selected = query.pair.as_ref().map(|pair| {
        let row = |side: usize, id: &str| {
            outlines[side]?.find(id).and_then(|row| u32::try_from(row).ok())
        };
        let found = match pair {
            ComparedObservation::A(id) => {
                row(0, id).map(|row| pairs.iter().find(|pair| pair.a == Some(row)))
            }
            ComparedObservation::B(id) => {
                row(1, id).map(|row| pairs.iter().find(|pair| pair.b == Some(row)))
            }
        };
        found.flatten().copied()
    });
    let observations = match selected {
        Some(Some(pair)) => {
            let id = |side: usize, row: Option<u32>| {
                let row = outlines[side]?.rows().get(row? as usize)?;
                ObservationId::new(row.id()).ok()
            };
            let ids = [id(0, pair.a), id(1, pair.b)];
            let [a, b] = ids;
            Some([
                observation(app, viewer, &query.a, a).await?,
                observation(app, viewer, &query.b, b).await?,
            ])
        }
        Some(None) => {
            let notice =
                "`pair` must be an observation of one of the traces; comparing the whole traces.";
            notices.push(Text::from(notice));
            query.pair = None;
            None
        }
        None => None,
    };
    add_scores(app, viewer, &mut sides).await?;
    let input = CompareInput {
        shell: viewer.shell(Section::Traces),
        query,
        sides,
        pairs,
        observations,
        notices,
    };
    let view = on_blocking_thread(move || ComparePage::new(input)).await?;
    page(StatusCode::OK, &view)
}

/// One side of the comparison; absent if the project does not have the trace or the id is invalid.
async fn side(app: &App, viewer: &Viewer, raw: &str) -> Result<Option<CompareSide>, Problem> {
    let Ok(id) = TraceId::new(raw) else {
        return Ok(None);
    };
    let Some((_, outline)) = read::trace_outline(app, &viewer.project, &id).await? else {
        return Ok(None);
    };
    let Some(trace) = read::trace_with_content(app, &viewer.project, &id).await? else {
        return Ok(None);
    };
    Ok(Some(CompareSide {
        fingerprints: traces::digests::trace_digests(app, &viewer.project, &id).await?,
        scores: HashMap::new(),
        trace,
        outline,
    }))
}

/// An observation with its content.
async fn observation(
    app: &App,
    viewer: &Viewer,
    trace: &str,
    id: Option<ObservationId>,
) -> Result<Option<Observation>, Problem> {
    match (TraceId::new(trace), id) {
        (Ok(trace), Some(id)) => {
            read::observation_with_content(app, &viewer.project, &trace, &id).await
        }
        _ => Ok(None),
    }
}

/// Adds the scores of both traces and of their observations.
async fn add_scores(
    app: &App,
    viewer: &Viewer,
    sides: &mut [Option<CompareSide>; 2],
) -> Result<(), Problem> {
    let ids = sides.iter().flatten().map(|side| side.trace.id.clone());
    let ids: Vec<TraceId> = ids.collect();
    let telemetry = &app.store.telemetry;
    let all = telemetry.newest_scores_of_traces(&viewer.project, &ids, lines::MAX_SCORES).await?;
    for side in sides.iter_mut().flatten() {
        let mut by_subject: HashMap<Option<String>, Vec<&Score>> = HashMap::new();
        for score in &all {
            let (trace, observation) = match &score.written.subject {
                Subject::Trace(trace) => (trace, None),
                Subject::Observation(trace, step) => (trace, Some(step.to_string())),
                Subject::Session(_) | Subject::Experiment(_) => continue,
            };
            if *trace == side.trace.id {
                by_subject.entry(observation).or_default().push(score);
            }
        }
        let scored = |scores: Vec<&Score>| {
            let written = scores.iter().map(|score| &score.written);
            ScoresByName::new(written.map(|written| (written.name.as_str(), &written.value)))
        };
        let by_subject = by_subject.into_iter();
        side.scores =
            by_subject.map(|(observation, scores)| (observation, scored(scores))).collect();
    }
    Ok(())
}

/// Truncates to the longest valid id, because each row of the page repeats it.
fn truncated_id(text: &str) -> String {
    text.chars().take(MAX_ID_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_list_are_selected_and_the_url_of_a_trace_named_compare_is_distinguished() {
        let params =
            CompareParams::new(Some("choose=1&trace=x&trace=a%2520b&in=%2Ftraces%3Fq%3Da"));
        assert_eq!(params.chosen, ["x", "a b"]);
        assert_eq!(params.query.list.as_deref(), Some("/traces?q=a"));
        assert!(params.is_of_page && !CompareParams::new(Some("observation=o&v=time")).is_of_page);
    }

    #[test]
    fn each_invalid_parameter_adds_a_notice() {
        let params =
            CompareParams::new(Some("a=x&b=y&pair=z&diff=odd&space=odd&at=odd&in=javascript%3A"));
        let notices: Vec<&str> = params.notices.iter().map(Text::raw).collect();
        for (notice, start) in notices.iter().zip(["`pair` ", "`diff` ", "`space` ", "`at` "]) {
            assert!(notice.starts_with(start), "{notice}");
        }
        assert_eq!((notices.len(), params.query.list), (4, None));
    }
}

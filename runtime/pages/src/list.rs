//! `GET /traces`: the latest traces that fit the filter.

use std::collections::HashMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::filter::Filter;
use perpend_domain::ids::TraceId;
use perpend_domain::score::{Score, Subject};
use perpend_domain::trace::Trace;
use perpend_ui::{Chip, Pager, Section, Text, TraceLine, TracesPage};
use perpend_web::problem::Problem;

use crate::answer::page;
use crate::filter::ListForm;
use crate::read;
use crate::state::App;
use crate::viewer::Viewer;

/// Traces on a page.
const PER_PAGE: u32 = 50;

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    form: Result<Query<ListForm>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(form) = form.map_err(|error| Problem::query("", error.body_text()))?;
    let query = form.shown();
    let mut view = TracesPage {
        shell: viewer.shell(Section::Traces),
        ..TracesPage::default()
    };
    match form.filter() {
        Ok(filter) => fill(&app, &viewer, &form, filter, &mut view).await?,
        Err(problem) => view.problem = Some(Text::from(problem)),
    }
    if view.lines.is_empty() && !query.is_set() {
        view.origin = origin(&app, &headers);
        let keys = app.store.catalog.api_keys(&viewer.project).await?;
        view.public_key = keys
            .first()
            .map_or_else(String::new, |key| key.made.public_key.to_string());
    }
    let status = if view.problem.is_some() {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    };
    view.query = query;
    page(status, &view)
}

async fn fill(
    app: &App,
    viewer: &Viewer,
    form: &ListForm,
    filter: Filter,
    view: &mut TracesPage,
) -> Result<(), Problem> {
    let number = form.page();
    let found = read::traces(app, &viewer.project, filter, number, PER_PAGE).await?;
    let ids: Vec<TraceId> = found.traces.iter().map(|trace| trace.id.clone()).collect();
    let scores = app
        .store
        .telemetry
        .scores_of_traces(&viewer.project, &ids)
        .await?;
    let mut chips: HashMap<&TraceId, Vec<Chip>> = HashMap::new();
    let mut by_name: Vec<&Score> = scores.iter().collect();
    by_name.sort_by(|a, b| a.written.name.cmp(&b.written.name));
    for score in by_name {
        if let Some(id) = trace_of(score) {
            let chip = Chip::new(&score.written.name, &score.written.value);
            chips.entry(id).or_default().push(chip);
        }
    }
    let before = u64::from(number - 1) * u64::from(PER_PAGE);
    let query = form.shown();
    view.pager = Pager {
        first: before + 1,
        last: before + found.traces.len() as u64,
        total: Some(found.n_total),
        previous: (number > 1).then(|| query.address(u64::from(number) - 1)),
        next: (before + (found.traces.len() as u64) < found.n_total)
            .then(|| query.address(u64::from(number) + 1)),
    };
    view.lines = found
        .traces
        .iter()
        .map(|trace| line(trace, chips.remove(&trace.id).unwrap_or_default()))
        .collect();
    Ok(())
}

fn trace_of(score: &Score) -> Option<&TraceId> {
    match &score.written.subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => Some(trace),
        Subject::Session(_) | Subject::Experiment(_) => None,
    }
}

fn line(trace: &Trace, scores: Vec<Chip>) -> TraceLine {
    let text = |value: &Option<String>| value.as_deref().map(Text::from);
    let [_, _, n_warnings, n_errors] = trace.n_by_level;
    TraceLine {
        id: trace.id.to_string(),
        name: text(&trace.name),
        at: trace.timestamp,
        environment: Text::from(trace.environment.as_str()),
        user: text(&trace.user_id),
        session: text(&trace.session_id),
        tags: trace
            .tags
            .iter()
            .map(|tag| Text::from(tag.as_str()))
            .collect(),
        latency_us: trace.latency_us,
        tokens: perpend_ui::total_tokens(&trace.usage),
        cost: trace.total_cost,
        n_observations: trace.n_observations,
        n_errors,
        n_warnings,
        scores,
    }
}

/// Under which address this visitor reaches the server: what exporters are to be pointed at.
fn origin(app: &App, headers: &HeaderMap) -> String {
    let config = &app.web.config;
    if let Some(url) = &config.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.map_or_else(
        || format!("http://{}", config.listen),
        |host| format!("http://{host}"),
    )
}

//! `GET P/traces/{trace}`: a trace or one of its observations, and the fragments of this page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perpend_domain::access::Permission;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::{EvaluatorId, RuleId, TraceId};
use perpend_domain::outline::Outline;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    DetailInput, DetailPage, Forms, HeadInput, RejectedForm, RowState, RowsInput, RowsPage,
    ScoreChip, Section, TraceInput, TracePage, TraceView, ViewParams, decode_segment,
};
use serde::Deserialize;

use crate::read;
use crate::read::unknown_trace;
use crate::reference;
use crate::request;
use crate::request::preferences;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::viewer::Viewer;
use crate::scores::views::{score_views, scores_about};
use crate::state::App;
use crate::trace;
use crate::trace::explain;
use crate::trace::head;
use crate::trace::params::{TraceParams, TraceWindow};
use crate::trace::views;
use crate::traces;

/// The trace id in a path.
#[derive(Debug, Deserialize)]
pub(crate) struct TracePath {
    trace: String,
}

impl TracePath {
    pub(crate) fn new(id: &str) -> Self {
        Self { trace: id.to_owned() }
    }

    /// An invalid id gives the same error as an unknown one.
    pub(crate) fn id(&self) -> Result<TraceId, Problem> {
        TraceId::new(decode_segment(&self.trace)).map_err(|_| unknown_trace())
    }
}

/// The outline of a trace and a revision that it includes.
async fn outline(app: &App, viewer: &Viewer, id: &TraceId) -> Result<(i64, Arc<Outline>), Problem> {
    let outline = read::trace_outline(app, &viewer.project, id).await?;
    outline.ok_or_else(unknown_trace)
}

/// `GET P/traces/{trace}`: the URL that the API returns as `htmlPath`.
pub(crate) async fn trace_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    render_page(&app, &viewer, path.id()?, query.as_deref(), RejectedForm::default()).await
}

/// The page with a form that was rejected.
pub(crate) async fn rejected_form_page(
    app: &App,
    viewer: &Viewer,
    id: TraceId,
    back: &str,
    tried: RejectedForm,
) -> Result<Response, Problem> {
    let query = back.split_once('?').map(|(_, query)| query);
    let viewer = viewer.with_return_path(back);
    let mut response = render_page(app, &viewer, id, query, tried).await?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}

async fn render_page(
    app: &App,
    viewer: &Viewer,
    id: TraceId,
    query: Option<&str>,
    tried: RejectedForm,
) -> Result<Response, Problem> {
    let mut params = TraceParams::new(query);
    // Read first: the page polls for changes after this revision.
    let Some((revision, outline)) = read::trace_outline(app, &viewer.project, &id).await? else {
        return trace::scores_only::trace(app, viewer, id).await;
    };
    params.deselect_unknown(&outline);
    params.fit_zoom(&outline);
    if let Some(neighbours) = params.view_params.neighbours.take() {
        let neighbors = traces::neighbors::neighbors(app, viewer, &neighbours.list, &id);
        params.view_params.neighbours = Some(neighbors.await?);
    }
    let head = HeadInput {
        faults: std::mem::take(&mut params.faults),
        rejected_form: tried.clone(),
        version: head::state_version(app, viewer, &id, revision).await?,
        ..head::head_input(app, viewer, &id, &outline).await?
    };
    match params.view_params.trace_view {
        TraceView::Tree | TraceView::Time => {}
        TraceView::Thread => return views::thread(app, viewer, &outline, (id, head), params).await,
        TraceView::Log => return views::log(app, viewer, &outline, (id, head), params).await,
    }
    let observation = match &params.observation {
        Some(observation) => {
            read::observation_with_content(app, &viewer.project, &id, observation).await?
        }
        None => None,
    };
    let trace = match &observation {
        Some(_) => read::trace_without_content(app, &viewer.project, &id).await?,
        None => read::trace_with_content(app, &viewer.project, &id).await?,
    };
    let trace = trace.ok_or_else(unknown_trace)?;
    let selected =
        observation.as_ref().and_then(|observation| outline.find(observation.id.as_str()));
    let rules = params.rules;
    let window = params.window(&outline, selected, false);
    let row_scores = row_scores(app, viewer, &id, &window).await?;
    let target =
        Target::within(id.clone(), observation.as_ref().map(|observation| observation.id.clone()));
    let mut detail = detail_input(app, viewer, &target, rules, &tried).await?;
    if observation.is_none() {
        let address = |observation: &str| window.address(observation);
        detail.observation_scores =
            Some(trace::observation_scores::observation_scores(app, viewer, &id, address).await?);
    }
    detail.self_time_us = selected.and_then(|row| outline.self_time_us(row));
    let selected_id = observation.as_ref().map(|observation| observation.id.as_str());
    let row_state = RowState::new(selected_id, &window.folds);
    set_forms(&mut detail, viewer, &row_state, &window.view_params);
    let make = move || {
        let pane = match &observation {
            Some(observation) => DetailPage::of_observation(observation, detail),
            None => DetailPage::of_trace(&trace, detail),
        };
        (trace, observation.is_none(), pane)
    };
    let (trace, trace_selected, detail) = on_blocking_thread(make).await?;
    let view = TracePage::new(TraceInput {
        shell: viewer
            .shell(Section::Traces)
            .with_api(reference::equivalent_requests::trace(viewer, &id)),
        trace,
        trace_selected,
        detail,
        rows: rows_of(&window, &row_scores, true, revision),
        head,
    });
    let mut response = page(StatusCode::OK, &view)?;
    store_forms(app, &mut response, viewer, &window.view_params);
    Ok(response)
}

/// `GET P/_/traces/{trace}/detail`: the details, for scripts.
pub(crate) async fn detail_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let id = path.id()?;
    let mut params = TraceParams::new(query.as_deref());
    let row_state = params.kept();
    let target = Target::within(id.clone(), params.observation.take());
    let rejected = RejectedForm::default();
    let mut input = detail_input(&app, &viewer, &target, params.rules, &rejected).await?;
    match target.observation() {
        Some(observation) => {
            let (_, outline) = outline(&app, &viewer, &id).await?;
            let row = outline.find(observation.as_str());
            input.self_time_us = row.and_then(|row| outline.self_time_us(row));
        }
        None => {
            let address = |observation: &str| params.address(observation);
            input.observation_scores = Some(
                trace::observation_scores::observation_scores(&app, &viewer, &id, address).await?,
            );
        }
    }
    set_forms(&mut input, &viewer, &row_state, &params.view_params);
    let view = match target.observation() {
        Some(observation) => {
            let observation =
                read::observation_with_content(&app, &viewer.project, &id, observation).await?;
            let observation = observation.ok_or_else(unknown_trace)?;
            on_blocking_thread(move || DetailPage::of_observation(&observation, input)).await?
        }
        None => {
            let whole = read::trace_with_content(&app, &viewer.project, &id).await?;
            let whole = whole.ok_or_else(unknown_trace)?;
            on_blocking_thread(move || DetailPage::of_trace(&whole, input)).await?
        }
    };
    let mut response = page(StatusCode::OK, &view)?;
    store_forms(&app, &mut response, &viewer, &params.view_params);
    Ok(response)
}

/// `GET P/_/traces/{trace}/rows`: a window of rows. If the page shows another revision, its row numbers may have changed, so
/// it gets a window around its anchor instead.
pub(crate) async fn rows_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let id = path.id()?;
    let mut params = TraceParams::new(query.as_deref());
    let (revision, outline) = outline(&app, &viewer, &id).await?;
    params.fit_zoom(&outline);
    let selected = params.observation.as_ref();
    let selected = selected.and_then(|observation| outline.find(observation.as_str()));
    let has_changed = params.revision.is_some_and(|shown| shown != revision);
    let with_map = has_changed || params.toggles();
    let window = params.window(&outline, selected, has_changed);
    let row_scores = row_scores(&app, &viewer, &id, &window).await?;
    let view = RowsPage::new(&rows_of(&window, &row_scores, with_map, revision));
    page(StatusCode::OK, &view)
}

/// `GET P/_/traces/{trace}/seek`: the window around an observation or around the next or previous error; 204 without a match.
pub(crate) async fn seek_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let id = path.id()?;
    let mut params = TraceParams::new(query.as_deref());
    let (revision, outline) = outline(&app, &viewer, &id).await?;
    params.fit_zoom(&outline);
    let from = params.from.as_deref().and_then(|observation| outline.find(observation));
    let found = match params.what.as_deref() {
        Some("error") => outline.next_error(from, params.is_backwards),
        Some("step") => from,
        _ => return Err(Problem::not_found("search")),
    };
    let Some(found) = found else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let window = params.reveal(&outline, found);
    if !window.shows_selected() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let row_scores = row_scores(&app, &viewer, &id, &window).await?;
    let view = RowsPage::new(&rows_of(&window, &row_scores, true, revision));
    page(StatusCode::OK, &view)
}

/// Sets the display forms of the values, from the URL or else the last selected ones, and the URL of links to other forms.
fn set_forms(
    detail: &mut DetailInput,
    viewer: &Viewer,
    row_state: &RowState,
    view_params: &ViewParams,
) {
    detail.forms = view_params.forms.or(&viewer.forms);
    detail.address =
        row_state.address(&ViewParams { forms: Forms::default(), ..view_params.clone() });
}

/// Stores the display forms of the URL in a cookie if they differ from the last selected ones.
fn store_forms(app: &App, response: &mut Response, viewer: &Viewer, view_params: &ViewParams) {
    let forms = view_params.forms.or(&viewer.forms);
    if forms != viewer.forms {
        let query = forms.query();
        let value = query.trim_start_matches('&');
        preferences::store(app, response, request::origin::FORMS_COOKIE, value);
    }
}

/// Scores of the rows in a window.
struct RowScores {
    /// Number of scores by observation id; the key is `None` for the trace.
    n: HashMap<Option<String>, u64>,
    /// Chips by observation id.
    chips: HashMap<String, Vec<ScoreChip>>,
}

async fn row_scores(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    window: &TraceWindow<'_>,
) -> Result<RowScores, Problem> {
    let telemetry = &app.store.telemetry;
    let ids = window.ids();
    let n = telemetry.score_counts(&viewer.project, trace, &ids).await?;
    let has_observations = n.keys().any(Option::is_some);
    let chips = match has_observations {
        true => trace::observation_scores::chips_by_observation(app, viewer, trace).await?,
        false => HashMap::new(),
    };
    Ok(RowScores { n, chips })
}

const fn rows_of<'a>(
    window: &'a TraceWindow<'a>,
    scores: &'a RowScores,
    with_map: bool,
    revision: i64,
) -> RowsInput<'a> {
    RowsInput {
        view: &window.view,
        folds: &window.folds,
        at: window.at,
        n: window.n,
        anchor: window.anchor,
        revision,
        selected: window.selected,
        n_scores: &scores.n,
        chips: &scores.chips,
        with_map,
        view_params: &window.view_params,
    }
}

/// Scores of the target with their origins, its annotations, and the outcomes of the rules from this index on.
pub(crate) async fn detail_input(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    from: usize,
    rejected_form: &RejectedForm,
) -> Result<DetailInput, Problem> {
    let mut without_score = 0;
    let (about, outcomes) = loop {
        let about = scores_about(app, viewer, target).await?;
        let origins = about.iter().filter_map(|score| score.written.origin.as_ref());
        let scored: HashSet<(RuleId, EvaluatorId)> =
            origins.map(|origin| (origin.rule_id.clone(), origin.evaluator_id.clone())).collect();
        let outcomes = explain::rule_outcomes(app, viewer, target, &scored, from).await?;
        // An execution may have completed between the two reads, so its score is read again. An execution whose score was
        // deleted is counted in both rounds, which ends the loop.
        if outcomes.without_score <= without_score {
            break (about, outcomes);
        }
        without_score = outcomes.without_score;
    };
    let mut outcomes = outcomes;
    if let Some(trace) = target.trace() {
        trace::observation_scores::add_names(app, viewer, trace, &mut outcomes.all).await?;
    }
    Ok(DetailInput {
        base: viewer.base(),
        form_context: viewer.form_context().clone(),
        may_write_datasets: viewer.may(Permission::DatasetWrite),
        may_write_evaluators: viewer.may(Permission::EvaluatorWrite),
        scores: score_views(app, viewer, &about).await?,
        annotations: trace::annotations::annotations(app, viewer, target, &about, rejected_form)
            .await?,
        outcomes: outcomes.all,
        rules: outcomes.range,
        ..DetailInput::default()
    })
}

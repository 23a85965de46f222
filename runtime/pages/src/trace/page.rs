//! `GET P/traces/{trace}`: one trace, one of its steps, and the parts of this page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
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

/// The trace in an address.
#[derive(Debug, Deserialize)]
pub(crate) struct TracePath {
    trace: String,
}

impl TracePath {
    /// The trace with this id.
    pub(crate) fn named(id: &str) -> Self {
        Self { trace: id.to_owned() }
    }

    /// An id that no trace can have is one that none has.
    pub(crate) fn id(&self) -> Result<TraceId, Problem> {
        TraceId::new(decode_segment(&self.trace)).map_err(|_| unknown_trace())
    }
}

/// Its outline, with the revision of the trace that it shows at least.
async fn outline(app: &App, viewer: &Viewer, id: &TraceId) -> Result<(i64, Arc<Outline>), Problem> {
    let found = read::trace_outline(app, &viewer.project, id).await?;
    found.ok_or_else(unknown_trace)
}

/// `GET P/traces/{trace}`: the address that the API hands out as `htmlPath`.
pub(crate) async fn trace_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let shown = whole(&app, &viewer, of.id()?, query.as_deref(), RejectedForm::default());
    shown.await
}

/// The page as an answer to a form on it that was not accepted.
pub(crate) async fn rejected_form_page(
    app: &App,
    viewer: &Viewer,
    id: TraceId,
    back: &str,
    tried: RejectedForm,
) -> Result<Response, Problem> {
    let query = back.split_once('?').map(|(_, query)| query);
    let viewer = viewer.with_return_path(back);
    let mut response = whole(app, &viewer, id, query, tried).await?;
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(response)
}

async fn whole(
    app: &App,
    viewer: &Viewer,
    id: TraceId,
    query: Option<&str>,
    tried: RejectedForm,
) -> Result<Response, Problem> {
    let mut params = TraceParams::new(query);
    // Before all else: what changes in between is followed up.
    let Some((revision, outline)) = read::trace_outline(app, &viewer.project, &id).await? else {
        return trace::scores_only::trace(app, viewer, id).await;
    };
    params.pass_over_unknown(&outline);
    params.fit_zoom(&outline);
    if let Some(within) = params.looking.neighbours.take() {
        let beside = traces::neighbors::neighbors(app, viewer, &within.list, &id);
        params.looking.neighbours = Some(beside.await?);
    }
    let head = HeadInput {
        faults: std::mem::take(&mut params.faults),
        rejected_form: tried,
        version: head::state_version(app, viewer, &id, revision).await?,
        ..head::head_input(app, viewer, &id, &outline).await?
    };
    match params.looking.trace_view {
        TraceView::Tree | TraceView::Time => {}
        TraceView::Thread => return views::thread(app, viewer, &outline, (id, head), params).await,
        TraceView::Log => return views::log(app, viewer, &outline, (id, head), params).await,
    }
    let step = match &params.observation {
        Some(step) => read::observation_with_content(app, &viewer.project, &id, step).await?,
        None => None,
    };
    let trace = match &step {
        Some(_) => read::trace_without_content(app, &viewer.project, &id).await?,
        None => read::trace_with_content(app, &viewer.project, &id).await?,
    };
    let trace = trace.ok_or_else(unknown_trace)?;
    let selected = step.as_ref().and_then(|step| outline.find(step.id.as_str()));
    let rules = params.rules;
    let window = params.window(&outline, selected, false);
    let row_scores = row_scores(app, viewer, &id, &window).await?;
    let target = Target::within(id.clone(), step.as_ref().map(|step| step.id.clone()));
    let mut detail = detail_of(app, viewer, &target, rules).await?;
    if step.is_none() {
        let address = |step: &str| window.address(step);
        detail.observation_scores =
            Some(trace::observation_scores::observation_scores(app, viewer, &id, address).await?);
    }
    detail.self_time_us = selected.and_then(|row| outline.own_us(row));
    let observation = step.as_ref().map(|step| step.id.as_str());
    let kept = RowState::new(observation, &window.folds);
    in_forms(&mut detail, viewer, &kept, &window.looking);
    let make = move || {
        let pane = match &step {
            Some(step) => DetailPage::of_observation(step, detail),
            None => DetailPage::of_trace(&trace, detail),
        };
        (trace, step.is_none(), pane)
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
    keep_forms(&mut response, viewer, &window.looking);
    Ok(response)
}

/// `GET P/_/traces/{trace}/detail`: the pane alone, for the script that swaps it.
pub(crate) async fn detail_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let id = of.id()?;
    let mut params = TraceParams::new(query.as_deref());
    let kept = params.kept();
    let target = Target::within(id.clone(), params.observation.take());
    let mut input = detail_of(&app, &viewer, &target, params.rules).await?;
    match target.observation() {
        Some(step) => {
            let (_, outline) = outline(&app, &viewer, &id).await?;
            let row = outline.find(step.as_str());
            input.self_time_us = row.and_then(|row| outline.own_us(row));
        }
        None => {
            let address = |step: &str| params.address(step);
            input.observation_scores = Some(
                trace::observation_scores::observation_scores(&app, &viewer, &id, address).await?,
            );
        }
    }
    in_forms(&mut input, &viewer, &kept, &params.looking);
    let view = match target.observation() {
        Some(observation) => {
            let step =
                read::observation_with_content(&app, &viewer.project, &id, observation).await?;
            let step = step.ok_or_else(unknown_trace)?;
            on_blocking_thread(move || DetailPage::of_observation(&step, input)).await?
        }
        None => {
            let whole = read::trace_with_content(&app, &viewer.project, &id).await?;
            let whole = whole.ok_or_else(unknown_trace)?;
            on_blocking_thread(move || DetailPage::of_trace(&whole, input)).await?
        }
    };
    let mut response = page(StatusCode::OK, &view)?;
    keep_forms(&mut response, &viewer, &params.looking);
    Ok(response)
}

/// `GET P/_/traces/{trace}/rows`: a window of rows. A page whose rows are of another revision gets a window around its
/// anchor instead: the place it asks for may be another one now.
pub(crate) async fn rows_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let id = of.id()?;
    let mut params = TraceParams::new(query.as_deref());
    let (revision, outline) = outline(&app, &viewer, &id).await?;
    params.fit_zoom(&outline);
    let selected = params.observation.as_ref();
    let selected = selected.and_then(|step| outline.find(step.as_str()));
    let is_other = params.revision.is_some_and(|known| known != revision);
    let with_map = is_other || params.toggles();
    let window = params.window(&outline, selected, is_other);
    let row_scores = row_scores(&app, &viewer, &id, &window).await?;
    let view = RowsPage::new(&rows_of(&window, &row_scores, with_map, revision));
    page(StatusCode::OK, &view)
}

/// `GET P/_/traces/{trace}/seek`: the window around a step, or around the next error after, or before, one; nothing (204)
/// when there is none.
pub(crate) async fn seek_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(of): Path<TracePath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let id = of.id()?;
    let mut params = TraceParams::new(query.as_deref());
    let (revision, outline) = outline(&app, &viewer, &id).await?;
    params.fit_zoom(&outline);
    let from = params.from.as_deref().and_then(|step| outline.find(step));
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

/// Shows its values in the forms of this address, or else in those chosen last, and leads from there to other ones.
fn in_forms(detail: &mut DetailInput, viewer: &Viewer, kept: &RowState, looking: &ViewParams) {
    detail.forms = looking.forms.or(&viewer.forms);
    detail.address = kept.address(&ViewParams { forms: Forms::default(), ..looking.clone() });
}

/// Has the browser keep the forms of an address that differ from those chosen before.
fn keep_forms(response: &mut Response, viewer: &Viewer, looking: &ViewParams) {
    let forms = looking.forms.or(&viewer.forms);
    if forms != viewer.forms {
        let query = forms.query();
        let value = query.trim_start_matches('&');
        preferences::set_cookie(response, request::origin::FORMS_COOKIE, value);
    }
}

/// The scores of the rows of a window.
struct RowScores {
    /// How many there are about the trace and about each row.
    n: HashMap<Option<String>, u64>,
    /// By the ids of steps.
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
    let has_steps = n.keys().any(Option::is_some);
    let chips = match has_steps {
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
        view_params: &window.looking,
    }
}

/// Scores of the target with what made them, and what each rule from this one on did with it.
pub(crate) async fn detail_of(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    from: usize,
) -> Result<DetailInput, Problem> {
    let mut without_score = 0;
    let (about, verdicts) = loop {
        let about = scores_about(app, viewer, target).await?;
        let origins = about.iter().filter_map(|score| score.written.origin.as_ref());
        let scored: HashSet<(RuleId, EvaluatorId)> =
            origins.map(|origin| (origin.rule_id.clone(), origin.evaluator_id.clone())).collect();
        let verdicts = explain::verdicts(app, viewer, target, &scored, from).await?;
        // An execution may have ended between the two reads: its score is there now. One whose score was deleted is
        // counted again, and ends the loop.
        if verdicts.without_score <= without_score {
            break (about, verdicts);
        }
        without_score = verdicts.without_score;
    };
    let mut verdicts = verdicts;
    if let Some(trace) = target.trace() {
        trace::observation_scores::add_names(app, viewer, trace, &mut verdicts.all).await?;
    }
    Ok(DetailInput {
        base: viewer.base(),
        form_context: viewer.form_context().clone(),
        scores: score_views(app, viewer, &about).await?,
        outcomes: verdicts.all,
        rules: verdicts.asked,
        ..DetailInput::default()
    })
}

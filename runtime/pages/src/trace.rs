//! `GET P/traces/{trace}`: one trace, and one of its steps.

use std::collections::{HashMap, HashSet};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use futures_util::stream;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ObservationId, RuleId, TraceId};
use perpend_domain::score::{Score, ScoreOrigin, Subject};
use perpend_ui::{
    DetailInput, DetailPage, Origin, ScoreView, Section, Text, TraceInput, TracePage,
};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::{page, unrendered};
use crate::state::App;
use crate::viewer::Viewer;
use crate::{explain, read};

/// Which step is looked at, and whether all rows are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Look {
    observation: Option<String>,
    all: Option<String>,
}

impl Look {
    /// An id that no observation can have is one that none has: the trace is shown.
    fn observation(&self) -> Option<ObservationId> {
        self.observation
            .as_deref()
            .and_then(|id| ObservationId::new(id).ok())
    }
}

fn unknown() -> Problem {
    Problem::not_found("trace")
}

/// The trace in an address.
#[derive(Debug, Deserialize)]
pub(super) struct OfTrace {
    trace: String,
}

/// `GET P/traces/{trace}`: the address that the API hands out as `htmlPath`.
pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    Path(OfTrace { trace }): Path<OfTrace>,
    Query(look): Query<Look>,
) -> Result<Response, Problem> {
    let id = TraceId::new(&trace).map_err(|_| unknown())?;
    let (mut trace, mut observations) = read::trace_with_steps(&app, &viewer.project, &id)
        .await?
        .ok_or_else(unknown)?;
    let selected = look.observation();
    let looked_at = selected
        .as_ref()
        .and_then(|id| observations.iter_mut().find(|step| step.id == *id));
    let target = Target::within(id.clone(), looked_at.as_ref().map(|step| step.id.clone()));
    match looked_at {
        Some(step) => {
            if let Some(whole) = read::step(&app, &viewer.project, &id, &step.id).await? {
                step.content = whole.content;
            }
        }
        None => {
            if let Some(whole) = read::whole(&app, &viewer.project, &id).await? {
                trace = whole;
            }
        }
    }
    let scores = app
        .store
        .telemetry
        .scores_of_traces(&viewer.project, &[id])
        .await?;
    let detail = detail_of(&app, &viewer, &target, &scores).await?;
    let view = TracePage::new(TraceInput {
        shell: viewer.shell(Section::Traces),
        trace,
        observations,
        selected,
        detail,
        scored: scores
            .iter()
            .map(|score| observation_of(score).cloned())
            .collect(),
        show_all: look.all.is_some(),
    });
    if !view.is_long() {
        return page(StatusCode::OK, &view);
    }
    let pieces = view.into_pieces().map_err(|error| unrendered(&error))?;
    // A piece that cannot be made breaks the connection off: half a page does not pass for a whole one.
    let pieces = pieces.map(|piece| piece.inspect_err(|error| drop(unrendered(error))));
    let body = Body::from_stream(stream::iter(pieces));
    Ok(Html(body).into_response())
}

/// `GET P/_/traces/{trace}/detail`: the pane alone, for the script that swaps it.
pub(super) async fn detail(
    State(app): State<App>,
    viewer: Viewer,
    Path(OfTrace { trace }): Path<OfTrace>,
    Query(look): Query<Look>,
) -> Result<Response, Problem> {
    let id = TraceId::new(&trace).map_err(|_| unknown())?;
    let target = Target::within(id.clone(), look.observation());
    let scores = app
        .store
        .telemetry
        .scores_of_traces(&viewer.project, std::slice::from_ref(&id))
        .await?;
    let input = detail_of(&app, &viewer, &target, &scores).await?;
    let view = match target.observation() {
        Some(observation) => {
            let step = read::step(&app, &viewer.project, &id, observation).await?;
            DetailPage::of_observation(&step.ok_or_else(unknown)?, input)
        }
        None => {
            let whole = read::whole(&app, &viewer.project, &id).await?;
            DetailPage::of_trace(&whole.ok_or_else(unknown)?, input)
        }
    };
    page(StatusCode::OK, &view)
}

fn observation_of(score: &Score) -> Option<&ObservationId> {
    match &score.written.subject {
        Subject::Observation(_, observation) => Some(observation),
        _ => None,
    }
}

/// The scores among these that are about the target.
async fn detail_of(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    scores: &[Score],
) -> Result<DetailInput, Problem> {
    let about: Vec<&Score> = scores
        .iter()
        .filter(|score| observation_of(score) == target.observation())
        .collect();
    said(app, viewer, target, &about).await
}

/// Scores about the target, with what made them, and what each rule did with it.
pub(super) async fn said(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    about: &[&Score],
) -> Result<DetailInput, Problem> {
    let origins = about
        .iter()
        .filter_map(|score| score.written.origin.as_ref());
    let names = Names::read(app, viewer, origins).await?;
    let scored: HashSet<(RuleId, EvaluatorId)> = about
        .iter()
        .filter_map(|score| score.written.origin.as_ref())
        .map(|origin| (origin.rule_id.clone(), origin.evaluator_id.clone()))
        .collect();
    let views = about.iter().map(|score| {
        let written = &score.written;
        ScoreView::new(
            &written.name,
            &written.value,
            written.source,
            written.timestamp,
        )
        .comment(written.comment.as_deref())
        .origin(written.origin.as_ref().map(|origin| names.origin(origin)))
    });
    Ok(DetailInput {
        base: viewer.base(),
        scores: views.collect(),
        verdicts: explain::verdicts(app, viewer, target, &scored).await?,
    })
}

/// Names behind the ids of origins. What was deleted since is shown by its id.
#[derive(Default)]
struct Names {
    rules: HashMap<RuleId, String>,
    versions: HashMap<EvaluatorVersionId, Version>,
}

struct Version {
    evaluator: String,
    number: u32,
    plugin: String,
}

impl Names {
    async fn read(
        app: &App,
        viewer: &Viewer,
        origins: impl Iterator<Item = &ScoreOrigin>,
    ) -> Result<Self, Problem> {
        let (store, project) = (&app.store, &viewer.project);
        let mut names = Self::default();
        for origin in origins {
            if !names.rules.contains_key(&origin.rule_id)
                && let Some(rule) = store.catalog.rule(project, &origin.rule_id).await?
            {
                names.rules.insert(rule.id, rule.name);
            }
            if names.versions.contains_key(&origin.evaluator_version_id) {
                continue;
            }
            let version = store
                .catalog
                .evaluator_version(project, &origin.evaluator_version_id)
                .await?;
            let evaluator = store
                .catalog
                .evaluator(project, &origin.evaluator_id)
                .await?;
            if let (Some((_, version)), Some(evaluator)) = (version, evaluator) {
                let plugin = format!(
                    "{} {} · {}",
                    version.plugin_name, version.plugin_version, version.plugin_evaluator
                );
                let known = Version {
                    evaluator: evaluator.name,
                    number: version.number,
                    plugin,
                };
                names.versions.insert(version.id, known);
            }
        }
        Ok(names)
    }

    fn origin(&self, origin: &ScoreOrigin) -> Origin {
        let version = self.versions.get(&origin.evaluator_version_id);
        let rule = self
            .rules
            .get(&origin.rule_id)
            .map_or(origin.rule_id.as_str(), String::as_str);
        Origin {
            evaluator: match version {
                Some(version) => Text::from(version.evaluator.as_str()),
                None => Text::from(format!("{} (deleted)", origin.evaluator_id)),
            },
            version: version.map(|version| version.number),
            plugin: version.map(|version| Text::from(version.plugin.as_str())),
            rule: Text::from(rule),
            fingerprint: origin.fingerprint.to_string(),
            execution: Text::from(origin.execution_id.as_str()),
            sampling: origin.inclusion_probability,
        }
    }
}

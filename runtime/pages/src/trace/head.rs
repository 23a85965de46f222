//! The header of all views of a trace.

use std::collections::BTreeMap;

use perpend_domain::access::Permission::TraceMark;
use perpend_domain::evaluation::{TargetKind, Timing};
use perpend_domain::ids::TraceId;
use perpend_domain::observation::ObservationKind;
use perpend_domain::outline::Outline;
use perpend_http_kit::problem::Problem;
use perpend_scheduler::completion;
use perpend_views::{HeadInput, TraceState, score_chips};

use crate::request::viewer::Viewer;
use crate::state::App;

/// Header data other than the trace itself; the caller sets a rejected form and messages about parameters.
pub(crate) async fn head_input(
    app: &App,
    viewer: &Viewer,
    id: &TraceId,
    outline: &Outline,
) -> Result<HeadInput, Problem> {
    let telemetry = &app.store.telemetry;
    let scores = telemetry.scores_about(&viewer.project, id, None).await?;
    let mut kinds: BTreeMap<ObservationKind, u64> = BTreeMap::new();
    for row in outline.rows() {
        *kinds.entry(row.kind).or_default() += 1;
    }
    Ok(HeadInput {
        kinds: kinds.into_iter().collect(),
        may_mark: viewer.may(TraceMark),
        first_token_us: outline.first_token_us(),
        state: trace_state(app, viewer, id).await?,
        chips: score_chips(&scores.iter().collect::<Vec<_>>()),
        ..HeadInput::default()
    })
}

/// Identifies the state of a trace and its scores. Changes of scores are detected for up to 10,000 scores.
pub(crate) async fn state_version(
    app: &App,
    viewer: &Viewer,
    id: &TraceId,
    revision: i64,
) -> Result<String, Problem> {
    let telemetry = &app.store.telemetry;
    let (n, newest) = telemetry.score_mark(&viewer.project, id).await?;
    Ok(format!("{revision}-{n}-{newest}"))
}

/// Whether a trace is complete; absent if the project does not have the trace.
pub(crate) async fn trace_state(
    app: &App,
    viewer: &Viewer,
    id: &TraceId,
) -> Result<Option<TraceState>, Problem> {
    let telemetry = &app.store.telemetry;
    let found = telemetry.progress_now(&viewer.project, id).await?;
    let now = app.web.clock.now();
    Ok(found.map(|progress| {
        let timing = Timing::default();
        let complete = completion(TargetKind::Trace, &progress, &timing, progress.first_seen);
        TraceState { progress, complete: (complete.at, complete.reason), now }
    }))
}

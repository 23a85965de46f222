//! Rows of lists of traces, with their scores.

use std::collections::HashMap;

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, Subject};
use perpend_domain::trace::Trace;
use perpend_domain::usage::Side;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    Preview, Text, TraceContent, TraceLine, score_chips, side_tokens, total_tokens,
};

use crate::state::App;

/// Bytes read of an input or output, whose beginning a row shows.
pub(crate) const MAX_CONTENT: usize = 256 << 10;

/// Newest scores of one trace that are read for its row or its page.
pub(crate) const MAX_SCORES: u32 = 200;

/// One row per trace, in the same order, without columns of scores and metadata by name.
pub(crate) async fn trace_lines(
    app: &App,
    project: &ProjectId,
    traces: &[Trace],
) -> Result<Vec<TraceLine>, Problem> {
    let scores = scores_of(app, project, traces).await?;
    Ok(traces.iter().zip(&scores).map(|(trace, scores)| line(trace, scores, &[])).collect())
}

/// The rows of the list of traces. The texts are highlighted in previews.
pub(crate) async fn list_lines(
    app: &App,
    project: &ProjectId,
    traces: Vec<Trace>,
    sought: &[&str],
) -> Result<Vec<TraceLine>, Problem> {
    let scores = scores_of(app, project, &traces).await?;
    let row = |(trace, scores): (Trace, Vec<Score>)| {
        let line = line(&trace, &scores, sought);
        let metadata = trace.metadata;
        TraceLine { content: TraceContent { metadata, scores, ..TraceContent::default() }, ..line }
    };
    Ok(traces.into_iter().zip(scores).map(row).collect())
}

/// The row of a file: without previews and chips.
pub(crate) fn file_line(mut trace: Trace, scores: Vec<Score>) -> TraceLine {
    let content = TraceContent {
        input: trace.input.take(),
        output: trace.output.take(),
        metadata: std::mem::take(&mut trace.metadata),
        scores,
    };
    TraceLine { content, ..line_without_scores(&trace) }
}

/// The row of a trace whose scores are shown elsewhere.
pub(crate) fn line_without_scores(trace: &Trace) -> TraceLine {
    line(trace, &[], &[])
}

/// The newest scores of each trace and of its observations.
pub(crate) async fn scores_of(
    app: &App,
    project: &ProjectId,
    traces: &[Trace],
) -> Result<Vec<Vec<Score>>, Problem> {
    let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id.clone()).collect();
    let telemetry = &app.store.telemetry;
    let mut by_trace: HashMap<TraceId, Vec<Score>> = HashMap::new();
    for score in telemetry.newest_scores_of_traces(project, &ids, MAX_SCORES).await? {
        if let Some(id) = trace_of(&score).cloned() {
            by_trace.entry(id).or_default().push(score);
        }
    }
    Ok(ids.iter().map(|id| by_trace.remove(id).unwrap_or_default()).collect())
}

pub(crate) fn trace_of(score: &Score) -> Option<&TraceId> {
    match &score.written.subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => Some(trace),
        Subject::Session(_) | Subject::Experiment(_) => None,
    }
}

fn line(trace: &Trace, scores: &[Score], sought: &[&str]) -> TraceLine {
    let preview = |value: Option<&Payload>| Preview::of_payload(value?, sought);
    let text = |value: &Option<String>| value.as_deref().map(Text::from);
    let [_, _, n_warnings, n_errors] = trace.n_by_level;
    TraceLine {
        id: trace.id.to_string(),
        name: text(&trace.name),
        at: trace.timestamp,
        environment: Text::from(trace.environment.as_str()),
        user: text(&trace.user_id),
        session: text(&trace.session_id),
        bookmarked: trace.bookmarked,
        tags: trace.tags.iter().map(|tag| Text::from(tag.as_str())).collect(),
        observation_names: trace.observation_names.clone(),
        latency_us: trace.latency_us,
        tokens: total_tokens(&trace.usage),
        cost: trace.cost(),
        n_observations: trace.n_observations,
        n_errors,
        n_warnings,
        scores: score_chips(&scores.iter().collect::<Vec<_>>()),
        input: preview(trace.input.as_ref()),
        output: preview(trace.output.as_ref()),
        release: text(&trace.release),
        version: text(&trace.version),
        parts: [Side::Input, Side::Output]
            .map(|side| side_tokens(&trace.usage, side).unwrap_or_default()),
        content: TraceContent::default(),
    }
}

/// The beginning of a value, on one line; absent if empty.
pub(crate) fn beginning(value: &Payload) -> Option<Text> {
    let text = perpend_views::beginning(value);
    (!text.is_empty()).then(|| Text::lines(text))
}

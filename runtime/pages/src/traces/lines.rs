//! Rows of lists of traces, with their scores.

use std::collections::HashMap;

use perpend_domain::filter::member_at;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, Subject};
use perpend_domain::trace::Trace;
use perpend_domain::usage::Side;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    Columns, Preview, Text, TraceLine, aggregate, score_chips, side_tokens, total_tokens,
};

use crate::state::App;

/// One row per trace, in the same order.
pub(crate) async fn trace_lines(
    app: &App,
    project: &ProjectId,
    traces: &[Trace],
) -> Result<Vec<TraceLine>, Problem> {
    trace_lines_with(app, project, traces, LineOptions::default()).await
}

/// Bytes read of an input or output, whose beginning a row shows.
pub(crate) const MAX_CONTENT: usize = 256 << 10;

/// Newest scores of one trace that are read for its row or its page.
pub(crate) const MAX_SCORES: u32 = 200;

/// Optional content of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineOptions<'a> {
    /// Columns for scores and metadata.
    pub(crate) columns: Option<&'a Columns>,
    /// Search texts that are highlighted.
    pub(crate) sought: &'a [&'a str],
}

/// One row per trace, with optional content.
pub(crate) async fn trace_lines_with(
    app: &App,
    project: &ProjectId,
    traces: &[Trace],
    options: LineOptions<'_>,
) -> Result<Vec<TraceLine>, Problem> {
    let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id.clone()).collect();
    let telemetry = &app.store.telemetry;
    let scores = telemetry.newest_scores_of_traces(project, &ids, MAX_SCORES).await?;
    let mut by_trace: HashMap<&TraceId, Vec<&Score>> = HashMap::new();
    for score in &scores {
        if let Some(id) = trace_of(score) {
            by_trace.entry(id).or_default().push(score);
        }
    }
    let line = |trace: &Trace| {
        let scores = by_trace.remove(&trace.id).unwrap_or_default();
        line(trace, &scores, options)
    };
    Ok(traces.iter().map(line).collect())
}

/// The row of a trace whose scores are shown elsewhere.
pub(crate) fn line_without_scores(trace: &Trace) -> TraceLine {
    line(trace, &[], LineOptions::default())
}

/// Values of the trace's own scores, by the score names that have a column.
fn score_columns(scores: &[&Score], columns: &Columns) -> HashMap<String, Text> {
    let column = |name: &str| {
        let is_own = |score: &&&Score| {
            matches!(score.written.subject, Subject::Trace(_)) && score.written.name == name
        };
        let own = scores.iter().filter(is_own);
        let values: Vec<_> = own.map(|score| &score.written.value).collect();
        Some((name.to_owned(), aggregate(&values)?))
    };
    columns.scores().filter_map(column).collect()
}

/// Beginnings of the metadata values that have a column.
fn metadata_columns(trace: &Trace, columns: &Columns) -> HashMap<String, Text> {
    let column = |key: &str| {
        let value = member_at(&trace.metadata, key)?.clone();
        Some((key.to_owned(), beginning(&Payload::from_value(value))?))
    };
    columns.metadata().filter_map(column).collect()
}

pub(crate) fn trace_of(score: &Score) -> Option<&TraceId> {
    match &score.written.subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => Some(trace),
        Subject::Session(_) | Subject::Experiment(_) => None,
    }
}

fn line(trace: &Trace, scores: &[&Score], options: LineOptions<'_>) -> TraceLine {
    let preview = |value: Option<&Payload>| Preview::of_payload(value?, options.sought);
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
        is_markable: false,
        tags: trace.tags.iter().map(|tag| Text::from(tag.as_str())).collect(),
        observation_names: trace.observation_names.clone(),
        latency_us: trace.latency_us,
        tokens: total_tokens(&trace.usage),
        cost: trace.cost(),
        n_observations: trace.n_observations,
        n_errors,
        n_warnings,
        scores: score_chips(scores),
        input: preview(trace.input.as_ref()),
        output: preview(trace.output.as_ref()),
        release: text(&trace.release),
        version: text(&trace.version),
        parts: [Side::Input, Side::Output]
            .map(|side| side_tokens(&trace.usage, side).unwrap_or_default()),
        metadata: options
            .columns
            .map(|columns| metadata_columns(trace, columns))
            .unwrap_or_default(),
        by_name: options.columns.map(|columns| score_columns(scores, columns)).unwrap_or_default(),
    }
}

/// The beginning of a value, on one line; absent if empty.
pub(crate) fn beginning(value: &Payload) -> Option<Text> {
    let text = perpend_views::beginning(value);
    (!text.is_empty()).then(|| Text::lines(text))
}

//! Traces as lines of a list, with their scores.

use std::collections::HashMap;

use perpend_domain::filter::member_at;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::quantity::Quantity;
use perpend_domain::score::{Score, Subject};
use perpend_domain::trace::Trace;
use perpend_domain::usage::{Side, side_of};
use perpend_http_kit::problem::Problem;
use perpend_views::{Columns, Preview, Text, TraceLine, aggregate, score_chips};

use crate::state::App;

/// A line for each of these traces, in their order.
pub(crate) async fn trace_lines(
    app: &App,
    project: &ProjectId,
    traces: &[Trace],
) -> Result<Vec<TraceLine>, Problem> {
    trace_lines_with(app, project, traces, LineOptions::default()).await
}

/// Bytes of an input or an output that a line is made from: it shows the beginning.
pub(crate) const MAX_CONTENT: usize = 256 << 10;

/// Scores of one trace that are read for its line or for one page about it, the newest.
pub(crate) const MAX_SCORES: u32 = 200;

/// What lines show beside what all of them do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineOptions<'a> {
    /// Columns.
    pub(crate) columns: Option<&'a Columns>,
    /// Texts that are looked for.
    pub(crate) sought: &'a [&'a str],
}

/// The same with what is wanted.
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

/// The line of a trace whose scores are shown elsewhere.
pub(crate) fn line_without_scores(trace: &Trace) -> TraceLine {
    line(trace, &[], LineOptions::default())
}

/// What the scores about the trace itself say, by those of their names that have a column.
fn by_name(scores: &[&Score], columns: &Columns) -> HashMap<String, Text> {
    let said = |name: &str| {
        let is_own = |score: &&&Score| {
            matches!(score.written.subject, Subject::Trace(_)) && score.written.name == name
        };
        let own = scores.iter().filter(is_own);
        let values: Vec<_> = own.map(|score| &score.written.value).collect();
        Some((name.to_owned(), aggregate(&values)?))
    };
    columns.scores().filter_map(said).collect()
}

/// How the members of the metadata that have a column begin.
fn members(trace: &Trace, columns: &Columns) -> HashMap<String, Text> {
    let said = |key: &str| {
        let value = member_at(&trace.metadata, key)?.clone();
        Some((key.to_owned(), beginning(&Payload::from_value(value))?))
    };
    columns.metadata().filter_map(said).collect()
}

/// The tokens of all buckets of this side, as the columns of filters count them.
fn tokens(trace: &Trace, side: Side) -> u64 {
    let own = trace.usage.iter().filter(|(key, _)| side_of(key) == Some(side));
    own.map(|(_, n)| *n).sum::<Quantity>().to_u64()
}

fn trace_of(score: &Score) -> Option<&TraceId> {
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
        steps: trace.steps.clone(),
        latency_us: trace.latency_us,
        tokens: perpend_views::total_tokens(&trace.usage),
        cost: trace.cost(),
        n_observations: trace.n_observations,
        n_errors,
        n_warnings,
        scores: score_chips(scores),
        input: preview(trace.input.as_ref()),
        output: preview(trace.output.as_ref()),
        release: text(&trace.release),
        version: text(&trace.version),
        parts: [Side::Input, Side::Output].map(|side| tokens(trace, side)),
        metadata: options.columns.map(|columns| members(trace, columns)).unwrap_or_default(),
        by_name: options.columns.map(|columns| by_name(scores, columns)).unwrap_or_default(),
    }
}

/// How a value begins, on one line.
pub(crate) fn beginning(value: &Payload) -> Option<Text> {
    let said = perpend_views::beginning(value);
    (!said.is_empty()).then(|| Text::lines(said))
}

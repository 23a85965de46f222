//! Traces as lines of a list, with their scores.

use std::collections::HashMap;

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, Subject};
use perpend_domain::trace::Trace;
use perpend_ui::{Chip, Text, TraceLine};
use perpend_web::problem::Problem;

use crate::state::App;

/// Bytes of an input or output on a line, or a word more.
const BEGINNING: usize = 200;

/// A line for each of these traces, in their order.
pub(super) async fn of(
    app: &App,
    project: &ProjectId,
    traces: &[Trace],
) -> Result<Vec<TraceLine>, Problem> {
    let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id.clone()).collect();
    let scores = app.store.telemetry.scores_of_traces(project, &ids).await?;
    let mut chips: HashMap<&TraceId, Vec<Chip>> = HashMap::new();
    let mut by_name: Vec<&Score> = scores.iter().collect();
    by_name.sort_by(|a, b| a.written.name.cmp(&b.written.name));
    for score in by_name {
        if let Some(id) = trace_of(score) {
            let chip = Chip::new(&score.written.name, &score.written.value);
            chips.entry(id).or_default().push(chip);
        }
    }
    let line = |trace: &Trace| line(trace, chips.remove(&trace.id).unwrap_or_default());
    Ok(traces.iter().map(line).collect())
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
        input: trace.input.as_ref().and_then(beginning),
        output: trace.output.as_ref().and_then(beginning),
    }
}

/// How a value begins, on one line.
pub(super) fn beginning(value: &Payload) -> Option<Text> {
    let said = value.as_str();
    let mut words = String::new();
    for word in said.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().take(BEGINNING));
        if BEGINNING < words.len() {
            words.push('…');
            break;
        }
    }
    (!words.is_empty()).then(|| Text::from(words))
}

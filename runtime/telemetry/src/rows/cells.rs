//! Stored rows as rows for filters in memory.

use std::borrow::Cow;

use perpend_domain::content::tool_name;
use perpend_domain::filter::{Cell, CellText, Row, SCORE_COLUMNS, SCORE_NAMES};
use perpend_domain::observation::Usage;
use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, ScoreValue, Subject};
use serde_json::{Map, Value};

use perpend_domain::telemetry::{StoredObservation, StoredTrace};

use crate::rows::row;

/// Columns of a trace that need its observations.
pub const COST_COLUMNS: &[&str] = &["inputCost", "outputCost"];
/// Columns that are part of the content.
pub const CONTENT_COLUMNS: &[&str] =
    &["text", "input", "output", "metadata", "toolNames", "toolCalls"];

/// An observation with its scores.
pub struct ObservationCells<'a> {
    pub stored: &'a StoredObservation,
    pub scores: &'a [Score],
}

/// A trace with its scores.
pub struct TraceCells<'a> {
    pub stored: &'a StoredTrace,
    pub scores: &'a [Score],
}

fn number(value: Option<f64>) -> Cell<'static> {
    value.map_or(Cell::Null, Cell::Number)
}

fn tokens(usage: &Usage, prefix: &str) -> Option<f64> {
    row::tokens(usage, prefix).map(|n| n as f64)
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

fn payload(payload: Option<&Payload>) -> Cell<'_> {
    payload.map_or(Cell::Null, |payload| Cell::Texts(vec![CellText::Payload(payload)]))
}

/// The non-empty texts.
fn texts<'a>(plain: impl Iterator<Item = &'a str>, content: [&'a Option<Payload>; 2]) -> Cell<'a> {
    let content = content.into_iter().flatten().map(CellText::Payload);
    let all = plain.map(CellText::Plain).chain(content);
    Cell::Texts(all.filter(|text| !text.as_str().is_empty()).collect())
}

/// Averages, categories and booleans by name (evaluation.md 2.1), and all names.
fn scores_cell(column: &str, scores: &[Score]) -> Cell<'static> {
    if column == SCORE_NAMES {
        let names = scores.iter().map(|score| score.written.name.clone());
        return Cell::List(Cow::Owned(names.collect()));
    }
    if column == "score_booleans" {
        let found = scores.iter().filter_map(|score| match score.written.value {
            ScoreValue::Boolean(truth) => Some(format!("{}:{truth}", score.written.name)),
            _ => None,
        });
        return Cell::List(Cow::Owned(found.collect()));
    }
    let mut members = Map::new();
    if column == "score_categories" {
        for score in scores {
            if let ScoreValue::Categorical(category) = &score.written.value
                && let Value::Array(list) = members
                    .entry(score.written.name.clone())
                    .or_insert_with(|| Value::Array(Vec::new()))
            {
                list.push(category.clone().into());
            }
        }
        return Cell::Object(Cow::Owned(members));
    }
    let mut sums: std::collections::BTreeMap<&str, (f64, f64)> = std::collections::BTreeMap::new();
    for score in scores {
        let value = match score.written.value {
            ScoreValue::Numeric(number) => number,
            ScoreValue::Boolean(truth) => f64::from(u8::from(truth)),
            _ => continue,
        };
        let (sum, n) = sums.entry(&score.written.name).or_default();
        *sum += value;
        *n += 1.0;
    }
    for (name, (sum, n)) in sums {
        members.insert(name.to_owned(), (sum / n).into());
    }
    Cell::Object(Cow::Owned(members))
}

impl Row for ObservationCells<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let o = &self.stored.observation;
        let of_trace = &self.stored.trace_attributes;
        let cost = o.effective_cost();
        let latency = o.latency_us().map(seconds);
        match column {
            "id" => Cell::text(Some(o.id.as_str())),
            "type" => Cell::text(Some(o.kind.as_str())),
            "name" => Cell::text(Some(&o.name)),
            "traceId" => Cell::text(Some(o.trace_id.as_str())),
            "startTime" => Cell::Time(o.start),
            "endTime" => o.end.map_or(Cell::Null, Cell::Time),
            "environment" => Cell::text(Some(&o.environment)),
            "level" => Cell::text(Some(o.level.as_str())),
            "statusMessage" => Cell::text(o.status_message.as_deref()),
            "version" => Cell::text(o.version.as_deref()),
            "release" => Cell::text(self.stored.release()),
            "userId" => Cell::text(self.stored.user_id()),
            "sessionId" => Cell::text(self.stored.session_id()),
            "isRootObservation" => Cell::Bool(o.is_root()),
            "parentObservationId" => Cell::text(o.parent_id.as_ref().map(|id| id.as_str())),
            "hasParentObservation" => Cell::Bool(o.parent_id.is_some()),
            "traceName" => Cell::text(of_trace.name.as_deref()),
            "tags" if o.tags.is_empty() => Cell::List(Cow::Borrowed(&of_trace.tags)),
            "tags" => Cell::List(Cow::Borrowed(&o.tags)),
            "latency" => number(latency),
            "timeToFirstToken" => number(o.time_to_first_token_us().map(seconds)),
            "tokensPerSecond" => number(match (tokens(&o.usage, "output"), latency) {
                (Some(n), Some(latency)) if latency > 0.0 => Some(n / latency),
                _ => None,
            }),
            "inputTokens" => number(tokens(&o.usage, "input")),
            "outputTokens" => number(tokens(&o.usage, "output")),
            "totalTokens" => number(tokens(&o.usage, "total")),
            "inputCost" => number(row::dollars(cost, "input")),
            "outputCost" => number(row::dollars(cost, "output")),
            "totalCost" => number(row::total(cost)),
            "model" => Cell::text(o.model.as_deref()),
            "promptName" => Cell::text(o.prompt.as_ref().map(|prompt| prompt.name.as_str())),
            "promptVersion" => number(o.prompt.as_ref().and_then(|p| p.version).map(|v| v as f64)),
            "modelId" => Cell::text(o.price_id.as_deref()),
            "calledToolNames" => Cell::List(Cow::Borrowed(&o.called_tools)),
            _ => self.wide_cell(column),
        }
    }
}

impl ObservationCells<'_> {
    fn wide_cell(&self, column: &str) -> Cell<'_> {
        let o = &self.stored.observation;
        let experiment = o.experiment.as_deref();
        match column {
            "text" => {
                texts([o.id.as_str(), &o.name].into_iter(), [&o.content.input, &o.content.output])
            }
            "input" => payload(o.content.input.as_ref()),
            "output" => payload(o.content.output.as_ref()),
            "metadata" => Cell::Object(Cow::Borrowed(&o.content.metadata)),
            "toolCalls" => Cell::Number(o.content.tool_calls.len() as f64),
            "toolNames" => {
                let tools = o.content.tool_definitions.as_ref().and_then(Value::as_array);
                let names = tools.into_iter().flatten().filter_map(tool_name);
                Cell::List(Cow::Owned(names.map(str::to_owned).collect()))
            }
            "experimentId" => Cell::text(experiment.and_then(|e| e.id.as_deref())),
            "experimentName" => Cell::text(experiment.and_then(|e| e.name.as_deref())),
            "experimentDatasetId" => Cell::text(experiment.and_then(|e| e.dataset_id.as_deref())),
            _ if SCORE_COLUMNS.contains(&column) => scores_cell(column, self.scores),
            _ => Cell::Null,
        }
    }
}

impl Row for TraceCells<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let trace = &self.stored.trace;
        let [debug, default, warning, error] = trace.n_by_level;
        match column {
            "id" => Cell::text(Some(trace.id.as_str())),
            "name" => Cell::text(trace.name.as_deref()),
            // Without its observations: `search` tests each of them.
            "text" => texts(
                [trace.id.as_str()].into_iter().chain(trace.name.as_deref()),
                [&trace.input, &trace.output],
            ),
            "timestamp" => Cell::Time(trace.timestamp),
            "environment" => Cell::text(Some(&trace.environment)),
            "userId" => Cell::text(trace.user_id.as_deref()),
            "sessionId" => Cell::text(trace.session_id.as_deref()),
            "metadata" => Cell::Object(Cow::Borrowed(&trace.metadata)),
            "version" => Cell::text(trace.version.as_deref()),
            "release" => Cell::text(trace.release.as_deref()),
            "level" => Cell::text(Some(match (error, warning, default) {
                (1.., _, _) => "ERROR",
                (_, 1.., _) => "WARNING",
                (_, _, 1..) => "DEFAULT",
                _ => "DEBUG",
            })),
            "tags" => Cell::List(Cow::Borrowed(&trace.tags)),
            "kinds" => Cell::List(Cow::Borrowed(&trace.observation_names.kinds)),
            "models" => Cell::List(Cow::Borrowed(&trace.observation_names.models)),
            "prompts" => Cell::List(Cow::Borrowed(&trace.observation_names.prompts)),
            "bookmarked" => Cell::Bool(trace.bookmarked),
            "latency" => Cell::Number(seconds(trace.latency_us)),
            "inputTokens" => number(tokens(&trace.usage, "input")),
            "outputTokens" => number(tokens(&trace.usage, "output")),
            "totalTokens" => number(tokens(&trace.usage, "total")),
            "inputCost" => number(self.stored.part_costs[0]),
            "outputCost" => number(self.stored.part_costs[1]),
            "totalCost" => number(trace.cost().known()),
            "errorCount" => Cell::Number(f64::from(error)),
            "warningCount" => Cell::Number(f64::from(warning)),
            "defaultCount" => Cell::Number(f64::from(default)),
            "debugCount" => Cell::Number(f64::from(debug)),
            "observationCount" => Cell::Number(f64::from(trace.n_observations)),
            _ if SCORE_COLUMNS.contains(&column) => scores_cell(column, self.scores),
            _ => Cell::Null,
        }
    }
}

/// Whether a score is on this observation, or for `None` on the trace itself.
pub fn is_about(score: &Score, observation: Option<&str>) -> bool {
    match (&score.written.subject, observation) {
        (Subject::Trace(_), None) => true,
        (Subject::Observation(_, id), Some(wanted)) => id.as_str() == wanted,
        _ => false,
    }
}

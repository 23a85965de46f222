//! Targets as rows of filters.

use std::borrow::Cow;
use std::collections::BTreeSet;

use perpend_domain::evaluation::CompletionReason;
use perpend_domain::experiment::ExperimentRun;
use perpend_domain::filter::{Cell, Row, SCORE_NAMES};
use perpend_domain::observation::{Level, Observation};
use perpend_domain::score::{NewScore, ScoreValue};
use perpend_domain::session::Session;
use perpend_domain::trace::Trace;
use serde_json::{Map, Value, json};

/// An observation with its trace, and its scores if a filter reads them.
#[derive(Clone, Copy)]
pub(crate) struct ObservationRow<'a> {
    pub(crate) observation: &'a Observation,
    pub(crate) trace: Option<&'a Trace>,
    pub(crate) scores: &'a [NewScore],
}

impl Row for ObservationRow<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let own = self.observation;
        let experiment = own.experiment.as_deref();
        let of_trace = |field: fn(&Trace) -> Option<&str>| self.trace.and_then(field);
        match column {
            "type" => Cell::text(Some(own.kind.as_str())),
            "name" => Cell::text(Some(&own.name)),
            "environment" => Cell::text(Some(&own.environment)),
            "level" => Cell::text(Some(own.level.as_str())),
            "version" => Cell::text(own.version.as_deref()),
            "traceName" => Cell::text(of_trace(|trace| trace.name.as_deref())),
            "userId" => {
                let of_trace = of_trace(|trace| trace.user_id.as_deref());
                Cell::text(own.user_id.as_deref().or(of_trace))
            }
            "sessionId" => {
                let of_trace = of_trace(|trace| trace.session_id.as_deref());
                Cell::text(own.session_id.as_deref().or(of_trace))
            }
            "tags" => {
                let tags = self.trace.map_or(&own.tags, |trace| &trace.tags);
                Cell::List(Cow::Borrowed(tags))
            }
            "metadata" => Cell::Object(Cow::Borrowed(&own.content.metadata)),
            "isRootObservation" => Cell::Bool(own.is_root()),
            "parentObservationId" => Cell::text(own.parent_id.as_ref().map(|id| id.as_str())),
            "experimentId" => Cell::text(experiment.and_then(|link| link.id.as_deref())),
            "datasetId" => Cell::text(experiment.and_then(|link| link.dataset_id.as_deref())),
            "isExperimentItemRootSpan" => Cell::Bool(own.is_experiment_item()),
            "calledToolNames" => Cell::List(Cow::Borrowed(&own.called_tools)),
            "toolCalls" => Cell::Number(own.called_tools.len() as f64),
            _ => scores_cell(column, self.scores),
        }
    }
}

/// The value of a column of these scores.
fn scores_cell(column: &str, scores: &[NewScore]) -> Cell<'static> {
    match column {
        "scores_avg" => Cell::Object(Cow::Owned(averages(scores))),
        "score_categories" => Cell::Object(Cow::Owned(categories(scores))),
        "score_booleans" => Cell::List(Cow::Owned(booleans(scores))),
        SCORE_NAMES => {
            let names = scores.iter().map(|score| score.name.clone());
            Cell::List(Cow::Owned(names.collect()))
        }
        _ => Cell::Null,
    }
}

/// A trace with its scores.
#[derive(Clone, Copy)]
pub(crate) struct TraceRow<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) completion: Option<CompletionReason>,
    pub(crate) scores: &'a [NewScore],
}

impl Row for TraceRow<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let trace = self.trace;
        match column {
            "id" => Cell::text(Some(trace.id.as_str())),
            "name" => Cell::text(trace.name.as_deref()),
            "environment" => Cell::text(Some(&trace.environment)),
            "timestamp" => Cell::Time(trace.timestamp),
            "userId" => Cell::text(trace.user_id.as_deref()),
            "sessionId" => Cell::text(trace.session_id.as_deref()),
            "metadata" => Cell::Object(Cow::Borrowed(&trace.metadata)),
            "version" => Cell::text(trace.version.as_deref()),
            "release" => Cell::text(trace.release.as_deref()),
            "level" => {
                let levels = Level::ALL.iter().zip(trace.n_by_level).rev();
                let highest = levels.into_iter().find(|(_, n)| 0 < *n);
                Cell::text(highest.map(|(level, _)| level.as_str()))
            }
            "tags" => Cell::List(Cow::Borrowed(&trace.tags)),
            "bookmarked" => Cell::Bool(trace.bookmarked),
            "latency" => Cell::Number(trace.latency_us as f64 / 1e6),
            "totalCost" => trace.cost().known().map_or(Cell::Null, Cell::Number),
            "totalTokens" => {
                Cell::Number(trace.usage.get("total").copied().unwrap_or_default().to_f64())
            }
            "errorCount" => Cell::Number(f64::from(trace.n_by_level[Level::Error as usize])),
            "observationCount" => Cell::Number(f64::from(trace.n_observations)),
            "completionReason" => Cell::text(self.completion.map(CompletionReason::as_str)),
            _ => scores_cell(column, self.scores),
        }
    }
}

/// A session with its scores.
#[derive(Clone, Copy)]
pub(crate) struct SessionRow<'a> {
    pub(crate) session: &'a Session,
    pub(crate) scores: &'a [NewScore],
}

impl Row for SessionRow<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let session = self.session;
        let list = |names: &BTreeSet<String>| Cell::List(names.iter().cloned().collect());
        match column {
            "id" => Cell::text(Some(session.id.as_str())),
            "environment" => Cell::text(Some(&session.environment)),
            "timestamp" => Cell::Time(session.start),
            "userIds" => list(&session.user_ids),
            "tags" => list(&session.tags),
            "metadata" => Cell::Object(Cow::Borrowed(&session.metadata)),
            "duration" => Cell::Number(session.duration()),
            "traceCount" => Cell::Number(f64::from(session.n_traces)),
            "observationCount" => Cell::Number(f64::from(session.n_observations)),
            "errorCount" => Cell::Number(f64::from(session.n_errors)),
            "totalCost" => Cell::Number(session.total_cost),
            "totalTokens" => Cell::Number(session.total_tokens as f64),
            _ => scores_cell(column, self.scores),
        }
    }
}

/// A run of an experiment.
#[derive(Clone, Copy)]
pub(crate) struct RunRow<'a>(pub(crate) &'a ExperimentRun);

impl Row for RunRow<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        self.0.cell(column)
    }
}

/// Means of numeric and boolean scores by name.
fn averages(scores: &[NewScore]) -> Map<String, Value> {
    let mut sums: Map<String, Value> = Map::new();
    for score in scores {
        let values = scores.iter().filter(|other| other.name == score.name);
        let numbers: Vec<f64> = values
            .filter_map(|other| match other.value {
                ScoreValue::Numeric(number) => Some(number),
                ScoreValue::Boolean(truth) => Some(f64::from(u8::from(truth))),
                _ => None,
            })
            .collect();
        if !numbers.is_empty() {
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            sums.insert(score.name.clone(), json!(mean));
        }
    }
    sums
}

fn categories(scores: &[NewScore]) -> Map<String, Value> {
    let mut by_name: Map<String, Value> = Map::new();
    for score in scores {
        if let ScoreValue::Categorical(category) = &score.value {
            let list = by_name.entry(score.name.as_str()).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(json!(category));
            }
        }
    }
    by_name
}

fn booleans(scores: &[NewScore]) -> Vec<String> {
    let encoded = scores.iter().filter_map(|score| match score.value {
        ScoreValue::Boolean(truth) => Some(format!("{}:{truth}", score.name)),
        _ => None,
    });
    encoded.collect()
}

//! Executions: the fields of one, and its page.

use askama::Template;
use perpend_domain::evaluation::{Attempt, Execution, ExecutionState, Target};
use perpend_domain::model_call::ModelCall;
use perpend_domain::plugin::LogLine;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;

use crate::format::{count, dollars, duration};
use crate::layout::shell::{execution_href, href};
use crate::scores::score::{ResourceLink, ScoreView, Tone};
use crate::{Html, Shell, Text, encode, run_href, segment};

/// Maximum characters of a message in a row.
const MESSAGE: usize = 160;
/// Characters of a shortened id.
const ID: usize = 8;

/// One execution.
#[derive(Clone, Debug)]
pub struct ExecutionLine {
    pub(crate) id: Text,
    /// First characters of the id.
    pub(crate) short_id: Text,
    pub(crate) href: String,
    pub(crate) state: &'static str,
    pub(crate) tone: Tone,
    pub(crate) class: Option<&'static str>,
    pub(crate) message: Option<Text>,
    pub(crate) rule: ResourceLink,
    pub(crate) evaluator: ResourceLink,
    /// Number of the version that ran last.
    pub(crate) version: Option<u32>,
    pub(crate) target_kind: &'static str,
    pub(crate) target_id: Text,
    pub(crate) short_target_id: Text,
    pub(crate) target_href: String,
    pub(crate) attempts: u32,
    /// Empty without model calls.
    pub(crate) cost: String,
    pub(crate) finished_at: Option<Timestamp>,
    /// Action of the form that requeues it.
    pub(crate) requeue: Option<String>,
}

/// Names that an execution refers to by id.
#[derive(Clone, Debug)]
pub struct ExecutionNames {
    /// The rule.
    pub rule: ResourceLink,
    /// The evaluator.
    pub evaluator: ResourceLink,
    /// Number of the version that ran last.
    pub version: Option<u32>,
}

const fn tone(state: ExecutionState) -> Tone {
    match state {
        ExecutionState::Completed => Tone::Good,
        ExecutionState::Failed => Tone::Bad,
        ExecutionState::Pending
        | ExecutionState::Running
        | ExecutionState::Delayed
        | ExecutionState::Held => Tone::Waiting,
        ExecutionState::Skipped | ExecutionState::Cancelled => Tone::Plain,
    }
}

fn cost_text(cost: Option<f64>) -> String {
    cost.map_or_else(|| "unknown price".to_owned(), dollars)
}

/// Kind, id and URL of a target.
fn target(target: &Target, base: &str) -> (&'static str, Text, String) {
    let of_trace = |id: &str| format!("{base}/traces/{}", segment(id));
    match target {
        Target::Trace(trace) => ("trace", Text::from(trace.as_str()), of_trace(trace.as_str())),
        Target::Observation(trace, id) => {
            let href = format!("{}?observation={}", of_trace(trace.as_str()), encode(id.as_str()));
            ("observation", Text::from(id.as_str()), href)
        }
        Target::Session(id) => {
            let id = id.as_str();
            ("session", Text::from(id), href(base, GroupKey::Session, id))
        }
        Target::Run(id) => ("run", Text::from(id.as_str()), run_href(base, id)),
    }
}

impl ExecutionLine {
    /// The row of an execution. `cost` is absent without model calls and `Some(None)` if a price is unknown; `base` is the URL
    /// of the project.
    #[must_use]
    pub fn new(
        execution: &Execution,
        names: ExecutionNames,
        cost: Option<Option<f64>>,
        base: &str,
    ) -> Self {
        let made = &execution.made;
        let (target_kind, target_id, target_href) = target(&made.target, base);
        Self {
            id: Text::from(made.id.as_str()),
            short_id: cut(made.id.as_str(), ID),
            href: execution_href(base, made.id.as_str()),
            state: execution.state.as_str(),
            tone: tone(execution.state),
            class: execution.error_class.map(|class| class.as_str()),
            message: execution.error_message.as_deref().map(|message| cut(message, MESSAGE)),
            rule: names.rule,
            evaluator: names.evaluator,
            version: names.version,
            target_kind,
            short_target_id: cut(target_id.raw(), ID),
            target_id,
            target_href,
            attempts: execution.attempts,
            cost: cost.map_or_else(String::new, cost_text),
            finished_at: execution.finished_at,
            requeue: None,
        }
    }

    /// Sets the form that requeues it, if it failed.
    #[must_use]
    pub fn requeueable(mut self) -> Self {
        let is_failed = self.state == ExecutionState::Failed.as_str();
        self.requeue = is_failed.then(|| format!("{}/requeue", self.href));
        self
    }
}

fn cut(message: &str, max: usize) -> Text {
    match message.char_indices().nth(max) {
        Some((end, _)) => Text::from(format!("{}…", &message[..end])),
        None => Text::from(message),
    }
}

/// One execution with its attempts.
#[derive(Clone, Debug, Template)]
#[template(path = "execution.html")]
pub struct ExecutionPage {
    /// Page frame.
    pub shell: Shell,
    /// State, names and target.
    pub line: ExecutionLine,
    /// Complete message of the last failure.
    pub message: Option<Text>,
    /// The decision of the rule about the target; absent for a deleted rule.
    pub explanation: Option<Text>,
    /// Labels and values.
    pub facts: Vec<(&'static str, Html)>,
    /// URL of the trace that the execution recorded.
    pub own_trace: Option<String>,
    /// URL of the form that tries the evaluator on the target, if the viewer may.
    pub try_href: Option<String>,
    /// Fingerprint of the version that ran last, in hex.
    pub fingerprint: Option<String>,
    /// Attempts without a score.
    pub attempts: Vec<AttemptLine>,
    /// Last log lines of the evaluator.
    pub log: Vec<LogEntry>,
    /// Model calls of all attempts.
    pub calls: Vec<CallLine>,
    /// Scores in use.
    pub scores: Vec<ScoreView>,
    /// Superseded scores, each with the id and the URL of the execution whose scores are used.
    pub superseded: Vec<(ScoreView, Text, String)>,
}

/// An attempt without a score.
#[derive(Clone, Debug)]
pub struct AttemptLine {
    number: u32,
    ended_at: Timestamp,
    class: &'static str,
    message: Text,
    cpu: String,
}

impl From<Attempt> for AttemptLine {
    fn from(attempt: Attempt) -> Self {
        Self {
            number: attempt.number,
            ended_at: attempt.ended_at,
            class: attempt.failure.class.as_str(),
            message: Text::lines(attempt.failure.message),
            cpu: duration(i64::try_from(attempt.cpu_us).unwrap_or(i64::MAX)),
        }
    }
}

/// A log line of an evaluator.
#[derive(Clone, Debug)]
pub struct LogEntry {
    pub(crate) level: Text,
    pub(crate) message: Text,
    pub(crate) fields: Option<Text>,
}

impl From<LogLine> for LogEntry {
    fn from(line: LogLine) -> Self {
        Self {
            level: Text::from(line.level),
            message: Text::lines(line.message),
            fields: line.fields.map(Text::from),
        }
    }
}

/// An exchange with a model provider.
#[derive(Clone, Debug)]
pub struct CallLine {
    attempt: u32,
    model: Text,
    provider: Text,
    started_at: Timestamp,
    latency: String,
    input_tokens: String,
    output_tokens: String,
    cost: String,
    outcome: Text,
}

impl CallLine {
    /// `attempt` starts at 0.
    #[must_use]
    pub fn new(attempt: u32, call: ModelCall) -> Self {
        let estimate = if call.is_estimated { "about " } else { "" };
        let tokens = |n| format!("{estimate}{}", count(n));
        let latency_us = call.latency_ms.saturating_mul(1_000);
        Self {
            attempt: attempt.saturating_add(1),
            model: Text::from(call.model_answered.unwrap_or(call.model)),
            provider: Text::from(call.provider),
            started_at: call.started_at,
            latency: duration(i64::try_from(latency_us).unwrap_or(i64::MAX)),
            input_tokens: tokens(call.input_tokens),
            output_tokens: tokens(call.output_tokens),
            cost: match (&call.error, call.cost) {
                (Some(_), None) => String::new(),
                (_, cost) => cost_text(cost),
            },
            outcome: match call.error {
                Some((class, message)) => Text::from(format!("{class}: {message}")),
                None if call.is_from_cache => Text::from("from the cache"),
                None => Text::from(call.method),
            },
        }
    }
}

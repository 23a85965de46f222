//! One trace: its tree on a time axis, and the step that is looked at.

use std::collections::HashMap;

use askama::{Error, Template};
use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{Content, Cost, Level, Observation, ObservationKind, Usage};
use perpend_domain::trace::Trace;
use serde_json::Value;

use crate::content::{Addresses, Block};
use crate::format::{clock, count, dollars, duration, known_dollars};
use crate::scores::{ScoreView, Verdict};
use crate::shell::encode;
use crate::timeline::{Axis, Bar};
use crate::tree::{Oddity, Placed, place};
use crate::{Shell, Text};

/// Rows on the page unless all are asked for, or the step looked at comes later.
pub const VISIBLE_ROWS: usize = 1_000;
/// Deeper rows are indented like this one.
const MAX_DEPTH: usize = 20;

/// What a trace's page is made from.
#[derive(Debug)]
pub struct TraceInput {
    /// Around the page.
    pub shell: Shell,
    /// The trace; with its content when no observation is selected.
    pub trace: Trace,
    /// All observations; content only on the selected one, if at all.
    pub observations: Vec<Observation>,
    /// The observation that is looked at; the trace itself when absent or not in it.
    pub selected: Option<ObservationId>,
    /// What is known about it.
    pub detail: DetailInput,
    /// What the scores of this trace are about, for the marks in the tree.
    pub scored: Vec<Option<ObservationId>>,
    /// Show every row.
    pub show_all: bool,
}

/// What is known about the step that is looked at, besides what it is.
#[derive(Debug, Default)]
pub struct DetailInput {
    /// The address of the project.
    pub base: String,
    /// Its scores.
    pub scores: Vec<ScoreView>,
    /// What each rule did with it.
    pub verdicts: Vec<Verdict>,
}

/// The page of one trace. One that [is long](TracePage::is_long) is shown in [pieces](TracePage::into_pieces).
#[derive(Debug, Template)]
#[template(path = "trace.html")]
pub struct TracePage {
    shell: Shell,
    id: String,
    name: Option<Text>,
    figures: Vec<Fact>,
    labels: Vec<Label>,
    ticks: Vec<String>,
    rows: Vec<Row>,
    more: Option<MoreRows>,
    trace_bar: Bar,
    trace_selected: bool,
    trace_scores: usize,
    latency: String,
    tokens: String,
    cost: String,
    n_rows: usize,
    n_hidden: usize,
    query: &'static str,
    detail: Detail,
}

/// Rows alone.
#[derive(Debug, Template)]
#[template(path = "rows.html")]
struct Rows {
    rows: Vec<Row>,
    query: &'static str,
}

/// Where the rows of [`MoreRows`] come in. No text from outside looks like it: that is escaped.
const MORE: &str = "<!--more-->";

/// The rows that are not made yet.
#[derive(Debug)]
struct MoreRows {
    observations: Vec<Observation>,
    placed: Vec<Placed>,
    n_made: usize,
    looked_at: Option<usize>,
    n_scores: HashMap<ObservationId, usize>,
    axis: Axis,
    query: &'static str,
}

impl MoreRows {
    fn rows(&mut self, n: usize) -> Vec<Row> {
        let left = self.placed.iter().skip(self.n_made).take(n);
        let rows: Vec<Row> = left.map(|placed| self.row(placed)).collect();
        self.n_made += rows.len();
        rows
    }

    fn row(&self, placed: &Placed) -> Row {
        let step = &self.observations[placed.index];
        let (mark, mark_class) = mark(step, placed.oddity);
        Row {
            encoded: encode(step.id.as_str()),
            name: Text::from(step.name.as_str()),
            kind: kind_word(step.kind),
            depth: placed.depth.min(MAX_DEPTH),
            level: placed.depth + 2,
            has_children: placed.has_children,
            mark,
            mark_class,
            n_scores: self.n_scores.get(&step.id).copied().unwrap_or_default(),
            bar: self.axis.bar(step),
            duration: step.end.map_or("open".to_owned(), |end| {
                duration(end.micros_since(step.start))
            }),
            tokens: nonzero(total_tokens(&step.usage)),
            cost: nonzero_dollars(total_cost(step.effective_cost())),
            is_selected: Some(placed.index) == self.looked_at,
        }
    }
}

/// A page piece by piece: rows become HTML as they are taken.
#[derive(Debug)]
pub struct Pieces {
    head: Option<String>,
    more: Option<MoreRows>,
    tail: Option<String>,
}

impl Iterator for Pieces {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(head) = self.head.take() {
            return Some(Ok(head));
        }
        if let Some(more) = &mut self.more {
            let (rows, query) = (more.rows(VISIBLE_ROWS), more.query);
            if !rows.is_empty() {
                return Some(crate::render(&Rows { rows, query }));
            }
        }
        self.tail.take().map(Ok)
    }
}

/// The detail pane alone, for the script that swaps it.
#[derive(Debug, Template)]
#[template(path = "detail.html")]
pub struct DetailPage {
    detail: Detail,
}

#[derive(Debug)]
struct Fact {
    label: &'static str,
    value: Text,
}

/// A word under the title, leading to the list of its like.
#[derive(Debug)]
struct Label {
    label: &'static str,
    value: Text,
    href: Option<String>,
}

#[derive(Debug)]
struct Row {
    encoded: String,
    name: Text,
    kind: &'static str,
    depth: usize,
    level: usize,
    has_children: bool,
    mark: Option<&'static str>,
    mark_class: &'static str,
    n_scores: usize,
    bar: Bar,
    duration: String,
    tokens: String,
    cost: String,
    is_selected: bool,
}

#[derive(Debug)]
struct Detail {
    base: String,
    kind: &'static str,
    name: Text,
    id: Text,
    /// Path under which the whole values are.
    raw: String,
    level: Option<&'static str>,
    level_class: &'static str,
    status_message: Option<Text>,
    facts: Vec<Fact>,
    input: Block,
    output: Block,
    tool_definitions: Block,
    metadata: Block,
    scores: Vec<ScoreView>,
    verdicts: Vec<Verdict>,
}

impl Row {
    fn scores_text(&self) -> String {
        many(self.n_scores, "score")
    }
}

fn many(n: usize, what: &str) -> String {
    format!(
        "{} {what}{}",
        count(n as u64),
        if n == 1 { "" } else { "s" }
    )
}

impl DetailPage {
    /// The pane of a trace.
    #[must_use]
    pub fn of_trace(trace: &Trace, input: DetailInput) -> Self {
        Self {
            detail: Detail::of_trace(trace, input),
        }
    }

    /// The pane of an observation, with its content.
    #[must_use]
    pub fn of_observation(observation: &Observation, input: DetailInput) -> Self {
        Self {
            detail: Detail::of_observation(observation, input),
        }
    }
}

impl TracePage {
    /// Lays the page out.
    #[must_use]
    pub fn new(input: TraceInput) -> Self {
        let TraceInput {
            shell,
            trace,
            observations,
            selected,
            detail,
            scored,
            show_all,
        } = input;
        let axis = Axis::new(trace.first_start, trace.last_end);
        let looked_at = selected.and_then(|id| observations.iter().position(|o| o.id == id));
        let mut n_scores: HashMap<ObservationId, usize> = HashMap::new();
        for id in scored.iter().flatten() {
            *n_scores.entry(id.clone()).or_default() += 1;
        }
        let mut placed = place(&observations);
        let n_rows = placed.len();
        let is_beyond = placed
            .iter()
            .skip(VISIBLE_ROWS)
            .any(|row| Some(row.index) == looked_at);
        let show_all = show_all || is_beyond;
        if !show_all {
            placed.truncate(VISIBLE_ROWS);
        }
        let n_hidden = n_rows - placed.len();
        let query = match show_all && VISIBLE_ROWS < n_rows {
            true => "all=1&",
            false => "",
        };
        let detail = match looked_at {
            Some(index) => Detail::of_observation(&observations[index], detail),
            None => Detail::of_trace(&trace, detail),
        };
        let ticks = axis.ticks();
        let mut more = MoreRows {
            observations,
            placed,
            n_made: 0,
            looked_at,
            n_scores,
            axis,
            query,
        };
        let rows = more.rows(VISIBLE_ROWS);
        Self {
            id: trace.id.to_string(),
            name: trace.name.as_deref().map(Text::from),
            figures: figures(&trace),
            labels: labels(&trace, shell.base()),
            ticks,
            trace_bar: Bar {
                x: 0.0,
                width: 1000.0,
                wait: None,
                is_open: false,
            },
            trace_selected: looked_at.is_none(),
            trace_scores: scored.iter().filter(|subject| subject.is_none()).count(),
            latency: duration(trace.latency_us),
            tokens: nonzero(total_tokens(&trace.usage)),
            cost: nonzero_dollars(trace.total_cost),
            n_rows,
            n_hidden,
            query,
            detail,
            more: (more.n_made < more.placed.len()).then_some(more),
            rows,
            shell,
        }
    }

    /// Whether it has more than one piece.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.more.is_some()
    }

    /// All of it.
    ///
    /// # Errors
    /// Only when formatting into memory fails, which is a bug in a template.
    pub fn into_pieces(mut self) -> Result<Pieces, Error> {
        let html = crate::render(&self)?;
        let (head, tail) = html.split_once(MORE).unwrap_or((html.as_str(), ""));
        Ok(Pieces {
            head: Some(head.to_owned()),
            more: self.more.take(),
            tail: Some(tail.to_owned()),
        })
    }

    fn trace_scores_text(&self) -> String {
        many(self.trace_scores, "score")
    }
}

/// What stands behind a row's name when something is unusual.
fn mark(step: &Observation, oddity: Option<Oddity>) -> (Option<&'static str>, &'static str) {
    match (step.level, oddity) {
        (Level::Error, _) => (Some("error"), "bad"),
        (Level::Warning, _) => (Some("warning"), "waiting"),
        (_, Some(Oddity::Orphan)) => (Some("parent missing"), "plain"),
        (_, Some(Oddity::Cycle)) => (Some("in a cycle"), "plain"),
        _ => (None, ""),
    }
}

fn kind_word(kind: ObservationKind) -> &'static str {
    match kind {
        ObservationKind::Span => "span",
        ObservationKind::Generation => "generation",
        ObservationKind::Event => "event",
        ObservationKind::Agent => "agent",
        ObservationKind::Tool => "tool",
        ObservationKind::Chain => "chain",
        ObservationKind::Retriever => "retriever",
        ObservationKind::Evaluator => "evaluator",
        ObservationKind::Embedding => "embedding",
        ObservationKind::Guardrail => "guardrail",
    }
}

/// All tokens: the given total, else input and output.
#[must_use]
pub fn total_tokens(usage: &Usage) -> u64 {
    let parts = || {
        usage
            .iter()
            .filter(|(key, _)| *key == "input" || *key == "output")
    };
    usage
        .get("total")
        .copied()
        .unwrap_or_else(|| parts().map(|(_, n)| *n).fold(0, u64::saturating_add))
}

fn total_cost(cost: &Cost) -> f64 {
    cost.get("total")
        .copied()
        .unwrap_or_else(|| cost.values().sum())
}

fn nonzero(n: u64) -> String {
    if n == 0 { String::new() } else { count(n) }
}

fn nonzero_dollars(amount: f64) -> String {
    if amount > 0.0 {
        dollars(amount)
    } else {
        String::new()
    }
}

fn figures(trace: &Trace) -> Vec<Fact> {
    let [_, _, warnings, errors] = trace.n_by_level;
    let mut figures = vec![
        fact("Started", format!("{} UTC", clock(trace.timestamp))),
        fact("Latency", duration(trace.latency_us)),
        fact(
            "Tokens",
            if trace.usage.is_empty() {
                "–".to_owned()
            } else {
                count(total_tokens(&trace.usage))
            },
        ),
        fact("Cost", known_dollars(trace.total_cost)),
        fact("Observations", count(trace.n_observations.into())),
    ];
    if errors > 0 {
        figures.push(fact("Errors", count(errors.into())));
    }
    if warnings > 0 {
        figures.push(fact("Warnings", count(warnings.into())));
    }
    figures
}

fn labels(trace: &Trace, base: &str) -> Vec<Label> {
    let link = |label, key: &str, value: &str| Label {
        label,
        value: Text::from(value),
        href: Some(format!("{base}/traces?{key}={}", encode(value))),
    };
    let plain = |label, value: &str| Label {
        label,
        value: Text::from(value),
        href: None,
    };
    let mut labels = vec![link("environment", "environment", &trace.environment)];
    labels.extend(
        trace
            .user_id
            .as_deref()
            .map(|user| link("user", "user", user)),
    );
    labels.extend(
        trace
            .session_id
            .as_deref()
            .map(|session| link("session", "session", session)),
    );
    labels.extend(
        trace
            .release
            .as_deref()
            .map(|release| plain("release", release)),
    );
    labels.extend(
        trace
            .version
            .as_deref()
            .map(|version| plain("version", version)),
    );
    labels.extend(trace.tags.iter().map(|tag| link("tag", "tag", tag)));
    labels
}

fn fact(label: &'static str, value: impl Into<String>) -> Fact {
    Fact {
        label,
        value: Text::from(value.into()),
    }
}

impl Detail {
    /// What went in and came out: title, name in the raw address, value.
    fn values(&self) -> Vec<(&'static str, &'static str, &Block)> {
        vec![
            ("Input", "input", &self.input),
            ("Output", "output", &self.output),
        ]
    }

    /// What is shown last, and only when there is any.
    fn extras(&self) -> Vec<(&'static str, &'static str, &Block)> {
        let extras = [
            ("Tools offered", "tools", &self.tool_definitions),
            ("Metadata", "metadata", &self.metadata),
        ];
        extras
            .into_iter()
            .filter(|(_, _, block)| !block.is_absent())
            .collect()
    }

    fn of_trace(trace: &Trace, input: DetailInput) -> Self {
        let mut facts = vec![
            fact("First start", trace.first_start.to_iso_micros()),
            fact("Last end", trace.last_end.to_iso_micros()),
        ];
        push_usage(&mut facts, &trace.usage, "Tokens");
        if !trace.duplicates.is_empty() {
            let n = many(trace.duplicates.len(), "observation");
            facts.push(fact(
                "Not counted twice",
                format!("{n} that repeat another's usage"),
            ));
        }
        let raw = format!("{}/traces/{}/raw", input.base, encode(trace.id.as_str()));
        let at = |part: &str| addresses(&input.base, &raw, part);
        Self {
            kind: "trace",
            name: Text::from(trace.name.as_deref().unwrap_or("Unnamed trace")),
            id: Text::from(trace.id.as_str()),
            level: None,
            level_class: "",
            status_message: None,
            facts,
            input: Block::of(trace.input.as_ref(), &at("input")),
            output: Block::of(trace.output.as_ref(), &at("output")),
            tool_definitions: Block::Absent,
            metadata: Block::of_map(&trace.metadata, &at("metadata")),
            raw,
            base: input.base,
            scores: input.scores,
            verdicts: input.verdicts,
        }
    }

    fn of_observation(step: &Observation, input: DetailInput) -> Self {
        let Content {
            input: asked,
            output,
            metadata: meta,
            tool_definitions,
            ..
        } = &step.content;
        let (level, level_class) = match step.level {
            Level::Error => (Some("error"), "bad"),
            Level::Warning => (Some("warning"), "waiting"),
            Level::Debug => (Some("debug"), "plain"),
            Level::Default => (None, ""),
        };
        let (trace_id, id) = (encode(step.trace_id.as_str()), encode(step.id.as_str()));
        let raw = format!("{}/traces/{trace_id}/observations/{id}/raw", input.base);
        let at = |part: &str| addresses(&input.base, &raw, part);
        let definitions = tool_definitions.as_ref();
        Self {
            kind: kind_word(step.kind),
            name: Text::from(step.name.as_str()),
            id: Text::from(step.id.as_str()),
            level,
            level_class,
            status_message: step.status_message.as_deref().map(Text::from),
            facts: observation_facts(step),
            input: Block::of(asked.as_ref(), &at("input")),
            output: Block::of(output.as_ref(), &at("output")),
            tool_definitions: Block::of_tools(definitions, &step.called_tools, &at("tools")),
            metadata: Block::of_map(meta, &at("metadata")),
            raw,
            base: input.base,
            scores: input.scores,
            verdicts: input.verdicts,
        }
    }
}

/// Where the media of one of the values below `raw` are.
fn addresses(base: &str, raw: &str, part: &str) -> Addresses {
    Addresses {
        value: format!("{raw}/{part}"),
        media: format!("{base}/media"),
    }
}

fn observation_facts(step: &Observation) -> Vec<Fact> {
    let mut facts = vec![fact("Start", step.start.to_iso_micros())];
    facts.push(match step.end {
        Some(end) => fact("Duration", duration(end.micros_since(step.start))),
        None => fact("Duration", "has not ended"),
    });
    if let Some(first) = step.completion_start {
        facts.push(fact(
            "First token after",
            duration(first.micros_since(step.start)),
        ));
    }
    let optional = [
        ("Model", &step.model),
        ("Model of the steps below", &step.aggregate_model),
        ("Provider", &step.provider),
        ("User", &step.user_id),
        ("Session", &step.session_id),
        ("Version", &step.version),
        ("Release", &step.release),
    ];
    facts.extend(
        optional
            .iter()
            .filter_map(|(label, value)| value.as_ref().map(|value| fact(label, value.clone()))),
    );
    if !step.model_parameters.is_empty() {
        let shown = step
            .model_parameters
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key} {text}"),
                other => format!("{key} {other}"),
            });
        facts.push(fact("Parameters", shown.collect::<Vec<_>>().join(", ")));
    }
    if let Some(prompt) = &step.prompt {
        let version = prompt
            .version
            .map_or(String::new(), |version| format!(" version {version}"));
        facts.push(fact("Prompt", format!("{}{version}", prompt.name)));
    }
    push_usage(&mut facts, &step.usage, "Tokens");
    push_usage(
        &mut facts,
        &step.aggregate_usage,
        "Tokens of the steps below",
    );
    push_cost(&mut facts, &step.cost, "Cost, as sent");
    if step.cost.is_empty() {
        push_cost(&mut facts, &step.computed_cost, "Cost, computed");
    }
    push_cost(
        &mut facts,
        step.effective_aggregate_cost(),
        "Cost of the steps below",
    );
    if !step.called_tools.is_empty() {
        facts.push(fact("Called", step.called_tools.join(", ")));
    }
    facts.push(fact("Environment", step.environment.clone()));
    if !step.scope_name.is_empty() {
        facts.push(fact("Recorded by", step.scope_name.clone()));
    }
    facts
}

fn push_cost(facts: &mut Vec<Fact>, cost: &Cost, label: &'static str) {
    if !cost.is_empty() {
        let shown = cost
            .iter()
            .map(|(key, amount)| format!("{key} {}", dollars(*amount)));
        facts.push(fact(label, shown.collect::<Vec<_>>().join(", ")));
    }
}

fn push_usage(facts: &mut Vec<Fact>, usage: &Usage, label: &'static str) {
    if !usage.is_empty() {
        let shown = usage.iter().map(|(key, n)| format!("{key} {}", count(*n)));
        facts.push(fact(label, shown.collect::<Vec<_>>().join(", ")));
    }
}

//! The page of one trace: rows on a time axis, and the detail pane.

use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::observation::{Content, Cost, Level, Observation, Usage};
use perpend_domain::outline::Tick;
use perpend_domain::quantity::Quantity;
use perpend_domain::trace::Trace;
use serde_json::Value;

use crate::facts::{Fact, fact, fact_at, total_tokens};
use crate::format::{count, dollars, duration, exact_duration, kind_label, plural};
use crate::layout::forms::FormContext;
use crate::scores::score::{RuleOutcome, RuleRange, ScoreView, Tone};
use crate::trace::annotations::{Annotations, AnnotationsInput};
use crate::trace::events::{EventList, RecordedException, event_lists, failures};
use crate::trace::header::{HeadInput, TraceHeader, TraceView};
use crate::trace::observation_scores::ObservationScores;
use crate::trace::peaks::{Peak, peaks};
use crate::trace::rows::{RowsInput, Window, column_classes, cost_cell, nonzero};
use crate::trace::timeline::TimelinePanel;
use crate::values::content::{
    Addresses, Forms, RenderedValue, called_tools, display_text, without_media,
};
use crate::values::page::ValuePart;
use crate::{Shell, Text};

const INPUT: (&str, &str) = ("Input", "input");
const OUTPUT: (&str, &str) = ("Output", "output");
const TOOLS: (&str, &str) = ("Offered tools", "tools");
const METADATA: (&str, &str) = ("Metadata", "metadata");

/// Input of [`TracePage`].
#[derive(Debug)]
pub struct TraceInput<'a> {
    /// Page frame.
    pub shell: Shell,
    /// The trace.
    pub trace: Trace,
    /// Whether the trace itself is selected rather than an observation.
    pub trace_selected: bool,
    /// Detail pane of the selection.
    pub detail: DetailPage,
    /// Input of the rows.
    pub rows: RowsInput<'a>,
    /// Input of the header.
    pub head: HeadInput,
}

/// Input of the detail pane other than the trace or observation.
#[derive(Debug, Default)]
pub struct DetailInput {
    /// Base URL of the project.
    pub base: String,
    /// Values for its forms.
    pub form_context: FormContext,
    /// Whether the viewer may create items of datasets.
    pub may_write_datasets: bool,
    /// Whether the viewer may create evaluators.
    pub may_write_evaluators: bool,
    /// Scores of the selection.
    pub scores: Vec<ScoreView>,
    /// Outcome of each rule that did not score it.
    pub outcomes: Vec<RuleOutcome>,
    /// Range of the rules in the outcomes.
    pub rules: RuleRange,
    /// Microseconds during which no child ran; only of an observation.
    pub self_time_us: Option<i64>,
    /// Scores of the observations; only of a trace.
    pub observation_scores: Option<ObservationScores>,
    /// Scores and comments by people; absent if they are not shown.
    pub annotations: Option<AnnotationsInput>,
    /// Chosen forms of its values.
    pub forms: Forms,
    /// URL of the page without `forms`; empty for the default URL.
    pub address: String,
}

impl DetailInput {
    /// URL of the page that creates an item of a dataset from the selection; absent without the permission.
    fn dataset_href(&self, trace: &str, observation: Option<&str>) -> Option<String> {
        let path = "dataset-items/new";
        self.may_write_datasets.then(|| self.href_of_selection(path, trace, observation))
    }

    /// URL of the form of a judge that is tried on the selection; absent without the permission.
    fn judge_href(&self, trace: &str, observation: Option<&str>) -> Option<String> {
        let path = "evaluators/new/judge";
        self.may_write_evaluators.then(|| self.href_of_selection(path, trace, observation))
    }

    fn href_of_selection(&self, path: &str, trace: &str, observation: Option<&str>) -> String {
        let observation = observation.map(|id| format!("&observation={}", encode(id)));
        let observation = observation.unwrap_or_default();
        format!("{}/{path}?trace={}{observation}", self.base, encode(trace))
    }

    fn address(&self, observation: Option<&str>) -> String {
        match observation {
            _ if !self.address.is_empty() => self.address.clone(),
            Some(id) => format!("?observation={}", encode(id)),
            None => "?trace".to_owned(),
        }
    }
}

/// The page of one trace with a window of its rows.
#[derive(Debug, Template)]
#[template(path = "trace.html")]
pub struct TracePage {
    shell: Shell,
    head: TraceHeader,
    time: Option<TimelinePanel>,
    peaks: Vec<Peak>,
    ticks: Vec<Tick>,
    has_long_ticks: bool,
    /// Offset of the axis labels from the start of the trace, unless zero.
    ticks_from: Option<String>,
    /// Base URL of the fragments of this page.
    fragments: String,
    /// CSS classes that hide columns.
    columns: String,
    window: Window,
    trace_selected: bool,
    trace_scores: u64,
    latency: String,
    tokens: String,
    cost: String,
    detail: Detail,
}

/// The detail pane as a fragment.
#[derive(Debug, Template)]
#[template(path = "detail.html")]
pub struct DetailPage {
    detail: Detail,
}

#[derive(Debug)]
struct Detail {
    base: String,
    form_context: FormContext,
    /// URL of the page that creates an item of a dataset.
    dataset_href: Option<String>,
    /// URL of the form of a judge.
    judge_href: Option<String>,
    /// URL of this fragment.
    from: String,
    kind: &'static str,
    name: Text,
    id: Text,
    level: Option<&'static str>,
    level_class: &'static str,
    status_message: Option<Text>,
    failures: Vec<RecordedException>,
    /// Known duration, tokens and cost.
    figures: String,
    facts: Vec<Fact>,
    event_lists: Vec<EventList>,
    /// Input and output.
    values: [ValuePart; 2],
    /// Tools and metadata.
    extras: [ValuePart; 2],
    scores: Vec<ScoreView>,
    outcomes: Vec<RuleOutcome>,
    rules: RuleRange,
    /// URL of the page.
    address: String,
    observation_scores: Option<ObservationScores>,
    annotations: Option<Annotations>,
}

impl DetailPage {
    /// The pane of a trace.
    #[must_use]
    pub fn of_trace(trace: &Trace, input: DetailInput) -> Self {
        Self { detail: Detail::of_trace(trace, input) }
    }

    /// The pane of an observation, with its content.
    #[must_use]
    pub fn of_observation(observation: &Observation, input: DetailInput) -> Self {
        Self { detail: Detail::of_observation(observation, input) }
    }
}

impl TracePage {
    /// Builds the page.
    #[must_use]
    pub fn new(input: TraceInput<'_>) -> Self {
        let TraceInput { shell, trace, trace_selected, detail, rows, head } = input;
        let trace_scores = rows.n_scores.get(&None).copied();
        let id = segment(trace.id.as_str());
        let window = Window::new(&rows);
        let (base, view_params) = (shell.base(), rows.view_params);
        let axis = rows.axis();
        let (ticks, ticks_from) = (axis.ticks(), axis.counted_from_us());
        let tokens = nonzero(Some(total_tokens(&trace.usage)));
        let cost = cost_cell(trace.cost());
        Self {
            head: TraceHeader::new(&trace, base, view_params, &window.row_state, head),
            time: (rows.view_params.trace_view == TraceView::Time)
                .then(|| TimelinePanel::new(&rows, &window)),
            peaks: peaks(&rows),
            has_long_ticks: ticks.iter().any(Tick::is_long),
            ticks,
            ticks_from: (0 < ticks_from).then(|| exact_duration(ticks_from)),
            fragments: format!("{}/_/traces/{id}", shell.base()),
            columns: column_classes(view_params, rows.view.outline(), &tokens, &cost),
            window,
            trace_selected,
            trace_scores: trace_scores.unwrap_or_default(),
            latency: duration(trace.latency_us),
            tokens,
            cost,
            detail: detail.detail,
            shell,
        }
    }
}

impl Detail {
    /// Whether scores are pending, so that the script polls for them.
    fn is_unsettled(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.tone == Tone::Waiting)
    }

    /// `1 score, 8 on observations`
    fn n_scores(&self) -> String {
        let own = plural(self.scores.len() as u64, "score");
        let observation_scores = self.observation_scores.as_ref();
        match observation_scores.and_then(ObservationScores::count_text) {
            Some(n) => format!("{own}, {n} on observations"),
            None => own,
        }
    }

    fn has_scores(&self) -> bool {
        let observation_scores = self.observation_scores.as_ref();
        !self.scores.is_empty()
            || observation_scores
                .is_some_and(|observation_scores| !observation_scores.scores.is_empty())
    }

    /// `3 rules without a score`
    fn why_none(&self) -> Option<String> {
        let n = self.outcomes.len() as u64;
        (0 < n).then(|| format!("{} without a score", plural(n, "rule")))
    }

    fn values(&self) -> &[ValuePart] {
        &self.values
    }

    /// Values below the details, without absent ones.
    fn extras(&self) -> impl Iterator<Item = &ValuePart> {
        let all = self.extras.iter();
        all.filter(|part| !part.block.is_absent())
    }

    fn of_trace(trace: &Trace, input: DetailInput) -> Self {
        let mut facts = vec![
            fact_at("First start", trace.first_start, true),
            fact_at("Last end", trace.last_end, true),
        ];
        push_usage(&mut facts, &trace.usage, "Tokens");
        if !trace.duplicates.is_empty() {
            let n = plural(trace.duplicates.len() as u64, "observation");
            facts.push(fact("Duplicate usage", format!("{n}, not counted again")));
        }
        let id = trace.id.as_str();
        let at = |part: &str| Addresses::new(&input.base, id, None, part);
        let address = input.address(None);
        let forms = (&input.forms, address.as_str());
        Self {
            kind: "trace",
            name: Text::from(trace.name.as_deref().unwrap_or("Unnamed trace")),
            id: Text::from(trace.id.as_str()),
            level: None,
            level_class: "",
            status_message: None,
            failures: Vec::new(),
            // The header shows those of the trace.
            figures: String::new(),
            facts,
            event_lists: Vec::new(),
            values: [
                ValuePart::new(INPUT, at("input"), forms, |params, at| {
                    RenderedValue::of(trace.input.as_ref(), params, at)
                }),
                ValuePart::new(OUTPUT, at("output"), forms, |params, at| {
                    RenderedValue::of(trace.output.as_ref(), params, at)
                }),
            ],
            extras: [
                ValuePart::new(TOOLS, at("tools"), forms, |params, at| {
                    RenderedValue::of_tools(None, &[], params.form, at)
                }),
                ValuePart::new(METADATA, at("metadata"), forms, |params, at| {
                    RenderedValue::of_map(&trace.metadata, params, at)
                }),
            ],
            from: format!(
                "{}/_/traces/{}/detail{address}{}",
                input.base,
                segment(trace.id.as_str()),
                input.rules.query()
            ),
            dataset_href: input.dataset_href(id, None),
            judge_href: input.judge_href(id, None),
            annotations: input.annotations.map(|own| Annotations::new(own, trace.output.as_ref())),
            base: input.base,
            form_context: input.form_context,
            scores: input.scores,
            outcomes: input.outcomes,
            rules: input.rules,
            address,
            observation_scores: input.observation_scores,
        }
    }

    fn of_observation(observation: &Observation, input: DetailInput) -> Self {
        let Content { input: input_value, output, metadata: meta, tool_definitions, .. } =
            &observation.content;
        let (level, level_class) = match observation.level {
            Level::Error => (Some("error"), "bad"),
            Level::Warning => (Some("warning"), "waiting"),
            Level::Debug => (Some("debug"), "plain"),
            Level::Default => (None, ""),
        };
        let id = observation.id.as_str();
        let base = input.base.as_str();
        let at = |part: &str| Addresses::new(base, observation.trace_id.as_str(), Some(id), part);
        let address = input.address(Some(id));
        let forms = (&input.forms, address.as_str());
        let (event_lists, rest) = event_lists(observation, base, &at("metadata"));
        let offered = tool_definitions.as_ref();
        let values = [input_value.as_ref(), output.as_ref()];
        let called = offered.map(|_| called_tools(&observation.called_tools, values));
        let meta = rest.as_ref().unwrap_or(meta);
        Self {
            kind: kind_label(observation.kind),
            name: Text::from(observation.name.as_str()),
            id: Text::from(observation.id.as_str()),
            level,
            level_class,
            status_message: observation.status_message.as_deref().map(display_text),
            failures: failures(observation, &at("metadata")),
            figures: figures(observation),
            facts: observation_facts(observation, input.self_time_us),
            event_lists,
            values: [
                ValuePart::new(INPUT, at("input"), forms, |form, at| {
                    RenderedValue::of(input_value.as_ref(), form, at)
                }),
                ValuePart::new(OUTPUT, at("output"), forms, |form, at| {
                    RenderedValue::of(output.as_ref(), form, at)
                }),
            ],
            extras: [
                ValuePart::new(TOOLS, at("tools"), forms, |params, at| {
                    RenderedValue::of_tools(offered, &called.unwrap_or_default(), params.form, at)
                }),
                ValuePart::new(METADATA, at("metadata"), forms, |form, at| {
                    RenderedValue::of_map(meta, form, at)
                }),
            ],
            from: format!(
                "{}/_/traces/{}/detail?observation={}{}",
                input.base,
                segment(observation.trace_id.as_str()),
                encode(observation.id.as_str()),
                input.rules.query()
            ),
            dataset_href: input.dataset_href(observation.trace_id.as_str(), Some(id)),
            judge_href: input.judge_href(observation.trace_id.as_str(), Some(id)),
            annotations: input.annotations.map(|own| Annotations::new(own, output.as_ref())),
            base: input.base,
            form_context: input.form_context,
            scores: input.scores,
            outcomes: input.outcomes,
            rules: input.rules,
            address,
            observation_scores: input.observation_scores,
        }
    }
}

/// `850 ms · 11,400 tokens · $0.0465`
fn figures(observation: &Observation) -> String {
    let took = observation.end.map(|end| duration(end.micros_since(observation.start)));
    let tokens = total_tokens(&observation.usage);
    let all = [
        took,
        (0 < tokens).then(|| plural(tokens, "token")),
        Some(cost_cell(observation.own_cost())).filter(|cost| !cost.is_empty()),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn observation_facts(observation: &Observation, self_time_us: Option<i64>) -> Vec<Fact> {
    let mut facts = vec![fact_at("Start", observation.start, true)];
    facts.push(match observation.end {
        Some(end) => fact("Latency", duration(end.micros_since(observation.start))),
        None => fact("Latency", "not ended"),
    });
    facts.extend(self_time_us.map(|us| fact("Self time", duration(us))));
    if let Some(first) = observation.completion_start {
        facts.push(fact("Time to first token", duration(first.micros_since(observation.start))));
    }
    let optional = [
        ("Model", &observation.model),
        ("Model of child observations", &observation.aggregate_model),
        ("Provider", &observation.provider),
        ("User", &observation.user_id),
        ("Session", &observation.session_id),
        ("Version", &observation.version),
        ("Release", &observation.release),
    ];
    facts.extend(
        optional
            .iter()
            .filter_map(|(label, value)| value.as_ref().map(|value| fact(label, value.clone()))),
    );
    if !observation.model_parameters.is_empty() {
        let shown = observation.model_parameters.iter().map(|(key, value)| match value {
            Value::String(text) => format!("{key} {}", without_media(text)),
            other => format!("{key} {}", without_media(&other.to_string())),
        });
        facts.push(fact("Parameters", shown.collect::<Vec<_>>().join(", ")));
    }
    if let Some(prompt) = &observation.prompt {
        let version = prompt.version.map_or(String::new(), |version| format!(" version {version}"));
        facts.push(fact("Prompt", format!("{}{version}", prompt.name)));
    }
    push_usage(&mut facts, &observation.usage, "Tokens");
    push_usage(&mut facts, &observation.aggregate_usage, "Tokens of child observations");
    push_cost(&mut facts, &observation.cost, "Cost (sent)");
    if observation.cost.is_empty() {
        push_cost(&mut facts, &observation.computed_cost, "Cost (computed)");
    }
    if 0 < observation.own_cost().n_unpriced {
        facts.push(fact("Cost", "unknown: not sent, and no price found"));
    }
    push_cost(&mut facts, observation.effective_aggregate_cost(), "Cost of child observations");
    if !observation.called_tools.is_empty() {
        facts.push(fact("Called tools", observation.called_tools.join(", ")));
    }
    facts.push(fact("Environment", observation.environment.clone()));
    if !observation.scope_name.is_empty() {
        facts.push(fact("Instrumentation scope", observation.scope_name.clone()));
    }
    facts
}

fn push_cost(facts: &mut Vec<Fact>, cost: &Cost, label: &'static str) {
    if !cost.is_empty() {
        let shown = cost.iter().map(|(key, amount)| format!("{key} {}", dollars(*amount)));
        facts.push(fact(label, shown.collect::<Vec<_>>().join(", ")));
    }
}

/// A whole number with grouped digits, or a fraction.
fn quantity(n: Quantity) -> String {
    match n.is_whole() {
        true => count(n.to_u64()),
        false => n.to_string(),
    }
}

fn push_usage(facts: &mut Vec<Fact>, usage: &Usage, label: &'static str) {
    if !usage.is_empty() {
        let shown = usage.iter().map(|(key, n)| format!("{key} {}", quantity(*n)));
        facts.push(fact(label, shown.collect::<Vec<_>>().join(", ")));
    }
}

//! Renders the observations of a payload as a tree or as JSON, to explain the mapping.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use perpend_domain::cost::cost_total;
use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{Cost, Level, Observation, Usage};
use perpend_domain::payload::Payload;
use perpend_domain::quantity::Quantity;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_domain::usage::{Side, side_of};
use serde_json::{Map, Value as Json, json};

/// Metadata that describes the span, next to the keys of the user.
const DESCRIBING: [&str; 9] = [
    "attributes",
    "resourceAttributes",
    "scope",
    "events",
    "links",
    "truncated",
    "droppedAttributesCount",
    "droppedEventsCount",
    "droppedLinksCount",
];

/// Renders the observations of the traces as trees, aligned, with ANSI colours on request.
#[must_use]
pub fn tree(observations: &[Observation], traces: &[Trace], colour: bool) -> String {
    let mut out = String::new();
    for trace in traces {
        let own: Vec<&Observation> =
            observations.iter().filter(|observation| observation.trace_id == trace.id).collect();
        let rows = rows_of(&own);
        let width = rows.iter().map(Row::width).max().unwrap_or(0);
        heading(&mut out, trace, colour);
        for row in rows {
            row.write(&mut out, trace, width, colour);
        }
        out.push('\n');
    }
    out
}

/// One observation with its depth.
struct Row<'o> {
    depth: usize,
    observation: &'o Observation,
}

/// Depth first, siblings by start and id. Members of a cycle stand on the top level.
fn rows_of<'o>(observations: &[&'o Observation]) -> Vec<Row<'o>> {
    let known: HashSet<&ObservationId> = observations.iter().map(|o| &o.id).collect();
    let mut sorted = observations.to_vec();
    sorted.sort_by_key(|o| (o.start, &o.id));
    let mut children: HashMap<&ObservationId, Vec<&Observation>> = HashMap::new();
    let mut tops = Vec::new();
    for observation in &sorted {
        match &observation.parent_id {
            Some(parent) if known.contains(parent) => {
                children.entry(parent).or_default().push(observation);
            }
            _ => tops.push(*observation),
        }
    }
    let mut rows = Vec::with_capacity(sorted.len());
    let mut seen = HashSet::new();
    for top in tops.into_iter().chain(sorted) {
        let mut open = vec![(0, top)];
        while let Some((depth, observation)) = open.pop() {
            if !seen.insert(&observation.id) {
                continue;
            }
            rows.push(Row { depth, observation });
            let below = children.get(&observation.id).into_iter().flatten();
            open.extend(below.rev().map(|child| (depth + 1, *child)));
        }
    }
    rows
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const YELLOW: &str = "33";
const CYAN: &str = "36";

fn painted(text: &str, code: &str, colour: bool) -> String {
    if colour && !text.is_empty() {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Removes control characters: names are untrusted and must not control the terminal.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn heading(out: &mut String, trace: &Trace, colour: bool) {
    let name = harmless(trace.name.as_deref().unwrap_or("unnamed"));
    let mut facts = vec![format!("environment {}", trace.environment)];
    let optional = [
        ("user", &trace.user_id),
        ("session", &trace.session_id),
        ("release", &trace.release),
        ("version", &trace.version),
    ];
    for (label, value) in optional {
        if let Some(value) = value {
            facts.push(format!("{label} {}", harmless(value)));
        }
    }
    if !trace.tags.is_empty() {
        facts.push(format!("tags {}", harmless(&trace.tags.join(", "))));
    }
    facts.push(seconds(trace.latency_us));
    if let Some(total) = trace.usage.get("total") {
        facts.push(format!("{total} tokens"));
    }
    if trace.total_cost > 0.0 {
        facts.push(dollars(trace.total_cost));
    }
    if trace.root_is_provisional {
        facts.push("root not seen yet".to_owned());
    }
    // Writing to a string cannot fail.
    let _written = writeln!(
        out,
        "trace {}  {}\n      {}",
        painted(&name, BOLD, colour),
        painted(trace.id.as_str(), DIM, colour),
        facts.join(" · ")
    );
}

impl Row<'_> {
    fn label(&self) -> (String, String) {
        let kind = self.observation.kind.as_str().to_ascii_lowercase();
        let indent = "  ".repeat(self.depth.min(40));
        (format!("  {indent}{kind} "), harmless(&self.observation.name))
    }

    fn width(&self) -> usize {
        let (kind, name) = self.label();
        (kind.chars().count() + name.chars().count()).min(72)
    }

    fn write(&self, out: &mut String, trace: &Trace, width: usize, colour: bool) {
        let observation = self.observation;
        let (kind, name) = self.label();
        let length = kind.chars().count() + name.chars().count();
        let padding = " ".repeat(width.saturating_sub(length));
        let duration = observation
            .end
            .map_or_else(|| "open".to_owned(), |end| seconds(end.micros_since(observation.start)));
        let level = match observation.level {
            Level::Default => String::new(),
            Level::Error => painted(" ERROR", RED, colour),
            Level::Warning => painted(" WARNING", YELLOW, colour),
            Level::Debug => painted(" DEBUG", DIM, colour),
        };
        let mut details = String::new();
        if let Some(model) = &observation.model {
            details.push_str(&painted(&format!(" [{}]", harmless(model)), CYAN, colour));
        }
        for (label, usage, cost) in [
            ("", &observation.usage, observation.effective_cost()),
            ("below: ", &observation.aggregate_usage, observation.effective_aggregate_cost()),
        ] {
            details.push_str(&amounts(label, usage, cost));
        }
        if let Some((_, original)) = trace.duplicates.iter().find(|(id, _)| *id == observation.id) {
            let _written = write!(details, " (same call as {original})");
        }
        if let Some(message) = &observation.status_message {
            let message = harmless(crate::limits::cut_chars(message, 120));
            let _written = write!(details, " \"{message}\"");
        }
        let kind = painted(&kind, DIM, colour);
        let _written = writeln!(out, "{kind}{name}{padding} {duration:>10}{level}{details}");
    }
}

fn amounts(label: &str, usage: &Usage, cost: &Cost) -> String {
    let mut text = String::new();
    if !usage.is_empty() {
        let buckets: Vec<String> =
            usage.iter().map(|(k, n)| format!("{}={n}", harmless(k))).collect();
        let _written = write!(text, " {label}{}", buckets.join(" "));
    }
    if !cost.is_empty() {
        let total: f64 = cost_total(cost).try_into().unwrap_or(0.0);
        let _written = write!(text, " {label}{}", dollars(total));
    }
    text
}

fn seconds(micros: i64) -> String {
    format!("{}.{:03} s", micros / 1_000_000, micros / 1_000 % 1_000)
}

fn dollars(amount: f64) -> String {
    let text = format!("{amount:.10}");
    format!("${}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The traces and observations with the field names of the mapping fixtures: observations by trace,
/// start and id; metadata without what only describes the span.
#[must_use]
pub fn json(observations: &[Observation], traces: &[Trace]) -> Json {
    let duplicates: HashMap<_, _> = traces
        .iter()
        .flat_map(|trace| trace.duplicates.iter().map(|(id, of)| ((&trace.id, id), of)))
        .collect();
    let mut sorted: Vec<&Observation> = observations.iter().collect();
    sorted.sort_by_key(|o| (&o.trace_id, o.start, &o.id));
    let mut traces: Vec<&Trace> = traces.iter().collect();
    traces.sort_by_key(|trace| &trace.id);
    let observations: Vec<Json> = sorted
        .into_iter()
        .map(|o| observation_json(o, duplicates.get(&(&o.trace_id, &o.id)).copied()))
        .collect();
    let traces: Vec<Json> = traces.into_iter().map(trace_json).collect();
    json!({ "traces": traces, "observations": observations })
}

fn payload_json(payload: Option<&Payload>) -> Json {
    payload.map_or(Json::Null, Payload::to_value)
}

fn time_json(at: Option<Timestamp>) -> Json {
    at.map_or(Json::Null, |at| at.to_iso_micros().into())
}

fn user_metadata(metadata: &Map<String, Json>) -> Map<String, Json> {
    let mut kept = metadata.clone();
    // A user key with the same name wins; it is recognised by its value.
    kept.retain(|key, value| {
        !DESCRIBING.contains(&key.as_str()) || value.is_string() || value.is_boolean()
    });
    kept
}

fn observation_json(observation: &Observation, duplicate_of: Option<&ObservationId>) -> Json {
    let content = &observation.content;
    let prompt = observation.prompt.as_ref();
    let computed = (!observation.computed_cost.is_empty()).then_some(&observation.computed_cost);
    let mut json = json!({
        "traceId": observation.trace_id,
        "id": observation.id,
        "parentId": observation.parent_id,
        "name": observation.name,
        "type": observation.kind.as_str().to_ascii_lowercase(),
        "startTime": time_json(Some(observation.start)),
        "endTime": time_json(observation.end),
        "level": observation.level.as_str(),
        "statusMessage": observation.status_message,
        "environment": observation.environment,
        "version": observation.version,
        "model": observation.model,
        "modelParameters": observation.model_parameters,
        "usageDetails": observation.usage,
        "providedCostDetails": observation.cost,
        "computedCostDetails": computed,
        "promptName": prompt.map(|prompt| &prompt.name),
        "promptVersion": prompt.and_then(|prompt| prompt.version),
        "completionStartTime": time_json(observation.completion_start),
        "input": payload_json(content.input.as_ref()),
        "output": payload_json(content.output.as_ref()),
        "metadata": user_metadata(&content.metadata),
    });
    for (key, is_there, value) in [
        (
            "aggregateUsageDetails",
            !observation.aggregate_usage.is_empty(),
            json!(observation.aggregate_usage),
        ),
        (
            "aggregateCostDetails",
            !observation.aggregate_cost.is_empty(),
            json!(observation.aggregate_cost),
        ),
        ("duplicateOf", duplicate_of.is_some(), json!(duplicate_of)),
        ("toolCalls", !observation.called_tools.is_empty(), json!(observation.called_tools)),
    ] {
        if is_there {
            json[key] = value;
        }
    }
    json
}

fn trace_json(trace: &Trace) -> Json {
    let sum = |side: Side| {
        let buckets = trace.usage.iter();
        let buckets = buckets.filter(|(bucket, _)| side_of(bucket) == Some(side));
        buckets.map(|(_, n)| *n).sum::<Quantity>()
    };
    json!({
        "id": trace.id,
        "name": trace.name,
        "timestamp": time_json(Some(trace.timestamp)),
        "userId": trace.user_id,
        "sessionId": trace.session_id,
        "tags": trace.tags,
        "environment": trace.environment,
        "release": trace.release,
        "version": trace.version,
        "public": trace.public,
        "input": payload_json(trace.input.as_ref()),
        "output": payload_json(trace.output.as_ref()),
        "metadata": user_metadata(&trace.metadata),
        "rootObservationId": trace.root,
        "rootIsProvisional": trace.root_is_provisional,
        "usageTotals": {
            "input": sum(Side::Input),
            "output": sum(Side::Output),
            "total": trace.usage.get("total").copied().unwrap_or_default(),
        },
        "totalCost": trace.total_cost,
    })
}

//! The contents of a row, or of the traces.

use crate::markup::{encode, segment};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::trace::Trace;
use serde_json::Value;

use super::query::{CompareQuery, ComparedObservation};
use super::side::CompareSide;
use crate::Text;
use crate::format::kind_label;
use crate::values::diff::Diff;

/// Maximum number of shown bytes of the difference of an input, an output or a trace value.
const MAX_BYTES: usize = 24 << 10;
/// Maximum number of shown bytes of the difference of parameters and other short values.
const MAX_SMALL_BYTES: usize = 4 << 10;
/// Labels of the sides.
pub(super) const LETTERS: [&str; 2] = ["A", "B"];

/// The differences of the selected row, or of the traces.
#[derive(Debug)]
pub(super) struct RowContents {
    pub(super) kind: &'static str,
    pub(super) name: Text,
    /// Label and URL of each side that has the row.
    pub(super) links: Vec<(&'static str, String)>,
    pub(super) values: Vec<(&'static str, Diff)>,
    /// The `pair` parameter of the same row after swapping the sides.
    pub(super) pair_when_swapped: Option<ComparedObservation>,
}

/// The contents of the traces.
pub(super) fn trace_contents(
    query: &CompareQuery,
    base: &str,
    sides: [Option<&CompareSide>; 2],
) -> Option<RowContents> {
    let traces = sides.map(|side| side.map(|side| &side.trace));
    let diff = |of: fn(&Trace) -> Option<&Payload>| {
        let [a, b] = traces.map(|trace| trace.and_then(of));
        Diff::new(a, b, query.diff, MAX_BYTES)
    };
    traces.iter().any(Option::is_some).then(|| RowContents {
        kind: "trace",
        name: Text::from("the trace"),
        links: links(base, traces.map(|trace| Some(format!("/{}", segment(trace?.id.as_str()))))),
        values: [
            ("Input", diff(|trace| trace.input.as_ref())),
            ("Output", diff(|trace| trace.output.as_ref())),
        ]
        .into_iter()
        .chain(metadata(traces, query))
        .collect(),
        pair_when_swapped: None,
    })
}

/// The difference of the metadata, if a trace has metadata.
fn metadata(traces: [Option<&Trace>; 2], query: &CompareQuery) -> Option<(&'static str, Diff)> {
    let payload = |trace: Option<&Trace>| {
        let metadata = &trace.filter(|trace| !trace.metadata.is_empty())?.metadata;
        Some(Payload::from_value(Value::Object(metadata.clone())))
    };
    let [a, b] = traces.map(payload);
    let is_present = a.is_some() || b.is_some();
    is_present.then(|| {
        let diff = Diff::new(a.as_ref(), b.as_ref(), query.diff, MAX_SMALL_BYTES);
        ("Metadata", diff)
    })
}

fn links(base: &str, paths: [Option<String>; 2]) -> Vec<(&'static str, String)> {
    let paths = LETTERS.into_iter().zip(paths);
    paths.filter_map(|(letter, path)| Some((letter, format!("{base}/traces{}", path?)))).collect()
}

/// The contents of a matched row.
pub(super) fn observation_contents(
    query: &CompareQuery,
    base: &str,
    observations: &[Option<Observation>; 2],
) -> Option<RowContents> {
    let both = observations.each_ref().map(Option::as_ref);
    let first = both.into_iter().flatten().next()?;
    let small = |of: &dyn Fn(&Observation) -> Option<Payload>| {
        let [a, b] = both.map(|observation| observation.and_then(of));
        let is_present = a.is_some() || b.is_some();
        is_present.then(|| Diff::new(a.as_ref(), b.as_ref(), query.diff, MAX_SMALL_BYTES))
    };
    let whole = |of: fn(&Observation) -> Option<&Payload>| {
        let [a, b] = both.map(|observation| observation.and_then(of));
        Diff::new(a, b, query.diff, MAX_BYTES)
    };
    let text = |text: &Option<String>| text.clone().map(Payload::Text);
    let mut values = vec![
        ("Input", whole(|observation| observation.content.input.as_ref())),
        ("Output", whole(|observation| observation.content.output.as_ref())),
    ];
    let others = [
        ("Status", small(&|observation| text(&observation.status_message))),
        ("Model", small(&|observation| text(&observation.model))),
        ("Parameters", small(&parameters)),
        ("Prompt", small(&prompt)),
    ];
    values.extend(others.into_iter().filter_map(|(label, diff)| Some((label, diff?))));
    let path = |observation: &Observation| {
        let (trace, id) = (segment(observation.trace_id.as_str()), encode(observation.id.as_str()));
        format!("/{trace}?observation={id}")
    };
    let [a, b] = both;
    Some(RowContents {
        kind: kind_label(first.kind),
        name: Text::from(first.name.as_str()),
        links: links(base, both.map(|observation| observation.map(path))),
        values,
        pair_when_swapped: match (a, b) {
            (_, Some(b)) => Some(ComparedObservation::A(b.id.to_string())),
            (Some(a), None) => Some(ComparedObservation::B(a.id.to_string())),
            (None, None) => None,
        },
    })
}

fn parameters(observation: &Observation) -> Option<Payload> {
    let parameters = &observation.model_parameters;
    let is_present = !parameters.is_empty();
    is_present.then(|| Payload::from_value(Value::Object(parameters.clone())))
}

fn prompt(observation: &Observation) -> Option<Payload> {
    let prompt = observation.prompt.as_ref()?;
    let version = prompt.version.map(|version| format!("\nversion {version}"));
    Some(Payload::Text(format!("{}{}", prompt.name, version.unwrap_or_default())))
}

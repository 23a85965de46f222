//! The contents of a row of both traces, or of the traces as a whole.

use crate::markup::{encode, segment};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::trace::Trace;
use serde_json::Value;

use super::query::{CompareQuery, ComparedObservation};
use super::side::CompareSide;
use crate::Text;
use crate::format::kind_word;
use crate::values::diff::Diff;

/// Bytes of the differences of one value that a page shows.
const ROOM: usize = 24 << 10;
/// The same of parameters and shorter values.
const SMALL_ROOM: usize = 4 << 10;
/// What the sides are called.
pub(super) const LETTERS: [&str; 2] = ["A", "B"];

/// The values of the selected row, or of the traces.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) kind: &'static str,
    pub(super) name: Text,
    /// Letter and address of each side that there is.
    pub(super) links: Vec<(&'static str, String)>,
    pub(super) values: Vec<(&'static str, Diff)>,
    /// What selects the same row when the sides are swapped.
    pub(super) pair_when_swapped: Option<ComparedObservation>,
}

/// The contents of the traces.
pub(super) fn of_traces(
    query: &CompareQuery,
    base: &str,
    sides: [Option<&CompareSide>; 2],
) -> Option<Contents> {
    let traces = sides.map(|side| side.map(|side| &side.trace));
    let diff = |of: fn(&Trace) -> Option<&Payload>| {
        let [a, b] = traces.map(|trace| trace.and_then(of));
        Diff::new(a, b, query.diff, ROOM)
    };
    traces.iter().any(Option::is_some).then(|| Contents {
        kind: "trace",
        name: Text::from("the whole trace"),
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

/// What the traces say of themselves, where one says anything.
fn metadata(traces: [Option<&Trace>; 2], query: &CompareQuery) -> Option<(&'static str, Diff)> {
    let payload = |trace: Option<&Trace>| {
        let metadata = &trace.filter(|trace| !trace.metadata.is_empty())?.metadata;
        Some(Payload::from_value(Value::Object(metadata.clone())))
    };
    let [a, b] = traces.map(payload);
    let is_there = a.is_some() || b.is_some();
    is_there.then(|| {
        let diff = Diff::new(a.as_ref(), b.as_ref(), query.diff, SMALL_ROOM);
        ("Metadata", diff)
    })
}

fn links(base: &str, paths: [Option<String>; 2]) -> Vec<(&'static str, String)> {
    let paths = LETTERS.into_iter().zip(paths);
    paths.filter_map(|(letter, path)| Some((letter, format!("{base}/traces{}", path?)))).collect()
}

/// The contents of a step that both have, or one of them.
pub(super) fn of_steps(
    query: &CompareQuery,
    base: &str,
    steps: &[Option<Observation>; 2],
) -> Option<Contents> {
    let both = steps.each_ref().map(Option::as_ref);
    let first = both.into_iter().flatten().next()?;
    let small = |of: &dyn Fn(&Observation) -> Option<Payload>| {
        let [a, b] = both.map(|step| step.and_then(of));
        let is_there = a.is_some() || b.is_some();
        is_there.then(|| Diff::new(a.as_ref(), b.as_ref(), query.diff, SMALL_ROOM))
    };
    let whole = |of: fn(&Observation) -> Option<&Payload>| {
        let [a, b] = both.map(|step| step.and_then(of));
        Diff::new(a, b, query.diff, ROOM)
    };
    let text = |text: &Option<String>| text.clone().map(Payload::Text);
    let mut values = vec![
        ("Input", whole(|step| step.content.input.as_ref())),
        ("Output", whole(|step| step.content.output.as_ref())),
    ];
    let others = [
        ("Status", small(&|step| text(&step.status_message))),
        ("Model", small(&|step| text(&step.model))),
        ("Parameters", small(&parameters)),
        ("Prompt", small(&prompt)),
    ];
    values.extend(others.into_iter().filter_map(|(label, diff)| Some((label, diff?))));
    let path = |step: &Observation| {
        let (trace, id) = (segment(step.trace_id.as_str()), encode(step.id.as_str()));
        format!("/{trace}?observation={id}")
    };
    let [a, b] = both;
    Some(Contents {
        kind: kind_word(first.kind),
        name: Text::from(first.name.as_str()),
        links: links(base, both.map(|step| step.map(path))),
        values,
        pair_when_swapped: match (a, b) {
            (_, Some(b)) => Some(ComparedObservation::A(b.id.to_string())),
            (Some(a), None) => Some(ComparedObservation::B(a.id.to_string())),
            (None, None) => None,
        },
    })
}

fn parameters(step: &Observation) -> Option<Payload> {
    let parameters = &step.model_parameters;
    let is_there = !parameters.is_empty();
    is_there.then(|| Payload::from_value(Value::Object(parameters.clone())))
}

fn prompt(step: &Observation) -> Option<Payload> {
    let prompt = step.prompt.as_ref()?;
    let version = prompt.version.map(|version| format!("\nversion {version}"));
    Some(Payload::Text(format!("{}{}", prompt.name, version.unwrap_or_default())))
}

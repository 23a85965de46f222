//! The properties of two traces, side by side.

use perpend_domain::trace::Trace;

use super::figures::ComparedFigure;
use super::side::{CompareSide, ScoresByName};
use crate::Text;
use crate::facts::{total_tokens, utc_time};
use crate::format::clock;

/// A label and the property it describes.
type Property = (&'static str, fn(&Trace) -> Option<String>);

/// The properties and scores of both traces.
pub(super) fn facts(sides: [Option<&CompareSide>; 2]) -> Vec<(Text, ComparedFigure)> {
    let traces = sides.map(|side| side.map(|side| &side.trace));
    let n = |of: fn(&Trace) -> u64| ComparedFigure::count(traces.map(|trace| trace.map(of)));
    let tokens = traces.map(|trace| {
        let usage = &trace?.usage;
        (!usage.is_empty()).then(|| total_tokens(usage))
    });
    let started = traces.map(|trace| trace.map(|trace| clock(trace.timestamp)));
    let times = traces.map(|trace| trace.map(|trace| utc_time(trace.timestamp)));
    let mut all = vec![
        (
            "Started",
            ComparedFigure {
                times,
                ..ComparedFigure::labels(started.each_ref().map(Option::as_deref)).neutral()
            },
        ),
        (
            "Latency",
            ComparedFigure::duration(traces.map(|trace| trace.map(|trace| trace.latency_us))),
        ),
        ("Tokens", ComparedFigure::count(tokens)),
        ("Cost", ComparedFigure::cost(traces.map(|trace| trace.map(Trace::cost)))),
        ("Observations", n(|trace| trace.n_observations.into())),
        ("Errors", n(|trace| trace.n_by_level[3].into())),
        ("Warnings", n(|trace| trace.n_by_level[2].into())),
    ];
    let properties: [Property; 7] = [
        ("Name", |trace| trace.name.clone()),
        ("Environment", |trace| Some(trace.environment.clone())),
        ("User", |trace| trace.user_id.clone()),
        ("Session", |trace| trace.session_id.clone()),
        ("Release", |trace| trace.release.clone()),
        ("Version", |trace| trace.version.clone()),
        ("Tags", |trace| Some(trace.tags.join(", ")).filter(|tags| !tags.is_empty())),
    ];
    for (label, of) in properties {
        let values = traces.map(|trace| trace.and_then(of));
        if values.iter().any(Option::is_some) {
            let labels = ComparedFigure::labels(values.each_ref().map(Option::as_deref));
            let is_label = true;
            all.push((label, ComparedFigure { is_label, ..labels }));
        }
    }
    let all = all.into_iter().map(|(label, figure)| (Text::from(label), figure));
    let scores = sides.map(|side| side.and_then(|side| side.scores.get(&None)));
    let scores = ScoresByName::compare(scores).into_iter();
    let scores = scores.map(|(name, figure)| (Text::from(format!("Score {}", name.raw())), figure));
    all.chain(scores).collect()
}

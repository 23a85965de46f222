//! What two traces say of themselves, beside each other.

use perpend_domain::trace::Trace;

use super::figures::Figure;
use super::side::{CompareSide, ScoresByName};
use crate::Text;
use crate::facts::{total_tokens, utc_time};
use crate::format::clock;

/// A label, and the word of a trace that stands there.
type Word = (&'static str, fn(&Trace) -> Option<String>);

/// What both traces say of themselves.
pub(super) fn facts(sides: [Option<&CompareSide>; 2]) -> Vec<(Text, Figure)> {
    let traces = sides.map(|side| side.map(|side| &side.trace));
    let n = |of: fn(&Trace) -> u64| Figure::count(traces.map(|trace| trace.map(of)));
    let tokens = traces.map(|trace| {
        let usage = &trace?.usage;
        (!usage.is_empty()).then(|| total_tokens(usage))
    });
    let started = traces.map(|trace| trace.map(|trace| clock(trace.timestamp)));
    let times = traces.map(|trace| trace.map(|trace| utc_time(trace.timestamp)));
    let mut all = vec![
        (
            "Started",
            Figure { times, ..Figure::words(started.each_ref().map(Option::as_deref)).apart() },
        ),
        ("Latency", Figure::duration(traces.map(|trace| trace.map(|trace| trace.latency_us)))),
        ("Tokens", Figure::count(tokens)),
        ("Cost", Figure::cost(traces.map(|trace| trace.map(Trace::cost)))),
        ("Steps", n(|trace| trace.n_observations.into())),
        ("Errors", n(|trace| trace.n_by_level[3].into())),
        ("Warnings", n(|trace| trace.n_by_level[2].into())),
    ];
    let words: [Word; 7] = [
        ("Name", |trace| trace.name.clone()),
        ("Environment", |trace| Some(trace.environment.clone())),
        ("User", |trace| trace.user_id.clone()),
        ("Session", |trace| trace.session_id.clone()),
        ("Release", |trace| trace.release.clone()),
        ("Version", |trace| trace.version.clone()),
        ("Tags", |trace| Some(trace.tags.join(", ")).filter(|tags| !tags.is_empty())),
    ];
    for (label, of) in words {
        let said = traces.map(|trace| trace.and_then(of));
        if said.iter().any(Option::is_some) {
            let words = Figure::words(said.each_ref().map(Option::as_deref));
            let is_word = true;
            all.push((label, Figure { is_word, ..words }));
        }
    }
    let all = all.into_iter().map(|(label, figure)| (Text::from(label), figure));
    let scores = sides.map(|side| side.and_then(|side| side.scores.get(&None)));
    let scores = ScoresByName::beside(scores).into_iter();
    let scores = scores.map(|(name, figure)| (Text::from(format!("Score {}", name.raw())), figure));
    all.chain(scores).collect()
}

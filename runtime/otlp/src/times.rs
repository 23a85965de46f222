//! Start, end and first token (otlp.md 2.15).

use perpend_domain::time::Timestamp;

use crate::attributes::amount;
use crate::consumed::FIRST_CHUNK_EVENTS;
use crate::notes::Notes;
use crate::source::Source;

/// 1970-01-02 and 2100-01-01 in nanoseconds: what lies outside counts as missing.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 86_400_000_000_000..=4_102_444_800_000_000_000;

/// A time sent in nanoseconds, cut to the microsecond; none when it is missing or implausible.
pub(crate) fn timestamp(nanos: u64) -> Option<Timestamp> {
    let micros = i64::try_from(nanos / 1_000).ok()?;
    PLAUSIBLE.contains(&nanos).then_some(Timestamp::from_micros(micros))
}

/// Start and end: a missing edge takes the other one, both missing the arrival; never end before start.
pub(crate) fn start_and_end(
    start_nanos: u64,
    end_nanos: u64,
    arrived_at: Timestamp,
    notes: &mut Notes,
) -> (Timestamp, Timestamp) {
    let (start, end) = (timestamp(start_nanos), timestamp(end_nanos));
    let first = start.or(end).unwrap_or(arrived_at);
    let last = end.unwrap_or(first).max(first);
    for (field, nanos, read, stored) in
        [("startTime", start_nanos, start, first), ("endTime", end_nanos, end, last)]
    {
        let iso = stored.to_iso_micros();
        match read {
            None if nanos == 0 => {}
            None => {
                let reason = "is not between 1970-01-02 and 2100-01-01";
                notes.replaced(field, format!("{nanos} ns {reason}; {iso} is stored"));
            }
            Some(read) if read != stored => {
                notes.repaired(field, format!("{nanos} ns is before the start; {iso} is stored"));
            }
            Some(_) => {}
        }
    }
    (first, last)
}

/// The first candidate within start and end.
pub(crate) fn completion_start(
    source: &Source<'_>,
    start: Timestamp,
    end: Timestamp,
    notes: &mut Notes,
) -> Option<Timestamp> {
    let attributes = source.attributes;
    let is_within = |at: &Timestamp| (start..=end).contains(at);
    let is_strands = source.scope.name.starts_with("strands.");
    let after = |(key, micros_per_unit): &(&str, f64)| {
        let in_millis = is_strands && *key == SERVER_LATENCY;
        let unit = if in_millis { 1e3 } else { *micros_per_unit };
        let micros = amount(attributes.get(key)?)? * unit;
        // Longer than any span that may be stored.
        (micros < 1e17).then(|| Timestamp::from_micros(start.as_micros() + micros as i64))
    };
    let native = || {
        let text = attributes.native_text("observation.completion_start_time")?;
        Timestamp::parse(text.trim().trim_matches('"')).ok()
    };
    let chunk = || {
        let events = source.span.events.iter();
        events
            .filter(|event| FIRST_CHUNK_EVENTS.contains(&event.name.as_ref()))
            .filter_map(|event| timestamp(event.time_nanos))
            .min()
    };
    let native = native();
    let candidates = native.into_iter();
    let mut candidates = candidates.chain(LATENCIES.iter().filter_map(after)).chain(chunk());
    let found = candidates.find(is_within);
    if let Some(native) = native.filter(|at| !is_within(at)) {
        let expected = "between the start and the end";
        notes.ignored("completionStartTime", &native.to_iso_micros(), expected);
    }
    found
}

/// Attributes with the time to first token, by library, with microseconds per unit.
const LATENCIES: [(&str, f64); 9] = [
    // Vercel AI SDK.
    ("ai.response.msToFirstChunk", 1e3),
    ("ai.stream.msToFirstChunk", 1e3),
    // OpenTelemetry semantic conventions.
    ("gen_ai.response.time_to_first_chunk", 1e6),
    // vLLM, SGLang.
    ("gen_ai.latency.time_to_first_token", 1e6),
    // sentry-sdk 2.75.0.
    ("gen_ai.response.time_to_first_token", 1e6),
    // openlit 1.45.0; strands-agents 1.62.0 sends milliseconds.
    (SERVER_LATENCY, 1e6),
    // agentops 0.4.21.
    ("gen_ai.time_to_first_token", 1e6),
    ("gen_ai.streaming.time_to_first_token", 1e6),
    ("streaming.time_to_first_token", 1e6),
];
const SERVER_LATENCY: &str = "gen_ai.server.time_to_first_token";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_implausible_edges_are_repaired() {
        let arrived = Timestamp::from_micros(5);
        let at = |micros: i64| Timestamp::from_micros(micros);
        let second = 1_000_000_000_u64;
        let day = 100_000 * second;
        assert_eq!(start_and_end(0, 0, arrived, &mut Notes::default()), (arrived, arrived));
        assert_eq!(start_and_end(u64::MAX, 1, arrived, &mut Notes::default()), (arrived, arrived));
        assert_eq!(
            start_and_end(day + 1_999, 0, arrived, &mut Notes::default()),
            (at(100_000_000_001), at(100_000_000_001))
        );
        assert_eq!(
            start_and_end(day + second, day, arrived, &mut Notes::default()),
            (at(100_001_000_000), at(100_001_000_000))
        );
    }
}

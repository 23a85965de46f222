//! Start, end and first token (otlp.md 2.15).

use perpend_domain::time::Timestamp;

use crate::attributes::amount;
use crate::consumed::FIRST_CHUNK_EVENTS;
use crate::source::Source;

/// 1970-01-02 and 2100-01-01 in nanoseconds: what lies outside counts as missing.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 86_400_000_000_000..=4_102_444_800_000_000_000;

/// A time sent in nanoseconds, cut to the microsecond; none when it is missing or implausible.
pub(crate) fn timestamp(nanos: u64) -> Option<Timestamp> {
    let micros = i64::try_from(nanos / 1_000).ok()?;
    PLAUSIBLE
        .contains(&nanos)
        .then_some(Timestamp::from_micros(micros))
}

/// Start and end: a missing edge takes the other one, both missing the arrival; never end before start.
pub(crate) fn start_and_end(
    start_nanos: u64,
    end_nanos: u64,
    arrived_at: Timestamp,
) -> (Timestamp, Timestamp) {
    let (start, end) = (timestamp(start_nanos), timestamp(end_nanos));
    let first = start.or(end).unwrap_or(arrived_at);
    (first, end.unwrap_or(first).max(first))
}

/// The first candidate within start and end.
pub(crate) fn completion_start(
    source: &Source<'_>,
    start: Timestamp,
    end: Timestamp,
) -> Option<Timestamp> {
    let attributes = source.attributes;
    let is_within = |at: &Timestamp| (start..=end).contains(at);
    let after = |keys: &[&str], micros_per_unit: f64| {
        let micros = amount(attributes.first(keys)?)? * micros_per_unit;
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
    native()
        .filter(is_within)
        .or_else(|| after(&["ai.response.msToFirstChunk"], 1e3).filter(is_within))
        .or_else(|| after(&["ai.stream.msToFirstChunk"], 1e3).filter(is_within))
        .or_else(|| after(&["gen_ai.response.time_to_first_chunk"], 1e6).filter(is_within))
        .or_else(|| chunk().filter(is_within))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_implausible_edges_are_repaired() {
        let arrived = Timestamp::from_micros(5);
        let at = |micros: i64| Timestamp::from_micros(micros);
        let second = 1_000_000_000_u64;
        let day = 100_000 * second;
        assert_eq!(start_and_end(0, 0, arrived), (arrived, arrived));
        assert_eq!(start_and_end(u64::MAX, 1, arrived), (arrived, arrived));
        assert_eq!(
            start_and_end(day + 1_999, 0, arrived),
            (at(100_000_000_001), at(100_000_000_001))
        );
        assert_eq!(
            start_and_end(day + second, day, arrived),
            (at(100_001_000_000), at(100_001_000_000))
        );
    }
}

//! Names of metrics.
//!
//! A metric is a measure of the results (`errors`, `latency_ms`, `cost_usd`, `tokens`) or a score. The name of a measure
//! always means the measure; a score with such a name is the metric `score:NAME`. Two metrics never have the same name.

use std::borrow::Cow;

/// The measures of results: errors, latency, cost and tokens.
pub const MEASURES: [&str; 4] = [ERRORS, LATENCY_MS, COST_USD, TOKENS];
pub(crate) const ERRORS: &str = "errors";
pub(crate) const LATENCY_MS: &str = "latency_ms";
pub(crate) const COST_USD: &str = "cost_usd";
pub(crate) const TOKENS: &str = "tokens";

/// In front of the name of a score.
const SCORE: &str = "score:";

/// The metric of a score: its name, with the prefix `score:` if the name alone would mean something else.
#[must_use]
pub fn metric_of_score(score: &str) -> Cow<'_, str> {
    match MEASURES.contains(&score) || score.starts_with(SCORE) {
        true => Cow::Owned(format!("{SCORE}{score}")),
        false => Cow::Borrowed(score),
    }
}

/// The metric that a request or a file means. The prefix `score:` is allowed in front of the name of any score.
#[must_use]
pub fn metric(name: &str) -> Cow<'_, str> {
    match name.strip_prefix(SCORE) {
        Some(score) => metric_of_score(score),
        None => Cow::Borrowed(name),
    }
}

/// The score of a metric; absent for a measure.
#[must_use]
pub fn score_of_metric(metric: &str) -> Option<&str> {
    match metric.strip_prefix(SCORE) {
        Some(score) => Some(score),
        None => Some(metric).filter(|name| !MEASURES.contains(name)),
    }
}

/// The rule that the name of a measure breaks where a score is expected.
#[must_use]
pub fn not_a_score(measure: &str) -> String {
    format!(
        "must be a score, got the measure `{measure}`, of which less is always better; `{SCORE}{measure}` is the score of this name"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_a_name_of_its_own_that_leads_back_to_its_score() {
        let scores = ["accuracy", "errors", "score:errors", "score:accuracy", "score:score:errors"];
        let names: Vec<String> =
            scores.iter().map(|score| metric_of_score(score).into_owned()).collect();
        assert_eq!(names[..2], ["accuracy", "score:errors"]);
        for (at, (score, name)) in scores.iter().zip(&names).enumerate() {
            assert_eq!(score_of_metric(name), Some(*score));
            assert_eq!(metric(name), name.as_str());
            assert!(!MEASURES.contains(&name.as_str()));
            assert!(!names[..at].contains(name), "{name}");
        }
        for measure in MEASURES {
            assert_eq!((score_of_metric(measure), metric(measure).as_ref()), (None, measure));
        }
        assert_eq!(metric("score:accuracy"), "accuracy");
    }
}

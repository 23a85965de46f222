//! The use of the probabilities of the choices, which the host computes.

use perpend_plugin::Json;
use perpend_plugin::model::Distribution;

use crate::shape::object;

/// The coverage from which on a distribution can replace the choice.
pub(crate) const MIN_COVERAGE: f64 = 0.9;

/// The expected score; `None` when the coverage is too low.
pub(crate) fn expectation(of: &Distribution, scores: &[(String, f64)]) -> Option<f64> {
    if of.coverage < MIN_COVERAGE {
        return None;
    }
    let number = |name: &str| {
        scores.iter().find(|(choice, _)| choice == name).map_or(0.0, |(_, score)| *score)
    };
    let shares = of.shares.iter();
    Some(shares.map(|(name, share)| share * number(name)).sum())
}

/// The distribution as the metadata of a score.
pub(crate) fn to_metadata(of: &Distribution) -> [(String, Json); 3] {
    let shares = of.shares.iter().map(|(name, share)| (name.as_str(), Json::from(*share)));
    [
        ("distribution".to_owned(), object(shares)),
        ("margin".to_owned(), Json::from(of.margin)),
        ("coverage".to_owned(), Json::from(of.coverage)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: &[(&str, f64)], coverage: f64) -> Distribution {
        let shares = shares.iter().map(|(name, share)| ((*name).to_owned(), *share));
        Distribution { shares: shares.collect(), margin: 0.5, coverage }
    }

    #[test]
    fn the_expectation_is_the_weighted_mean_of_the_scores_of_the_choices() {
        let scores =
            [("A", 1.0), ("B", 0.5), ("C", 0.0)].map(|(name, score)| (name.to_owned(), score));
        let expected =
            expectation(&of(&[("A", 0.7), ("B", 0.2), ("C", 0.1)], 0.95), &scores).unwrap();
        assert!((expected - 0.8).abs() < 1e-9, "{expected}");
    }

    #[test]
    fn a_distribution_with_low_coverage_has_no_expectation() {
        assert_eq!(expectation(&of(&[("A", 1.0)], 0.5), &[("A".to_owned(), 1.0)]), None);
    }
}

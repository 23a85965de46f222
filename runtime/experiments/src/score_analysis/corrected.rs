//! The share of true scores of an evaluator, corrected for its errors against people (evaluation.md 6).

use perpend_stats::bootstrap;
use perpend_stats::random::{SplitMix64, seed};
use serde::Serialize;

use super::LEVEL;
use crate::comparison::ConfidenceInterval;

/// Pairs below which the share is not corrected.
const MIN_PAIRS: usize = 30;
const RESAMPLES: usize = 2_000;
/// Resamples of many pairs, and the draws up to which there are more.
const MIN_RESAMPLES: usize = 200;
const MAX_DRAWS: usize = 20_000_000;
/// Uniform numbers whose sum is nearly normal with the variance 1.
const N_UNIFORM: usize = 12;

/// The share that people would call true, estimated from the subjects with scores by both.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CorrectedShare {
    /// The share; `null` if it is undefined.
    pub value: Option<f64>,
    /// The interval of 95 % (bootstrap over pairs and scores).
    pub interval: Option<ConfidenceInterval>,
    /// Share of subjects that the evaluator calls true among those that people call true.
    pub sensitivity: Option<f64>,
    /// Share of subjects that the evaluator calls false among those that people call false.
    pub specificity: Option<f64>,
    /// Subjects with a score by people and by the evaluator.
    pub n_pairs: u64,
    /// Why the share is undefined.
    pub undefined: Option<String>,
}

/// Sensitivity and specificity of pairs of the label by people and that of the evaluator.
fn rates(pairs: impl Iterator<Item = (bool, bool)>) -> (Option<f64>, Option<f64>) {
    let mut counts = [[0_u64; 2]; 2];
    for (by_people, by_evaluator) in pairs {
        counts[usize::from(by_people)][usize::from(by_evaluator)] += 1;
    }
    let share = |part: u64, whole: u64| (0 < whole).then(|| part as f64 / whole as f64);
    let [negative, positive] = counts.map(|row| row[0] + row[1]);
    (share(counts[1][1], positive), share(counts[0][0], negative))
}

/// The corrected share; `None` if the evaluator is not better than chance.
fn corrected(share: f64, sensitivity: f64, specificity: f64) -> Option<f64> {
    let gain = sensitivity + specificity - 1.0;
    (0.0 < gain).then(|| ((share + specificity - 1.0) / gain).clamp(0.0, 1.0))
}

impl CorrectedShare {
    /// Corrects the share of true values of `n` scores by pairs of the label by people and that of the evaluator. Of weighted
    /// scores `n` is the number of unweighted ones with the same standard error.
    #[must_use]
    pub fn new((share, n): (f64, u64), pairs: &[(bool, bool)]) -> Self {
        let (sensitivity, specificity) = rates(pairs.iter().copied());
        let known =
            Self { sensitivity, specificity, n_pairs: pairs.len() as u64, ..Self::default() };
        let undefined = |reason: String| Self { undefined: Some(reason), ..known.clone() };
        if pairs.len() < MIN_PAIRS {
            let reason = format!(
                "{} subjects have scores by people and by the evaluator, {MIN_PAIRS} are needed",
                pairs.len()
            );
            return undefined(reason);
        }
        let Some((sensitivity, specificity)) = sensitivity.zip(specificity) else {
            return undefined("people gave one label only".to_owned());
        };
        let Some(value) = corrected(share, sensitivity, specificity) else {
            return undefined(
                "the evaluator does not agree with people more than chance".to_owned(),
            );
        };
        // Independent of the drawn pairs.
        let mut random = SplitMix64::new(seed("corrected", "share"));
        let deviation = (share * (1.0 - share) / n.max(1) as f64).sqrt();
        let resamples = (MAX_DRAWS / pairs.len()).clamp(MIN_RESAMPLES, RESAMPLES);
        let options =
            bootstrap::Options { seed: seed("corrected", "pairs"), resamples, level: LEVEL };
        let found = bootstrap::statistic(pairs.len(), None, options, |drawn| {
            let uniform = |random: &mut SplitMix64| random.next_u64() as f64 / u64::MAX as f64;
            let sum: f64 = (0..N_UNIFORM).map(|_| uniform(&mut random)).sum();
            let share = (share + deviation * (sum - N_UNIFORM as f64 / 2.0)).clamp(0.0, 1.0);
            let drawn = drawn.iter().filter_map(|at| pairs.get(*at).copied());
            let (sensitivity, specificity) = rates(drawn);
            corrected(share, sensitivity?, specificity?)
        });
        let interval = found.ok().flatten().map(|found| found.interval);
        Self {
            value: Some(value),
            interval: interval
                .map(|ends| ConfidenceInterval { lower: ends.lower, upper: ends.upper }),
            ..known
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_corrected_by_sensitivity_and_specificity() {
        // Of 50 true labels 45 are found, of 50 false ones 40.
        let counts =
            [((true, true), 45), ((true, false), 5), ((false, false), 40), ((false, true), 10)];
        let pairs: Vec<(bool, bool)> =
            counts.into_iter().flat_map(|(pair, n)| std::iter::repeat_n(pair, n)).collect();
        let found = CorrectedShare::new((0.55, 1_000), &pairs);
        assert_eq!((found.sensitivity, found.specificity), (Some(0.9), Some(0.8)));
        let value = found.value.unwrap();
        assert!((value - 0.35 / 0.7).abs() < 1e-12, "{found:?}");
        let ends = found.interval.unwrap();
        assert!(ends.lower < value && value < ends.upper, "{found:?}");
        let few = CorrectedShare::new((0.55, 1_000), &pairs[..10]);
        assert!(few.value.is_none() && few.undefined.unwrap().contains("10 subjects"));
        let one_label = CorrectedShare::new((0.55, 1_000), &pairs[..40]);
        assert!(one_label.value.is_none() && one_label.undefined.is_some());
        let opposite: Vec<(bool, bool)> =
            pairs.iter().map(|(people, own)| (*people, !own)).collect();
        assert!(CorrectedShare::new((0.55, 1_000), &opposite).value.is_none());
    }
}

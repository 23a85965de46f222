//! Thresholds over stored numbers or probabilities: what other verdicts would be, without a call.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::score::{ScoreValue, Subject};
use perpend_domain::score_analytics::{AnalyzedScore, MeasuredScore};
use perpend_stats::agreement::{Confusion, Weights};
use perpend_stats::proportion::wilson;
use serde::Serialize;

use super::LEVEL;
use super::pairs::{LARGEST, subject_number};
use crate::comparison::ConfidenceInterval;

/// Thresholds without a request for others.
const N_DEFAULT: u32 = 9;
/// Listed choices.
const MAX_CHOICES: usize = 50;

/// The verdicts of thresholds over the scores of a name. A score passes if its number is at least the threshold.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreThresholds {
    /// The choice whose stored probability is compared with the thresholds; `null` if the value itself is.
    pub choice: Option<String>,
    /// Choices with stored probabilities, at most 50.
    pub choices: Vec<String>,
    /// Scores with such a number.
    pub n: u64,
    /// Scores without one.
    pub n_left_out: u64,
    /// The results, in the order of the thresholds.
    pub thresholds: Vec<ScoreThreshold>,
    /// The threshold with the largest kappa, and of equal ones the smallest; `null` without a reference.
    pub best: Option<f64>,
}

/// The verdicts of one threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreThreshold {
    /// The threshold.
    pub threshold: f64,
    /// Scores that pass.
    pub n_passed: u64,
    /// Their share; `null` without scores.
    pub share: Option<f64>,
    /// The interval of 95 % of the share (Wilson).
    pub interval: Option<ConfidenceInterval>,
    /// Scores whose stored label is another one than the verdict; `null` if no label was stored.
    pub n_flips: Option<u64>,
    /// The agreement with the reference; `null` without pairs.
    pub agreement: Option<ThresholdAgreement>,
}

/// The agreement of the verdicts of a threshold with the reference on the same subjects.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ThresholdAgreement {
    /// Subjects with both.
    pub n_pairs: u64,
    /// Share of equal verdicts.
    pub agreement: f64,
    /// The interval of 95 % of this share (Wilson).
    pub interval: Option<ConfidenceInterval>,
    /// Cohen's kappa; `null` if every verdict is equal.
    pub kappa: Option<f64>,
    /// Share of positive references among the subjects that pass; `null` if none passes.
    pub precision: Option<f64>,
    /// Share of the subjects with a positive reference that pass; `null` if there is none.
    pub recall: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    subject: u64,
    at: i64,
    number: f64,
    /// Whether the stored label is the choice.
    label: Option<bool>,
}

/// The scores of one name with the numbers that thresholds are compared with.
#[derive(Clone, Debug, Default)]
pub struct ThresholdSample {
    choice: Option<String>,
    choices: BTreeSet<String>,
    entries: Vec<Entry>,
    n_left_out: u64,
}

/// The reference: the newest verdict of each subject.
#[derive(Clone, Debug, Default)]
pub struct ReferenceVerdicts {
    positive: Option<String>,
    newest: HashMap<u64, (i64, bool)>,
}

/// Whether a stored label is the choice. That of a boolean is `true` unless it is `false`.
fn label(value: &ScoreValue, choice: Option<&str>) -> Option<bool> {
    match (value, choice) {
        (ScoreValue::Boolean(truth), Some("false")) => Some(!truth),
        (ScoreValue::Boolean(truth), _) => Some(*truth),
        (ScoreValue::Categorical(text), Some(choice)) => Some(text == choice),
        _ => None,
    }
}

impl ReferenceVerdicts {
    /// Of boolean scores the value, of categories whether it is `positive`.
    #[must_use]
    pub fn new(positive: Option<String>) -> Self {
        Self { positive, newest: HashMap::new() }
    }

    /// Adds a score and returns the bytes that it takes. Numbers have no verdict.
    pub fn add(&mut self, score: &AnalyzedScore) -> usize {
        let Some(verdict) = label(&score.value, self.positive.as_deref()) else {
            return 0;
        };
        let at = score.timestamp.as_micros();
        let newest = self.newest.entry(subject_number(&score.subject)).or_insert((at, verdict));
        if newest.0 <= at {
            *newest = (at, verdict);
        }
        2 * size_of::<(u64, i64, bool)>()
    }

    /// The verdict on a subject.
    #[must_use]
    pub fn of(&self, subject: &Subject) -> Option<bool> {
        self.newest.get(&subject_number(subject)).map(|(_, verdict)| *verdict)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }
}

impl ThresholdSample {
    /// Of the probabilities of a choice, or of the values of numeric scores.
    #[must_use]
    pub fn new(choice: Option<String>) -> Self {
        Self { choice, ..Self::default() }
    }

    /// Adds a score and returns the bytes that it takes.
    pub fn add(&mut self, score: MeasuredScore) -> usize {
        let choice = self.choice.as_deref();
        let number = match choice {
            Some(choice) => score.distribution.get(choice).copied(),
            None => match score.value {
                ScoreValue::Numeric(number) => Some(number),
                _ => None,
            },
        };
        let number = number.filter(|number| number.abs() <= LARGEST);
        let stored = choice.and_then(|choice| label(&score.value, Some(choice)));
        for name in score.distribution.into_keys() {
            if self.choices.len() < MAX_CHOICES {
                self.choices.insert(name);
            }
        }
        let Some(number) = number else {
            self.n_left_out += 1;
            return 0;
        };
        self.entries.push(Entry {
            subject: subject_number(&score.subject),
            at: score.timestamp.as_micros(),
            number,
            label: stored,
        });
        2 * size_of::<Entry>()
    }

    /// Number of scores, including those without a number.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len() + self.n_left_out as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The verdicts of these thresholds; without them, of nine that divide the range of the numbers.
    #[must_use]
    pub fn evaluate(
        mut self,
        thresholds: Vec<f64>,
        reference: Option<&ReferenceVerdicts>,
    ) -> ScoreThresholds {
        let thresholds = match thresholds.is_empty() {
            true => self.default_thresholds(),
            false => thresholds,
        };
        self.entries.sort_by_key(|entry| (entry.subject, entry.at));
        let pairs = reference.map(|reference| self.pairs(reference)).unwrap_or_default();
        let thresholds = thresholds.into_iter().map(|threshold| self.verdicts(threshold, &pairs));
        let thresholds: Vec<ScoreThreshold> = thresholds.collect();
        let mut best: Option<(f64, f64)> = None;
        let mut ascending: Vec<&ScoreThreshold> = thresholds.iter().collect();
        ascending.sort_by(|one, other| one.threshold.total_cmp(&other.threshold));
        for each in ascending {
            let kappa = each.agreement.as_ref().and_then(|agreement| agreement.kappa);
            if let Some(kappa) = kappa.filter(|kappa| best.is_none_or(|(_, most)| most < *kappa)) {
                best = Some((each.threshold, kappa));
            }
        }
        ScoreThresholds {
            n: self.entries.len() as u64,
            n_left_out: self.n_left_out,
            choice: self.choice,
            choices: self.choices.into_iter().collect(),
            thresholds,
            best: best.map(|(threshold, _)| threshold),
        }
    }

    fn default_thresholds(&self) -> Vec<f64> {
        let numbers = self.entries.iter().map(|entry| entry.number);
        let (low, high) = match self.choice {
            Some(_) => (0.0, 1.0),
            None => numbers.fold((f64::MAX, f64::MIN), |(low, high), number| {
                (low.min(number), high.max(number))
            }),
        };
        if high <= low {
            return self.entries.first().map(|entry| entry.number).into_iter().collect();
        }
        let step = (high - low) / f64::from(N_DEFAULT + 1);
        // Rounded to the precision of the step, so that they are readable.
        let digits = (2.0 - step.log10()).floor().clamp(0.0, 12.0);
        let scale = 10_f64.powf(digits);
        let at = |n: u32| ((low + f64::from(n) * step) * scale).round() / scale;
        (1..=N_DEFAULT).map(at).collect()
    }

    /// The newest number of each subject with a reference, and whether this is positive. The entries are in order.
    fn pairs(&self, reference: &ReferenceVerdicts) -> Vec<(f64, bool)> {
        let of_subject = self.entries.chunk_by(|one, other| one.subject == other.subject);
        let newest = of_subject.filter_map(<[Entry]>::last);
        let pairs = newest.filter_map(|entry| {
            let (_, verdict) = reference.newest.get(&entry.subject)?;
            Some((entry.number, *verdict))
        });
        pairs.collect()
    }

    fn verdicts(&self, threshold: f64, pairs: &[(f64, bool)]) -> ScoreThreshold {
        let (mut n_passed, mut n_flips, mut n_labels) = (0, 0, 0);
        for entry in &self.entries {
            let passes = threshold <= entry.number;
            n_passed += u64::from(passes);
            n_labels += u64::from(entry.label.is_some());
            n_flips += u64::from(entry.label.is_some_and(|label| label != passes));
        }
        let n = self.entries.len() as u64;
        ScoreThreshold {
            threshold,
            n_passed,
            share: (0 < n).then(|| n_passed as f64 / n as f64),
            interval: interval(n_passed, n),
            n_flips: (0 < n_labels).then_some(n_flips),
            agreement: agreement(threshold, pairs),
        }
    }
}

fn interval(k: u64, n: u64) -> Option<ConfidenceInterval> {
    let ends = wilson(k, n, LEVEL).ok()?;
    Some(ConfidenceInterval { lower: ends.lower, upper: ends.upper })
}

fn agreement(threshold: f64, pairs: &[(f64, bool)]) -> Option<ThresholdAgreement> {
    // Rows are references, columns verdicts; negative ones first.
    let mut counts = vec![vec![0_u64; 2]; 2];
    for (number, is_positive) in pairs {
        counts[usize::from(*is_positive)][usize::from(threshold <= *number)] += 1;
    }
    let (n_pairs, n_equal) = (pairs.len() as u64, counts[0][0] + counts[1][1]);
    let (found, passed) = (counts[1][1], counts[0][1] + counts[1][1]);
    let positive = counts[1][0] + counts[1][1];
    let share = |part: u64, whole: u64| (0 < whole).then(|| part as f64 / whole as f64);
    let confusion = Confusion::of_counts(counts).ok()?;
    Some(ThresholdAgreement {
        n_pairs,
        agreement: confusion.agreement(),
        interval: interval(n_equal, n_pairs),
        kappa: confusion.kappa(Weights::Equal),
        precision: share(found, passed),
        recall: share(found, positive),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use perpend_domain::ids::TraceId;
    use perpend_domain::time::Timestamp;

    use super::*;

    fn measured(n: usize, value: ScoreValue, yes: Option<f64>) -> MeasuredScore {
        let probabilities = yes.map(|yes| [("yes".to_owned(), yes), ("no".to_owned(), 1.0 - yes)]);
        MeasuredScore {
            value,
            subject: Subject::Trace(TraceId::new(&format!("t{n}")).unwrap()),
            timestamp: Timestamp::from_micros(n as i64),
            distribution: probabilities.map(BTreeMap::from).unwrap_or_default(),
        }
    }

    fn verdict(n: usize, truth: bool) -> AnalyzedScore {
        AnalyzedScore {
            value: ScoreValue::Boolean(truth),
            subject: Subject::Trace(TraceId::new(&format!("t{n}")).unwrap()),
            timestamp: Timestamp::from_micros(0),
            environment: "default".to_owned(),
            version: None,
            probability: 1.0,
            model: None,
            prompt: None,
            release: None,
            trace_start: None,
        }
    }

    #[test]
    fn another_threshold_over_probabilities_changes_labels_and_agreement() {
        let mut sample = ThresholdSample::new(Some("yes".to_owned()));
        for (n, yes) in [0.95, 0.8, 0.6, 0.3].into_iter().enumerate() {
            let label = if 0.5 <= yes { "yes" } else { "no" };
            sample.add(measured(n, ScoreValue::Categorical(label.to_owned()), Some(yes)));
        }
        sample.add(measured(4, ScoreValue::Categorical("yes".to_owned()), None));
        let mut reference = ReferenceVerdicts::new(None);
        for (n, truth) in [true, true, false, false].into_iter().enumerate() {
            assert!(0 < reference.add(&verdict(n, truth)));
        }
        let found = sample.evaluate(vec![0.5, 0.7], Some(&reference));
        assert_eq!((found.n, found.n_left_out), (4, 1));
        assert_eq!(found.choices, ["no", "yes"]);
        let counts = found.thresholds.iter().map(|each| (each.n_passed, each.n_flips));
        assert_eq!(counts.collect::<Vec<_>>(), [(3, Some(0)), (2, Some(1))]);
        let agreements = found.thresholds.iter().filter_map(|each| each.agreement.as_ref());
        let figures = agreements.map(|each| (each.n_pairs, each.agreement, each.recall));
        assert_eq!(figures.collect::<Vec<_>>(), [(4, 0.75, Some(1.0)), (4, 1.0, Some(1.0))]);
        assert_eq!(found.best, Some(0.7));
    }

    #[test]
    fn numbers_have_thresholds_that_divide_their_range() {
        let mut sample = ThresholdSample::new(None);
        for n in 0..=10 {
            sample.add(measured(n, ScoreValue::Numeric(n as f64), None));
        }
        sample.add(measured(11, ScoreValue::Boolean(true), None));
        let found = sample.evaluate(Vec::new(), None);
        assert_eq!((found.n, found.n_left_out, found.best), (11, 1, None));
        let passed = found.thresholds.iter().map(|each| (each.threshold, each.n_passed));
        let expected: Vec<(f64, u64)> = (1..=9).map(|n| (n as f64, 11 - n)).collect();
        assert_eq!(passed.collect::<Vec<_>>(), expected);
        assert!(found.thresholds.iter().all(|each| each.n_flips.is_none()));
        let none = ThresholdSample::new(None).evaluate(Vec::new(), None);
        assert_eq!(none, ScoreThresholds::default());
    }
}

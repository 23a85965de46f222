//! The distribution of one score.

use std::collections::{BTreeMap, VecDeque};

use perpend_domain::metrics::Granularity;
use perpend_domain::score::ScoreDataType;
use perpend_domain::time::Timestamp;

use super::axis::Axis;
use super::sample::{Property, SampleRow, main_type};
use super::{
    LEVEL, ScoreBin, ScoreDistribution, ScoreGroup, ScoreGroups, ScorePeriod, ScoreSample,
    ScoreVersion,
};
use crate::comparison::MetricSummary;
use crate::sample::{Sample, summarize, weights};

/// Categories of a distribution.
const MAX_CATEGORIES: usize = 100;
/// Groups of a property.
const MAX_GROUPS: usize = 20;
/// Periods of a chart. Longer ranges have longer periods, so that only decades have more.
const MAX_PERIODS: usize = 400;
/// The largest usable number.
const LARGEST: f64 = 1e100;

const TYPES: [ScoreDataType; 3] =
    [ScoreDataType::Numeric, ScoreDataType::Boolean, ScoreDataType::Categorical];

/// Values that are being summarized.
#[derive(Default)]
struct Group {
    sample: Sample,
    first_at: Option<i64>,
}

impl Group {
    fn add(&mut self, row: &SampleRow) {
        self.sample.extend(Some(row.value), row.probability);
        self.first_at = Some(self.first_at.map_or(row.at, |first| first.min(row.at)));
    }

    fn summary(&self) -> MetricSummary {
        summarize(&self.sample, None, 0, 1.0 - LEVEL)
    }
}

impl ScoreSample {
    /// The distribution. `range` is the requested one, if it has both ends.
    #[must_use]
    pub fn distribution(&self, range: Option<(Timestamp, Timestamp)>) -> ScoreDistribution {
        let counts = TYPES.map(|data_type| {
            let n = self.rows.iter().filter(|row| row.data_type == data_type).count();
            (data_type, n as u64)
        });
        let Some(data_type) = main_type(&counts) else {
            return ScoreDistribution::default();
        };
        let is_used = |row: &&SampleRow| {
            row.data_type == data_type && row.value.is_finite() && row.value.abs() <= LARGEST
        };
        let mut rows: Vec<SampleRow> = self.rows.iter().filter(is_used).copied().collect();
        rows.sort_by_key(|row| row.at);
        let probabilities: Vec<f64> = rows.iter().map(|row| row.probability).collect();
        let weights = weights(&probabilities);
        let mut bins = self.bins(&rows, data_type, weights.as_deref());
        let n_more_categories = bins.len().saturating_sub(MAX_CATEGORIES) as u64;
        bins.truncate(MAX_CATEGORIES);
        let category = match data_type {
            ScoreDataType::Categorical => bins.first(),
            _ => None,
        };
        let category = category.and_then(|bin| bin.values.label.clone());
        if let Some(category) = &category {
            // From here on the value is whether the score has the category.
            for row in &mut rows {
                let own = self.labels.values.get(row.value as usize);
                row.value = f64::from(u8::from(own == Some(category)));
            }
        }
        let mut whole = Group::default();
        for row in &rows {
            whole.add(row);
        }
        ScoreDistribution {
            data_type: Some(data_type),
            n: rows.len() as u64,
            n_other_types: (self.rows.len() - rows.len()) as u64,
            is_weighted: weights.is_some(),
            category,
            summary: whole.summary(),
            bins,
            n_more_categories,
            over_time: over_time(&rows, range),
            versions: self.versions(&rows),
            environments: groups(&rows, &self.environments.values, |row| row.environment),
            models: groups(&rows, &self.models.values, |row| row.model),
            prompts: groups(&rows, &self.prompts.values, |row| row.prompt),
            releases: groups(&rows, &self.releases.values, |row| row.release),
            missing: None,
            corrected: None,
        }
    }

    /// Counts by value or range; categories most frequent first.
    fn bins(
        &self,
        rows: &[SampleRow],
        data_type: ScoreDataType,
        weights: Option<&[f64]>,
    ) -> Vec<ScoreBin> {
        let axis = match data_type {
            ScoreDataType::Boolean => Axis::Labels(["false", "true"].map(str::to_owned).to_vec()),
            ScoreDataType::Numeric => {
                let numbers: Vec<f64> = rows.iter().map(|row| row.value).collect();
                Axis::of_numbers(&numbers)
            }
            _ => Axis::Labels(self.labels.values.clone()),
        };
        let mut counts = vec![0_u64; axis.len()];
        let mut sums = vec![0.0; axis.len()];
        for (at, row) in rows.iter().enumerate() {
            let place = axis.place(row.value);
            let weight = weights.and_then(|weights| weights.get(at)).copied().unwrap_or(1.0);
            if let (Some(count), Some(sum)) = (counts.get_mut(place), sums.get_mut(place)) {
                *count += 1;
                *sum += weight;
            }
        }
        let total: f64 = sums.iter().sum();
        let bins = axis.bins().into_iter().zip(counts).zip(sums);
        let bins = bins.map(|((values, count), sum)| ScoreBin {
            values,
            count,
            share: if 0.0 < total { sum / total } else { 0.0 },
        });
        let mut bins: Vec<ScoreBin> = bins.collect();
        if data_type == ScoreDataType::Categorical {
            bins.retain(|bin| 0 < bin.count);
            bins.sort_by(|one, other| {
                let by_count = other.count.cmp(&one.count);
                by_count.then_with(|| one.values.key.cmp(&other.values.key))
            });
        }
        bins
    }

    fn versions(&self, rows: &[SampleRow]) -> Vec<ScoreVersion> {
        let mut found: BTreeMap<u32, Group> = BTreeMap::new();
        for row in rows {
            found.entry(row.version).or_default().add(row);
        }
        let mut versions: Vec<ScoreVersion> = found
            .into_iter()
            .map(|(number, group)| {
                let version = self.versions.values.get(number as usize).and_then(Option::as_ref);
                ScoreVersion {
                    evaluator_id: version.map(|(evaluator, _)| evaluator.as_str().to_owned()),
                    evaluator_version_id: version.map(|(_, version)| version.as_str().to_owned()),
                    first_at: Timestamp::from_micros(group.first_at.unwrap_or_default()),
                    summary: group.summary(),
                }
            })
            .collect();
        versions.sort_by_key(|version| version.first_at);
        versions
    }
}

/// The groups of a property, most frequent first.
fn groups(rows: &[SampleRow], values: &[Property], number: fn(&SampleRow) -> u32) -> ScoreGroups {
    let mut found: BTreeMap<u32, Group> = BTreeMap::new();
    for row in rows {
        found.entry(number(row)).or_default().add(row);
    }
    let mut found: Vec<(u32, Group)> = found.into_iter().collect();
    found.sort_by(|one, other| {
        let by_size = other.1.sample.values.len().cmp(&one.1.sample.values.len());
        by_size.then_with(|| values.get(one.0 as usize).cmp(&values.get(other.0 as usize)))
    });
    let n_more = found.len().saturating_sub(MAX_GROUPS) as u64;
    found.truncate(MAX_GROUPS);
    let group = |(number, group): (u32, Group)| {
        let (value, version) = values.get(number as usize).cloned().unwrap_or_default();
        ScoreGroup { value, version, summary: group.summary() }
    };
    ScoreGroups { groups: found.into_iter().map(group).collect(), n_more }
}

/// The periods from the first to the last score; of too many, the newest. `rows` are in the order of time, and `range`
/// determines the length of a period.
fn over_time(rows: &[SampleRow], range: Option<(Timestamp, Timestamp)>) -> Vec<ScorePeriod> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Vec::new();
    };
    let at = |row: &SampleRow| Timestamp::from_micros(row.at);
    let (from, to) = range.unwrap_or((at(first), at(last)));
    let granularity = Granularity::for_range(from, to);
    let mut found: BTreeMap<Timestamp, Group> = BTreeMap::new();
    for row in rows {
        found.entry(granularity.start(at(row))).or_default().add(row);
    }
    let end = granularity.start(at(last));
    let mut starts = VecDeque::from([granularity.start(at(first))]);
    while let Some(start) = starts.back().copied().filter(|start| *start < end) {
        let next = granularity.next(start);
        if next <= start {
            break;
        }
        starts.push_back(next);
        if MAX_PERIODS < starts.len() {
            starts.pop_front();
        }
    }
    let none = Group::default();
    let period = |start: Timestamp| ScorePeriod {
        from: start,
        to: granularity.next(start),
        summary: found.get(&start).unwrap_or(&none).summary(),
    };
    starts.into_iter().map(period).collect()
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::TraceId;
    use perpend_domain::score::{ScoreValue, Subject};
    use perpend_domain::score_analytics::AnalyzedScore;

    use super::*;

    fn score(value: ScoreValue, hours: i64, probability: f64) -> AnalyzedScore {
        AnalyzedScore {
            value,
            subject: Subject::Trace(TraceId::new("t").unwrap()),
            timestamp: Timestamp::from_millis(hours * 3_600_000),
            environment: if hours == 0 { "staging" } else { "production" }.to_owned(),
            version: None,
            probability,
            model: None,
            prompt: None,
            release: None,
            trace_start: None,
        }
    }

    fn distribution(scores: impl IntoIterator<Item = AnalyzedScore>) -> ScoreDistribution {
        let mut sample = ScoreSample::default();
        for score in scores {
            assert!(0 < sample.add(score));
        }
        sample.distribution(None)
    }

    #[test]
    fn different_sample_rates_weight_the_mean_and_not_the_counts() {
        let truth = |truth, hours, rate| score(ScoreValue::Boolean(truth), hours, rate);
        let equal = distribution([truth(true, 0, 0.5), truth(false, 1, 0.5)]);
        assert_eq!((equal.is_weighted, equal.summary.mean), (false, Some(0.5)));
        // The first score represents ten subjects, the second one two.
        let found = distribution([truth(true, 0, 0.1), truth(false, 1, 0.5)]);
        assert!(found.is_weighted);
        let share = found.summary.mean.unwrap();
        assert!((share - 10.0 / 12.0).abs() < 1e-12, "{share}");
        let bins: Vec<(&str, u64)> =
            found.bins.iter().map(|bin| (bin.values.key.as_str(), bin.count)).collect();
        assert_eq!(bins, [("false", 1), ("true", 1)]);
    }

    #[test]
    fn means_are_grouped_by_time_with_empty_periods_and_by_environment() {
        let number = |value, hours| score(ScoreValue::Numeric(value), hours, 1.0);
        let text = score(ScoreValue::Categorical("good".to_owned()), 1, 1.0);
        let found = distribution([number(1.0, 3), number(3.0, 3), number(5.0, 0), text]);
        let n_by_hour: Vec<u64> = found.over_time.iter().map(|period| period.summary.n).collect();
        assert_eq!(n_by_hour, [1, 0, 0, 2]);
        assert_eq!(found.over_time[3].summary.mean, Some(2.0));
        assert_eq!((found.n, found.n_other_types), (3, 1));
        let groups = &found.environments.groups;
        assert_eq!((groups[0].value.as_deref(), groups[0].summary.n), (Some("production"), 2));
        assert_eq!(groups[1].summary.mean, Some(5.0));
        assert_eq!(distribution([]), ScoreDistribution::default());
    }
}

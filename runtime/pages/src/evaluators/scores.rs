//! Numbers and means of the scores of evaluators.

use perpend_domain::score::ScoreDataType;
use perpend_telemetry::scores::VersionScores;
use perpend_views::{Text, count, number, percent};

/// Names of scores in a list of means.
const MAX_NAMES: usize = 3;

/// Number of the scores of versions, each read up to the limit.
pub(super) fn score_count(versions: &[Vec<VersionScores>], limit: u32) -> String {
    let counts = versions.iter().map(|scores| scores.iter().map(|each| each.n).sum::<u64>());
    let (mut sum, mut is_cut) = (0, false);
    for n in counts {
        sum += n;
        is_cut |= u64::from(limit) <= n;
    }
    if is_cut { format!("≥ {}", count(sum)) } else { count(sum) }
}

/// Means of numbers and shares of true values of versions together. Names are omitted if there is one.
pub(super) fn means(versions: &[Vec<VersionScores>]) -> Vec<Text> {
    let mut sums: Vec<VersionScores> = Vec::new();
    for scores in versions.iter().flatten() {
        let same =
            |sum: &&mut VersionScores| sum.name == scores.name && sum.data_type == scores.data_type;
        match sums.iter_mut().find(same) {
            Some(sum) => {
                sum.n += scores.n;
                sum.total += scores.total;
            }
            None => sums.push(scores.clone()),
        }
    }
    let is_named = sums.iter().any(|sum| sum.name != sums[0].name);
    let text = |sum: &VersionScores| {
        let mean = sum.total / sum.n as f64;
        let mean = match sum.data_type {
            ScoreDataType::Numeric => format!("mean {}", number((mean * 1e4).round() / 1e4)),
            ScoreDataType::Boolean => format!("{} true", percent(mean)),
            ScoreDataType::Categorical | ScoreDataType::Text | ScoreDataType::Correction => {
                return None;
            }
        };
        Some(Text::from(if is_named { format!("{}: {mean}", sum.name) } else { mean }))
    };
    sums.iter().filter_map(text).take(MAX_NAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(name: &str, data_type: ScoreDataType, n: u64, total: f64) -> VersionScores {
        VersionScores { name: name.to_owned(), data_type, n, total }
    }

    #[test]
    fn means_are_over_all_versions_and_named_if_there_are_several_names() {
        let (numeric, boolean) = (ScoreDataType::Numeric, ScoreDataType::Boolean);
        let texts = |versions: &[Vec<VersionScores>]| -> Vec<String> {
            means(versions).iter().map(|text| text.raw().to_owned()).collect()
        };
        let one = [vec![scores("a", numeric, 3, 3.0)], vec![scores("a", numeric, 1, 0.0)]];
        assert_eq!(texts(&one), ["mean 0.75"]);
        assert_eq!(score_count(&one, 10), "4");
        assert_eq!(score_count(&one, 3), "≥ 4");
        let category = scores("c", ScoreDataType::Categorical, 2, 0.0);
        let several = [vec![scores("a", numeric, 3, 1.0), scores("b", boolean, 4, 3.0), category]];
        assert_eq!(texts(&several), ["a: mean 0.3333", "b: 75 % true"]);
        assert_eq!((texts(&[]), score_count(&[], 10)), (Vec::new(), "0".to_owned()));
    }
}

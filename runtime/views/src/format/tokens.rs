//! Token counts by category.

use perpend_domain::observation::Usage;
use perpend_domain::quantity::Quantity;
use perpend_domain::usage::canonical_bucket;

use crate::format::count;

/// `900 input · 50 cached · 100 output · 20 reasoning`, without unknown categories. `None` if only the total is known.
#[must_use]
pub fn tokens_by_bucket(usage: &Usage) -> Option<String> {
    let kinds = ["input", "cached", "output", "reasoning", "other"];
    let mut sums = [None; 5];
    for (bucket, n) in usage {
        let at = match canonical_bucket(bucket) {
            "total" => continue,
            "input" => 0,
            "input_cached_tokens" => 1,
            "output" => 2,
            "output_reasoning_tokens" => 3,
            _ => 4,
        };
        let sum: &mut Option<Quantity> = &mut sums[at];
        *sum = Some(sum.unwrap_or_default().saturating_add(*n));
    }
    let known = kinds.iter().zip(sums);
    let known = known.filter_map(|(kind, sum)| Some(format!("{} {kind}", count(sum?.to_u64()))));
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| known.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_summed_by_category() {
        let label = |usage: &[(&str, u64)]| {
            let usage = usage.iter().map(|(bucket, n)| ((*bucket).to_owned(), (*n).into()));
            tokens_by_bucket(&usage.collect())
        };
        assert_eq!(label(&[("total", 12)]), None);
        assert_eq!(label(&[("input", 0), ("output", 1_000)]).unwrap(), "0 input · 1,000 output");
        let all = [
            ("input", 900),
            ("cache_read_input_tokens", 50),
            ("output", 100),
            ("output_reasoning_tokens", 20),
            ("input_audio_tokens", 3),
            ("made up", 4),
            ("total", 1_077),
        ];
        assert_eq!(
            label(&all).unwrap(),
            "900 input · 50 cached · 100 output · 20 reasoning · 7 other"
        );
    }
}

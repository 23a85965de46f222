//! x
use assay_plugin::prelude::*;

/// x
pub struct ExactMatch;

impl Evaluator for ExactMatch {
    const ID: &'static str = "exact-match";
    const TITLE: &'static str = "Exact match";
    const DESCRIPTION: &'static str = "1 when output and expected output are equal.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::share("exact_match", "1 when equal, else 0")];
    type Config = NoConfig;

    fn evaluate(item: &Item, _: &NoConfig) -> Result<Vec<Score>, EvalError> {
        let equal = item.output == item.expected_output;
        Ok(vec![Score::share(
            "exact_match",
            f64::from(u8::from(equal)),
        )])
    }
}

//! x
use assay_plugin::prelude::*;

/// x
pub struct ValidJson;

impl Evaluator for ValidJson {
    const ID: &'static str = "valid-json";
    const TITLE: &'static str = "Valid JSON";
    const DESCRIPTION: &'static str = "1 when the output is JSON.";
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::share("valid_json", "1 when valid, else 0")];
    type Config = NoConfig;

    fn evaluate(item: &Item, _: &NoConfig) -> Result<Vec<Score>, EvalError> {
        let valid = item
            .output_text()
            .is_ok_and(|text| Json::parse(text).is_ok());
        Ok(vec![Score::share("valid_json", f64::from(u8::from(valid)))])
    }
}

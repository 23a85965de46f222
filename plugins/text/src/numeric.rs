//! `numeric-diff`: the closeness of two numbers.

use perpend_plugin::prelude::*;
use perpend_plugin_measures::{Profile, closeness, number_of, print_py};

/// The closeness of two numbers, relative to their size.
pub struct NumericDiff;

/// The conversion of values to numbers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NumericDiffConfig {
    /// The scorer library to follow where the Python and the JavaScript one differ: `js` also
    /// converts text and null.
    pub profile: Profile,
}

impl Evaluator for NumericDiff {
    const ID: &'static str = "numeric-diff";
    const TITLE: &'static str = "Numeric difference";
    const DESCRIPTION: &'static str = "1 minus the difference of the two numbers, divided by the sum of \
        their sizes; 1 when both are 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("numeric_diff", "1 when equal, 0 when the signs differ")];
    type Config = NumericDiffConfig;

    fn evaluate(item: &Item, config: &NumericDiffConfig) -> Result<Vec<Score>, EvalError> {
        let expected = match &item.expected_output {
            Some(null) if null.is_null() && config.profile == Profile::Js => null,
            _ => item.expected()?,
        };
        let output = number(item.output()?, "output", config)?;
        let expected = number(expected, "expected output", config)?;
        let close = closeness(output, expected).ok_or_else(|| {
            EvalError::invalid_input("a number must be within the range of a 64-bit float")
        })?;
        let score = Score::share("numeric_diff", close)
            .comment(format!("{} against {}", print_py(output), print_py(expected)))
            .with("difference", (output - expected).abs());
        Ok(vec![score])
    }
}

fn number(value: &Payload, part: &str, config: &NumericDiffConfig) -> Result<f64, EvalError> {
    number_of(&value.to_json()?, config.profile)
        .ok_or_else(|| EvalError::invalid_input(format!("the {part} must be a number")))
}

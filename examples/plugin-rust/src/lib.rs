//! A plug-in with one evaluator. Copy the folder, rename the crate and the plug-in, change the rest.

use perpend_plugin::prelude::*;

/// Passes when the output has at most `max_chars` characters.
pub struct MaxLength;

/// Its JSON Schema is what the server checks, and what a person who sets the evaluator up sees.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaxLengthConfig {
    /// The largest number of characters that passes.
    pub max_chars: usize,
    /// Leave white space at both ends out of the count.
    #[serde(default)]
    pub trim: bool,
}

impl Evaluator for MaxLength {
    const ID: &'static str = "max-length";
    const TITLE: &'static str = "Maximum length";
    const DESCRIPTION: &'static str = "Passes when the output is not too long.";
    // What is not named here is not loaded: the output is the only part of the item this reads.
    const NEEDS: Parts = Parts::OUTPUT;
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::boolean(
        "within_limit",
        "true when the output is not too long",
    )];
    type Config = MaxLengthConfig;

    fn evaluate(item: &Item, config: &MaxLengthConfig) -> Result<Vec<Score>, EvalError> {
        let output = item.output_text()?; // absent: the item is reported as bad input, not as 0
        let output = if config.trim { output.trim() } else { output };
        let length = output.chars().count();
        let score = Score::boolean("within_limit", length <= config.max_chars)
            .comment(format!("{length} of {} characters", config.max_chars))
            .with("length", length);
        Ok(vec![score])
    }
}

perpend_plugin::plugin! {
    name: "example/length",
    description: "Checks on the length of an output",
    evaluators: [MaxLength],
}

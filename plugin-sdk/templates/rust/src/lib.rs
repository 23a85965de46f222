//! A Perpend plug-in with one evaluator.

use perpend_plugin::prelude::*;

/// Passes when the output has at most `max_chars` characters.
pub struct MaxLength;

/// The configuration. The server validates it against its JSON Schema, which `perpend plugin show` prints.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaxLengthConfig {
    /// The maximum number of characters that passes.
    #[serde(default = "default_max_chars")]
    pub max_chars: usize,
    /// Ignore white space at both ends.
    #[serde(default)]
    pub trim: bool,
}

fn default_max_chars() -> usize {
    80
}

impl Evaluator for MaxLength {
    const ID: &'static str = "max-length";
    const TITLE: &'static str = "Maximum length";
    const DESCRIPTION: &'static str = "Passes when the output is not too long.";
    // The parts of the item that the evaluator reads; others are not loaded.
    const NEEDS: Parts = Parts::OUTPUT;
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::boolean(
        "within_limit",
        "true when the output is not too long",
    )];
    type Config = MaxLengthConfig;

    fn evaluate(item: &Item, config: &MaxLengthConfig) -> Result<Vec<Score>, EvalError> {
        let output = item.output_text()?; // an absent output is invalid input, not a score of 0
        let output = if config.trim { output.trim() } else { output };
        let length = output.chars().count();
        let score = Score::boolean("within_limit", length <= config.max_chars)
            .comment(format!("{length} of {} characters", config.max_chars));
        Ok(vec![score])
    }
}

perpend_plugin::plugin! {
    name: "example/{{name}}",
    description: "Checks on the length of an output",
    evaluators: [MaxLength],
}

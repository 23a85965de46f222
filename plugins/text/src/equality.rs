//! `exact-match` and `levenshtein`: equality and similarity of two values.

use crate::verdict::verdict;
use perpend_plugin::prelude::*;
use perpend_plugin_measures::{Profile, Rendering, levenshtein, text_of, text_of_payload};
use std::borrow::Cow;

/// 1 when output and expected output are equal.
pub struct ExactMatch;

/// The comparison.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExactMatchConfig {
    /// The scorer library to follow where the Python and the JavaScript one differ.
    pub profile: Profile,
    /// Ignore the order of the members of objects.
    pub ignore_key_order: bool,
}

impl Evaluator for ExactMatch {
    const ID: &'static str = "exact-match";
    const TITLE: &'static str = "Exact match";
    const DESCRIPTION: &'static str = "1 when output and expected output are equal, else 0. Objects and \
        arrays are compared as JSON, also when one of them is text that is JSON; numbers are compared as written.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::share("exact_match", "1 when equal, else 0")];
    type Config = ExactMatchConfig;

    fn evaluate(item: &Item, config: &ExactMatchConfig) -> Result<Vec<Score>, EvalError> {
        let equal = match (item.output()?, &item.expected_output) {
            // Two texts are compared without parsing.
            (Payload::Text(output), Some(Payload::Text(expected))) => output == expected,
            (output, expected) => {
                let expected = expected.as_ref().map_or(Ok(Json::Null), Payload::to_json)?;
                equal_values(&output.to_json()?, &expected, config)
            }
        };
        let reason = if equal { "equal" } else { "different" };
        Ok(vec![verdict("exact_match", equal, reason)])
    }
}

fn equal_values(a: &Json, b: &Json, config: &ExactMatchConfig) -> bool {
    // In JavaScript null is an object.
    let is_container = |value: &Json| {
        value.is_container() || (config.profile == Profile::Js && *value == Json::Null)
    };
    if is_container(a) || is_container(b) {
        return as_json(a, config) == as_json(b, config);
    }
    text_of(a, config.profile) == text_of(b, config.profile)
}

/// The value as JSON text; text that is JSON is normalized.
fn as_json(value: &Json, config: &ExactMatchConfig) -> String {
    let rendering =
        Rendering { profile: config.profile, sort_keys: config.ignore_key_order, ascii: false };
    match value {
        Json::Text(text) => match Json::parse(text) {
            Ok(parsed) => rendering.json(&parsed),
            Err(_) => text.clone(),
        },
        other => rendering.json(other),
    }
}

/// The similarity of two texts by their edit distance.
pub struct Levenshtein;

/// The conversion of values to text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LevenshteinConfig {
    /// The scorer library to follow where the Python and the JavaScript one differ.
    pub profile: Profile,
}

impl Evaluator for Levenshtein {
    const ID: &'static str = "levenshtein";
    const TITLE: &'static str = "Levenshtein similarity";
    const DESCRIPTION: &'static str = "1 minus the number of single-character edits between output and \
        expected output, divided by the length of the longer one.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("levenshtein", "1 when equal, 0 when nothing is shared")];
    type Config = LevenshteinConfig;

    fn evaluate(item: &Item, config: &LevenshteinConfig) -> Result<Vec<Score>, EvalError> {
        let output = text_of_payload(item.output()?, config.profile)?;
        let expected = match &item.expected_output {
            // JavaScript compares with the text of null. An absent value is missing in both.
            Some(null) if null.is_null() && config.profile == Profile::Js => Cow::Borrowed("null"),
            _ => text_of_payload(item.expected()?, config.profile)?,
        };
        let distance = levenshtein(&output, &expected, config.profile);
        Ok(vec![
            Score::share("levenshtein", distance.similarity())
                .comment(format!("distance {} of {}", distance.edits, distance.longest))
                .with("distance", distance.edits)
                .with("longest", distance.longest),
        ])
    }
}

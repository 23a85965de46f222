//! `normalized-exact` and `token-f1`: comparison of words without case, punctuation and articles.

use crate::verdict::verdict;
use crate::words::{finite_number, fold, trim_punctuation};
use perpend_plugin::prelude::*;
use perpend_plugin_measures::print_py;
use std::collections::BTreeSet;

/// The words of a text: case folded, without punctuation and articles, numbers in one notation.
fn words(text: &str) -> Vec<String> {
    let tokens = text.split(|character: char| character.is_whitespace() || character == '-');
    tokens.map(|token| plain(&fold(token))).filter(|word| !word.is_empty()).collect()
}

fn plain(token: &str) -> String {
    let core = trim_punctuation(token);
    let word = match finite_number(core) {
        Some(number) => return print_py(number),
        None => token.replace(|character: char| character.is_ascii_punctuation(), ""),
    };
    match finite_number(&word) {
        Some(number) => print_py(number),
        None if matches!(word.as_str(), "a" | "an" | "the") => String::new(),
        None => word,
    }
}

/// 1 when output and a target have the same words in the same order.
pub struct NormalizedExact;

impl Evaluator for NormalizedExact {
    const ID: &'static str = "normalized-exact";
    const TITLE: &'static str = "Normalised exact match";
    const DESCRIPTION: &'static str = "1 when the output equals the expected output, or any element of \
        it, apart from case, punctuation, articles and the notation of numbers.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("normalized_exact", "1 when a target has the same words")];
    type Config = NoConfig;

    fn evaluate(item: &Item, _: &NoConfig) -> Result<Vec<Score>, EvalError> {
        let output = words(item.output_text()?);
        let targets = item.targets()?;
        // A target without words is ignored.
        let holds = !output.is_empty() && targets.iter().any(|target| words(target) == output);
        let reason = if holds { "same words" } else { "no target has the same words" };
        Ok(vec![verdict("normalized_exact", holds, reason)])
    }
}

/// The overlap of the words of output and target.
pub struct TokenF1;

/// The words to ignore.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenF1Config {
    /// Words that are ignored in both texts.
    pub stop_words: Vec<String>,
}

impl Evaluator for TokenF1 {
    const ID: &'static str = "token-f1";
    const TITLE: &'static str = "Word overlap (F1)";
    const DESCRIPTION: &'static str = "The harmonic mean of the share of the output's words that are \
        expected and the share of the expected words in the output, for the best target.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("token_f1", "1 when the words are the same")];
    type Config = TokenF1Config;

    fn evaluate(item: &Item, config: &TokenF1Config) -> Result<Vec<Score>, EvalError> {
        let counted = |text: &str| -> Vec<String> {
            let is_counted = |word: &String| !config.stop_words.contains(word);
            words(text).into_iter().filter(is_counted).collect()
        };
        let output = counted(item.output_text()?);
        let targets = item.targets()?;
        let best = targets.iter().map(|target| f1(&output, &counted(target))).fold(0.0, f64::max);
        // Rounded to two decimals by way of text, which rounds a binary number correctly.
        let rounded = format!("{best:.2}").parse().unwrap_or(best);
        Ok(vec![Score::share("token_f1", rounded).comment(format!("F1 over words {rounded}"))])
    }
}

/// A word that occurs in both texts is counted once, repeats included only in the lengths.
fn f1(output: &[String], target: &[String]) -> f64 {
    // A target without words is ignored; an output without words shares none.
    if target.is_empty() || output.is_empty() {
        return 0.0;
    }
    let [in_output, in_target] =
        [output, target].map(|words| words.iter().collect::<BTreeSet<_>>());
    #[expect(clippy::cast_precision_loss, reason = "word counts are far below 2^53")]
    let [shared, n_output, n_target] =
        [in_output.intersection(&in_target).count(), output.len(), target.len()].map(|n| n as f64);
    let (precision, recall) = (shared / n_output, shared / n_target);
    if shared == 0.0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
}

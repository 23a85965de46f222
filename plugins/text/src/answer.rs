//! `match` and `answer`: the answer of a model at a known position.

use crate::verdict::{quoted, verdict};
use crate::words::{finite_number, fold, folded_if, trim_punctuation};
use perpend_plugin::prelude::*;
use std::borrow::Cow;

/// 1 when the output contains a target at a position.
pub struct Match;

/// The position and the comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MatchConfig {
    /// The position of the target in the output.
    pub location: Location,
    /// Ignore the difference between upper and lower case.
    pub ignore_case: bool,
    /// Compare numbers when the target is a number: `1,234.50` equals `1234.5`, `25` does not end with 5.
    pub numeric: bool,
}

impl Default for MatchConfig {
    fn default() -> Self {
        Self { location: Location::End, ignore_case: true, numeric: false }
    }
}

/// A position in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// At the end.
    End,
    /// At the beginning.
    Begin,
    /// Anywhere.
    Any,
    /// The whole output.
    Exact,
}

impl Evaluator for Match {
    const ID: &'static str = "match";
    const TITLE: &'static str = "Match at a position";
    const DESCRIPTION: &'static str = "1 when the output has the expected output, or any element of it, \
        at the given position; white space and punctuation at the ends are ignored.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("match", "1 when a target is at the position")];
    type Config = MatchConfig;

    fn evaluate(item: &Item, config: &MatchConfig) -> Result<Vec<Score>, EvalError> {
        let output = item.output_text()?;
        let mut last = Comparison { answer: output.trim().to_owned(), holds: false };
        for target in item.targets()? {
            last = compare(output, &target, config);
            if last.holds {
                break;
            }
        }
        let reason = format!("compared {}", quoted(&last.answer));
        Ok(vec![verdict("match", last.holds, reason).with("answer", last.answer)])
    }
}

/// The text that was compared with a target, and the result.
struct Comparison {
    answer: String,
    holds: bool,
}

fn compare(output: &str, target: &str, config: &MatchConfig) -> Comparison {
    let (output, target) = (output.trim(), target.trim());
    if config.numeric
        && let Some(target_number) = finite_number(&without_decoration(target))
    {
        return compare_number(&without_decoration(output), target_number, config.location);
    }
    let in_output = folded_if(config.ignore_case, output);
    let target = folded_if(config.ignore_case, target);
    let (in_output, target) = (trim_punctuation(&in_output), trim_punctuation(&target));
    let holds = match config.location {
        Location::End => in_output.ends_with(target),
        Location::Begin => in_output.starts_with(target),
        Location::Any => in_output.contains(target),
        Location::Exact => in_output == target,
    };
    Comparison { answer: output.to_owned(), holds }
}

fn compare_number(output: &str, target_number: f64, location: Location) -> Comparison {
    let target_number = five_digits(target_number);
    if location == Location::Exact {
        let answer = finite_number(output.trim()).map_or_else(|| output.to_owned(), five_digits);
        return Comparison { holds: answer == target_number, answer };
    }
    let mut numbers = output.split_whitespace().filter_map(finite_number).map(five_digits);
    let answer = match location {
        Location::Begin => numbers.next(),
        Location::End => numbers.next_back(),
        Location::Any | Location::Exact => numbers.find(|number| *number == target_number),
    };
    let answer = answer.unwrap_or_default();
    Comparison { holds: answer == target_number, answer }
}

/// The text without currency signs, thousands separators and emphasis, escaped or not, and without dots that
/// end a word or a sentence.
fn without_decoration(text: &str) -> String {
    const DECORATION: &str = "$£€,*_";
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let is_dropped = DECORATION.contains(character)
            || (character == '\\' && next.is_some_and(|next| DECORATION.contains(next)))
            || (character == '.' && !next.is_some_and(|next| next.is_ascii_digit()));
        if !is_dropped {
            kept.push(character);
        }
    }
    kept
}

/// A number with five significant digits: `42`, `0.33333`, `1.2346e+05`.
fn five_digits(number: f64) -> String {
    const DIGITS: usize = 5;
    let text = format!("{number:.*e}", DIGITS - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..5).contains(&exponent) {
        let decimals = usize::try_from(4 - exponent).unwrap_or(0);
        return without_zeros(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

/// 1 when the text after the last `ANSWER:` is a target.
pub struct Answer;

/// The extent of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerConfig {
    /// The part of the text after `ANSWER:` that is the answer.
    pub kind: AnswerKind,
}

impl Default for AnswerConfig {
    fn default() -> Self {
        Self { kind: AnswerKind::Line }
    }
}

/// The extent of an answer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnswerKind {
    /// One letter, no word character after it.
    Letter,
    /// One word at the end of its line; a full stop may follow.
    Word,
    /// The rest of the line, which must be the last one.
    Line,
}

impl Evaluator for Answer {
    const ID: &'static str = "answer";
    const TITLE: &'static str = "Answer line";
    const DESCRIPTION: &'static str = "1 when the text after the last \"ANSWER:\" of the output equals the \
        expected output, or any element of it; case is ignored.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("answer", "1 when the answer is a target")];
    type Config = AnswerConfig;

    fn evaluate(item: &Item, config: &AnswerConfig) -> Result<Vec<Score>, EvalError> {
        let (output, targets) = (item.output_text()?, item.targets()?);
        let Some(answer) = after_last_marker(output).and_then(|rest| answer(rest, config.kind))
        else {
            return Ok(vec![verdict("answer", false, "no answer found").with("no_answer", true)]);
        };
        let is_target = |target: &String| fold(target) == fold(answer);
        let holds = targets.iter().any(is_target);
        let reason = format!("answered {}", quoted(answer));
        Ok(vec![verdict("answer", holds, reason).with("answer", answer)])
    }
}

/// The text after the last `ANSWER`, blanks, `:`, blanks.
fn after_last_marker(output: &str) -> Option<&str> {
    const MARKER: &str = "answer";
    // The change of case is limited to ASCII and preserves byte positions.
    let lower: Cow<'_, str> = Cow::Owned(output.to_ascii_lowercase());
    lower.rmatch_indices(MARKER).find_map(|(at, _)| {
        let rest = output[at + MARKER.len()..].trim_start();
        rest.strip_prefix(':').map(str::trim_start)
    })
}

fn answer(rest: &str, kind: AnswerKind) -> Option<&str> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    match kind {
        AnswerKind::Letter => {
            let letter =
                rest.get(..1).filter(|letter| letter.as_bytes()[0].is_ascii_alphabetic())?;
            let is_alone = !rest[1..].chars().next().is_some_and(is_word);
            is_alone.then_some(letter)
        }
        AnswerKind::Word => {
            let end = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let after = after.strip_prefix('.').unwrap_or(after);
            let line = after.lines().next().unwrap_or_default();
            (!word.is_empty() && line.trim().is_empty()).then_some(word)
        }
        AnswerKind::Line => {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            (!line.is_empty() && after.trim().is_empty()).then_some(line)
        }
    }
}

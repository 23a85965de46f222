//! Verdicts in free text. Reasoning blocks and quotations are ignored. Matches that differ are not a verdict: one of them can
//! be a draft or an echo of the judged text.

use perpend_plugin::EvalError;
use perpend_plugin::model::{
    Completion, Distribution, FinishReason, Message, Place, Request, Role,
};
use perpend_reply::{ReplyOutline, is_quoted};

use crate::answer::{Answer, Value};
use crate::panel::{Reply, malformed, send};
use crate::shape::Shape;

/// The maximum number of further requests after a reply without a verdict.
const MAX_RETRIES: usize = 2;
/// The maximum size of a compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(crate) fn compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build()
}

/// A verdict and its byte offset in the reply.
struct Verdict {
    value: Value,
    text: String,
    start: usize,
}

/// The verdict of a reply: the common value of all matches outside of reasoning blocks and quotations, at the position of the
/// last one.
///
/// # Errors
/// The reason why the reply has no verdict.
fn verdict(pattern: &regex::Regex, shape: &Shape<'_>, reply: &str) -> Result<Verdict, String> {
    let visible = ReplyOutline::of(reply).masked(reply);
    let offered = shape.verdicts().unwrap_or_default();
    let mut last = None;
    let mut is_last_offered = false;
    let mut texts: Vec<&str> = Vec::new();
    let mut has_quoted = false;
    for captures in pattern.captures_iter(&visible) {
        let whole = captures.get(0).map(|whole| whole.range());
        if whole.is_some_and(|whole| is_quoted(&visible, &whole)) {
            has_quoted = true;
            continue;
        }
        let Some(found) = captures.get(1).or_else(|| captures.get(0)) else {
            continue;
        };
        let text = found.as_str().trim();
        let verdict = matching_verdict(&offered, text).unwrap_or(text);
        if !texts.contains(&verdict) {
            texts.push(verdict);
        }
        // Another spelling can repeat a verdict, but is not a verdict by itself.
        if verdict == text || !is_last_offered {
            last = Some((text, found));
            is_last_offered = offered.iter().any(|verdict| verdict == text);
        }
    }
    let (text, found) = last.ok_or_else(|| match has_quoted {
        true => "the reply only quotes a verdict".to_owned(),
        false => "the reply has no verdict".to_owned(),
    })?;
    if 1 < texts.len() {
        return Err(format!("the reply has several verdicts: {}", texts.join(", ")));
    }
    Ok(Verdict {
        value: shape.verdict(text)?,
        text: text.to_owned(),
        start: found.start() + (found.as_str().len() - found.as_str().trim_start().len()),
    })
}

/// The offered verdict that equals the text, or the only one that differs just in case or in the notation of a number.
fn matching_verdict<'v>(offered: &'v [String], text: &str) -> Option<&'v str> {
    let number = |text: &str| text.parse::<f64>().ok();
    let is_alike = |verdict: &str| {
        let is_equal = number(verdict).is_some_and(|verdict| number(text) == Some(verdict));
        is_equal || verdict.to_lowercase() == text.to_lowercase()
    };
    let offered = || offered.iter().map(String::as_str);
    let exact = offered().find(|verdict| *verdict == text);
    exact.or_else(|| {
        let mut alike = offered().filter(|verdict| is_alike(verdict));
        let first = alike.next()?;
        alike.next().is_none().then_some(first)
    })
}

/// The retry after a reply without a usable verdict.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// The reply was cut off: the same request with twice the output limit.
    Longer,
    /// The conversation continues with a correction.
    Corrected,
}

/// Sends the requests, and retries those whose reply has no offered verdict: in the same conversation, or once with twice the
/// output limit when the reply was cut off.
///
/// # Errors
/// As [`send`].
pub(crate) fn send_with_retries(
    requests: &[Request],
    pattern: &regex::Regex,
    shape: &Shape<'_>,
) -> Result<Vec<Reply>, EvalError> {
    let mut requests = requests.to_vec();
    let mut is_longer = vec![false; requests.len()];
    let mut replies = send(&requests)?;
    for _ in 0..MAX_RETRIES {
        let mut again = Vec::new();
        for (at, reply) in replies.iter_mut().enumerate() {
            let Ok(completion) = reply else { continue };
            let request = &mut requests[at];
            match prepare_retry(pattern, shape, request, completion, is_longer[at]) {
                Ok(None) => {}
                Ok(Some(retry)) => {
                    is_longer[at] |= retry != Retry::Corrected;
                    again.push(at);
                }
                Err(why) => *reply = Err(why),
            }
        }
        let retries: Vec<Request> = again.iter().map(|at| requests[*at].clone()).collect();
        if retries.is_empty() {
            break;
        }
        for (at, reply) in again.into_iter().zip(send(&retries)?) {
            replies[at] = reply;
        }
    }
    Ok(replies)
}

/// Changes a request so that it can be repeated after this reply; `None` when the reply has a verdict.
///
/// # Errors
/// When the reply was cut off at twice the output limit.
fn prepare_retry(
    pattern: &regex::Regex,
    shape: &Shape<'_>,
    request: &mut Request,
    reply: &Completion,
    is_longer: bool,
) -> Result<Option<Retry>, String> {
    if is_cut_off(pattern, reply) {
        if is_longer {
            return Err(malformed(&cut_off(reply)));
        }
        let limit = request.max_output_tokens;
        let limit = limit.unwrap_or_else(|| reply.output_tokens.try_into().unwrap_or(u32::MAX));
        request.max_output_tokens = Some(limit.saturating_mul(2).max(1));
        return Ok(Some(Retry::Longer));
    }
    let Err(why) = verdict(pattern, shape, &reply.text) else {
        return Ok(None);
    };
    let reply = Message::text(Role::Assistant, reply.text.as_str());
    request.messages.push(reply);
    let complaint = format!("{why}. Give your verdict alone, in the form that was asked for.");
    request.messages.push(Message::text(Role::User, complaint));
    Ok(Some(Retry::Corrected))
}

/// Whether a reply is incomplete. A reply that consists of a verdict alone is complete: the limit was chosen for it.
fn is_cut_off(pattern: &regex::Regex, reply: &Completion) -> bool {
    let whole = reply.text.trim();
    reply.finish == FinishReason::Length
        && pattern.find(whole).is_none_or(|found| found.as_str().trim() != whole)
}

fn cut_off(reply: &Completion) -> String {
    format!("the reply was cut off at the output limit after {} tokens", reply.output_tokens)
}

/// The answer in a reply.
///
/// # Errors
/// The reason why the reply has no answer.
pub(crate) fn read(
    pattern: &regex::Regex,
    shape: &Shape<'_>,
    reply: &Completion,
) -> Result<(Answer, Option<Distribution>), String> {
    if is_cut_off(pattern, reply) {
        return Err(malformed(&cut_off(reply)));
    }
    let found = verdict(pattern, shape, &reply.text).map_err(|why| malformed(&why))?;
    let verdicts = shape.verdicts().unwrap_or_default();
    let distribution = reply.probabilities(&verdicts, Place::Offset(found.start));
    let answer = Answer::of(found.value, Some(reply.text.clone())).with("choice", found.text);
    Ok((answer, distribution))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, reply: &str) -> Result<Value, String> {
        let scores = [("C".to_owned(), 1.0), ("I".to_owned(), 0.0)];
        let pattern = compile(pattern).unwrap();
        verdict(&pattern, &Shape::Choice(&scores), reply).map(|verdict| verdict.value)
    }

    #[test]
    fn reasoning_blocks_and_quotations_are_ignored() {
        for reply in [
            "GRADE: I",
            "<think>GRADE: C</think>\nGRADE: I",
            "GRADE: C, or not?\n</think>\nGRADE: I",
            "> GRADE: C\n\nGRADE: I",
            "The answer says \"GRADE: C\", but it is wrong.\nGRADE: I",
            "The answer says `GRADE: C`.\n**GRADE: I**",
            "GRADE: I. To repeat it: GRADE: I",
            "It is wrong.\n`GRADE: I`",
        ] {
            assert_eq!(found(r"GRADE: (\w+)", reply), Ok(Value::Number(0.0)), "{reply}");
        }
    }

    #[test]
    fn different_quoted_or_unknown_verdicts_are_an_error() {
        for reply in [
            "The answer says GRADE: C, but it is wrong.\nGRADE: I",
            "GRADE: C then GRADE: P",
            "The answer says \"GRADE: C\" of itself.",
            "<think>GRADE: C",
            "GRADE: P",
            "no verdict",
        ] {
            assert!(found(r"GRADE: (\w+)", reply).is_err(), "{reply}");
        }
    }

    #[test]
    fn different_spellings_of_one_verdict_agree() {
        let scores = [("Pass", 1.0), ("Fail", 0.0), ("4", 0.4)];
        let scores = scores.map(|(choice, score)| (choice.to_owned(), score));
        let pattern = compile(r"(?i)\b(?:pass|fail|\d+(?:\.\d+)?)\b").unwrap();
        let found = |reply: &str| verdict(&pattern, &Shape::Choice(&scores), reply);
        for (reply, text, start) in
            [("Pass. So: PASS", "Pass", 0), ("PASS. So: Pass", "Pass", 10), ("4, or 4.0", "4", 0)]
        {
            let found = found(reply).map(|verdict| (verdict.text, verdict.start));
            assert_eq!(found, Ok((text.to_owned(), start)), "{reply}");
        }
        for reply in ["Pass, or FAIL", "PASS", "4, or 4.5"] {
            assert!(found(reply).is_err(), "{reply}");
        }
    }

    #[test]
    fn without_a_group_the_whole_match_is_the_verdict() {
        assert_eq!(found(r"(?m)^\s*[CI]\s*$", "reasons\n C \n"), Ok(Value::Number(1.0)));
    }
}

//! Verdicts in free text. Thinking and quotations do not count, and matches that differ are no verdict: one of them can be a draft
//! or an echo of the judged text.

use perpend_plugin::EvalError;
use perpend_plugin::model::{
    Completion, Distribution, FinishReason, Message, Place, Request, Role,
};
use perpend_reply::{ReplyOutline, is_quoted};

use crate::answer::{Answer, Value};
use crate::ask::{Reply, ask, malformed};
use crate::shape::Shape;

/// How often a model is asked again for a verdict that can be found.
const N_REASKS: usize = 2;
/// The size a compiled expression may have.
const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(crate) fn compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build()
}

/// A verdict and where it begins in the reply.
struct Verdict {
    value: Value,
    text: String,
    start: usize,
}

/// The verdict of a reply: what all matches outside of thinking and quotations say. The last one is its place.
///
/// # Errors
/// Why there is none.
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
        let meant = meant(&offered, text).unwrap_or(text);
        if !texts.contains(&meant) {
            texts.push(meant);
        }
        // Another spelling repeats a verdict, but is none alone.
        if meant == text || !is_last_offered {
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

/// The verdict that a text stands for: itself, or the only one that differs from it in case or in the form of a number alone.
fn meant<'v>(offered: &'v [String], text: &str) -> Option<&'v str> {
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

/// How a request is repeated after a reply without a usable verdict.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// The reply was cut off: the same request with twice the output limit.
    Longer,
    /// In the same conversation.
    Corrected,
}

/// Asks, and asks again where the reply has no verdict that was offered: in the same conversation, or once with twice the output
/// limit where it was cut off.
///
/// # Errors
/// As [`ask`].
pub(crate) fn replies(
    requests: &[Request],
    pattern: &regex::Regex,
    shape: &Shape<'_>,
) -> Result<Vec<Reply>, EvalError> {
    let mut requests = requests.to_vec();
    let mut is_longer = vec![false; requests.len()];
    let mut replies = ask(&requests)?;
    for _ in 0..N_REASKS {
        let mut again = Vec::new();
        for (at, reply) in replies.iter_mut().enumerate() {
            let Ok(completion) = reply else { continue };
            let request = &mut requests[at];
            match repeat(pattern, shape, request, completion, is_longer[at]) {
                Ok(None) => {}
                Ok(Some(repeat)) => {
                    is_longer[at] |= repeat != Repeat::Corrected;
                    again.push(at);
                }
                Err(why) => *reply = Err(why),
            }
        }
        let asked: Vec<Request> = again.iter().map(|at| requests[*at].clone()).collect();
        if asked.is_empty() {
            break;
        }
        for (at, reply) in again.into_iter().zip(ask(&asked)?) {
            replies[at] = reply;
        }
    }
    Ok(replies)
}

/// Changes a request so that it can be repeated after this reply; `None` when the reply has a verdict.
///
/// # Errors
/// The reply was cut off, with twice the output limit too.
fn repeat(
    pattern: &regex::Regex,
    shape: &Shape<'_>,
    request: &mut Request,
    reply: &Completion,
    is_longer: bool,
) -> Result<Option<Repeat>, String> {
    if is_cut_off(pattern, reply) {
        if is_longer {
            return Err(malformed(&cut_off(reply)));
        }
        let limit = request.max_output_tokens;
        let limit = limit.unwrap_or_else(|| reply.output_tokens.try_into().unwrap_or(u32::MAX));
        request.max_output_tokens = Some(limit.saturating_mul(2).max(1));
        return Ok(Some(Repeat::Longer));
    }
    let Err(why) = verdict(pattern, shape, &reply.text) else {
        return Ok(None);
    };
    let said = Message::text(Role::Assistant, reply.text.as_str());
    request.messages.push(said);
    let complaint = format!("{why}. Give your verdict alone, in the form that was asked for.");
    request.messages.push(Message::text(Role::User, complaint));
    Ok(Some(Repeat::Corrected))
}

/// Whether a reply lacks its end. One that is a verdict and nothing else lacks nothing: the limit was chosen for it.
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
/// Why there is none.
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
    fn thinking_and_quotations_are_no_verdict() {
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
    fn verdicts_that_differ_or_are_quoted_or_were_not_offered_are_malformed_and_not_a_bad_score() {
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
    fn spellings_of_one_verdict_do_not_differ() {
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

//! Verdicts in free text. The last match counts: earlier ones can be an echo of the judged text.

use perpend_plugin::EvalError;
use perpend_plugin::model::{Completion, Distribution, Message, Place, Request, Role};

use crate::answer::{Answer, Value};
use crate::ask::{Reply, ask, malformed};
use crate::shape::Shape;

/// How often a model is asked again for a verdict that can be found.
const N_REASKS: usize = 2;
/// The size a compiled expression may have.
const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(crate) fn compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
}

/// A verdict and where it begins in the reply.
struct Verdict {
    value: Value,
    text: String,
    start: usize,
}

/// The verdict of a reply.
///
/// # Errors
/// Why there is none.
fn verdict(pattern: &regex::Regex, shape: &Shape<'_>, reply: &str) -> Result<Verdict, String> {
    let last = pattern.captures_iter(reply).last();
    let last = last.ok_or_else(|| "the reply has no verdict".to_owned())?;
    let found = last
        .get(1)
        .or_else(|| last.get(0))
        .ok_or_else(|| "the verdict is empty".to_owned())?;
    let text = found.as_str().trim();
    Ok(Verdict {
        value: shape.verdict(text)?,
        text: text.to_owned(),
        start: found.start() + (found.as_str().len() - found.as_str().trim_start().len()),
    })
}

/// Asks, and asks again in the same conversation where the reply has no verdict that was offered.
///
/// # Errors
/// As [`ask`].
pub(crate) fn replies(
    requests: &[Request],
    pattern: &regex::Regex,
    shape: &Shape<'_>,
) -> Result<Vec<Reply>, EvalError> {
    let mut requests = requests.to_vec();
    let mut replies = ask(&requests)?;
    for _ in 0..N_REASKS {
        let mut again = Vec::new();
        for (at, reply) in replies.iter().enumerate() {
            let Ok(completion) = reply else { continue };
            let Err(why) = verdict(pattern, shape, &completion.text) else {
                continue;
            };
            let request = &mut requests[at];
            let said = Message::text(Role::Assistant, completion.text.as_str());
            request.messages.push(said);
            let complaint =
                format!("{why}. Give your verdict again, in the form that was asked for.");
            request.messages.push(Message::text(Role::User, complaint));
            again.push(at);
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

/// The answer in a reply.
///
/// # Errors
/// Why there is none.
pub(crate) fn read(
    pattern: &regex::Regex,
    shape: &Shape<'_>,
    reply: &Completion,
) -> Result<(Answer, Option<Distribution>), String> {
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
    fn the_last_match_counts() {
        let reply = "The answer says GRADE: C, but it is wrong.\nGRADE: I";
        assert_eq!(found(r"GRADE: (\w+)", reply), Ok(Value::Number(0.0)));
    }

    #[test]
    fn a_verdict_that_was_not_offered_is_malformed_and_not_a_bad_score() {
        assert!(found(r"GRADE: (\w+)", "GRADE: C then GRADE: P").is_err());
        assert!(found(r"GRADE: (\w+)", "no verdict").is_err());
    }

    #[test]
    fn without_a_group_the_whole_match_is_the_verdict() {
        assert_eq!(
            found(r"(?m)^\s*[CI]\s*$", "reasons\n C \n"),
            Ok(Value::Number(1.0))
        );
    }
}

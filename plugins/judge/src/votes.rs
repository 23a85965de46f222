//! From the votes of a panel to scores, with the votes as comment and metadata.

use perpend_plugin::{EvalError, Json, Score};

use crate::answer::Answer;
use crate::config::Panel;
use crate::panel::Seat;
use crate::reduce::{reduce, same};
use crate::shape::object;

/// The answer of one seat, or the reason why there is none.
pub(crate) type Vote = (Seat, Result<Answer, String>);

/// The scores of these votes.
///
/// # Errors
/// `not-applicable` when the votes do not agree as far as the reducer requires.
pub(crate) fn scores(name: &str, votes: &[Vote], panel: &Panel) -> Result<Vec<Score>, EvalError> {
    if let [(_, Ok(answer))] = votes {
        return Ok(with_details(
            answer.value.scores(name),
            answer.reasoning.clone(),
            &answer.details,
        ));
    }
    let answers: Vec<&Answer> =
        votes.iter().filter_map(|(_, answer)| answer.as_ref().ok()).collect();
    let values: Vec<_> = answers.iter().map(|answer| answer.value.clone()).collect();
    let comment = votes.iter().map(line).collect::<Vec<_>>().join("\n");
    let value = reduce(&values, panel.reducer)
        .map_err(|why| EvalError::not_applicable(format!("{why}\n{comment}")))?;
    let mut details = Vec::new();
    let choice = answers
        .iter()
        .find(|answer| same(&answer.value, &value))
        .and_then(|answer| answer.details.iter().find(|(key, _)| key == "choice"));
    details.extend(choice.cloned());
    details.push(("reducer".to_owned(), Json::from(panel.reducer.name())));
    details.push(("votes".to_owned(), Json::Array(votes.iter().map(to_metadata).collect())));
    Ok(with_details(value.scores(name), Some(comment), &details))
}

fn with_details(
    scores: Vec<Score>,
    comment: Option<String>,
    details: &[(String, Json)],
) -> Vec<Score> {
    let scores = scores.into_iter().map(|mut score| {
        score.comment.clone_from(&comment);
        score.metadata.extend_from_slice(details);
        score
    });
    scores.collect()
}

/// One vote in the comment of a score.
fn line((seat, answer): &Vote) -> String {
    let seat = seat.name();
    match answer {
        Ok(Answer { value, reasoning: Some(why), .. }) => {
            format!("{seat}: {} ({why})", value.to_json())
        }
        Ok(Answer { value, .. }) => format!("{seat}: {}", value.to_json()),
        Err(why) => format!("{seat}: no vote ({why})"),
    }
}

/// One vote in the metadata of a score, without the reasoning.
fn to_metadata((seat, answer): &Vote) -> Json {
    let seat = [("slot", Json::from(seat.slot)), ("repeat", Json::from(usize::from(seat.repeat)))];
    match answer {
        Ok(answer) => {
            let details = answer.details.iter().map(|(key, value)| (key.as_str(), value.clone()));
            object(seat.into_iter().chain([("value", answer.value.to_json())]).chain(details))
        }
        Err(why) => object(seat.into_iter().chain([("error", Json::from(why.as_str()))])),
    }
}

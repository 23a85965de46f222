//! What is right: the labels that an evaluator is held against.

use std::collections::{BTreeMap, HashMap, HashSet};

use perpend_api_types::judge_check::CheckInput;
use perpend_api_types::score::AnyValue;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
use perpend_domain::score::{ScoreSource, ScoreValue, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_http_kit::problem::{Code, Problem};
use perpend_scheduler::TrialOn;

use super::super::trial::manual_item;
use crate::state::App;

const MAX_LABELS: usize = 200;
/// Squares of larger ones do not add up.
const MAX_NUMBER: f64 = 1e100;
const MAX_LABEL_CHARS: usize = 200;
/// Scores looked at: several people may have judged a target.
const PAGE: u32 = 500;
const MAX_PAGES: u32 = 10;

/// What an evaluator, or a person, says of an item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// A category, or `true` and `false`.
    Label(String),
    /// A number.
    Number(f64),
}

impl Verdict {
    /// None of a free text.
    pub(super) fn of(value: &ScoreValue) -> Option<Self> {
        match value {
            ScoreValue::Numeric(number) => Some(Self::Number(*number)),
            ScoreValue::Boolean(truth) => Some(Self::Label(truth.to_string())),
            ScoreValue::Categorical(category) => Some(Self::Label(category.clone())),
            ScoreValue::Text(_) | ScoreValue::Correction(_) => None,
        }
    }

    /// As it is written in an instruction.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Label(label) => label.clone(),
            Self::Number(number) => number.to_string(),
        }
    }

    /// As a number: truth values are 0 and 1.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Label(label) => match label.as_str() {
                "true" => Some(1.0),
                "false" => Some(0.0),
                _ => None,
            },
        }
    }

    /// As a label: 0 and 1 are truth values, where truth values are asked for.
    pub(super) fn label(&self, are_truths: bool) -> Option<String> {
        match self {
            Self::Label(label) => Some(label.clone()),
            Self::Number(1.0) if are_truths => Some("true".to_owned()),
            Self::Number(0.0) if are_truths => Some("false".to_owned()),
            Self::Number(_) => None,
        }
    }
}

/// What is judged, and what is right.
#[derive(Clone, Debug)]
pub(super) struct LabelledItem {
    pub(super) on: TrialOn,
    pub(super) expected: Verdict,
}

/// The labels that a request names.
pub(super) async fn load(
    app: &App,
    project: &ProjectId,
    input: &CheckInput,
) -> Result<Vec<LabelledItem>, Problem> {
    let limit = input.limit.map_or(MAX_LABELS, |limit| limit as usize);
    if !(1..=MAX_LABELS).contains(&limit) {
        let message = format!("a number from 1 to {MAX_LABELS} is expected");
        return Err(Problem::body("limit", message));
    }
    match (&input.against, &input.items) {
        (Some(name), None) => from_scores(app, project, name, limit).await,
        (None, Some(items)) if (1..=MAX_LABELS).contains(&items.len()) => {
            let labelled = items.iter().take(limit).enumerate().map(|(at, one)| {
                Ok(LabelledItem {
                    on: TrialOn::Written(Box::new(manual_item(one.item.clone()))),
                    expected: from_item(at, &one.label)?,
                })
            });
            labelled.collect()
        }
        (None, Some(_)) => {
            let message = format!("1 to {MAX_LABELS} items are expected");
            Err(Problem::body("items", message))
        }
        _ => Err(Problem::body("against", "either the name of scores or items are expected")),
    }
}

fn from_item(at: usize, label: &AnyValue) -> Result<Verdict, Problem> {
    let wrong = |message: &str| Problem::body(&format!("items[{at}].label"), message.to_owned());
    match label {
        AnyValue::Boolean(truth) => Ok(Verdict::Label(truth.to_string())),
        AnyValue::Number(number) if number.abs() <= MAX_NUMBER => Ok(Verdict::Number(*number)),
        AnyValue::Number(_) => Err(wrong("a number between -1e100 and 1e100 is expected")),
        AnyValue::Text(text) if text.chars().count() <= MAX_LABEL_CHARS => {
            Ok(Verdict::Label(text.clone()))
        }
        AnyValue::Text(_) => Err(wrong("at most 200 characters are expected")),
    }
}

/// What people said of targets, the newest targets first.
async fn from_scores(
    app: &App,
    project: &ProjectId,
    name: &str,
    limit: usize,
) -> Result<Vec<LabelledItem>, Problem> {
    let query = ScoreQuery {
        names: vec![name.to_owned()],
        sources: vec![ScoreSource::Annotation, ScoreSource::Api],
        is_in_trace: true,
        ..ScoreQuery::default()
    };
    let mut targets: Vec<Target> = Vec::new();
    let mut seen: HashSet<Target> = HashSet::new();
    for_each_score(app, project, &query, |target, _| {
        if seen.insert(target.clone()) {
            targets.push(target);
        }
        targets.len() < limit
    })
    .await?;
    if targets.is_empty() {
        let message = format!(
            "no score {name:?} with a number, a truth value or a category was given to a trace or an observation, by people or \
             over the API"
        );
        return Err(Problem::new(Code::Unprocessable, message).with("field", "against"));
    }
    // All that was said of them, however long ago.
    let query = ScoreQuery {
        trace_ids: targets.iter().filter_map(|target| target.trace().cloned()).collect(),
        ..query
    };
    let mut verdicts: HashMap<Target, Vec<Verdict>> = HashMap::new();
    for_each_score(app, project, &query, |target, verdict| {
        verdicts.entry(target).or_default().push(verdict);
        true
    })
    .await?;
    let labelled = targets.into_iter().filter_map(|target| {
        let expected = consensus(&verdicts.remove(&target)?)?;
        let on = TrialOn::Target(target);
        Some(LabelledItem { on, expected })
    });
    Ok(labelled.collect())
}

/// Shows scores, the newest first, until it is told to stop.
async fn for_each_score(
    app: &App,
    project: &ProjectId,
    query: &ScoreQuery,
    mut show: impl FnMut(Target, Verdict) -> bool,
) -> Result<(), Problem> {
    let mut after: Option<Cursor> = None;
    for _ in 0..MAX_PAGES {
        let telemetry = &app.store.telemetry;
        let page = telemetry.scores(project, query, after.as_ref(), PAGE).await?;
        for score in page.items {
            let target = target_of(score.written.subject);
            let shown = target.zip(Verdict::of(&score.written.value));
            if shown.is_some_and(|(target, verdict)| !show(target, verdict)) {
                return Ok(());
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

fn target_of(subject: Subject) -> Option<Target> {
    match subject {
        Subject::Trace(trace) => Some(Target::Trace(trace)),
        Subject::Observation(trace, observation) => Some(Target::Observation(trace, observation)),
        Subject::Session(_) | Subject::Experiment(_) => None,
    }
}

/// What several said, the newest first: the mean of numbers, else the label of the most; of equally frequent ones the label given last.
fn consensus(verdicts: &[Verdict]) -> Option<Verdict> {
    let numbers: Option<Vec<f64>> = verdicts
        .iter()
        .map(|one| match one {
            Verdict::Number(number) => Some(*number),
            Verdict::Label(_) => None,
        })
        .collect();
    if let Some(numbers) = numbers {
        let n = numbers.len() as f64;
        return Some(Verdict::Number(numbers.iter().sum::<f64>() / n));
    }
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (age, one) in verdicts.iter().enumerate() {
        if let Verdict::Label(label) = one {
            counts.entry(label).or_insert((0, verdicts.len() - age)).0 += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, rank)| *rank)?;
    Some(Verdict::Label(most.0.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Verdict {
        Verdict::Label(text.to_owned())
    }

    #[test]
    fn of_several_labels_the_most_frequent_holds_and_of_equals_the_newest() {
        let verdicts = [label("bad"), label("good"), label("good")];
        assert_eq!(consensus(&verdicts), Some(label("good")));
        assert_eq!(consensus(&verdicts[..2]), Some(label("bad")));
        assert_eq!(consensus(&[label("good"), label("bad")]), Some(label("good")));
    }

    #[test]
    fn of_several_numbers_the_mean_holds() {
        let verdicts = [Verdict::Number(0.25), Verdict::Number(0.75)];
        assert_eq!(consensus(&verdicts), Some(Verdict::Number(0.5)));
    }
}

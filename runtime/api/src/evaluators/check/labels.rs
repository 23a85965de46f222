//! The labels that an evaluator is compared with.

use std::collections::{BTreeMap, HashMap, HashSet};

use perpend_api_types::judge_check::CheckInput;
use perpend_api_types::score::AnyValue;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
use perpend_domain::score::{ScoreSource, ScoreValue, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_http_kit::problem::{Code, Problem};
use perpend_scheduler::TrialSubject;

use super::super::trial::manual_item;
use crate::state::App;

const MAX_LABELS: usize = 200;
/// The sum of squares of larger numbers overflows.
const MAX_NUMBER: f64 = 1e100;
const MAX_LABEL_CHARS: usize = 200;
/// Scores per query. A target may have scores of several reviewers.
const PAGE: u32 = 500;
const MAX_PAGES: u32 = 10;

/// A verdict of an evaluator or a reviewer about an item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// A category, or `true` or `false`.
    Label(String),
    /// A number.
    Number(f64),
}

impl Verdict {
    /// The verdict of a score; `None` for text.
    pub(super) fn of(value: &ScoreValue) -> Option<Self> {
        match value {
            ScoreValue::Numeric(number) => Some(Self::Number(*number)),
            ScoreValue::Boolean(truth) => Some(Self::Label(truth.to_string())),
            ScoreValue::Categorical(category) => Some(Self::Label(category.clone())),
            ScoreValue::Text(_) | ScoreValue::Correction(_) => None,
        }
    }

    /// Text in a planted instruction.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Label(label) => label.clone(),
            Self::Number(number) => number.to_string(),
        }
    }

    /// As a number: booleans are 0 and 1.
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

    /// As a label: with `are_truths`, 0 and 1 are booleans.
    pub(super) fn label(&self, are_truths: bool) -> Option<String> {
        match self {
            Self::Label(label) => Some(label.clone()),
            Self::Number(1.0) if are_truths => Some("true".to_owned()),
            Self::Number(0.0) if are_truths => Some("false".to_owned()),
            Self::Number(_) => None,
        }
    }
}

/// An item and its expected verdict.
#[derive(Clone, Debug)]
pub(super) struct LabelledItem {
    pub(super) on: TrialSubject,
    pub(super) expected: Verdict,
}

/// The labels of a request.
pub(super) async fn load(
    app: &App,
    project: &ProjectId,
    input: &CheckInput,
) -> Result<Vec<LabelledItem>, Problem> {
    let limit = input.limit.map_or(MAX_LABELS, |limit| limit as usize);
    if !(1..=MAX_LABELS).contains(&limit) {
        let message = format!("must be from 1 to {MAX_LABELS}, got {limit}");
        return Err(Problem::body("limit", message));
    }
    match (&input.against, &input.items) {
        (Some(name), None) => from_scores(app, project, name, limit).await,
        (None, Some(items)) if (1..=MAX_LABELS).contains(&items.len()) => {
            let labelled = items.iter().take(limit).enumerate().map(|(at, one)| {
                Ok(LabelledItem {
                    on: TrialSubject::Written(Box::new(manual_item(one.item.clone()))),
                    expected: from_item(at, &one.label)?,
                })
            });
            labelled.collect()
        }
        (None, Some(_)) => {
            let message = format!("must contain 1 to {MAX_LABELS} items");
            Err(Problem::body("items", message))
        }
        _ => Err(Problem::body("against", "either against or items is required")),
    }
}

fn from_item(at: usize, label: &AnyValue) -> Result<Verdict, Problem> {
    let wrong = |message: &str| Problem::body(&format!("items[{at}].label"), message.to_owned());
    match label {
        AnyValue::Boolean(truth) => Ok(Verdict::Label(truth.to_string())),
        AnyValue::Number(number) if number.abs() <= MAX_NUMBER => Ok(Verdict::Number(*number)),
        AnyValue::Number(_) => Err(wrong("must be a number between -1e100 and 1e100")),
        AnyValue::Text(text) if text.chars().count() <= MAX_LABEL_CHARS => {
            Ok(Verdict::Label(text.clone()))
        }
        AnyValue::Text(_) => Err(wrong("must have at most 200 characters")),
    }
}

/// Scores of reviewers and of the API, by target, newest targets first.
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
            "no trace or observation has a numeric, boolean or categorical score {name:?} from reviewers or \
             the API"
        );
        return Err(Problem::new(Code::Unprocessable, message).with("field", "against"));
    }
    // All scores of these targets, also old ones.
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
        let on = TrialSubject::Target(target);
        Some(LabelledItem { on, expected })
    });
    Ok(labelled.collect())
}

/// Calls `show` with scores, newest first, until it returns false.
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

/// The consensus of verdicts, newest first: the mean of numbers, or the most frequent label, of equally frequent ones the newest.
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
    fn the_consensus_of_labels_is_the_most_frequent_and_of_equals_the_newest() {
        let verdicts = [label("bad"), label("good"), label("good")];
        assert_eq!(consensus(&verdicts), Some(label("good")));
        assert_eq!(consensus(&verdicts[..2]), Some(label("bad")));
        assert_eq!(consensus(&[label("good"), label("bad")]), Some(label("good")));
    }

    #[test]
    fn the_consensus_of_numbers_is_the_mean() {
        let verdicts = [Verdict::Number(0.25), Verdict::Number(0.75)];
        assert_eq!(consensus(&verdicts), Some(Verdict::Number(0.5)));
    }
}

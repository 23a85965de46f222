//! The results of a trial next to the stored scores of the same targets.

use perpend_domain::evaluation::{Evaluator, Target};
use perpend_domain::ids::{ObservationId, SessionId, TraceId};
use perpend_domain::plugin::LogLine;
use perpend_domain::score::{Score, ScoreSource, ScoreValue};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ScoreView, Text, TrialResultsView, TrialRow, aggregate, count, dollars, duration, plural,
};
use serde_json::Value;

use crate::request::viewer::Viewer;
use crate::rules::explain::target_link;
use crate::scores::views::scores_about;
use crate::state::App;

/// Characters of the input of an evaluator.
const MAX_ITEM: usize = 2_000;
/// Numbers that differ less are equal.
const EPSILON: f64 = 1e-9;

/// A score of a trial.
struct TrialScore {
    name: String,
    value: ScoreValue,
    comment: Option<String>,
}

/// Scores that were compared with scores of the same name.
#[derive(Default)]
struct Agreement {
    n_compared: u64,
    n_equal: u64,
}

impl Agreement {
    fn count(&mut self, tried: &[TrialScore], stored: &[&Score]) {
        for score in tried {
            let mut stored = stored.iter().map(|stored| &stored.written);
            if let Some(other) = stored.find(|other| other.name == score.name) {
                self.n_compared += 1;
                self.n_equal += u64::from(is_equal(&score.value, &other.value));
            }
        }
    }

    fn line(&self, label: &str) -> Option<(Text, Text)> {
        let text = || format!("{} of {}", count(self.n_equal), count(self.n_compared));
        (0 < self.n_compared).then(|| (Text::from(label), Text::from(text())))
    }
}

/// A Boolean value is equal to the number 0 or 1.
fn is_equal(one: &ScoreValue, other: &ScoreValue) -> bool {
    match (number_of(one), number_of(other)) {
        (Some(one), Some(other)) => (one - other).abs() < EPSILON,
        _ => one == other,
    }
}

fn number_of(value: &ScoreValue) -> Option<f64> {
    match value {
        ScoreValue::Numeric(number) => Some(*number),
        ScoreValue::Boolean(truth) => Some(f64::from(u8::from(*truth))),
        ScoreValue::Categorical(_) | ScoreValue::Text(_) | ScoreValue::Correction(_) => None,
    }
}

/// Sums over all results.
#[derive(Default)]
struct Totals {
    scores: Vec<TrialScore>,
    n_failed: u64,
    n_calls: u64,
    /// `None` if a price is unknown.
    cost: Option<f64>,
    with_stored: Agreement,
    with_people: Agreement,
}

impl Totals {
    fn summary(&self, n_rows: u64) -> Vec<(Text, Text)> {
        let failed = match self.n_failed {
            0 => String::new(),
            n => format!(", {} without a score", count(n)),
        };
        let mut lines =
            vec![(Text::from("Targets"), Text::from(format!("{}{failed}", count(n_rows))))];
        let mut names: Vec<&str> = Vec::new();
        for score in &self.scores {
            if !names.contains(&score.name.as_str()) {
                names.push(&score.name);
            }
        }
        for name in names {
            let of_name = self.scores.iter().filter(|score| score.name == name);
            let values: Vec<&ScoreValue> = of_name.map(|score| &score.value).collect();
            lines.extend(aggregate(&values).map(|text| (Text::from(name), text)));
        }
        lines.extend(self.with_stored.line("Equal to the stored score"));
        lines.extend(self.with_people.line("Equal to the score by people"));
        if 0 < self.n_calls {
            let cost = self.cost.map_or_else(|| "unknown cost".to_owned(), dollars);
            let text = format!("{}, {cost}", plural(self.n_calls, "call"));
            lines.push((Text::from("Model calls"), Text::from(text)));
        }
        lines
    }
}

/// The response of the operation. `stored` is the evaluator whose stored scores are shown for comparison.
pub(super) async fn results(
    app: &App,
    viewer: &Viewer,
    stored: Option<&Evaluator>,
    found: &Value,
) -> Result<TrialResultsView, Problem> {
    let all = found["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut totals = Totals { cost: Some(0.0), ..Totals::default() };
    let mut rows = Vec::with_capacity(all.len());
    for result in all {
        let target = target_of(result);
        let about = match &target {
            Some(target) => scores_about(app, viewer, target).await?,
            None => Vec::new(),
        };
        let scores = scores_of(result);
        let current = newest_by_name(&about, |score| {
            let origin = score.written.origin.as_ref();
            origin.zip(stored).is_some_and(|(origin, stored)| origin.evaluator_id == stored.id)
        });
        let people: Vec<&Score> = about
            .iter()
            .filter(|score| score.written.source == ScoreSource::Annotation)
            .filter(|score| scores.iter().any(|own| own.name == score.written.name))
            .collect();
        totals.with_stored.count(&scores, &current);
        totals.with_people.count(&scores, &people);
        rows.push(row(viewer, (target.as_ref(), result), &scores, (&current, &people, stored)));
        totals.n_failed += u64::from(scores.is_empty());
        let calls = result["modelCalls"].as_array().map_or(0, Vec::len);
        if 0 < calls {
            totals.n_calls += calls as u64;
            totals.cost = totals.cost.zip(result["costUsd"].as_f64()).map(|(sum, own)| sum + own);
        }
        totals.scores.extend(scores);
    }
    Ok(TrialResultsView { summary: totals.summary(rows.len() as u64), rows })
}

fn target_of(result: &Value) -> Option<Target> {
    let text = |member: &str| result[member].as_str();
    if let Some(session) = text("sessionId") {
        return SessionId::new(session).ok().map(Target::Session);
    }
    let trace = TraceId::new(text("traceId")?).ok()?;
    let observation = text("observationId").and_then(|id| ObservationId::new(id).ok());
    Some(Target::within(trace, observation))
}

fn scores_of(result: &Value) -> Vec<TrialScore> {
    let all = result["scores"].as_array().map(Vec::as_slice).unwrap_or_default();
    let score = |score: &Value| {
        let value = match &score["value"] {
            Value::Bool(truth) => ScoreValue::Boolean(*truth),
            Value::Number(number) => ScoreValue::Numeric(number.as_f64()?),
            value => ScoreValue::Categorical(value.as_str()?.to_owned()),
        };
        Some(TrialScore {
            name: score["name"].as_str()?.to_owned(),
            value,
            comment: score["comment"].as_str().map(str::to_owned),
        })
    };
    all.iter().filter_map(score).collect()
}

/// Of each name the newest score; `about` is ordered newest first.
fn newest_by_name(about: &[Score], is_wanted: impl Fn(&Score) -> bool) -> Vec<&Score> {
    let mut newest: Vec<&Score> = Vec::new();
    for score in about.iter().filter(|score| is_wanted(score)) {
        if newest.iter().all(|other| other.written.name != score.written.name) {
            newest.push(score);
        }
    }
    newest
}

fn stored_view(score: &Score) -> ScoreView {
    let written = &score.written;
    ScoreView::new(&written.name, &written.value, written.source, written.timestamp)
        .comment(written.comment.as_deref())
}

fn row(
    viewer: &Viewer,
    (target, result): (Option<&Target>, &Value),
    scores: &[TrialScore],
    (current, people, stored): (&[&Score], &[&Score], Option<&Evaluator>),
) -> TrialRow {
    let text = |member: &str| result[member].as_str();
    let (kind, id, href) = match target {
        Some(target) => {
            let (kind, id, href) = target_link(&viewer.base(), target);
            (kind, id, Some(href))
        }
        None => ("item", Text::from(""), None),
    };
    let is_newest = |score: &Score| {
        let origin = score.written.origin.as_ref();
        origin
            .zip(stored)
            .is_some_and(|(origin, stored)| origin.evaluator_version_id == stored.version.id)
    };
    let micros = |member: &str, factor: i64| {
        let n = result[member].as_i64().unwrap_or_default();
        if n == 0 { String::new() } else { duration(n.saturating_mul(factor)) }
    };
    let score_view = |score: &TrialScore| {
        let at = Timestamp::from_micros(0);
        ScoreView::new(&score.name, &score.value, ScoreSource::Eval, at)
            .comment(score.comment.as_deref())
    };
    let error = text("errorClass").map(|class| {
        let message = Text::lines(text("errorMessage").unwrap_or_default());
        let line = result["errorLine"].as_u64().map(|line| line.to_string());
        (Text::from(class), message, line)
    });
    let log: Vec<LogLine> = serde_json::from_value(result["log"].clone()).unwrap_or_default();
    let item = Some(&result["item"]).filter(|item| !item.is_null());
    let (cost, tokens) = of_calls(result);
    TrialRow {
        kind,
        id,
        href,
        scores: scores.iter().map(score_view).collect(),
        error,
        current: current.iter().map(|score| (stored_view(score), is_newest(score))).collect(),
        people: people.iter().map(|score| stored_view(score)).collect(),
        log: log.into_iter().map(Into::into).collect(),
        item: item.map(shortened),
        duration: micros("durationMs", 1_000),
        cpu: micros("cpuMicroseconds", 1),
        cost,
        tokens,
    }
}

/// Cost and tokens of the model calls of a result.
fn of_calls(result: &Value) -> (String, String) {
    let calls = result["modelCalls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() {
        return (String::new(), String::new());
    }
    let cost = result["costUsd"].as_f64().map_or_else(|| "unknown".to_owned(), dollars);
    let sum = |member: &str| calls.iter().filter_map(|call| call[member].as_u64()).sum::<u64>();
    let origin = match calls.iter().all(|call| call["fromCache"] == true) {
        true => ", from the cache",
        false => "",
    };
    let (input, output) = (count(sum("inputTokens")), count(sum("outputTokens")));
    (cost, format!("{input} + {output} tokens{origin}"))
}

/// A value as indented JSON.
fn shortened(value: &Value) -> Text {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    match text.char_indices().nth(MAX_ITEM) {
        Some((end, _)) => Text::lines(format!("{}…", &text[..end])),
        None => Text::lines(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_has_the_mean_by_name_and_counts_failures() {
        let results =
            [json!({ "scores": [{ "name": "a", "value": 1.0 }] }), json!({ "scores": [] })];
        let mut totals = Totals { n_calls: 2, ..Totals::default() };
        for result in &results {
            let scores = scores_of(result);
            totals.n_failed += u64::from(scores.is_empty());
            totals.scores.extend(scores);
        }
        let summary = totals.summary(2);
        let lines: Vec<[&str; 2]> =
            summary.iter().map(|(label, text)| [label.raw(), text.raw()]).collect();
        let expected = [
            ["Targets", "2, 1 without a score"],
            ["a", "1"],
            ["Model calls", "2 calls, unknown cost"],
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn numbers_and_boolean_values_are_compared() {
        let [one, half] = [1.0, 0.5].map(ScoreValue::Numeric);
        assert!(is_equal(&one, &ScoreValue::Boolean(true)) && !is_equal(&one, &half));
        assert!(!is_equal(&half, &ScoreValue::Categorical("0.5".to_owned())));
    }

    #[test]
    fn the_target_of_a_result_is_its_most_specific_id() {
        let target = target_of(&json!({ "traceId": "t", "observationId": "o" })).unwrap();
        assert_eq!((target.trace().is_some(), target.observation().is_some()), (true, true));
        assert!(target_of(&json!({ "traceId": null })).is_none());
        assert!(matches!(target_of(&json!({ "sessionId": "s" })), Some(Target::Session(_))));
    }
}

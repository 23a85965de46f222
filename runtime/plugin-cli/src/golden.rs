//! `perpend plugin test`: the scores of items compared with the expected ones.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use perpend_domain::plugin::{CallResult, Failure, FailureClass, PluginScore};
use serde_json::{Value, json};

use crate::error::Error;
use crate::items::{self, Expected, ExpectedScore, Golden};
use crate::project::TESTS;
use crate::report::{self, Report};
use crate::text;
use crate::workbench::{Component, Selection, Workbench};

/// The relative tolerance of the comparison of numbers.
const TOLERANCE: f64 = 1e-9;

impl Workbench<'_> {
    /// Compares the scores of a component with `tests.jsonl`, or with the file `tests`.
    ///
    /// # Errors
    /// When a file is invalid. A failed test is part of the report.
    pub fn test(&self, selection: &Selection, tests: Option<PathBuf>) -> Result<Report, Error> {
        let file = tests.unwrap_or_else(|| selection.folder().join(TESTS));
        let tests = items::goldens(&file)?;
        let component = self.open(&selection.component())?;
        self.progress.step(&format!("running {}", text::pluralized(tests.len(), "test")));
        let mut outcomes = Vec::with_capacity(tests.len());
        for (at, test) in tests.iter().enumerate() {
            outcomes.push(self.differences(&component, test, &file)?);
            self.progress.count(at as u64 + 1, tests.len() as u64);
        }
        self.progress.done();
        Ok(render(&component, &file, &tests, &outcomes))
    }

    /// The differences; empty when the test passes.
    fn differences(
        &self,
        component: &Component,
        test: &Golden,
        file: &Path,
    ) -> Result<Vec<String>, Error> {
        let place = format!("{}:{}", file.display(), test.line);
        let evaluator = component.evaluator(test.evaluator.as_deref());
        let evaluator = evaluator.map_err(|error| Error::Line {
            file: file.display().to_string(),
            line: test.line,
            message: error.to_string(),
        })?;
        let configured = match self.configure(component, evaluator, test.config.clone(), &place) {
            Ok(configured) => configured,
            // A test can expect that its configuration is refused.
            Err(Error::Config { issues, .. })
                if matches!(test.expected, Expected::Error(FailureClass::InvalidConfig, _)) =>
            {
                let failure = Failure { class: FailureClass::InvalidConfig, message: issues };
                return Ok(compare(&test.expected, Err(&failure)));
            }
            Err(other) => return Err(other),
        };
        self.sandbox.script().begin(test.answers.clone());
        let call = self.call(component, &configured, &test.item);
        let result = self.sandbox.evaluate(vec![call], &|_| ()).pop();
        let outcome = result.as_ref().map(|CallResult { outcome, .. }| outcome);
        Ok(match outcome {
            Some(Ok(scores)) => compare(&test.expected, Ok(scores)),
            Some(Err(failure)) => compare(&test.expected, Err(failure)),
            None => vec!["no result".to_owned()],
        })
    }
}

fn render(
    component: &Component,
    file: &Path,
    tests: &[Golden],
    outcomes: &[Vec<String>],
) -> Report {
    let mut text = String::new();
    let mut all = Vec::new();
    for (test, differences) in tests.iter().zip(outcomes) {
        let is_same = differences.is_empty();
        let word = if is_same { "ok    " } else { "FAILED" };
        let name = text::inert(&test.name);
        let _ = writeln!(text, "{word}  {name}");
        for difference in differences {
            let _ = writeln!(text, "          {}", text::inert(difference));
        }
        if !is_same {
            let _ = writeln!(text, "          {}:{}", file.display(), test.line);
        }
        all.push(json!({
            "name": test.name, "line": test.line, "passed": is_same, "differences": differences,
        }));
    }
    let n_failed = outcomes.iter().filter(|found| !found.is_empty()).count();
    let n_passed = outcomes.len() - n_failed;
    let _ = writeln!(text, "\n{}: {n_passed} passed, {n_failed} failed", component.shown_name());
    Report {
        text,
        json: json!({
            "plugin": { "name": component.info.name, "version": component.info.version, "digest": component.digest },
            "tests": all,
            "summary": { "passed": n_passed, "failed": n_failed },
        }),
        is_ok: n_failed == 0 && n_passed > 0,
    }
}

fn compare(expected: &Expected, got: Result<&Vec<PluginScore>, &Failure>) -> Vec<String> {
    match (expected, got) {
        (Expected::Scores(expected), Ok(scores)) => compare_scores(expected, scores),
        (Expected::Scores(_), Err(failure)) => {
            vec![format!("expected scores, got {}: {}", failure.class, failure.message)]
        }
        (Expected::Error(class, message), Err(failure)) => {
            let mut found = Vec::new();
            if failure.class != *class {
                found.push(format!("expected {class}, got {}: {}", failure.class, failure.message));
            } else if let Some(part) = message
                && !failure.message.contains(part.as_str())
            {
                found.push(format!("expected {part:?} in the message, got {:?}", failure.message));
            }
            found
        }
        (Expected::Error(class, _), Ok(scores)) => {
            let names: Vec<&str> = scores.iter().map(|score| score.name.as_str()).collect();
            vec![format!("expected {class}, got the scores {names:?}")]
        }
    }
}

fn compare_scores(expected: &[ExpectedScore], scores: &[PluginScore]) -> Vec<String> {
    let mut found = Vec::new();
    for expected_score in expected {
        let Some(score) = scores.iter().find(|score| score.name == expected_score.name) else {
            found.push(format!(
                "{}: expected {}, got no such score",
                expected_score.name, expected_score.value
            ));
            continue;
        };
        let value = report::value(score);
        if !is_same(&expected_score.value, &value) {
            found.push(format!(
                "{}: expected {}, got {value}",
                expected_score.name, expected_score.value
            ));
        }
        if let Some(comment) = &expected_score.comment
            && score.comment.as_ref() != Some(comment)
        {
            let got = score.comment.as_deref().unwrap_or("none");
            found.push(format!(
                "{}: expected the comment {comment:?}, got {got:?}",
                expected_score.name
            ));
        }
    }
    let surplus = scores
        .iter()
        .filter(|score| expected.iter().all(|expected_score| expected_score.name != score.name));
    found.extend(
        surplus.map(|score| format!("{}: not expected, got {}", score.name, report::value(score))),
    );
    found
}

fn is_same(expected_score: &Value, got: &Value) -> bool {
    match (expected_score.as_f64(), got.as_f64()) {
        (Some(expected_score), Some(got)) => {
            (expected_score - got).abs() <= TOLERANCE * expected_score.abs().max(got.abs()).max(1.0)
        }
        _ => expected_score == got,
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::plugin::PluginScoreValue;

    use super::*;

    fn score(name: &str, value: PluginScoreValue) -> PluginScore {
        PluginScore {
            name: name.to_owned(),
            value,
            observation_id: None,
            comment: Some("why".to_owned()),
            metadata: None,
        }
    }

    fn expected_score(name: &str, value: Value) -> ExpectedScore {
        ExpectedScore { name: name.to_owned(), value, comment: None }
    }

    #[test]
    fn equal_scores_pass_in_any_order_and_numbers_within_the_tolerance() {
        let scores = vec![
            score("b", PluginScoreValue::Numeric(0.1 + 0.2)),
            score("a", PluginScoreValue::Boolean(true)),
        ];
        let expected = [expected_score("a", json!(true)), expected_score("b", json!(0.3))];
        assert_eq!(compare_scores(&expected, &scores), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_named_with_both_sides() {
        let scores = vec![
            score("a", PluginScoreValue::Numeric(1.0)),
            score("more", PluginScoreValue::Categorical("x".to_owned())),
        ];
        let mut commented = expected_score("a", json!(2));
        commented.comment = Some("because".to_owned());
        let found = compare_scores(&[commented, expected_score("gone", json!("y"))], &scores);
        assert_eq!(
            found,
            [
                "a: expected 2, got 1.0",
                "a: expected the comment \"because\", got \"why\"",
                "gone: expected \"y\", got no such score",
                "more: not expected, got \"x\"",
            ]
        );
    }

    #[test]
    fn a_failure_is_compared_by_class_and_a_part_of_its_message() {
        let failure = Failure {
            class: FailureClass::InvalidInput,
            message: "the output is absent".to_owned(),
        };
        let same = Expected::Error(FailureClass::InvalidInput, Some("absent".to_owned()));
        assert_eq!(compare(&same, Err(&failure)), Vec::<String>::new());
        let other = Expected::Error(FailureClass::PluginTrap, None);
        assert_eq!(
            compare(&other, Err(&failure)),
            ["expected plugin_trap, got invalid_input: the output is absent"]
        );
        assert_eq!(compare(&Expected::Scores(Vec::new()), Err(&failure)).len(), 1);
    }
}

//! `perpend plugin run`: the scores of items by one evaluator.

use std::fmt::Write as _;

use perpend_domain::plugin::{CallResult, FailureClass, Item};
use serde_json::{Value, json};

use crate::answers;
use crate::error::Error;
use crate::items;
use crate::report::{self, Report};
use crate::text::{self, Table};
use crate::workbench::{Selection, Workbench, parse_config};

/// The maximum number of log lines in the text output; `--json` has all.
const MAX_LOG_SHOWN: usize = 20;

impl Workbench<'_> {
    /// Scores items with one evaluator.
    ///
    /// # Errors
    /// When the component, the evaluator, the configuration or the items are invalid. A failed item is part of the report.
    pub fn run(&self, selection: &Selection) -> Result<Report, Error> {
        let (config, place) = parse_config(selection.config.as_deref())?;
        let component = self.open(&selection.component())?;
        let items = items::items(&selection.items())?;
        let evaluator = component.evaluator(selection.evaluator.as_deref())?;
        let configured = self.configure(&component, evaluator, config, &place)?;
        let answers = selection.answers.as_deref();
        let answers = answers.map(answers::read).transpose()?;
        let has_answers = answers.is_some();
        self.sandbox.script().begin(answers);
        let results = self.score(&component, &configured, &items);
        let n_scored = results.iter().filter(|result| result.outcome.is_ok()).count();
        let n_skipped = results.iter().filter(|result| is_skipped(result)).count();
        let n_failed = results.len() - n_scored - n_skipped;

        let mut text = table(&items, &results);
        text.push_str(&log(&items, &results));
        let _ = writeln!(
            text,
            "\n{}, {}: {n_scored} scored, {n_skipped} skipped, {n_failed} failed; median {} of CPU time",
            component.shown_name(),
            evaluator.id,
            text::micros(median(&results)),
        );
        if component.info.required(evaluator).model && !has_answers {
            text.push_str(
                "the evaluator requires a model: --answers FILE provides its answers, a text or \
                 {\"structured\": JSON} on each line\n",
            );
        }
        let shown: Vec<Value> = items
            .iter()
            .zip(&results)
            .map(|(item, result)| report::result(&item.id, result))
            .collect();
        let json = json!({
            "plugin": { "name": component.info.name, "version": component.info.version, "digest": component.digest },
            "evaluator": evaluator.id,
            "config": configured.config,
            "results": shown,
            "summary": { "scored": n_scored, "skipped": n_skipped, "failed": n_failed },
        });
        Ok(Report { text, json, is_ok: n_failed == 0 })
    }
}

fn is_skipped(result: &CallResult) -> bool {
    matches!(&result.outcome, Err(failure) if failure.class == FailureClass::NotApplicable)
}

fn table(items: &[Item], results: &[CallResult]) -> String {
    let mut table = Table::new(&["item", "score", "value", "comment"]);
    for (item, result) in items.iter().zip(results) {
        let id = item.id.clone();
        match &result.outcome {
            Ok(scores) if scores.is_empty() => {
                table.row([id, "-".to_owned(), "-".to_owned(), "nothing to report".to_owned()]);
            }
            Ok(scores) => {
                for score in scores {
                    table.row([
                        id.clone(),
                        score.name.clone(),
                        report::shown(&report::value(score)),
                        score.comment.clone().unwrap_or_default(),
                    ]);
                }
            }
            Err(failure) => {
                let class = match failure.class {
                    FailureClass::NotApplicable => "skipped",
                    class => class.as_str(),
                };
                table.row([id, "-".to_owned(), class.to_owned(), failure.message.clone()]);
            }
        }
    }
    table.render()
}

fn log(items: &[Item], results: &[CallResult]) -> String {
    let lines = items.iter().zip(results).flat_map(|(item, result)| {
        let id = text::inert(&item.id);
        result
            .log
            .iter()
            .map(move |line| format!("  {id} {}: {}\n", line.level, text::inert(&line.message)))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return String::new();
    }
    let mut shown =
        format!("\nlog\n{}", lines.iter().take(MAX_LOG_SHOWN).cloned().collect::<String>());
    if MAX_LOG_SHOWN < lines.len() {
        let _ = writeln!(shown, "  and {} more: --json has all", lines.len() - MAX_LOG_SHOWN);
    }
    shown
}

fn median(results: &[CallResult]) -> f64 {
    let mut all: Vec<u64> = results.iter().map(|result| result.cpu_us).collect();
    all.sort_unstable();
    all.get(all.len() / 2).map_or(0.0, |us| *us as f64)
}

//! `perpend judge check`: compares an evaluator with human labels.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use perpend_api_types::judge_check::{
    Agreement, CalibrationStatus, CheckInput, Correlation, EvaluatorCheck, Figure, LabelledItem,
};
use perpend_api_types::score::AnyValue;
use perpend_api_types::trial::TrialItem;
use perpend_plugin_cli::{Remote as _, RemoteResponse};
use serde_json::Value;

use super::plugin_remote::{Access, ServerRemote};

/// Timeout of the check: each item is evaluated several times, and a model call can take a minute.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Characters of a bar.
const BAR_WIDTH: usize = 20;

#[derive(Debug, Args)]
pub(super) struct JudgeArgs {
    #[command(subcommand)]
    command: JudgeCommand,
}

#[derive(Debug, Subcommand)]
enum JudgeCommand {
    /// Compare an evaluator with human scores: agreement, repeatability, planted instructions and cost
    #[command(after_help = "Example:\n  \
        PERPEND_PUBLIC_KEY=pk-... PERPEND_SECRET_KEY=sk-... perpend judge check politeness --against human-politeness")]
    Check {
        /// Id or name of the evaluator
        evaluator: String,
        /// Name of human scores, or a JSON Lines file with the `input`, `output`, `expectedOutput`, `metadata`, `variables` and
        /// `label` of each item
        #[arg(long, value_name = "SCORE|FILE")]
        against: String,
        /// Version of the evaluator [default: the newest]
        #[arg(long)]
        version: Option<u32>,
        /// Name of the score, if the evaluator creates several
        #[arg(long)]
        score: Option<String>,
        /// Evaluations per item, 1 to 5
        #[arg(long, default_value_t = 2)]
        runs: u32,
        /// Maximum number of items, 1 to 200
        #[arg(long, default_value_t = 200)]
        limit: u32,
        /// Do not plant instructions in items
        #[arg(long)]
        no_plants: bool,
        /// Call models again instead of using stored replies to equal requests
        #[arg(long)]
        fresh: bool,
        /// Exit with status 3 if the result is one of these, such as `weak` or `weak,uncalibrated`
        #[arg(long, value_name = "STATUS", value_delimiter = ',')]
        fail_on: Vec<FailOn>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        access: Access,
    },
}

/// A result for `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Weak,
    Uncalibrated,
    Stale,
}

impl FailOn {
    const fn badge(self) -> CalibrationStatus {
        match self {
            Self::Weak => CalibrationStatus::Weak,
            Self::Uncalibrated => CalibrationStatus::Uncalibrated,
            Self::Stale => CalibrationStatus::Stale,
        }
    }
}

/// The exit status for a result in `--fail-on`. 1 is a failure of the command, 2 an invalid argument.
const FAILED_CHECK: u8 = 3;

pub(super) fn judge(args: JudgeArgs) -> anyhow::Result<ExitCode> {
    let JudgeCommand::Check {
        evaluator,
        against,
        version,
        score,
        runs,
        limit,
        no_plants,
        fresh,
        fail_on,
        json,
        access,
    } = args.command;
    let remote = ServerRemote::new(&access, TIMEOUT)?;
    let id = id_of(&remote, &evaluator)?;
    let mut items = items_of(Path::new(&against))?;
    if let Some(items) = &mut items
        && (limit as usize) < items.len()
    {
        let n = items.len();
        eprintln!("{against} has {n} items; evaluating the first {limit}");
        items.truncate(limit as usize);
    }
    let input = CheckInput {
        version,
        against: items.is_none().then_some(against),
        items,
        score,
        variable_mapping: None,
        runs: Some(runs),
        limit: Some(limit),
        plants: Some(!no_plants),
        fresh: Some(fresh),
    };
    let is_terminal = std::io::stderr().is_terminal();
    if is_terminal {
        eprintln!("evaluating each item {runs} times with {evaluator} ...");
    }
    let path = format!("/api/v1/evaluators/{id}/check");
    let body = serde_json::to_vec(&input)?;
    let answer = remote.send("POST", &path, Some(("application/json", body)));
    let answer = succeeded(answer.map_err(anyhow::Error::msg)?)?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{answer:#}")?;
    }
    let check: EvaluatorCheck = serde_json::from_value(answer)?;
    if !json {
        write!(out, "{}", report_text(&check, out.is_terminal()))?;
    }
    Ok(exit_code(check.status, &fail_on))
}

fn exit_code(status: CalibrationStatus, fail_on: &[FailOn]) -> ExitCode {
    match fail_on.iter().any(|one| one.badge() == status) {
        true => ExitCode::from(FAILED_CHECK),
        false => ExitCode::SUCCESS,
    }
}

fn succeeded(answer: RemoteResponse) -> anyhow::Result<Value> {
    if answer.status == 200 {
        return Ok(answer.body);
    }
    // The older paths have `message`.
    let texts = ["detail", "message"].map(|name| answer.body[name].as_str());
    let message = texts.into_iter().flatten().next().unwrap_or_default();
    anyhow::bail!("the server returned {}: {message}", answer.status)
}

/// The id of the evaluator with this id or this unique name.
fn id_of(remote: &ServerRemote, evaluator: &str) -> anyhow::Result<String> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/public/v2/evaluators?limit=100{cursor}");
        let answer = remote.send("GET", &path, None).map_err(anyhow::Error::msg)?;
        let answer = succeeded(answer)?;
        for one in answer["data"].as_array().into_iter().flatten() {
            let id = one["id"].as_str().unwrap_or_default();
            if id == evaluator {
                return Ok(id.to_owned());
            }
            if one["name"] == evaluator {
                found.push(id.to_owned());
            }
        }
        match answer["meta"]["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => anyhow::bail!(
            "unknown evaluator {evaluator:?}; GET /api/public/v2/evaluators lists them"
        ),
        several => anyhow::bail!(
            "{} evaluators are named {evaluator:?}; use an id, such as {}",
            several.len(),
            several[0]
        ),
    }
}

/// The items of a file; absent if `path` is the name of a score.
fn items_of(path: &Path) -> anyhow::Result<Option<Vec<LabelledItem>>> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_meant_as_file = path.is_absolute()
        || path.starts_with(".")
        || path.starts_with("..")
        || extension.is_some_and(|extension| ["json", "jsonl", "ndjson"].contains(&extension));
    if !path.is_file() && !is_meant_as_file {
        return Ok(None);
    }
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut items = Vec::new();
    for (n, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.with_context(|| path.display().to_string())?;
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}, line {}", path.display(), n + 1);
        items.push(item_of(&line).with_context(place)?);
    }
    anyhow::ensure!(!items.is_empty(), "{} has no items", path.display());
    Ok(Some(items))
}

fn item_of(line: &str) -> anyhow::Result<LabelledItem> {
    let mut item: serde_json::Map<String, Value> = serde_json::from_str(line)?;
    let label = item.shift_remove("label").context("`label` is missing")?;
    let label: AnyValue =
        serde_json::from_value(label).context("`label` must be a number, a boolean or a string")?;
    let item: TrialItem = serde_json::from_value(Value::Object(item))?;
    Ok(LabelledItem { item, label })
}

/// The check as text.
fn report_text(check: &EvaluatorCheck, has_colours: bool) -> String {
    let mut page = Page { text: String::new(), has_colours };
    let (word, colour) = match check.status {
        CalibrationStatus::Calibrated => ("calibrated", 32),
        CalibrationStatus::Weak => ("weak", 31),
        CalibrationStatus::Uncalibrated => ("uncalibrated", 33),
        CalibrationStatus::Stale => ("stale", 33),
    };
    let word = page.coloured(colour, word);
    page.line(&word, &check.explanation);
    page.line(
        "compared",
        &format!(
            "{} of {} labels, version {}, {} runs",
            check.pair_count, check.label_count, check.version, check.runs
        ),
    );
    for failures in &check.failures {
        let what = format!("{} x {}: {}", failures.count, failures.class, failures.message);
        page.line("failed", &what);
    }
    if let Some(agreement) = &check.agreement {
        page.agreement(agreement);
    }
    if let Some(correlation) = &check.correlation {
        page.correlation(correlation);
    }
    if let Some(again) = &check.repeatability {
        page.head("Repeatability");
        if let Some(share) = again.equal_share {
            page.share("equal verdicts", share);
        }
        if let Some(spread) = again.spread {
            page.line("spread", &format!("{spread:.3}"));
        }
    }
    if !check.plants.is_empty() {
        page.head("Verdicts changed by planted instructions");
        for plants in &check.plants {
            let share = plants.flipped_count as f64 / (plants.planted_count.max(1)) as f64;
            let mut what = format!("{} of {}", plants.flipped_count, plants.planted_count);
            if 0 < plants.failed_count {
                let _ = write!(what, ", {} failed", plants.failed_count);
            }
            page.share_of(&plants.kind, share, &what);
        }
    }
    page.head("Cost");
    let cost = check.cost_usd.map_or_else(
        || "unknown, because a model has no price".to_owned(),
        |cost| format!("{cost:.6} US dollars"),
    );
    let saved = match 0.0 < check.saved_usd {
        true => format!(", {:.6} saved by stored replies", check.saved_usd),
        false => String::new(),
    };
    page.line("total", &format!("{cost}{saved}, {} calls", check.execution_count));
    if let (Some(median), Some(p95)) = (check.latency_median_ms, check.latency_p95_ms) {
        page.line("latency", &format!("median {median} ms, 95th percentile {p95} ms"));
    }
    page.text
}

struct Page {
    text: String,
    has_colours: bool,
}

impl Page {
    fn coloured(&self, colour: u8, text: &str) -> String {
        match self.has_colours {
            true => format!("\x1b[{colour}m{text:<24}\x1b[0m"),
            false => format!("{text:<24}"),
        }
    }

    fn agreement(&mut self, agreement: &Agreement) {
        self.head("Agreement");
        self.figure("agreement", agreement.agreement);
        self.share(&format!("always {:?}", agreement.constant_label), agreement.constant_agreement);
        self.figure("Cohen's kappa", agreement.kappa);
        self.line("macro F1", &format!("{:.2}", agreement.macro_f1));
        self.text.push('\n');
        for (label, row) in agreement.labels.iter().zip(&agreement.confusion) {
            let row: Vec<String> = row.iter().map(|n| format!("{n:>5}")).collect();
            let what = format!(
                "{}   labels {:>4}, verdicts {:>4}, precision {:.2}, recall {:.2}",
                row.join(" "),
                label.reference_count,
                label.judge_count,
                label.precision,
                label.recall
            );
            self.line(&label.label, &what);
        }
    }

    fn correlation(&mut self, correlation: &Correlation) {
        self.head("Correlation");
        self.figure("Spearman's rho", correlation.spearman);
        self.line(
            "mean error",
            &format!(
                "{:.3}; {:.3} for a constant value of {:.3}",
                correlation.mae, correlation.constant_mae, correlation.constant_value
            ),
        );
        self.line("bias", &format!("{:+.3}", correlation.bias));
    }

    fn head(&mut self, text: &str) {
        let head = match self.has_colours {
            true => format!("\x1b[1m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let _ = writeln!(self.text, "\n{head}");
    }

    fn line(&mut self, name: &str, what: &str) {
        let _ = writeln!(self.text, "{name:<24} {what}");
    }

    fn figure(&mut self, name: &str, figure: Figure) {
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let what = format!(
            "{} ({} to {})",
            number(figure.value),
            number(figure.lower),
            number(figure.upper)
        );
        self.line(name, &what);
    }

    fn share(&mut self, name: &str, share: f64) {
        self.share_of(name, share, &format!("{:.0} %", share * 100.0));
    }

    fn share_of(&mut self, name: &str, share: f64, what: &str) {
        let n = (share.clamp(0.0, 1.0) * BAR_WIDTH as f64).round() as usize;
        let bar = format!("{}{}", "█".repeat(n), "░".repeat(BAR_WIDTH - n));
        self.line(name, &format!("{bar} {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_item_with_its_label() {
        let item = item_of(r#"{"input": "q", "output": {"a": 1}, "label": true}"#).unwrap();
        assert_eq!(item.label, AnyValue::Boolean(true));
        assert_eq!(item.item.output, Some(serde_json::json!({ "a": 1 })));
    }

    #[test]
    fn a_missing_label_and_an_unknown_member_are_errors() {
        let error = |line| format!("{:#}", item_of(line).unwrap_err());
        assert!(error(r#"{"output": "a"}"#).contains("`label` is missing"));
        assert!(error(r#"{"output": "a", "label": [1]}"#).contains("must be a number"));
        assert!(error(r#"{"output": "a", "label": 1, "colour": 2}"#).contains("colour"));
    }
}

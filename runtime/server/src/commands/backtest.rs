//! `perpend backtest`: runs a version of an evaluator on stored targets and compares it with the live scores.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use perpend_api_types::backtest::{
    AdoptedBacktest, Backtest, BacktestCalls, BacktestEstimate, BacktestFlip, NewBacktest,
};
use perpend_api_types::filter::Conditions;
use perpend_api_types::list::CursorList;
use perpend_api_types::score::AnyValue;
use perpend_domain::backfill::BackfillState;
use perpend_domain::backtest::{BacktestReason, BacktestScore, IntervalEstimate};
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Clock as _;
use perpend_experiments::report::encoded;
use perpend_plugin_cli::Remote as _;
use serde_json::Map;

use super::backfill::{FAILED, OVER_BUDGET, TIMEOUT, UNUSABLE, id_of, time};
use super::common::printable;
use super::experiments_remote::{get, project, succeeded};
use super::plugin_remote::{Access, ServerRemote};
use super::wait::wait_for;
use crate::SystemClock;

/// Steps of the bar.
const BAR: u64 = 1_000;
/// Flips that are printed.
const N_FLIPS: u32 = 10;
/// Segments of a score that are printed.
const N_SEGMENTS: usize = 12;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perpend backtest max-length --from 7d --config '{\"max_chars\": 400}'\n  \
    perpend backtest helpful --from 7d --version 3 --dry-run\n  \
    perpend backtest helpful --from 7d --model openai/gpt-4o-mini --max-usd 2 --adopt-if 0.95\n\n\
    Exit status: 0 completed, 1 paused, cancelled, failed or not adopted, 3 arguments or connection, 4 --max-usd reached")]
pub(super) struct BacktestArgs {
    /// Id or name of the evaluator
    evaluator: String,
    /// Test this saved version [default: the newest]
    #[arg(long = "version", value_name = "N")]
    number: Option<u32>,
    /// Test with this configuration, a JSON object
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// Test with this model, as CONNECTION/MODEL
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Id or name of a rule that supplies targets and mapping, and whose scores are the baseline
    #[arg(long)]
    rule: Option<String>,
    /// Kind of the targets without --rule: observation, experiment, trace or session [default: observation]
    #[arg(long, value_name = "KIND", conflicts_with = "rule")]
    target: Option<String>,
    /// Evaluate targets that started at or after this time: a time, a date (UTC), or a span before now like 12h or 7d
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Evaluate targets that started before this time [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Conditions on the targets, as a JSON array
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// Evaluate at most this number of targets, the newest first
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Spend at most this amount on model calls, in US dollars
    #[arg(long, value_name = "USD")]
    max_usd: Option<f64>,
    /// Call models again instead of using cached replies
    #[arg(long)]
    fresh: bool,
    /// Make the tested version the newest one if the share of equal values of each score is at least this; failed and
    /// skipped targets and scores of one side only count as different
    #[arg(long, value_name = "SHARE", conflicts_with = "no_wait")]
    adopt_if: Option<f64>,
    /// Estimate targets, cost and time only
    #[arg(long, conflicts_with = "adopt_if")]
    dry_run: bool,
    /// Do not wait for the end
    #[arg(long, conflicts_with = "dry_run")]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(super) fn backtest(args: &BacktestArgs) -> anyhow::Result<ExitCode> {
    match run(args) {
        Ok(code) => Ok(code),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

/// The body of the request.
fn body(args: &BacktestArgs, remote: &ServerRemote) -> anyhow::Result<NewBacktest> {
    let now = SystemClock.now();
    let from = time(&args.from, now).context("--from is invalid")?;
    let to = args.to.as_deref().map(|to| time(to, now).context("--to is invalid"));
    let config = args.config.as_deref().map(serde_json::from_str).transpose();
    let filter = args.filter.as_deref().map(serde_json::from_str).transpose();
    let filter = filter.context("--filter must be a JSON array of conditions")?;
    let rule = args
        .rule
        .as_deref()
        .map(|rule| id_of(remote, ("/api/public/v2/evaluation-rules", "rule"), rule));
    Ok(NewBacktest {
        evaluator_id: id_of(remote, ("/api/public/v2/evaluators", "evaluator"), &args.evaluator)?,
        version: args.number,
        config: config.context("--config must be a JSON object")?,
        model: args.model.as_deref().map(model).transpose()?,
        definition: None,
        rule_id: rule.transpose()?,
        target: args.target.clone(),
        from: Some(from),
        to: to.transpose()?,
        filter: Conditions(filter.unwrap_or_default()),
        variable_mapping: None,
        on_missing: None,
        fresh: args.fresh.then_some(true),
        max_items: args.limit,
        max_usd: args.max_usd,
    })
}

fn model(text: &str) -> anyhow::Result<ModelChoice> {
    let Some((provider, model)) = text.split_once('/') else {
        anyhow::bail!("--model must have the form CONNECTION/MODEL, got `{text}`");
    };
    Ok(ModelChoice { provider: provider.to_owned(), model: model.to_owned(), params: Map::new() })
}

fn run(args: &BacktestArgs) -> anyhow::Result<ExitCode> {
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    if let Some(share) = args.adopt_if.filter(|share| !is_share(*share)) {
        anyhow::bail!("--adopt-if must be between 0 and 1, got {share}");
    }
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let body = serde_json::to_vec(&body(args, &remote)?)?;
    let path = match args.dry_run {
        true => "/api/v1/backtests/estimate",
        false => "/api/v1/backtests",
    };
    let answer = remote.send("POST", path, Some(("application/json", body)));
    let started = succeeded(answer.map_err(anyhow::Error::msg)?)?;
    if args.dry_run {
        let mut out = std::io::stdout().lock();
        match args.json {
            true => writeln!(out, "{started:#}")?,
            false => write!(out, "{}", estimate_text(&serde_json::from_value(started)?))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let started: Backtest = serde_json::from_value(started)?;
    let found = match args.no_wait {
        true => started,
        false => wait(&remote, &started.id)?,
    };
    let least = args.adopt_if.filter(|_| found.state == BackfillState::Completed);
    let adopts = least.is_some_and(|least| is_adoptable(&found, least));
    let adopted = if adopts { Some(adopt(&remote, &found.id)?) } else { None };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?,
        false => {
            let path = format!("/api/v1/backtests/{}/flips?limit={N_FLIPS}", encoded(&found.id));
            let flips: CursorList<BacktestFlip> = serde_json::from_value(get(&remote, &path)?)?;
            let mut text = result_text(&found, &flips.data);
            if let Some(project) = project(&remote) {
                let address = remote.address();
                let _ = writeln!(text, "{address}/project/{project}/backtests/{}", found.id);
            }
            if let Some(adopted) = &adopted {
                text.push_str(&adopted_text(adopted));
            }
            write!(out, "{}", printable(&text))?;
        }
    }
    Ok(exit_code(&found, args.adopt_if.is_some() && adopted.is_none()))
}

fn estimate_text(estimate: &BacktestEstimate) -> String {
    let cost = estimate.cost_usd.map_or("unknown".to_owned(), |usd| format!("${usd:.4}"));
    let seconds = estimate.seconds.map_or("unknown".to_owned(), |s| format!("{s:.0} s"));
    let about = if estimate.is_whole { "" } else { "about " };
    format!(
        "{about}{} targets to evaluate, {} without a live score, {} are refused\ncost {cost}, time {seconds}\n",
        estimate.item_count, estimate.unscored_count, estimate.refused_count
    )
}

/// Waits until the backtest does not run any more.
fn wait(remote: &ServerRemote, id: &str) -> anyhow::Result<Backtest> {
    let path = format!("/api/v1/backtests/{}", encoded(id));
    let read = || -> anyhow::Result<Backtest> { Ok(serde_json::from_value(get(remote, &path)?)?) };
    wait_for("{bar:40} {percent}% {msg}", read, |bar, found| {
        bar.set_length(BAR);
        bar.set_position((found.examined_share.unwrap_or_default() * BAR as f64) as u64);
        bar.set_message(counts_text(found));
        found.state != BackfillState::Running
    })
}

/// Whether each score has at least this share of equal values. Failed and skipped targets and unpaired scores count as
/// different.
fn is_adoptable(found: &Backtest, least: f64) -> bool {
    let scores = found.scores.as_deref().unwrap_or_default();
    let n_without = found.failed_count + found.skipped_count + found.unpaired_count;
    let share =
        |score: &BacktestScore| equal_share((score.pair_count, score.flip_count), n_without);
    !scores.is_empty() && scores.iter().all(|score| least <= share(score))
}

/// The share of equal values among pairs and targets or scores without a pair.
fn equal_share((n_pairs, n_flips): (u64, u64), n_without: u64) -> f64 {
    match n_pairs + n_without {
        0 => 0.0,
        n => n_pairs.saturating_sub(n_flips) as f64 / n as f64,
    }
}

fn adopt(remote: &ServerRemote, id: &str) -> anyhow::Result<AdoptedBacktest> {
    let path = format!("/api/v1/backtests/{}/adopt", encoded(id));
    let body = Some(("application/json", b"{}".to_vec()));
    let answer = remote.send("POST", &path, body).map_err(anyhow::Error::msg)?;
    Ok(serde_json::from_value(succeeded(answer)?)?)
}

fn adopted_text(adopted: &AdoptedBacktest) -> String {
    let rules: Vec<&str> = adopted.rules.iter().map(|rule| rule.name.as_str()).collect();
    match rules.as_slice() {
        [] => format!("Version {} is current. No rule uses the newest version.\n", adopted.version),
        rules => format!("Version {} is current, for: {}\n", adopted.version, rules.join(", ")),
    }
}

fn counts_text(found: &Backtest) -> String {
    format!(
        "{} examined, {} evaluated, {} without a live score, {} failed, ${:.4}",
        found.examined_count,
        found.item_count,
        found.unscored_count,
        found.failed_count,
        found.cost_usd
    )
}

/// A share in percent with its interval.
fn share_text(share: &IntervalEstimate) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    match share.lower.zip(share.upper) {
        Some((lower, upper)) => {
            format!("{} % ({} to {})", percent(share.value), percent(lower), percent(upper))
        }
        None => format!("{} %", percent(share.value)),
    }
}

fn score_text(text: &mut String, score: &BacktestScore) {
    let _ = write!(
        text,
        "  {:<32} {:>8} {:>8}  {:<26}",
        score.name,
        score.pair_count,
        score.flip_count,
        share_text(&score.agreement)
    );
    if let Some(kappa) = score.kappa {
        let _ = write!(text, " kappa {kappa:.3}");
    }
    if let Some(difference) = score.mean_difference {
        let _ = write!(text, " difference {:+.4}", difference.value);
        if let Some((lower, upper)) = difference.lower.zip(difference.upper) {
            let _ = write!(text, " ({lower:+.4} to {upper:+.4})");
        }
    }
    if let Some(pearson) = score.pearson {
        let _ = write!(text, " Pearson {pearson:.3}");
    }
    text.push('\n');
    for segment in score.segments.iter().take(N_SEGMENTS) {
        let value = segment.value.as_deref().unwrap_or("none");
        let _ = writeln!(
            text,
            "    {:<30} {:>8} {:>8}  {}",
            format!("{} {value}", segment.by),
            segment.pair_count,
            segment.flip_count,
            share_text(&segment.agreement)
        );
    }
}

fn value_text(value: &AnyValue) -> String {
    match value {
        AnyValue::Boolean(truth) => truth.to_string(),
        AnyValue::Number(number) => number.to_string(),
        AnyValue::Text(text) => text.clone(),
    }
}

fn calls_text(side: &str, calls: &BacktestCalls) -> String {
    let cost = calls.cost_per_target_usd.map_or("-".to_owned(), |usd| format!("${usd:.6}"));
    let time = calls.mean_latency_ms.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
    format!(
        "  {side:<8} {} model calls, {cost} for each target, {time} for each call\n",
        calls.call_count
    )
}

fn result_text(found: &Backtest, flips: &[BacktestFlip]) -> String {
    let reason = found.reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let tested = match found.tested.number {
        Some(number) => format!("version {number}"),
        None => "a draft".to_owned(),
    };
    let mut text = format!(
        "{tested} of {}: {}{reason}\n  {}\n",
        found.evaluator_name,
        found.state,
        counts_text(found)
    );
    for failure in &found.failures {
        let _ = writeln!(text, "  {} x {}: {}", failure.count, failure.class, failure.message);
    }
    let scores = found.scores.as_deref().unwrap_or_default();
    if !scores.is_empty() {
        let _ = writeln!(text, "  {:<32} {:>8} {:>8}  agreement", "score", "pairs", "flips");
    }
    for score in scores {
        score_text(&mut text, score);
    }
    if 0 < found.before.call_count + found.after.call_count {
        text.push_str(&calls_text("live", &found.before));
        text.push_str(&calls_text("tested", &found.after));
    }
    for flip in flips {
        let trace = flip.trace_id.as_ref().map(|id| id.as_str());
        let session = flip.session_id.as_ref().map(|id| id.as_str());
        let observation = flip.observation_id.as_ref().map_or("", |id| id.as_str());
        let _ = writeln!(
            text,
            "  flip {} {} -> {} {} {observation}",
            flip.name,
            value_text(&flip.live.value),
            value_text(&flip.tested.value),
            trace.or(session).unwrap_or_default()
        );
    }
    text
}

fn exit_code(found: &Backtest, is_refused: bool) -> ExitCode {
    match (found.state, found.reason) {
        (BackfillState::Completed, Some(BacktestReason::MaxUsd)) => ExitCode::from(OVER_BUDGET),
        (BackfillState::Running | BackfillState::Completed, _) if !is_refused => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_a_connection_and_a_name_that_may_have_slashes() {
        let found = model("router/meta/llama-3").unwrap();
        assert_eq!((found.provider.as_str(), found.model.as_str()), ("router", "meta/llama-3"));
        assert!(model("gpt-4o").is_err());
    }

    #[test]
    fn targets_without_a_pair_count_as_different() {
        let is_share = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        assert!(is_share(equal_share((100, 5), 0), 0.95));
        assert!(is_share(equal_share((100, 0), 100), 0.5));
        assert!(is_share(equal_share((0, 0), 0), 0.0));
    }

    #[test]
    fn a_share_is_printed_with_its_interval() {
        let share = IntervalEstimate { value: 0.95, lower: Some(0.91), upper: Some(0.975) };
        assert_eq!(share_text(&share), "95.0 % (91.0 to 97.5)");
    }
}

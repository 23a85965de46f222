//! `perpend backfill`: applies a rule to stored targets and waits for the scores.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use perpend_api_types::backfill::{Backfill, BackfillEstimate, NewBackfill};
use perpend_api_types::filter::Conditions;
use perpend_domain::backfill::{BackfillMode, BackfillReason, BackfillState};
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_experiments::report::encoded;
use perpend_plugin_cli::Remote as _;

use super::common::printable;
use super::experiments_remote::{get, project, succeeded};
use super::plugin_remote::{Access, ServerRemote};
use super::wait::wait_for;
use crate::SystemClock;

/// Timeout of a request: an estimate examines up to 10,000 targets.
pub(super) const TIMEOUT: Duration = Duration::from_secs(180);
/// Steps of the bar.
const BAR: u64 = 1_000;
/// Exit status of a backfill that was paused, cancelled or failed.
pub(super) const FAILED: u8 = 1;
/// Exit status for arguments or a connection that cannot be used.
pub(super) const UNUSABLE: u8 = 3;
/// Exit status of a backfill that reached `--max-usd`.
pub(super) const OVER_BUDGET: u8 = 4;

/// The targets that are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Those without a result of the evaluator version that the rule uses
    Fill,
    /// All; earlier scores of the rule are superseded
    Rescore,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    perpend backfill helpful --from 7d --dry-run\n  \
    perpend backfill helpful --from 2026-11-01 --to 2026-11-08 --mode rescore --max-usd 5\n\n\
    Exit status: 0 completed, 1 paused, cancelled or failed, 3 arguments or connection, 4 --max-usd reached")]
pub(super) struct BackfillArgs {
    /// Id or name of the rule
    rule: String,
    /// Evaluate targets that started at or after this time: a time, a date (UTC), or a span before now like 12h or 7d
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Evaluate targets that started before this time [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// The targets to evaluate
    #[arg(long, value_enum, default_value = "fill")]
    mode: Mode,
    /// Conditions in addition to those of the rule, as a JSON array
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// Evaluate at most this number of targets, the newest first
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Spend at most this amount on model calls, in US dollars
    #[arg(long, value_name = "USD")]
    max_usd: Option<f64>,
    /// Estimate targets, cost and time only
    #[arg(long)]
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

pub(super) fn backfill(args: &BackfillArgs) -> anyhow::Result<ExitCode> {
    match run(args) {
        Ok(code) => Ok(code),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

fn run(args: &BackfillArgs) -> anyhow::Result<ExitCode> {
    let now = SystemClock.now();
    let from = time(&args.from, now).context("--from is invalid")?;
    let to = args.to.as_deref().map(|to| time(to, now).context("--to is invalid"));
    let to = to.transpose()?;
    let filter = args.filter.as_deref().map(serde_json::from_str).transpose();
    let filter = filter.context("--filter must be a JSON array of conditions")?;
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let mode = match args.mode {
        Mode::Fill => BackfillMode::Fill,
        Mode::Rescore => BackfillMode::Rescore,
    };
    let new = NewBackfill {
        rule_id: id_of(&remote, ("/api/public/v2/evaluation-rules", "rule"), &args.rule)?,
        mode: Some(mode.as_str().to_owned()),
        from,
        to,
        filter: Conditions(filter.unwrap_or_default()),
        max_items: args.limit,
        max_usd: args.max_usd,
    };
    let body = serde_json::to_vec(&new)?;
    let path = match args.dry_run {
        true => "/api/v1/backfills/estimate",
        false => "/api/v1/backfills",
    };
    let answer = remote.send("POST", path, Some(("application/json", body)));
    let answer = succeeded(answer.map_err(anyhow::Error::msg)?)?;
    let mut out = std::io::stdout().lock();
    if args.dry_run {
        match args.json {
            true => writeln!(out, "{answer:#}")?,
            false => write!(out, "{}", estimate_text(&serde_json::from_value(answer)?))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let started: Backfill = serde_json::from_value(answer)?;
    let found = match args.no_wait {
        true => started,
        false => wait(&remote, &started.id)?,
    };
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?,
        false => {
            let project = project(&remote);
            let text = status_text(&found, remote.address(), project.as_deref());
            write!(out, "{}", printable(&text))?;
        }
    }
    Ok(exit_code(&found))
}

/// A time, a date, or a span before now.
pub(super) fn time(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    const MS: [(char, i64); 4] =
        [('m', 60_000), ('h', 3_600_000), ('d', 86_400_000), ('w', 604_800_000)];
    let span = MS.iter().find_map(|(unit, ms)| {
        let n: i64 = text.strip_suffix(*unit)?.parse().ok()?;
        n.checked_mul(*ms).filter(|_| 0 <= n)
    });
    if let Some(ms) = span {
        return Ok(now.plus_millis(-ms));
    }
    let is_date = !text.contains(['T', 't', ' ']);
    let full = if is_date { format!("{text}T00:00:00Z") } else { text.to_owned() };
    Timestamp::parse(&full).map_err(|_| {
        anyhow::anyhow!(
            "must be a time like 2026-11-01T12:00:00Z, a date, or a span like 7d; got `{text}`"
        )
    })
}

/// The id of the resource with this id, or else of the only one with this name, of a list and a kind.
pub(super) fn id_of(
    remote: &ServerRemote,
    (list, kind): (&str, &str),
    reference: &str,
) -> anyhow::Result<String> {
    let one = format!("{list}/{}", encoded(reference));
    let answer = remote.send("GET", &one, None).map_err(anyhow::Error::msg)?;
    if answer.status != 404 {
        return Ok(succeeded(answer)?["id"].as_str().unwrap_or(reference).to_owned());
    }
    let mut found: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("{list}?limit=100{cursor}");
        let page = get(remote, &path)?;
        let all = page["data"].as_array().into_iter().flatten();
        let named = all.filter(|each| each["name"] == reference);
        found.extend(named.filter_map(|each| each["id"].as_str()).map(str::to_owned));
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => break,
        }
    }
    match found.as_slice() {
        [] => anyhow::bail!("unknown {kind} `{reference}`"),
        [id] => Ok(id.clone()),
        ids => anyhow::bail!(
            "several {kind}s have the name `{reference}`: use an id: {}",
            ids.join(", ")
        ),
    }
}

/// Waits until the backfill is neither running nor has open executions.
fn wait(remote: &ServerRemote, id: &str) -> anyhow::Result<Backfill> {
    let path = format!("/api/v1/backfills/{}", encoded(id));
    let read = || -> anyhow::Result<Backfill> { Ok(serde_json::from_value(get(remote, &path)?)?) };
    wait_for("{bar:40} {percent}% {msg}", read, |bar, found| {
        bar.set_length(BAR);
        bar.set_position(position(found));
        bar.set_message(counts_text(found));
        match found.state {
            BackfillState::Running => false,
            BackfillState::Paused => true,
            _ => found.open_count == 0,
        }
    })
}

/// The examined share of the range, without the part whose executions are open.
fn position(found: &Backfill) -> u64 {
    let ended = match found.execution_count {
        0 => 1.0,
        n => (n - found.open_count.min(n)) as f64 / n as f64,
    };
    (found.examined_share.unwrap_or_default() * ended * BAR as f64) as u64
}

fn counts_text(found: &Backfill) -> String {
    format!(
        "{} examined, {} evaluated, {} open, {} failed, ${:.4}",
        found.examined_count,
        found.item_count,
        found.open_count,
        found.failed_count,
        found.cost_usd
    )
}

fn estimate_text(estimate: &BackfillEstimate) -> String {
    let cost = estimate.cost_usd.map_or("unknown".to_owned(), |usd| format!("${usd:.4}"));
    let seconds = estimate.seconds.map_or("unknown".to_owned(), |s| format!("{s:.0} s"));
    let about = if estimate.is_whole { "" } else { "about " };
    format!(
        "{about}{} targets to evaluate, {} have a result, {} are refused\n{about}{} executions, cost {cost}, time {seconds}\n",
        estimate.item_count,
        estimate.present_count,
        estimate.refused_count,
        estimate.execution_count
    )
}

fn status_text(found: &Backfill, address: &str, project: Option<&str>) -> String {
    let reason = found.reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let mut text = format!(
        "{} of the rule {}: {}{reason}\n  {}\n",
        found.mode,
        found.rule_name,
        found.state,
        counts_text(found)
    );
    text.push_str(&format!(
        "  {} have a result, {} are refused, {} were left out\n",
        found.present_count, found.refused_count, found.left_out_count
    ));
    if let Some(project) = project {
        text.push_str(&format!("  {address}/project/{project}/backfills/{}\n", found.id));
    }
    text
}

fn exit_code(found: &Backfill) -> ExitCode {
    match (found.state, found.reason) {
        (BackfillState::Completed, Some(BackfillReason::MaxUsd)) => ExitCode::from(OVER_BUDGET),
        (BackfillState::Running | BackfillState::Completed, _) => ExitCode::SUCCESS,
        (BackfillState::Paused | BackfillState::Cancelled | BackfillState::Failed, _) => {
            ExitCode::from(FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_a_date_or_a_span_before_now() {
        let now = Timestamp::parse("2026-11-08T12:00:00Z").unwrap();
        for (text, expected) in [
            ("2026-11-01T12:00:00Z", "2026-11-01T12:00:00Z"),
            ("2026-11-01", "2026-11-01T00:00:00Z"),
            ("7d", "2026-11-01T12:00:00Z"),
            ("90m", "2026-11-08T10:30:00Z"),
        ] {
            let expected = Timestamp::parse(expected).unwrap();
            assert_eq!(time(text, now).unwrap(), expected, "{text}");
        }
        for text in ["", "d", "yesterday", "-7d", "9223372036854775807w"] {
            assert!(time(text, now).is_err(), "{text}");
        }
    }
}

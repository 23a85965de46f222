//! Measures the release build and prints a table: `cargo xtask bench`.
//!
//! Machines differ and are shared: medians over rounds, and ratios against a floor that is measured
//! in the same run. Nothing here is a test.

mod floor;
mod http;
mod load;
mod report;
mod scenario;
mod server;
mod spans;
mod subprocess;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Measures the release build")]
struct Args {
    /// Only these scenarios; all when none is named.
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// The same, one for each flag.
    #[arg(long, value_enum)]
    only: Vec<Scenario>,
    /// Rounds of each scenario; the medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Spans of the growth scenario.
    #[arg(long, default_value_t = 1_000_000)]
    growth_spans: u64,
    /// Spans of one ingest round.
    #[arg(long, default_value_t = 200_000)]
    ingest_spans: u64,
    /// Calls of one evaluate round.
    #[arg(long, default_value_t = 100_000)]
    evaluate_calls: u64,
    /// Spans of the end-to-end scenario.
    #[arg(long, default_value_t = 100_000)]
    end_to_end_spans: u64,
    /// Observations of the backfill scenario.
    #[arg(long, default_value_t = 1_000_000)]
    backfill_observations: u64,
    /// Observations of the scenarios queries and pages; a database of that size is kept below `target/` for the
    /// next run.
    #[arg(long, default_value_t = 1_000_000)]
    query_observations: u64,
    /// Also write the figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    Ingest,
    Growth,
    Evaluate,
    Guests,
    Lanes,
    Judges,
    Experiment,
    Compare,
    Import,
    Backfill,
    EndToEnd,
    Idle,
    Queries,
    Pages,
}

/// The middle of the values; 0 when there are none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() -> anyhow::Result<ExitCode> {
    // Workers and compilers are this program once more: what runs in them is the host, as in the server.
    match std::env::args().nth(1).as_deref() {
        Some("worker") => return Ok(perpend_sandbox::worker_main()),
        Some("compile") => return Ok(perpend_sandbox::compile_main()),
        Some("check") => return Ok(perpend_sandbox::check_main()),
        _ => {}
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(measure(Args::parse()))
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
async fn measure(args: Args) -> anyhow::Result<ExitCode> {
    let mut figures = Vec::new();
    let chosen = [args.scenarios, args.only].concat();
    for scenario in Scenario::value_variants() {
        if !chosen.is_empty() && !chosen.contains(scenario) {
            continue;
        }
        eprintln!("{scenario:?} ...");
        figures.extend(match scenario {
            Scenario::Ingest => scenario::ingest::measure(args.rounds, args.ingest_spans).await?,
            Scenario::Growth => scenario::growth::measure(args.rounds, args.growth_spans).await?,
            Scenario::Evaluate => {
                scenario::evaluate::measure(args.rounds, args.evaluate_calls).await?
            }
            Scenario::Guests => scenario::guests::measure(args.rounds, args.evaluate_calls).await?,
            Scenario::Lanes => scenario::lanes::measure().await?,
            Scenario::Judges => scenario::judges::measure().await?,
            Scenario::Experiment => scenario::experiment::measure().await?,
            Scenario::Compare => scenario::compare::measure().await?,
            Scenario::Import => scenario::imports::measure().await?,
            Scenario::Backfill => scenario::backfill::measure(args.backfill_observations).await?,
            Scenario::EndToEnd => scenario::end_to_end::measure(args.end_to_end_spans).await?,
            Scenario::Idle => scenario::idle::measure(args.rounds).await?,
            Scenario::Queries => scenario::queries::measure(args.query_observations).await?,
            Scenario::Pages => scenario::pages::measure(args.query_observations).await?,
        });
    }
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{:#}\n", report::to_json(&figures)))?;
    }
    println!("{}", report::table(&figures));
    Ok(ExitCode::SUCCESS)
}

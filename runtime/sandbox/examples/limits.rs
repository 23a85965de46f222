//! Prints a table with a guest per limit of a call: its result, its duration, and the slowest call of a neighbour in the same
//! host.
//!
//! `cargo run --release -p perpend-sandbox --example limits`
#![expect(clippy::unwrap_used, reason = "an example ends with what went wrong")]

#[path = "../tests/hostile/cases.rs"]
mod cases;
#[path = "../tests/hostile/guest.rs"]
mod guest;
#[path = "../tests/hostile/neighbours.rs"]
mod neighbours;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use cases::{Case, cases};
use guest::Guest;
use neighbours::{Outcome, plugin, run_with_neighbour};
use perpend_sandbox::{Host, Settings};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    print(
        "| guest | limit | result | duration | time over the limit | slowest call of the neighbour |",
    );
    print("| --- | --- | --- | --- | --- | --- |");
    for case in cases() {
        let hostile = plugin(&host, folder.path(), &case.guest.bytes());
        let outcome = runtime.block_on(run_with_neighbour(&host, &good, hostile, &case));
        print(&row(&case, &outcome));
    }
}

fn row(case: &Case, outcome: &Outcome) -> String {
    let result = match &outcome.result.outcome {
        Ok(_) => "success".to_owned(),
        Err(failure) => format!("`{}`", failure.class),
    };
    let limit_ms = match case.limit {
        "CPU time" => Some(case.limits.cpu_ms),
        "wall-clock time" => Some(case.limits.wall_ms),
        _ => None,
    };
    let over = limit_ms.map_or("-".to_owned(), |ms| {
        millis(outcome.elapsed.saturating_sub(Duration::from_millis(ms.into())))
    });
    format!(
        "| {} | {} | {result} | {} | {over} | {} of {} |",
        case.name,
        case.limit,
        millis(outcome.elapsed),
        millis(outcome.slowest_neighbour_call),
        outcome.n_neighbour_calls,
    )
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn print(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

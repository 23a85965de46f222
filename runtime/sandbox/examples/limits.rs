//! The limits of one call as a table: for each a guest that goes over it, what it ends as, when, and how
//! a neighbour in the same host fared meanwhile.
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
use neighbours::{Seen, beside_a_neighbour, plugin};
use perpend_sandbox::{Host, Settings};

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    say("| a guest with | limit | ends as | after | over the limit | neighbour's slowest call |");
    say("| --- | --- | --- | --- | --- | --- |");
    for case in cases() {
        let hostile = plugin(&host, folder.path(), &case.guest.bytes());
        let seen = runtime.block_on(beside_a_neighbour(&host, &good, hostile, &case));
        say(&row(&case, &seen));
    }
}

fn row(case: &Case, seen: &Seen) -> String {
    let ended = match &seen.result.outcome {
        Ok(_) => "an answer".to_owned(),
        Err(failure) => format!("`{}`", failure.class),
    };
    let met_after = match case.limit {
        "CPU time" => Some(case.limits.cpu_ms),
        "wall-clock time" => Some(case.limits.wall_ms),
        _ => None,
    };
    let over = met_after.map_or("-".to_owned(), |ms| {
        millis(seen.took.saturating_sub(Duration::from_millis(ms.into())))
    });
    format!(
        "| {} | {} | {ended} | {} | {over} | {} of {} |",
        case.does,
        case.limit,
        millis(seen.took),
        millis(seen.slowest_neighbour),
        seen.n_neighbours,
    )
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

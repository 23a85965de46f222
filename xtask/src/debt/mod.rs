//! What is still to be put right, counted: `cargo xtask debt` prints the counters, and the gate refuses a
//! rise. A counter that fell is written down, so that it cannot rise again.

mod circles;
mod contract;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::shell::{self, coloured};

/// Where the counters stand that were reached.
const REACHED: &str = "xtask/debt.json";

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Each place that a counter counts; with a name, those of that counter.
    #[arg(long, value_name = "COUNTER", num_args = 0..=1, default_missing_value = "")]
    show: Option<String>,
    /// Write down counters that fell.
    #[arg(long)]
    write: bool,
    /// Print the counters as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// One counter: what it counts, and each place.
struct Counter {
    name: &'static str,
    about: &'static str,
    places: Vec<String>,
}

fn counters() -> anyhow::Result<Vec<Counter>> {
    let document: Value =
        serde_json::from_str(&std::fs::read_to_string(shell::root().join("docs/openapi.json"))?)?;
    let files = source::read()?;
    Ok(vec![
        Counter {
            name: "bare answers",
            about: "2xx bodies that the OpenAPI document gives no members",
            places: contract::bare_answers(&document),
        },
        Counter {
            name: "nameless operations",
            about: "operations without an operationId",
            places: contract::nameless(&document),
        },
        Counter {
            name: "circles",
            about: "groups of files of one crate that need each other",
            places: circles::found(&files),
        },
        Counter {
            name: "files in circles",
            about: "files of those groups",
            places: circles::files(&files),
        },
        Counter {
            name: "sqlx",
            about: "crates besides perpend-db that name sqlx",
            places: source::naming_sqlx()?,
        },
        Counter {
            name: "telemetry tables",
            about: "statements on telemetry tables outside the room telemetry",
            places: source::telemetry_statements(&files),
        },
        Counter {
            name: "untyped filters",
            about: "filters that are lists of JSON values",
            places: source::untyped_filters(&files),
        },
        Counter {
            name: "old names",
            about: "functions named after a module that is gone or will be",
            places: source::old_names(&files),
        },
    ])
}

/// A counter's values: before the rework, and the least since.
struct Reached {
    before: u64,
    now: u64,
}

fn path() -> PathBuf {
    shell::root().join(REACHED)
}

fn reached() -> anyhow::Result<BTreeMap<String, Reached>> {
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path())?)?;
    let all = all.as_object().context(REACHED)?;
    let of = |(name, value): (&String, &Value)| {
        let number = |member: &str| value[member].as_u64().context(REACHED);
        let reached = Reached { before: number("before")?, now: number("now")? };
        Ok((name.clone(), reached))
    };
    all.iter().map(of).collect()
}

fn write(counters: &[Counter], reached: &BTreeMap<String, Reached>) -> anyhow::Result<()> {
    let mut all = serde_json::Map::new();
    for counter in counters {
        let now = counter.places.len() as u64;
        let known = reached.get(counter.name);
        let before = known.map_or(now, |known| known.before);
        let now = known.map_or(now, |known| known.now.min(now));
        all.insert(counter.name.to_owned(), json!({ "before": before, "now": now }));
    }
    let text = serde_json::to_string_pretty(&Value::Object(all))?;
    Ok(std::fs::write(path(), text + "\n")?)
}

/// Counters that rose, and counters that fell without being written down, as sentences.
pub(crate) fn violations() -> anyhow::Result<Vec<String>> {
    let reached = reached()?;
    let mut found = Vec::new();
    for counter in counters()? {
        let n = counter.places.len() as u64;
        let allowed = reached.get(counter.name).map_or(0, |known| known.now);
        let name = counter.name;
        if allowed < n {
            found.push(format!(
                "{name}: {n}, and {allowed} are allowed; `cargo xtask debt --show \"{name}\"` lists them"
            ));
        } else if n < allowed {
            found.push(format!(
                "{name} fell from {allowed} to {n}: `cargo xtask debt --write` writes it down"
            ));
        }
    }
    Ok(found)
}

/// Prints the counters; `false` when one rose.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let counters = counters()?;
    let known = match path().exists() {
        true => reached()?,
        false => BTreeMap::new(),
    };
    if args.write {
        write(&counters, &known)?;
    }
    let mut is_well = true;
    let mut rows = serde_json::Map::new();
    if !args.json {
        eprintln!("{:<20} {:>6} {:>6}", "", "before", "now");
    }
    for counter in &counters {
        let n = counter.places.len() as u64;
        let before = known.get(counter.name).map_or(n, |known| known.before);
        let rose = known.get(counter.name).is_some_and(|known| known.now < n);
        is_well &= !rose;
        if args.json {
            rows.insert(counter.name.to_owned(), json!({ "before": before, "now": n }));
            continue;
        }
        let colour = match (rose, n) {
            (true, _) => 31,
            (false, 0) => 32,
            _ => 0,
        };
        let row = format!("{:<20} {before:>6} {n:>6}  {}", counter.name, counter.about);
        eprintln!("{}", coloured(colour, &row));
        let is_shown =
            args.show.as_deref().is_some_and(|name| name.is_empty() || name == counter.name);
        if is_shown {
            for place in &counter.places {
                eprintln!("  {place}");
            }
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&Value::Object(rows))?;
        std::io::Write::write_all(&mut std::io::stdout(), format!("{text}\n").as_bytes())?;
    }
    Ok(is_well)
}

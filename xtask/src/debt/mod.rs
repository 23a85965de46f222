//! Counters of known debt: `cargo xtask debt` prints them, and `cargo xtask check` fails when one rises. The lowest value of a
//! counter is recorded, so that it cannot rise again.

mod circles;
mod contract;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::shell::{self, coloured};

/// The recorded values.
const REACHED: &str = "xtask/debt.json";

/// Prints or records the counters.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print every counted place, or those of one counter.
    #[arg(long, value_name = "COUNTER", num_args = 0..=1, default_missing_value = "")]
    show: Option<String>,
    /// Record counters that fell.
    #[arg(long)]
    write: bool,
    /// Print the counters as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// A counter with its places.
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
            about: "2xx bodies without members in the OpenAPI document",
            places: contract::bare_answers(&document),
        },
        Counter {
            name: "nameless operations",
            about: "operations without an operationId",
            places: contract::nameless(&document),
        },
        Counter {
            name: "circles",
            about: "groups of files of one crate that depend on each other",
            places: circles::found(&files),
        },
        Counter {
            name: "files in circles",
            about: "files of those groups",
            places: circles::files(&files),
        },
        Counter {
            name: "sqlx",
            about: "crates other than perpend-db that use sqlx",
            places: source::naming_sqlx()?,
        },
        Counter {
            name: "telemetry tables",
            about: "statements on telemetry tables outside the crate telemetry",
            places: source::telemetry_statements(&files),
        },
        Counter {
            name: "untyped filters",
            about: "filters that are lists of JSON values",
            places: source::untyped_filters(&files),
        },
        Counter {
            name: "old names",
            about: "functions named after a removed module",
            places: source::old_names(&files),
        },
    ])
}

/// The values of a counter: the first one, and the lowest since.
struct Recorded {
    before: u64,
    now: u64,
}

fn path() -> PathBuf {
    shell::root().join(REACHED)
}

fn recorded() -> anyhow::Result<BTreeMap<String, Recorded>> {
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path())?)?;
    let all = all.as_object().context(REACHED)?;
    let of = |(name, value): (&String, &Value)| {
        let number = |member: &str| value[member].as_u64().context(REACHED);
        let recorded = Recorded { before: number("before")?, now: number("now")? };
        Ok((name.clone(), recorded))
    };
    all.iter().map(of).collect()
}

fn write(counters: &[Counter], recorded: &BTreeMap<String, Recorded>) -> anyhow::Result<()> {
    let mut all = serde_json::Map::new();
    for counter in counters {
        let now = counter.places.len() as u64;
        let known = recorded.get(counter.name);
        let before = known.map_or(now, |known| known.before);
        let now = known.map_or(now, |known| known.now.min(now));
        all.insert(counter.name.to_owned(), json!({ "before": before, "now": now }));
    }
    let text = serde_json::to_string_pretty(&Value::Object(all))?;
    Ok(std::fs::write(path(), text + "\n")?)
}

/// Counters that rose, and counters that fell without being recorded, as sentences.
pub(crate) fn violations() -> anyhow::Result<Vec<String>> {
    let recorded = recorded()?;
    let mut found = Vec::new();
    for counter in counters()? {
        let n = counter.places.len() as u64;
        let allowed = recorded.get(counter.name).map_or(0, |known| known.now);
        let name = counter.name;
        if allowed < n {
            found.push(format!(
                "{name}: {n}, at most {allowed}; `cargo xtask debt --show \"{name}\"` lists them"
            ));
        } else if n < allowed {
            found.push(format!(
                "{name} fell from {allowed} to {n}: record it with `cargo xtask debt --write`"
            ));
        }
    }
    Ok(found)
}

/// Prints the counters; `false` if one rose.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let counters = counters()?;
    let known = match path().exists() {
        true => recorded()?,
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

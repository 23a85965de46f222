//! Observations added up by hour, in the transaction that writes them.
//!
//! Kept by what a batch changes and never by reading what stands, so that it costs a few rows per batch.
//! Names of observations and other things that a sender makes up freely are left out: a table that has
//! as many rows as what it sums up helps nobody.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use assay_domain::observation::Observation;

use super::db::{Arg, Db, Sized, value_rows};
use super::row::{dollars, tokens, total};
use crate::Error;

/// Microseconds of one row's time.
pub(crate) const HOUR: i64 = 3_600_000_000;
/// What is added up: the columns end so, and the sums are of these expressions over observations.
pub(crate) const MEASURES: [(&str, &str); 8] = [
    ("latency", "(ended_at - started_at) / 1000.0"),
    ("first_token", "(first_token_at - started_at) / 1000.0"),
    ("input_tokens", "input_tokens"),
    ("output_tokens", "output_tokens"),
    ("total_tokens", "total_tokens"),
    ("input_cost", "input_cost"),
    ("output_cost", "output_cost"),
    ("total_cost", "total_cost"),
];
const N_COLUMNS: usize = 7 + 2 * MEASURES.len();

fn columns() -> String {
    let measured: Vec<String> = MEASURES
        .iter()
        .map(|(name, _)| format!("n_{name}, sum_{name}"))
        .collect();
    format!(
        "tenant, hour, environment, kind, model, level, n, {}",
        measured.join(", ")
    )
}

fn on_conflict() -> String {
    let added: Vec<String> = std::iter::once("n".to_owned())
        .chain(
            MEASURES
                .iter()
                .flat_map(|(name, _)| [format!("n_{name}"), format!("sum_{name}")]),
        )
        .map(|column| format!("{column} = observation_rollups.{column} + excluded.{column}"))
        .collect();
    format!(
        " ON CONFLICT (tenant, hour, environment, kind, model, level) DO UPDATE SET {}",
        added.join(", ")
    )
}

static ADD: Sized = Sized::new(|n| {
    format!(
        "INSERT INTO observation_rollups ({}) VALUES {}{}",
        columns(),
        value_rows(n, N_COLUMNS, 1),
        on_conflict()
    )
});

/// The record of a trace is no step of it and is not added up. Few ids begin so: the trace is looked up
/// for those alone.
pub(crate) const IS_STEP: &str = "(substr(o.id, 1, 2) <> 't-' \
    OR o.id <> 't-' || (SELECT r.trace_id FROM traces r WHERE r.number = o.trace))";

fn is_step(o: &Observation) -> bool {
    o.id.as_str().strip_prefix("t-") != Some(o.trace_id.as_str())
}

/// Takes away the observations that a condition names, before they are deleted.
fn subtract(condition: &str) -> String {
    let measured: Vec<String> = MEASURES
        .iter()
        .map(|(_, sql)| format!("-COUNT({sql}), -COALESCE(SUM({sql}), 0)"))
        .collect();
    format!(
        "INSERT INTO observation_rollups ({}) \
         SELECT tenant, started_at - (started_at % {HOUR} + {HOUR}) % {HOUR}, environment, kind, \
                COALESCE(model, ''), level, -COUNT(*), {} \
           FROM observations o WHERE {condition} AND {IS_STEP} GROUP BY 1, 2, 3, 4, 5, 6{}",
        columns(),
        measured.join(", "),
        on_conflict()
    )
}

/// The statement that takes away all observations of a trace, by its number.
pub(super) fn subtract_trace() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| subtract("trace = $1"))
}

/// The statement that takes away one observation, by its row number.
pub(super) fn subtract_row() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| subtract("seq = $1"))
}

/// Hour, environment, kind, model, level. In order, so that two transactions that write the same rows
/// wait for each other instead of deadlocking.
type Key<'o> = (i64, &'o str, &'static str, &'o str, &'static str);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    n: i64,
    measured: [(i64, f64); MEASURES.len()],
}

fn values(o: &Observation) -> [Option<f64>; MEASURES.len()] {
    let ms = |to: assay_domain::time::Timestamp| to.micros_since(o.start) as f64 / 1_000.0;
    let count = |prefix| tokens(&o.usage, prefix).map(|n| n as f64);
    let cost = o.effective_cost();
    [
        o.end.map(ms),
        o.completion_start.map(ms),
        count("input"),
        count("output"),
        count("total"),
        dollars(cost, "input"),
        dollars(cost, "output"),
        total(cost),
    ]
}

/// Adds observations (sign 1) and takes others away (sign -1).
pub(super) async fn change<'o>(
    db: &mut Db<'_>,
    tenant: i64,
    changes: impl Iterator<Item = (i64, &'o Observation)>,
) -> Result<(), Error> {
    let mut sums: BTreeMap<Key<'o>, Sums> = BTreeMap::new();
    for (sign, o) in changes.filter(|(_, o)| is_step(o)) {
        let hour = o.start.as_micros().div_euclid(HOUR) * HOUR;
        let key = (
            hour,
            o.environment.as_str(),
            o.kind.as_str(),
            o.model.as_deref().unwrap_or_default(),
            o.level.as_str(),
        );
        let sum = sums.entry(key).or_default();
        sum.n += sign;
        for (slot, value) in sum.measured.iter_mut().zip(values(o)) {
            if let Some(value) = value {
                slot.0 += sign;
                slot.1 += value * sign as f64;
            }
        }
    }
    let rows: Vec<(Key<'o>, Sums)> = sums
        .into_iter()
        .filter(|(_, sums)| *sums != Sums::default())
        .collect();
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let (sql, n) = ADD.for_up_to(rest.len());
        let (chunk, later) = rest.split_at(n);
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(n * N_COLUMNS);
        for ((hour, environment, kind, model, level), sums) in chunk {
            args.extend([
                tenant.into(),
                (*hour).into(),
                (*environment).into(),
                (*kind).into(),
                (*model).into(),
                (*level).into(),
                sums.n.into(),
            ]);
            for (n, sum) in sums.measured {
                args.extend([Arg::from(n), Arg::from(sum)]);
            }
        }
        db.execute(sql, &args).await?;
        rest = later;
    }
    Ok(())
}

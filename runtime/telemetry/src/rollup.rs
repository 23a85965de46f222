//! Sums of observations by hour, written in the transaction of the observations.
//!
//! They are updated by the changes of a commit and never recomputed from stored rows, so that they cost a few
//! rows per commit. Values that a sender chooses freely, such as names of observations, are left out: a table
//! with as many rows as its source saves nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use perpend_domain::observation::Observation;

use super::row::{dollars, tokens, total};
use crate::Error;
use perpend_db::{Arg, ColumnType, Sized, Tx, value_rows};
use perpend_domain::text::storable;

/// Microseconds covered by one row.
pub(crate) const HOUR: i64 = 3_600_000_000;
/// The measures: suffixes of columns, and expressions over observations.
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
    let measured: Vec<String> =
        MEASURES.iter().map(|(name, _)| format!("n_{name}, sum_{name}")).collect();
    format!("tenant, hour, environment, kind, model, level, n, {}", measured.join(", "))
}

fn on_conflict() -> String {
    let added: Vec<String> = std::iter::once("n".to_owned())
        .chain(MEASURES.iter().flat_map(|(name, _)| [format!("n_{name}"), format!("sum_{name}")]))
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

/// The record of a trace is not an observation and is not summed. Few ids have its prefix: the trace is looked up
/// for those only.
pub(crate) const IS_OBSERVATION: &str = "(substr(o.id, 1, 2) <> 't-' \
    OR o.id <> 't-' || (SELECT r.trace_id FROM traces r WHERE r.number = o.trace))";

fn is_observation(o: &Observation) -> bool {
    o.id.as_str().strip_prefix("t-") != Some(o.trace_id.as_str())
}

/// The sums over the observations of a trace.
fn sums_of_trace() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| {
        let measured: Vec<String> = MEASURES
            .iter()
            .map(|(_, sql)| {
                format!("COUNT({sql}), CAST(COALESCE(SUM({sql}), 0) AS DOUBLE PRECISION)")
            })
            .collect();
        format!(
            "SELECT tenant, started_at - (started_at % {HOUR} + {HOUR}) % {HOUR}, environment, kind, \
                    COALESCE(model, ''), level, COUNT(*), {} \
               FROM observations o WHERE trace = $1 AND {IS_OBSERVATION} GROUP BY 1, 2, 3, 4, 5, 6",
            measured.join(", ")
        )
    })
}

/// Key of the sums to which an observation is added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'o> {
    tenant: i64,
    hour: i64,
    environment: Cow<'o, str>,
    kind: Cow<'o, str>,
    model: Cow<'o, str>,
    level: Cow<'o, str>,
}

impl<'o> Key<'o> {
    fn new(tenant: i64, o: &'o Observation) -> Self {
        Self {
            tenant,
            hour: o.start.as_micros().div_euclid(HOUR) * HOUR,
            // As stored: two keys of the same row would update it twice in one statement.
            environment: storable(&o.environment),
            kind: o.kind.as_str().into(),
            model: storable(o.model.as_deref().unwrap_or_default()),
            level: o.level.as_str().into(),
        }
    }

    fn into_owned(self) -> Key<'static> {
        Key {
            tenant: self.tenant,
            hour: self.hour,
            environment: self.environment.into_owned().into(),
            kind: self.kind.into_owned().into(),
            model: self.model.into_owned().into(),
            level: self.level.into_owned().into(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    n: i64,
    measured: [(i64, f64); MEASURES.len()],
}

impl Sums {
    /// The observation counted once, or with sign -1 subtracted.
    fn of(sign: i64, o: &Observation) -> Self {
        let ms = |to: perpend_domain::time::Timestamp| to.micros_since(o.start) as f64 / 1_000.0;
        let count = |prefix| tokens(&o.usage, prefix).map(|n| n as f64);
        let cost = o.effective_cost();
        let values = [
            o.end.map(ms),
            o.completion_start.map(ms),
            count("input"),
            count("output"),
            count("total"),
            dollars(cost, "input"),
            dollars(cost, "output"),
            total(cost),
        ];
        Self {
            n: sign,
            measured: values.map(|value| match value {
                Some(value) => (sign, value * sign as f64),
                None => (0, 0.0),
            }),
        }
    }

    fn add(&mut self, other: &Self) {
        self.n += other.n;
        for (sum, more) in self.measured.iter_mut().zip(&other.measured) {
            sum.0 += more.0;
            sum.1 += more.1;
        }
    }
}

/// Changes of sums, added up: a transaction writes each row once, at its end and in the order of keys. So two
/// transactions that write the same rows wait for at most one commit and do not deadlock.
#[derive(Debug, Default)]
pub(super) struct Changes<'o>(BTreeMap<Key<'o>, Sums>);

impl<'o> Changes<'o> {
    fn change(&mut self, key: Key<'o>, sums: &Sums) {
        self.0.entry(key).or_default().add(sums);
    }

    /// Adds an observation.
    pub(super) fn add(&mut self, tenant: i64, o: &'o Observation) {
        if is_observation(o) {
            self.change(Key::new(tenant, o), &Sums::of(1, o));
        }
    }

    /// Adds the changes of a batch, for a tenant.
    pub(super) fn add_all(&mut self, tenant: i64, others: &'o Changes<'static>) {
        for (key, sums) in &others.0 {
            let key = Key {
                tenant,
                hour: key.hour,
                environment: Cow::Borrowed(&key.environment),
                kind: Cow::Borrowed(&key.kind),
                model: Cow::Borrowed(&key.model),
                level: Cow::Borrowed(&key.level),
            };
            self.change(key, sums);
        }
    }

    /// Adds an observation with a shorter lifetime.
    pub(super) fn add_other(&mut self, tenant: i64, o: &Observation) {
        if is_observation(o) {
            self.change(Key::new(tenant, o).into_owned(), &Sums::of(1, o));
        }
    }

    /// Subtracts a stored observation.
    pub(super) fn subtract(&mut self, tenant: i64, o: &Observation) {
        if is_observation(o) {
            self.change(Key::new(tenant, o).into_owned(), &Sums::of(-1, o));
        }
    }

    /// Subtracts all observations of a trace, by its number.
    pub(super) async fn subtract_trace(&mut self, tx: &mut Tx, trace: i64) -> Result<(), Error> {
        let mut types = vec![
            ColumnType::Int,
            ColumnType::Int,
            ColumnType::Text,
            ColumnType::Text,
            ColumnType::Text,
            ColumnType::Text,
            ColumnType::Int,
        ];
        types.extend([ColumnType::Int, ColumnType::Float].repeat(MEASURES.len()));
        for cells in tx.rows(sums_of_trace(), &[trace.into()], &types).await? {
            let text = |at: usize| Ok::<_, Error>(Cow::Owned(cells[at].text()?.to_owned()));
            let key = Key {
                tenant: cells[0].int()?,
                hour: cells[1].int()?,
                environment: text(2)?,
                kind: text(3)?,
                model: text(4)?,
                level: text(5)?,
            };
            let mut sums = Sums { n: -cells[6].int()?, ..Sums::default() };
            for (sum, pair) in sums.measured.iter_mut().zip(cells[7..].chunks_exact(2)) {
                *sum = (-pair[0].int()?, -pair[1].float()?);
            }
            self.change(key, &sums);
        }
        Ok(())
    }

    /// The changes of a batch, without a tenant and owned.
    pub(super) fn of_batch<'a>(
        observations: impl Iterator<Item = &'a Observation>,
    ) -> Changes<'static> {
        let mut changes = Changes::default();
        observations.for_each(|o| changes.add(0, o));
        let owned = changes.0.into_iter();
        Changes(owned.map(|(key, sums)| (key.into_owned(), sums)).collect())
    }

    /// Writes the changes. Only the commit may follow in the transaction: others wait for these rows.
    pub(super) async fn write(self, tx: &mut Tx) -> Result<(), Error> {
        let rows: Vec<(Key<'o>, Sums)> =
            self.0.into_iter().filter(|(_, sums)| *sums != Sums::default()).collect();
        tx.execute_for(&ADD, &rows, |args, (key, sums)| {
            args.extend([
                key.tenant.into(),
                key.hour.into(),
                key.environment.as_ref().into(),
                key.kind.as_ref().into(),
                key.model.as_ref().into(),
                key.level.as_ref().into(),
                sums.n.into(),
            ]);
            for (n, sum) in sums.measured {
                args.extend([Arg::from(n), Arg::from(sum)]);
            }
        })
        .await?;
        Ok(())
    }
}

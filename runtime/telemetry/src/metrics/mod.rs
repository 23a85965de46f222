//! Metric queries: aggregates over many rows.
//!
//! Three sources lead to the same groups, tried in this order:
//! 1. **Rollups** (`rollup`): sums by hour, for whole hours and narrow dimensions.
//! 2. **Columns** (`columns`): the database groups and aggregates, and returns single values one at a time if
//!    a percentile needs them.
//! 3. **Rows** (`rows`): conditions and dimensions that need the whole observation or trace are evaluated
//!    here.
//!
//! Memory is bounded in each of them: by groups, by single values, and by whole rows. A query that needs more
//! is refused with an error that names a smaller one.

mod columns;
mod rollup;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use perpend_db::charge;
use perpend_domain::ids::ProjectId;
use perpend_domain::metrics::{Accumulator, MetricGroup, MetricQuery, MetricView};
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

pub(crate) use rollup::column as rollup_column;

/// Groups that are held at a time; a query with more is refused.
pub const MAX_GROUPS: usize = 100_000;

/// Bytes of the groups, with a value for each metric.
const MAX_GROUP_BYTES: usize = 64 << 20;
/// Memory of a group in addition to its values and the texts of its dimensions.
const GROUP_BYTES: usize = 128;

/// Single values that are held at a time, for percentiles and histograms.
const MAX_VALUES: usize = 4_000_000;
/// Whole rows that are read for one query.
const MAX_ROWS: usize = 1_000_000;

/// Error of a refused query.
const TOO_MANY: &str = "the question has more than 100000 groups; use fewer dimensions, a filter, or \
    config.row_limit with orderBy on a metric, descending";
const TOO_LARGE: &str = "the question has too many groups for so many metrics; use fewer metrics or dimensions, a filter, \
    or config.row_limit with orderBy on a metric, descending";
const TOO_MANY_VALUES: &str = "percentiles and histograms need single values, and here are more than \
    4000000; use a shorter time or a filter, or ask for avg, min and max, which need none";
const TOO_MANY_ROWS: &str = "tags, tools, types of cost and usage, metadata and scores are read from whole \
    rows, and here are more than 1000000; use a shorter time, or a filter on other columns";

type Key = (Option<Timestamp>, Vec<Option<String>>);

/// Groups during aggregation.
#[derive(Debug, Default)]
struct Groups {
    by_key: BTreeMap<Key, Vec<Accumulator>>,
    n_bytes: usize,
    n_values: usize,
    n_rows: usize,
}

fn hold(held: &mut usize, n_bytes: usize) -> Result<(), Error> {
    *held += n_bytes;
    match MAX_GROUP_BYTES < *held {
        true => Err(Error::Conflict(TOO_LARGE)),
        false => charge(n_bytes),
    }
}

impl Groups {
    /// The accumulators of a group, one per metric.
    fn of(
        &mut self,
        question: &MetricQuery,
        at: Option<Timestamp>,
        dimensions: Vec<Option<String>>,
    ) -> Result<&mut Vec<Accumulator>, Error> {
        // Weeks and months consist of days.
        let at = match (question.granularity, at) {
            (Some(granularity), Some(at)) => Some(granularity.start(at)),
            _ => None,
        };
        if self.by_key.len() > MAX_GROUPS {
            return Err(Error::Conflict(TOO_MANY));
        }
        let n_metrics = question.metrics.len();
        match self.by_key.entry((at, dimensions)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let texts = new.key().1.iter().flatten().map(String::len);
                let values = n_metrics * size_of::<Accumulator>();
                let n_bytes = GROUP_BYTES + texts.sum::<usize>() + values;
                hold(&mut self.n_bytes, n_bytes)?;
                Ok(new.insert(vec![Accumulator::default(); n_metrics]))
            }
        }
    }

    /// Refuses a query whose groups take too many bytes.
    fn hold(&mut self, n_bytes: usize) -> Result<(), Error> {
        hold(&mut self.n_bytes, n_bytes)
    }

    /// Bytes that are charged to the request.
    const fn n_charged(&self) -> usize {
        self.n_bytes + self.n_values * size_of::<f64>()
    }

    /// Refuses a query with too many single values.
    fn count_values(&mut self, n: usize) -> Result<(), Error> {
        self.n_values += n;
        charge(n * size_of::<f64>())?;
        match self.n_values > MAX_VALUES {
            true => Err(Error::Conflict(TOO_MANY_VALUES)),
            false => Ok(()),
        }
    }

    /// Refuses a query with too many whole rows.
    fn count_rows(&mut self, n: usize) -> Result<(), Error> {
        self.n_rows += n;
        match self.n_rows > MAX_ROWS {
            true => Err(Error::Conflict(TOO_MANY_ROWS)),
            false => Ok(()),
        }
    }

    fn finish(self) -> Vec<MetricGroup> {
        let group = |((at, dimensions), values)| MetricGroup { at, dimensions, values };
        self.by_key.into_iter().map(group).collect()
    }
}

impl Telemetry {
    /// The groups of a query, by time and dimensions. Without dimensions and time there is one group, or none
    /// if no row matches.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the query has too many groups or a filter that cannot be applied to scores.
    pub async fn metrics(
        &self,
        project: &ProjectId,
        question: &MetricQuery,
    ) -> Result<Vec<MetricGroup>, Error> {
        let tenant = self.tenant(project).await?;
        let mut groups = Groups::default();
        let is_about_scores =
            !matches!(question.view, MetricView::Observations | MetricView::Traces);
        // Scores may arrive before any other data.
        let tenant = match tenant {
            None if !is_about_scores => return Ok(Vec::new()),
            tenant => tenant.unwrap_or(0),
        };
        if let Some((from, to)) = self.add_rollups(tenant, question, &mut groups).await? {
            for (from, to) in [(question.from, from), (to, question.to)] {
                if from < to {
                    let mut edge = question.clone();
                    // The largest groups are determined by the totals: here all are added.
                    (edge.from, edge.to, edge.top) = (from, to, None);
                    self.add_columns(project, tenant, &edge, &mut groups).await?;
                }
            }
            return Ok(groups.finish());
        }
        // From here on the traces must be folded.
        self.folded_tenant(project).await?;
        let by_columns = self.add_columns(project, tenant, question, &mut groups);
        if !by_columns.await? {
            self.add_rows(project, question, &mut groups).await?;
        }
        Ok(groups.finish())
    }
}

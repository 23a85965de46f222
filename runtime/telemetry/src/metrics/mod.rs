//! Answers to questions about many rows at once.
//!
//! Three ways lead to the same groups, tried in this order:
//! 1. **Rollups** (`rollup`): sums by hour, for whole hours and narrow dimensions.
//! 2. **Columns** (`columns`): the database groups and adds up, and gives single values, one after the
//!    other, where a percentile needs them.
//! 3. **Rows** (`rows`): what only the whole observation or trace can tell is read and added up here.
//!
//! Memory is bounded in each: by groups, by single values, and by whole rows. A question that needs more
//! is refused, and told what would need less.

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

/// Groups held at a time; a question with more is refused.
pub const MAX_GROUPS: usize = 100_000;

/// Bytes of the groups, with a value for each metric.
const MAX_GROUP_BYTES: usize = 64 << 20;
/// What a group takes in memory besides its values and the texts of its dimensions.
const GROUP_BYTES: usize = 128;

/// Single values held at a time, for percentiles and histograms.
const MAX_VALUES: usize = 4_000_000;
/// Whole rows read for one question.
const MAX_ROWS: usize = 1_000_000;

/// What a question is refused with.
const TOO_MANY: &str = "the question has more than 100000 groups; use fewer dimensions, a filter, or \
    config.row_limit with orderBy on a metric, descending";
const TOO_LARGE: &str = "the question has too many groups for so many metrics; use fewer metrics or dimensions, a filter, \
    or config.row_limit with orderBy on a metric, descending";
const TOO_MANY_VALUES: &str = "percentiles and histograms need single values, and here are more than \
    4000000; use a shorter time or a filter, or ask for avg, min and max, which need none";
const TOO_MANY_ROWS: &str = "tags, tools, types of cost and usage, metadata and scores are read from whole \
    rows, and here are more than 1000000; use a shorter time, or a filter on other columns";

type Key = (Option<Timestamp>, Vec<Option<String>>);

/// Groups in the making.
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
    /// The accumulators of a group, one for each metric.
    fn of(
        &mut self,
        question: &MetricQuery,
        at: Option<Timestamp>,
        dimensions: Vec<Option<String>>,
    ) -> Result<&mut Vec<Accumulator>, Error> {
        // Weeks and months are made of days.
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

    /// Refuses a question whose groups take too many bytes.
    fn hold(&mut self, n_bytes: usize) -> Result<(), Error> {
        hold(&mut self.n_bytes, n_bytes)
    }

    /// What is charged to the request.
    const fn n_charged(&self) -> usize {
        self.n_bytes + self.n_values * size_of::<f64>()
    }

    /// Refuses a question with too many single values.
    fn count_values(&mut self, n: usize) -> Result<(), Error> {
        self.n_values += n;
        charge(n * size_of::<f64>())?;
        match self.n_values > MAX_VALUES {
            true => Err(Error::Conflict(TOO_MANY_VALUES)),
            false => Ok(()),
        }
    }

    /// Refuses a question about too many whole rows.
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
    /// The groups of a question, by time and dimensions. Without dimensions and time it is one group, or
    /// none where no row passes.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the question has too many groups or a filter that cannot be applied to
    /// scores; the text says so.
    pub async fn metrics(
        &self,
        project: &ProjectId,
        question: &MetricQuery,
    ) -> Result<Vec<MetricGroup>, Error> {
        let tenant = self.tenant(project).await?;
        let mut groups = Groups::default();
        let is_about_scores =
            !matches!(question.view, MetricView::Observations | MetricView::Traces);
        // Scores may come before anything else does.
        let tenant = match tenant {
            None if !is_about_scores => return Ok(Vec::new()),
            tenant => tenant.unwrap_or(0),
        };
        if let Some((from, to)) = self.add_rollups(tenant, question, &mut groups).await? {
            for (from, to) in [(question.from, from), (to, question.to)] {
                if from < to {
                    let mut edge = question.clone();
                    // The largest groups are those of the sums: here all are added up.
                    (edge.from, edge.to, edge.top) = (from, to, None);
                    self.add_columns(project, tenant, &edge, &mut groups).await?;
                }
            }
            return Ok(groups.finish());
        }
        // What traces say is asked from here on.
        self.fresh_tenant(project).await?;
        let by_columns = self.add_columns(project, tenant, question, &mut groups);
        if !by_columns.await? {
            self.add_rows(project, question, &mut groups).await?;
        }
        Ok(groups.finish())
    }
}

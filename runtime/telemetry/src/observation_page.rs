//! Pages of the list of observations of all traces, in both directions and within bounds.

use perpend_domain::filter::Filter;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::telemetry::{ObservationCursor, ObservationQuery, StoredObservation};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;

use crate::observation_list::start_range;
use crate::{Error, Telemetry};
use perpend_db::Sql;

/// The id of the cursor is `{length of the trace id}.{trace id}{observation id}`: ids may contain any separator.
fn list_cursor(start: Timestamp, trace: &TraceId, id: &ObservationId) -> Cursor {
    let trace = trace.as_str();
    Cursor::new(start, format!("{}.{trace}{}", trace.len(), id.as_str()))
}

/// Inverse of [`list_cursor`]; absent for other text.
fn observation_cursor(cursor: &Cursor) -> Option<ObservationCursor> {
    let (n, ids) = cursor.id.split_once('.')?;
    let (trace, id) = ids.split_at_checked(n.parse().ok()?)?;
    let (trace_id, id) = (TraceId::new(trace).ok()?, ObservationId::new(id).ok()?);
    Some(ObservationCursor { start: cursor.at, trace_id, id })
}

impl Telemetry {
    /// A page of at most `limit` observations without content, newest start first. At most `max_tested` rows are tested for
    /// conditions without an index. The first page has the number of matches.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observations_from(
        &self,
        project: &ProjectId,
        filter: &Filter,
        position: &ListPosition,
        (limit, max_tested): (u32, u64),
    ) -> Result<BidirectionalPage<StoredObservation>, Error> {
        let query = ObservationQuery {
            filter: filter.clone(),
            after: position.cursor.as_ref().and_then(observation_cursor),
            is_backwards: position.is_backwards,
            limit,
            without_records: true,
            with_total: !position.is_later(),
            max_tested,
            max_scanned: Some(max_tested),
            ..ObservationQuery::default()
        };
        let page = self.observations(project, &query).await?;
        let stopped = page.scan_limit.map(|limit| {
            let ObservationCursor { start, trace_id, id } = limit.after;
            list_cursor(start, &trace_id, &id)
        });
        let has_more = page.has_more && stopped.is_none();
        let cursor = |stored: &StoredObservation| {
            let observation = &stored.observation;
            list_cursor(observation.start, &observation.trace_id, &observation.id)
        };
        let total = BoundedCount { n: page.n_total, is_more: page.is_total_cut };
        Ok(BidirectionalPage {
            stopped,
            total: query.with_total.then_some(total),
            ..BidirectionalPage::read(page.items, position, has_more, cursor)
        })
    }

    /// The last row that is tested for a page, in the order of reading; absent if `max_scanned` rows are not reached.
    pub(super) async fn scan_end(
        &self,
        tenant: i64,
        query: &ObservationQuery,
    ) -> Result<Option<ObservationCursor>, Error> {
        let Some(max_scanned) = query.max_scanned else {
            return Ok(None);
        };
        let (from, to) = start_range(&query.filter);
        let (sign, direction) = if query.is_backwards { (">=", "") } else { ("<=", " DESC") };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let [from, to] = [from, to].map(|at| sql.bind(at.into()));
        sql.push(&format!(
            "SELECT o.started_at FROM observations o \
             WHERE o.tenant = {number} AND o.started_at >= {from} AND o.started_at < {to}"
        ));
        if let Some(after) = &query.after {
            let start = sql.bind(after.start.as_micros().into());
            sql.push(&format!(" AND o.started_at {sign} {start}"));
        }
        let offset = max_scanned.saturating_sub(1);
        sql.push(&format!(" ORDER BY o.started_at{direction} LIMIT 1 OFFSET {offset}"));
        let found: Vec<(i64,)> = self.pool.select(&sql.text, &sql.args).await?;
        let Some((start,)) = found.first().copied() else {
            return Ok(None);
        };
        // In the order of reading, ids ascend if times descend.
        let last = if query.is_backwards { "" } else { " DESC" };
        let sql = format!(
            "SELECT t.trace_id, o.id FROM observations o JOIN traces t ON t.number = o.trace \
             WHERE o.tenant = $1 AND o.started_at = $2 ORDER BY t.trace_id{last}, o.id{last} LIMIT 1"
        );
        let rows: Vec<(String, String)> =
            self.pool.select(&sql, &[tenant.into(), start.into()]).await?;
        rows.first()
            .map(|(trace, id)| {
                Ok(ObservationCursor {
                    start: Timestamp::from_micros(start),
                    trace_id: perpend_db::checked("observation", trace)?,
                    id: perpend_db::checked("observation", id)?,
                })
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_keeps_ids_with_any_separator() {
        let (trace, id) = (TraceId::new("1.ü/t").unwrap(), ObservationId::new("2.o").unwrap());
        let cursor = list_cursor(Timestamp::from_micros(5), &trace, &id);
        let read = observation_cursor(&cursor).unwrap();
        assert_eq!((read.trace_id, read.id, read.start), (trace, id, cursor.at));
        for other in ["", "x", "3.ab", "2.ab", "1.üa", "99999999999999999999.ab"] {
            let cursor = Cursor::new(cursor.at, other.to_owned());
            assert_eq!(observation_cursor(&cursor), None, "{other}");
        }
    }
}

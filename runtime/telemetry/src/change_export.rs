//! Rows changed within a time, in the order of their last changes. A row that changes during the read leaves
//! the window and is in a later one.

use perpend_domain::ids::ProjectId;
use perpend_domain::list::{ChangeCursor, ChangeWindow};
use perpend_domain::time::Timestamp;

use super::row::{ObservationRow, READ, READ_TRACE, TraceRow};
use crate::{Error, Telemetry};
use perpend_db::{Sql, query};
use perpend_domain::telemetry::{StoredObservation, StoredTrace};

/// Bytes of rows and their contents that are read at a time.
const PART_BYTES: usize = 4 << 20;

/// Appends the conditions and the order of a page; `[time, tenant, key]` are columns. They are the columns of
/// the index; the plus keeps SQLite from choosing an index that begins with the tenant, and from sorting all
/// its rows.
fn push_page(
    sql: &mut Sql,
    tenant: i64,
    [time, of, key]: [&str; 3],
    window: &ChangeWindow,
    after: Option<&ChangeCursor>,
    limit: u32,
) -> Result<(), Error> {
    let tenant = sql.bind(tenant.into());
    sql.push(&format!(" WHERE +{of} = {tenant}"));
    let from = after.map(|place| place.at).or(window.from);
    if let Some(from) = from {
        let from = sql.bind(from.as_micros().into());
        sql.push(&format!(" AND {time} >= {from}"));
    }
    let to = sql.bind(window.to.as_micros().into());
    sql.push(&format!(" AND {time} < {to}"));
    if let Some(ChangeCursor { at, key: last }) = after {
        let last: i64 = last.parse().map_err(|_| Error::Inconsistent {
            what: "export",
            detail: format!("{last:?} is no row"),
        })?;
        let (at, last) = (sql.bind(at.as_micros().into()), sql.bind(last.into()));
        sql.push(&format!(" AND ({time} > {at} OR {key} > {last})"));
    }
    sql.push(&format!(" ORDER BY {time}, {of}, {key} LIMIT {limit}"));
    Ok(())
}

impl Telemetry {
    /// Traces whose last change is in the window, with content, after a position; each with its own position.
    /// `true` if there are more traces although there are fewer than `limit`, because they are large.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn changed_traces(
        &self,
        project: &ProjectId,
        window: &ChangeWindow,
        after: Option<&ChangeCursor>,
        limit: u32,
    ) -> Result<(Vec<(ChangeCursor, StoredTrace)>, bool), Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok((Vec::new(), false));
        };
        let mut sql = Sql::default();
        sql.push(&format!("SELECT {READ_TRACE} FROM traces t"));
        let columns = ["t.last_seen", "t.tenant", "t.number"];
        push_page(&mut sql, tenant, columns, window, after, limit)?;
        let query = query(sql.text).bind_all(&sql.args);
        let (rows, mut is_cut): (Vec<TraceRow>, bool) =
            query.fetch_up_to(&self.pool, PART_BYTES).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            found.push((row.number, row.stored()?));
        }
        let n_full = self.add_roots_up_to(&mut found, PART_BYTES).await?;
        is_cut |= n_full < found.len();
        found.truncate(n_full);
        let with_place = |(number, stored): (i64, StoredTrace)| {
            let (at, key) = (stored.updated_at, number.to_string());
            (ChangeCursor { at, key }, stored)
        };
        Ok((found.into_iter().map(with_place).collect(), is_cut))
    }

    /// Observations whose last change is in the window, after a position; each with its own position. `true`
    /// if there are more observations although there are fewer than `limit`, because they are large.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn changed_observations(
        &self,
        project: &ProjectId,
        window: &ChangeWindow,
        after: Option<&ChangeCursor>,
        (limit, with_content): (u32, bool),
    ) -> Result<(Vec<(ChangeCursor, StoredObservation)>, bool), Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok((Vec::new(), false));
        };
        let mut sql = Sql::default();
        sql.push(&format!("SELECT {READ} FROM observations o JOIN traces t ON t.number = o.trace"));
        let columns = ["o.updated_at", "o.tenant", "o.seq"];
        push_page(&mut sql, tenant, columns, window, after, limit)?;
        let query = query(sql.text).bind_all(&sql.args);
        let (rows, is_cut): (Vec<ObservationRow>, bool) =
            query.fetch_up_to(&self.pool, PART_BYTES).await?;
        let places = rows.iter().map(|row| ChangeCursor {
            at: Timestamp::from_micros(row.updated_at),
            key: row.seq.to_string(),
        });
        let places: Vec<ChangeCursor> = places.collect();
        let stored = match with_content {
            true => self.stored_up_to(&rows, PART_BYTES).await?,
            false => self.stored(&rows, false).await?,
        };
        let is_cut = is_cut || stored.len() < rows.len();
        Ok((places.into_iter().zip(stored).collect(), is_cut))
    }
}

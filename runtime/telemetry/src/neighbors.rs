//! The neighbours of a trace in a list, found without counting the list.

use std::time::Duration;

use perpend_db::Arg;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::list::{Cursor, ListPosition};
use perpend_domain::trace_list::TraceQuery;

use super::trace_order::{ListRange, OrderedList};
use super::trace_shape::{AccessPath, ListShape};
use crate::{Error, Telemetry};

/// Time limit of a search for both neighbours. Pages show a trace without them.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Telemetry {
    /// The traces directly before and after this one in a list. `None` at the ends of the list, if none
    /// of at most `max_tested` traces that are tested in memory on that side matches, and if the search
    /// reaches a limit of time or memory. The trace itself need not be in the list: then the result is the
    /// two traces between which it would be.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn neighboring_traces(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        id: &TraceId,
        max_tested: u64,
    ) -> Result<[Option<TraceId>; 2], Error> {
        let search = self.find_neighbors(project, query, id, max_tested);
        Ok(perpend_db::optional(TIMEOUT, search).await?.unwrap_or_default())
    }

    async fn find_neighbors(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        id: &TraceId,
        max_tested: u64,
    ) -> Result<[Option<TraceId>; 2], Error> {
        const NUMBER: &str = "SELECT number FROM traces WHERE tenant = $1 AND trace_id = $2";
        let Some(tenant) = self.tenant(project).await? else {
            return Ok([None, None]);
        };
        self.folder.of_tenant(tenant).await?;
        let args = [tenant.into(), Arg::Text(Some(id.as_str().to_owned().into()))];
        let number: Vec<(i64,)> = self.pool.select(NUMBER, &args).await?;
        let cursor = match number.first() {
            Some((number,)) => self.cursor_of(project, query, *number).await?,
            None => None,
        };
        let Some(cursor) = cursor else {
            return Ok([None, None]);
        };
        let is_postgres = self.pool.is_postgres();
        let led = ListShape::new(project, tenant, query, is_postgres, AccessPath::Any);
        // Without a suitable index the list is scanned in its own order from the cursor.
        let shape = match led.has_lead {
            true => led,
            false => ListShape::new(project, tenant, query, is_postgres, AccessPath::InTime),
        };
        let list = OrderedList::new(&shape, project, query, false);
        let mut neighbors = [None, None];
        for (found, backwards) in neighbors.iter_mut().zip([true, false]) {
            *found =
                self.next_of(project, (&list, &shape), &cursor, (backwards, max_tested)).await?;
        }
        Ok(neighbors)
    }

    async fn next_of(
        &self,
        project: &ProjectId,
        (list, shape): (&OrderedList, &ListShape),
        cursor: &Cursor,
        (backwards, max_tested): (bool, u64),
    ) -> Result<Option<TraceId>, Error> {
        let mut numbers = match shape.is_decided_by_columns() {
            true => {
                let part = ListRange { from: Some(cursor), backwards, skip: 0, limit: Some(1) };
                self.numbers_of(list, part).await?
            }
            false => {
                let position =
                    ListPosition { cursor: Some(cursor.clone()), is_backwards: backwards };
                let bounds = (max_tested, Some(1));
                self.scan(project, (list, shape), &position, bounds).await?.passing
            }
        };
        numbers.truncate(1);
        let found = self.numbered_traces(&numbers).await?;
        Ok(found.into_iter().next().map(|(_, stored)| stored.trace.id))
    }
}

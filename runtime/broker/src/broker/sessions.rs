//! `session-reader`: the session that an item represents.

use perpend_domain::ids::TraceId;
use perpend_domain::time::Timestamp;
use perpend_worker_protocol::host_call::{SessionInfo, TraceError, TracePage};

use super::traces::{Reader, TraceResult, failed, info_of, millis, unknown_cursor};

/// Maximum number of traces of a page.
const MAX_PAGE: u32 = 100;
/// Maximum size of a page; it then has fewer traces.
const MAX_PAGE_BYTES: usize = 8 << 20;

impl Reader<'_> {
    fn own_session(&self, session: &str) -> TraceResult<()> {
        match &self.read_scope.session {
            Some(own) if own == session => Ok(()),
            Some(_) => {
                Err(TraceError::NotGranted("only the session of the item can be read".into()))
            }
            None => Err(TraceError::NotGranted("the item is not a session".into())),
        }
    }

    pub(super) async fn session(&self, session: &str) -> TraceResult<SessionInfo> {
        self.own_session(session)?;
        let found = self.store.telemetry.session_span(self.project, session);
        let found = found.await.map_err(|error| failed(&error))?;
        let found = found.ok_or_else(|| TraceError::NotFound("the session was deleted".into()))?;
        Ok(SessionInfo {
            id: session.to_owned(),
            n_traces: u32::try_from(found.n_traces).unwrap_or(u32::MAX),
            start_ms: millis(found.start),
            end_ms: millis(found.end),
            user_ids: found.user_ids,
        })
    }

    pub(super) async fn traces_of_session(
        &self,
        session: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> TraceResult<TracePage> {
        self.own_session(session)?;
        let after = cursor.map(parse_cursor).transpose()?;
        let limit = limit.clamp(1, MAX_PAGE);
        let telemetry = &self.store.telemetry;
        // One more trace than requested tells whether there is a next page.
        let found =
            telemetry.session_traces(self.project, session, after.as_ref(), (limit + 1, false));
        let found = found.await.map_err(|error| failed(&error))?;
        let n_found = found.len();
        let (mut traces, mut n_bytes, mut last) = (Vec::new(), 0, None);
        for stored in found.into_iter().take(limit as usize) {
            let at = format!("{}.{}", stored.trace.timestamp.as_micros(), stored.trace.id);
            let info = info_of(stored.trace);
            n_bytes += info.size();
            if MAX_PAGE_BYTES < n_bytes && !traces.is_empty() {
                break;
            }
            traces.push(info);
            last = Some(at);
        }
        Ok(TracePage { next_cursor: last.filter(|_| traces.len() < n_found), traces })
    }
}

fn parse_cursor(cursor: &str) -> TraceResult<(Timestamp, TraceId)> {
    let (start, id) = cursor.split_once('.').ok_or_else(unknown_cursor)?;
    let start = start.parse().map_err(|_| unknown_cursor())?;
    let id = TraceId::new(id).map_err(|_| unknown_cursor())?;
    Ok((Timestamp::from_micros(start), id))
}

//! Host functions that read traces, sessions and runs.

use perpend_domain::payload::Payload;
use perpend_worker_protocol::host_call::{ObservationPart, TraceError};
use perpend_worker_protocol::{HostReply, HostRequest};
use wasmtime::Result;

use crate::bindings::{self, run_reader, session_reader, trace_reader, types};
use crate::state::State;

/// Maximum number of observations or outline lines in a page.
const MAX_PAGE: u32 = 500;
/// Maximum number of search hits or traces in a page.
const MAX_LIST: u32 = 100;
const MAX_SEARCH_BYTES: usize = 1_000;
const MAX_RANGE: u32 = 1 << 20;

type Answer<T> = std::result::Result<T, trace_reader::TraceError>;

impl State {
    /// Makes a host call and counts the bytes of its reply.
    async fn read_reply<T>(
        &mut self,
        request: HostRequest,
        reply: impl FnOnce(HostReply) -> Option<std::result::Result<T, TraceError>>,
    ) -> Answer<T> {
        let host_reply = self.host_call(request).await;
        let n_bytes = host_reply.read_bytes();
        let answer = reply(host_reply).unwrap_or_else(|| {
            Err(TraceError::Unavailable("the server sent a reply of another kind".into()))
        });
        let answer = answer.and_then(|value| self.allowance.count_read(n_bytes).map(|()| value));
        answer.map_err(|error| self.record_trace_error(error))
    }

    async fn read(
        &mut self,
        trace_id: String,
        observation_id: String,
        part: ObservationPart,
    ) -> Answer<Option<Payload>> {
        let request = HostRequest::Read { trace_id, observation_id, part };
        self.read_reply(request, |reply| match reply {
            HostReply::Read(answer) => Some(answer),
            _ => None,
        })
        .await
    }
}

impl trace_reader::Host for State {
    async fn get_trace(&mut self, trace_id: String) -> Result<Answer<trace_reader::TraceInfo>> {
        let request = HostRequest::GetTrace { trace_id };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::GetTrace(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::trace_info))
    }

    async fn list_observations(
        &mut self,
        trace_id: String,
        filter: trace_reader::ObservationFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<Answer<trace_reader::ObservationPage>> {
        let request = HostRequest::ListObservations {
            trace_id,
            filter: bindings::observation_filter(filter),
            cursor,
            limit: limit.min(MAX_PAGE),
        };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::ListObservations(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::observation_page))
    }

    async fn read_input(
        &mut self,
        trace_id: String,
        observation_id: String,
    ) -> Result<Answer<Option<types::Payload>>> {
        let answer = self.read(trace_id, observation_id, ObservationPart::Input).await;
        Ok(answer.map(|payload| payload.map(bindings::payload)))
    }

    async fn read_output(
        &mut self,
        trace_id: String,
        observation_id: String,
    ) -> Result<Answer<Option<types::Payload>>> {
        let answer = self.read(trace_id, observation_id, ObservationPart::Output).await;
        Ok(answer.map(|payload| payload.map(bindings::payload)))
    }

    async fn read_metadata(
        &mut self,
        trace_id: String,
        observation_id: String,
    ) -> Result<Answer<Option<String>>> {
        let answer = self.read(trace_id, observation_id, ObservationPart::Metadata).await;
        Ok(answer.map(|payload| payload.map(|payload| payload.to_json())))
    }

    async fn outline(
        &mut self,
        trace_id: String,
        parent_id: Option<String>,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<Answer<trace_reader::OutlinePage>> {
        let request =
            HostRequest::Outline { trace_id, parent_id, cursor, limit: limit.clamp(1, MAX_PAGE) };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::Outline(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::outline_page))
    }

    async fn search(
        &mut self,
        trace_id: String,
        text: String,
        limit: u32,
    ) -> Result<Answer<Vec<trace_reader::Hit>>> {
        if text.is_empty() || MAX_SEARCH_BYTES < text.len() {
            let message = format!(
                "the search text has {} bytes; it must have 1 to {MAX_SEARCH_BYTES}",
                text.len()
            );
            return Ok(Err(self.record_trace_error(TraceError::TooLarge(message))));
        }
        let request = HostRequest::Search { trace_id, text, limit: limit.clamp(1, MAX_LIST) };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::Search(answer) => Some(answer),
            _ => None,
        });
        let hits = answer.await;
        Ok(hits.map(|hits| hits.into_iter().map(bindings::hit).collect()))
    }

    async fn read_range(
        &mut self,
        trace_id: String,
        observation_id: String,
        part: trace_reader::ObservationPart,
        offset: u64,
        length: u32,
    ) -> Result<Answer<Option<trace_reader::Slice>>> {
        let request = HostRequest::ReadRange {
            trace_id,
            observation_id,
            part: bindings::part(part),
            offset,
            length: length.min(MAX_RANGE),
        };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::ReadRange(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(|slice| slice.map(bindings::slice)))
    }
}

impl session_reader::Host for State {
    async fn get_session(
        &mut self,
        session_id: String,
    ) -> Result<Answer<session_reader::SessionInfo>> {
        let request = HostRequest::GetSession { session_id };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::GetSession(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::session_info))
    }

    async fn list_traces(
        &mut self,
        session_id: String,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<Answer<session_reader::TracePage>> {
        let request =
            HostRequest::ListTraces { session_id, cursor, limit: limit.clamp(1, MAX_LIST) };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::ListTraces(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::trace_page))
    }
}

impl run_reader::Host for State {
    async fn get_run(&mut self, run_id: String) -> Result<Answer<run_reader::RunInfo>> {
        let request = HostRequest::GetRun { run_id };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::GetRun(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::run_info))
    }

    async fn list_items(
        &mut self,
        run_id: String,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<Answer<run_reader::RunPage>> {
        let request = HostRequest::ListRunItems { run_id, cursor, limit: limit.clamp(1, MAX_LIST) };
        let answer = self.read_reply(request, |reply| match reply {
            HostReply::ListRunItems(answer) => Some(answer),
            _ => None,
        });
        Ok(answer.await.map(bindings::run_page))
    }
}

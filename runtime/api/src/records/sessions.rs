//! Sessions and their traces.

use axum::extract::{Path, State};
use perpend_api_types::list::NumberedList;
use perpend_api_types::session::{Session, SessionWithTraces};
use perpend_api_types::trace::{Trace, TraceFields};
use perpend_domain::access::Permission::TraceRead;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, TextOp, find};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Paging;
use perpend_domain::telemetry::SessionQuery;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::answer::{Answer, Streamed};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::parts::{self, ArrayWriter, BodyParts};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_telemetry::TracesReader;

use crate::records::state::{App, Routes};

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("fromTimestamp", "date-time", "Start of the session, inclusive."),
    param("toTimestamp", "date-time", "Start of the session, exclusive."),
    param("environment", "array", "Environments; repeatable."),
];

/// Most traces of a session in a response.
const MAX_TRACES: u32 = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listSessions",
        "/api/public/sessions",
        "List sessions, newest first",
        TraceRead,
    );
    routes.add(list.query(LIST), list_sessions);
    let get = Operation::get(
        "getSession",
        "/api/public/sessions/{sessionId}",
        "Get a session with its traces",
        TraceRead,
    );
    routes.add(get, get_session);
}

async fn list_sessions(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<Session>>, Problem> {
    let paging = page::paging(&params)?;
    let query = SessionQuery {
        id: None,
        from: params.time("fromTimestamp")?,
        to: params.time("toTimestamp")?,
        environments: params.all("environment"),
        ..SessionQuery::default()
    };
    let found = app.store.telemetry.sessions(&caller.project, &query, paging).await?;
    Ok(Answer(NumberedList::new(paging, &found, |session| Session::new(&caller.project, session))))
}

async fn get_session(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Streamed<SessionWithTraces>, Problem> {
    let query = SessionQuery { id: Some(id.clone()), ..SessionQuery::default() };
    let found = app.store.telemetry.sessions(&caller.project, &query, Paging::default()).await?;
    let session = found.items.first();
    let session = session.ok_or_else(|| Problem::not_found("session"))?;
    let query = TraceQuery {
        filter: Filter {
            conditions: vec![Condition {
                column: find(TRACES, "sessionId"),
                test: Test::Text(TextOp::Equal, id),
            }],
        },
        ascending: true,
        limit: MAX_TRACES,
        with_content: true,
        ..TraceQuery::default()
    };
    let (traces, _) = app.store.telemetry.find_page(&caller.project, &query).await?;
    let mut first = Vec::new();
    parts::json(&mut first, &Session::new(&caller.project, session))?;
    // Removes the closing brace.
    first.pop();
    first.extend_from_slice(b",\"traces\":[");
    let traces =
        SessionTraces { app, project: caller.project, traces, members: ArrayWriter::default() };
    parts::answer(first, traces).await.map(Streamed::new)
}

/// The remaining traces of a session.
struct SessionTraces {
    app: App,
    project: ProjectId,
    traces: TracesReader,
    members: ArrayWriter,
}

impl BodyParts for SessionTraces {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let telemetry = &self.app.store.telemetry;
        for stored in telemetry.next_traces(&mut self.traces).await? {
            let trace = Trace::new(&self.project, stored, TraceFields::ALL);
            self.members.push(out, &trace)?;
        }
        let is_done = self.traces.is_done();
        if is_done {
            out.extend_from_slice(b"]}");
        }
        Ok(is_done)
    }
}

//! Observations: v2 with cursor, and v1 with pages.

use axum::extract::{Path, State};
use perpend_api_types::list::{CursorList, CursorMeta, NumberedList, PageMeta};
use perpend_api_types::observation::{FieldGroups, FullObservation, GroupedObservation};
use perpend_catalog::ObservationReferences;
use perpend_domain::access::Permission::TraceRead;
use perpend_domain::filter::{Filter, OBSERVATIONS};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::telemetry::{
    ObservationCursor, ObservationPage, ObservationQuery, ScanLimit, StoredObservation,
};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::{Answer, Streamed};
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Param, Params, must_be_one_of, param};
use perpend_http_kit::page;
use perpend_http_kit::parts::{self, ArrayWriter, BodyParts};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::json;

use super::conditions::Conditions;
use crate::records::state::{App, Routes};

/// Most observations that one request tests in memory. Reading a content takes about ten microseconds.
const MAX_TESTED: u64 = 100_000;
/// Bytes of content of a page, or of a part of a numbered page. A larger page ends early.
const PAGE_BYTES: usize = 8 << 20;

const V2: &[Param] = &[
    param(
        "fields",
        "string",
        "Comma-separated list of `core`, `basic`, `time`, `io`, `metadata`, `model`, `usage`, `prompt`, `metrics`, `tools`, `trace_context`.",
    ),
    param(
        "expandMetadata",
        "string",
        "Comma-separated list of metadata keys whose values are not truncated.",
    ),
    param("limit", "integer", "Observations per page, 1 to 1000; 50 when absent."),
    param("cursor", "string", "`meta.cursor` of the previous page."),
    param("isRootObservation", "boolean", "Whether the observation is a root."),
    param("name", "string", "Name of the observation."),
    param("userId", "string", "Id of the user."),
    param("sessionId", "string", "Id of the session."),
    param(
        "type",
        "string",
        "`SPAN`, `GENERATION`, `EVENT`, `AGENT`, `TOOL`, `CHAIN`, `RETRIEVER`, `EVALUATOR`, `EMBEDDING` or `GUARDRAIL`.",
    ),
    param("traceId", "string", "Id of the trace."),
    param("level", "string", "`DEBUG`, `DEFAULT`, `WARNING` or `ERROR`."),
    param("version", "string", "Version of the observation."),
    param("parentObservationId", "string", "Id of the parent; empty for observations without one."),
    param("environment", "array", "Environments; repeatable."),
    param("fromStartTime", "date-time", "Start, inclusive."),
    param("toStartTime", "date-time", "End, exclusive."),
    param(
        "filter",
        "string",
        "JSON array of conditions. Takes precedence over the other parameters.",
    ),
];

const V1: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("name", "string", "Name of the observation."),
    param("userId", "string", "Id of the user."),
    param("type", "string", "Type of the observation."),
    param("traceId", "string", "Id of the trace."),
    param("level", "string", "`DEBUG`, `DEFAULT`, `WARNING` or `ERROR`."),
    param("parentObservationId", "string", "Id of the parent."),
    param("environment", "array", "Environments; repeatable."),
    param("fromStartTime", "date-time", "Start, inclusive."),
    param("toStartTime", "date-time", "End, exclusive."),
    param("version", "string", "Version of the observation."),
    param(
        "filter",
        "string",
        "JSON array of conditions. Takes precedence over the other parameters.",
    ),
];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listObservations",
        "/api/public/v2/observations",
        "List observations, latest start first",
        TraceRead,
    );
    routes.add(list.query(V2), list_v2);
    let list = Operation::get(
        "listObservationsV1",
        "/api/public/observations",
        "List observations by page, latest start first (v1)",
        TraceRead,
    );
    routes.add(list.query(V1), list_v1);
    let get = Operation::get(
        "getObservation",
        "/api/public/observations/{observationId}",
        "Get an observation (v1)",
        TraceRead,
    );
    routes.add(get, get_v1);
}

/// Version of the list. In v1 every empty parameter counts as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

fn filter(params: &Params, version: Version) -> Result<Filter, Problem> {
    let mut conditions = Conditions::new(params, OBSERVATIONS)?;
    for name in ["name", "userId", "sessionId", "type", "traceId", "level", "version"] {
        conditions.equals(name, params.text(name));
    }
    match params.raw("parentObservationId") {
        Some("") if version == Version::V2 => conditions.is("hasParentObservation", Some(false)),
        _ => conditions.equals("parentObservationId", params.text("parentObservationId")),
    }
    conditions.is("isRootObservation", params.flag("isRootObservation")?);
    conditions.any_of("environment", &params.all("environment"));
    conditions.between("startTime", params.time("fromStartTime")?, params.time("toStartTime")?);
    conditions.finish()
}

fn read_cursor(params: &Params) -> Result<Option<ObservationCursor>, Problem> {
    let Some(value) = cursor::decode(params)? else {
        return Ok(None);
    };
    let trace = value[1].as_str().and_then(|id| TraceId::new(id).ok());
    let id = value[2].as_str().and_then(|id| ObservationId::new(id).ok());
    match (value[0].as_i64(), trace, id) {
        (Some(micros), Some(trace_id), Some(id)) => {
            Ok(Some(ObservationCursor { start: Timestamp::from_micros(micros), trace_id, id }))
        }
        _ => Err(cursor::invalid_cursor()),
    }
}

fn encode_cursor(cursor: &ObservationCursor) -> String {
    cursor::encode(&json!([cursor.start.as_micros(), cursor.trace_id, cursor.id]))
}

/// The encoded cursor after a page. An empty page may have one, if the scan limit was reached.
fn encoded_next_cursor(page: &ObservationPage) -> Option<String> {
    next_cursor(page).as_ref().map(encode_cursor)
}

fn next_cursor(page: &ObservationPage) -> Option<ObservationCursor> {
    if let Some(scan_limit) = &page.scan_limit {
        return Some(scan_limit.after.clone());
    }
    let last = page.items.last().filter(|_| page.has_more)?;
    let last = &last.observation;
    Some(ObservationCursor {
        start: last.start,
        trace_id: last.trace_id.clone(),
        id: last.id.clone(),
    })
}

/// A numbered page requires the total, which the scan limit prevents.
fn cannot_count(scan_limit: &ScanLimit) -> Problem {
    let message = format!(
        "conditions on {} are tested per observation, and the total would require more than {MAX_TESTED} \
         tests: narrow the time range with fromStartTime and toStartTime, add \
         conditions on other columns, or use /api/public/v2/observations",
        scan_limit.columns.join(", ")
    );
    Problem::query("filter", message)
}

fn groups(params: &Params) -> Result<FieldGroups, Problem> {
    let names = params.list("fields");
    if let Some(unknown) = names.iter().find(|name| !FieldGroups::NAMES.contains(&name.as_str())) {
        let message = must_be_one_of(FieldGroups::NAMES, unknown);
        return Err(Problem::query("fields", message));
    }
    if params.flag("parseIoAsJson")? == Some(true) {
        let message = "must not be true: input and output are raw text";
        return Err(Problem::query("parseIoAsJson", message));
    }
    Ok(FieldGroups::new(names, params.list("expandMetadata")))
}

async fn list_v2(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<GroupedObservation>>, Problem> {
    let groups = groups(&params)?;
    let query = ObservationQuery {
        filter: filter(&params, Version::V2)?,
        after: read_cursor(&params)?,
        limit: params.int("limit", 1, 1_000, 50)?,
        with_content: groups.reads_content(),
        without_records: true,
        max_tested: MAX_TESTED,
        max_bytes: PAGE_BYTES,
        ..ObservationQuery::default()
    };
    let page = app.store.telemetry.observations(&caller.project, &query).await?;
    let known = match groups.has("prompt") || groups.has("usage") {
        true => looked_up(&app, &caller.project, &page.items).await?,
        false => ObservationReferences::default(),
    };
    let next = encoded_next_cursor(&page);
    let view = |stored: StoredObservation| {
        let named = known.named_by(&stored.observation);
        GroupedObservation::new(&caller.project, stored, &groups, named)
    };
    Ok(Answer(CursorList {
        data: page.items.into_iter().map(view).collect(),
        meta: CursorMeta { cursor: next, limit: None },
    }))
}

async fn list_v1(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Streamed<NumberedList<FullObservation>>, Problem> {
    let paging = page::paging(&params)?;
    let query = ObservationQuery {
        filter: filter(&params, Version::V1)?,
        limit: paging.limit,
        offset: paging.offset(),
        with_content: true,
        without_records: true,
        with_total: true,
        max_tested: MAX_TESTED,
        max_bytes: PAGE_BYTES,
        ..ObservationQuery::default()
    };
    let found = app.store.telemetry.observations(&caller.project, &query).await?;
    if let Some(scan_limit) = &found.scan_limit {
        return Err(cannot_count(scan_limit));
    }
    let page = NumberedPageParts {
        app,
        project: caller.project,
        meta: PageMeta::new(paging, found.n_total),
        first: Some(found),
        query: ObservationQuery { offset: 0, with_total: false, ..query },
        members: ArrayWriter::default(),
    };
    let response = parts::answer(parts::LIST.to_vec(), page).await?;
    Ok(Streamed::new(response))
}

/// The remaining parts of a numbered page, read by cursor.
struct NumberedPageParts {
    app: App,
    project: ProjectId,
    /// Read before the response starts.
    first: Option<ObservationPage>,
    query: ObservationQuery,
    meta: PageMeta,
    members: ArrayWriter,
}

impl BodyParts for NumberedPageParts {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let found = match self.first.take() {
            Some(found) => found,
            None => {
                let telemetry = &self.app.store.telemetry;
                telemetry.observations(&self.project, &self.query).await?
            }
        };
        let next = next_cursor(&found);
        let n_found = u32::try_from(found.items.len()).unwrap_or(u32::MAX);
        self.query.limit = self.query.limit.saturating_sub(n_found);
        let known = looked_up(&self.app, &self.project, &found.items).await?;
        for stored in found.items {
            let named = known.named_by(&stored.observation);
            self.members.push(out, &FullObservation::new(stored, named))?;
        }
        match next.filter(|_| 0 < self.query.limit) {
            Some(cursor) => {
                self.query.after = Some(cursor);
                Ok(false)
            }
            None => {
                parts::end_list(out, &self.meta)?;
                Ok(true)
            }
        }
    }
}

async fn get_v1(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<FullObservation>, Problem> {
    let missing = || Problem::not_found("observation");
    let id = ObservationId::new(&id).map_err(|_| missing())?;
    let found = app.store.telemetry.observation(&caller.project, &id).await?;
    let found = found.ok_or_else(missing)?;
    let known = looked_up(&app, &caller.project, std::slice::from_ref(&found)).await?;
    let named = known.named_by(&found.observation);
    Ok(Answer(FullObservation::new(found, named)))
}

async fn looked_up(
    app: &App,
    project: &ProjectId,
    found: &[StoredObservation],
) -> Result<ObservationReferences, Problem> {
    let observations = found.iter().map(|stored| &stored.observation);
    let (catalog, now) = (&app.store.catalog, app.web.clock.now());
    let known = ObservationReferences::of(catalog, &app.prices, project, observations, now);
    Ok(known.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_limit() -> ScanLimit {
        ScanLimit {
            after: ObservationCursor {
                start: Timestamp::from_micros(1_700_000_000_000_000),
                trace_id: TraceId::new("t").unwrap(),
                id: ObservationId::new("o").unwrap(),
            },
            columns: vec!["input", "metadata"],
        }
    }

    #[test]
    fn an_empty_page_after_the_scan_limit_has_a_cursor() {
        let page = ObservationPage { scan_limit: Some(scan_limit()), ..ObservationPage::default() };
        assert_eq!(encoded_next_cursor(&page), Some(encode_cursor(&scan_limit().after)));
        assert_eq!(encoded_next_cursor(&ObservationPage::default()), None);
    }

    #[test]
    fn the_error_of_the_scan_limit_names_the_columns_and_the_remedy() {
        let problem = cannot_count(&scan_limit());
        let message = problem.message();
        assert!(message.starts_with("filter: "), "{message}");
        assert!(message.contains("input, metadata"), "{message}");
        assert!(message.contains("fromStartTime"), "{message}");
    }
}

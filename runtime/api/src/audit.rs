//! The audit trail of a project, as a list and as a file.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::audit as contract;
use perpend_api_types::list::CursorList;
use perpend_catalog::audit::{AuditQuery, AuditRecord, AuditResult};
use perpend_catalog::{Catalog, KeyOwner};
use perpend_domain::access::Permission::AuditRead;
use perpend_domain::csv;
use perpend_domain::dataset_import::with_mark;
use perpend_domain::list::ListPosition;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::parts::{self, BodyParts};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use crate::state::{App, Routes};

/// Records per query of a file.
const PER_READ: u32 = 500;

pub(crate) const LIST: &[Param] = &[
    param("actor", "string", "Name of the actor: id of a member, or public key."),
    param("operation", "string", "Start of the id of the operation, such as `updateRule`."),
    param("objectKind", "string", "Kind of the object, such as `evaluation-rule`."),
    param("objectId", "string", "Id of the object."),
    param("result", "string", "`done` or `denied`."),
    param("from", "date-time", "Records from this time on."),
    param("to", "date-time", "Records before this time."),
    param("limit", "integer", "Rows per page, 1 to 100; 50 when absent."),
    param("cursor", "string", "`meta.cursor` of the previous page."),
];
pub(crate) const EXPORT: &[Param] = &[
    param("format", "string", "`jsonl` (default) or `csv`."),
    param("actor", "string", "As in the list."),
    param("operation", "string", "As in the list."),
    param("objectKind", "string", "As in the list."),
    param("objectId", "string", "As in the list."),
    param("result", "string", "As in the list."),
    param("from", "date-time", "As in the list."),
    param("to", "date-time", "As in the list."),
];

const COLUMNS: [&str; 14] = [
    "seq",
    "at",
    "organization",
    "project",
    "actorKind",
    "actor",
    "address",
    "requestId",
    "operation",
    "objectKind",
    "objectId",
    "result",
    "before",
    "after",
];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listAuditRecords",
        "/api/v1/audit",
        "List the audit trail of the project, newest first",
        AuditRead,
    );
    routes.add(list.query(LIST), list_records);
    let export = Operation::get(
        "exportAuditRecords",
        "/api/v1/audit/export",
        "Download the audit trail of the project, newest first; the download is recorded",
        AuditRead,
    );
    let export = export.query(EXPORT).bytes("*/*").recorded_read();
    routes.add(export, export_records);
}

fn view(record: AuditRecord) -> contract::AuditRecord {
    contract::AuditRecord {
        seq: record.seq,
        at: record.at,
        organization: record.organization.to_string(),
        project: record.project.map(|project| project.to_string()),
        actor: contract::AuditActor { kind: record.actor.kind, name: record.actor.name },
        address: record.address,
        request_id: record.request_id,
        operation: record.operation,
        object: contract::AuditObject { kind: record.object.kind, id: record.object.id },
        result: record.result.name().to_owned(),
        before: record.before.map(AnyJson),
        after: record.after.map(AnyJson),
        hash: record.hash.to_string(),
    }
}

fn filter(params: &Params) -> Result<AuditQuery, Problem> {
    let text = |name: &str| params.text(name).map(str::to_owned);
    Ok(AuditQuery {
        actor: text("actor"),
        operation: text("operation"),
        object_kind: text("objectKind"),
        object_id: text("objectId"),
        result: params.choice(
            "result",
            &[AuditResult::Done, AuditResult::Denied],
            AuditResult::name,
        )?,
        from: params.time("from")?,
        to: params.time("to")?,
    })
}

/// A page of the trail of an owner.
pub(crate) async fn page(
    catalog: &Catalog,
    owner: &KeyOwner,
    params: &Params,
) -> Result<CursorList<contract::AuditRecord>, Problem> {
    params.only(LIST)?;
    let limit = params.int("limit", 1, 100, 50)?;
    let cursor = cursor::position(params)?;
    if cursor.as_ref().is_some_and(|cursor| cursor.id.parse::<i64>().is_err()) {
        return Err(cursor::invalid_cursor());
    }
    let position = cursor.map(ListPosition::after).unwrap_or_default();
    let page = catalog.audit_records(owner, &filter(params)?, &position, limit).await?;
    Ok(CursorList {
        meta: cursor::meta(page.older.as_ref()),
        data: page.items.into_iter().map(view).collect(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jsonl,
    Csv,
}

impl Format {
    const ALL: &'static [Self] = &[Self::Jsonl, Self::Csv];

    const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// Records that were not sent yet.
struct Export {
    catalog: Catalog,
    owner: KeyOwner,
    filter: AuditQuery,
    position: ListPosition,
    format: Format,
}

/// Appends a record as a line of a table. No spreadsheet evaluates its texts.
fn push_line(out: &mut Vec<u8>, record: &contract::AuditRecord) {
    let json = |state: &Option<AnyJson>| {
        state.as_ref().map(|state| state.0.to_string()).unwrap_or_default()
    };
    let text = |text: &Option<String>| text.as_deref().map(with_mark).unwrap_or_default();
    let cells: [String; 14] = [
        record.seq.to_string(),
        record.at.to_iso_micros(),
        with_mark(&record.organization),
        text(&record.project),
        with_mark(&record.actor.kind),
        text(&record.actor.name),
        text(&record.address),
        text(&record.request_id),
        with_mark(&record.operation),
        with_mark(&record.object.kind),
        text(&record.object.id),
        record.result.clone(),
        json(&record.before),
        json(&record.after),
    ];
    let mut line = String::new();
    csv::push_texts(&mut line, ',', cells.iter().map(String::as_str));
    out.extend_from_slice(line.as_bytes());
}

impl BodyParts for Export {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let page =
            self.catalog.audit_records(&self.owner, &self.filter, &self.position, PER_READ).await?;
        for record in page.items.into_iter().map(view) {
            match self.format {
                Format::Jsonl => {
                    parts::json(out, &record)?;
                    out.push(b'\n');
                }
                Format::Csv => push_line(out, &record),
            }
        }
        let is_last = page.older.is_none();
        self.position = page.older.map(ListPosition::after).unwrap_or_default();
        Ok(is_last)
    }
}

/// The trail of an owner as a file.
pub(crate) async fn file(
    catalog: &Catalog,
    owner: KeyOwner,
    params: &Params,
) -> Result<Response, Problem> {
    params.only(EXPORT)?;
    let format = params.choice("format", Format::ALL, Format::name)?.unwrap_or(Format::Jsonl);
    let mut first = Vec::new();
    if format == Format::Csv {
        let mut line = String::new();
        csv::push_texts(&mut line, ',', COLUMNS);
        first.extend_from_slice(line.as_bytes());
    }
    let export = Export {
        catalog: catalog.clone(),
        owner,
        filter: filter(params)?,
        position: ListPosition::default(),
        format,
    };
    let response = parts::answer(first, export).await?;
    let name = format!("attachment; filename=\"audit.{}\"", format.name());
    let headers = [(CONTENT_TYPE, format.media_type().to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, response).into_response())
}

async fn list_records(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<contract::AuditRecord>>, Problem> {
    let owner = KeyOwner::Project(caller.project);
    page(&app.store.catalog, &owner, &params).await.map(Answer)
}

async fn export_records(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Response, Problem> {
    file(&app.store.catalog, KeyOwner::Project(caller.project), &params).await
}

#[cfg(test)]
mod tests {
    use perpend_domain::time::Timestamp;

    use super::*;

    #[test]
    fn a_line_of_a_table_has_no_formula() {
        let record = contract::AuditRecord {
            seq: 7,
            at: Timestamp::from_millis(0),
            organization: "o".to_owned(),
            project: None,
            actor: contract::AuditActor { kind: "key".to_owned(), name: Some("=1+1".to_owned()) },
            address: None,
            request_id: Some("@r".to_owned()),
            operation: "updateRule".to_owned(),
            object: contract::AuditObject {
                kind: "evaluation-rule".to_owned(),
                id: Some("-1".to_owned()),
            },
            result: "done".to_owned(),
            before: None,
            after: None,
            hash: String::new(),
        };
        let mut out = Vec::new();
        push_line(&mut out, &record);
        let line = String::from_utf8(out).unwrap();
        for text in ["'=1+1", "'@r", "'-1"] {
            assert!(line.contains(text), "{line}");
        }
    }
}

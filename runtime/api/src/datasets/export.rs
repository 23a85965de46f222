//! Download of the items of a dataset as a file that an import turns into equal items.

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use perpend_catalog::datasets::ItemQuery;
use perpend_domain::access::Permission::DatasetRead;
use perpend_domain::csv;
use perpend_domain::dataset::{DatasetItem, as_of};
use perpend_domain::dataset_import::{EXPORT_COLUMNS, FileFormat, with_mark};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::parts::{self, BodyParts};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use serde_json::Value;

use super::find::find;
use crate::state::{App, Routes};

const EXPORT: &str = "/api/v1/datasets/{datasetName}/export";
/// Items per query.
const PER_READ: u32 = 500;

const PARAMS: &[Param] = &[
    param("format", "string", "`csv`, `tsv`, `jsonl` (default) or `json`."),
    param("version", "date-time", "Items as of this time."),
    param("archived", "boolean", "Archived items, too; `true` when absent."),
];

pub(super) fn routes(routes: &mut Routes) {
    let export = Operation::get(
        "exportDataset",
        EXPORT,
        "Download all items of a dataset, oldest first",
        DatasetRead,
    );
    let export = export.query(PARAMS).bytes("*/*").recorded_read();
    routes.add(export, export_items);
}

/// An item in JSON files.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportedItem<'i> {
    id: &'i str,
    input: &'i Value,
    expected_output: &'i Value,
    metadata: &'i Value,
    status: &'static str,
    source_trace_id: Option<&'i str>,
    source_observation_id: Option<&'i str>,
}

impl<'i> From<&'i DatasetItem> for ExportedItem<'i> {
    fn from(item: &'i DatasetItem) -> Self {
        Self {
            id: &item.id,
            input: &item.input,
            expected_output: &item.expected_output,
            metadata: &item.metadata,
            status: item.status.as_str(),
            source_trace_id: item.source_trace_id.as_deref(),
            source_observation_id: item.source_observation_id.as_deref(),
        }
    }
}

const fn media_type(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Csv => "text/csv; charset=utf-8",
        FileFormat::Tsv => "text/tab-separated-values; charset=utf-8",
        FileFormat::Jsonl => "application/x-ndjson; charset=utf-8",
        FileFormat::Json => "application/json",
    }
}

const fn delimiter(format: FileFormat) -> char {
    match format {
        FileFormat::Tsv => '\t',
        _ => ',',
    }
}

/// A name for a file: what differs between file systems becomes a hyphen.
fn file_name(dataset: &str) -> String {
    let characters = dataset.chars().take(80);
    characters.map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

/// Appends an item as a line of a table. Contents are JSON, which no spreadsheet evaluates.
fn push_line(out: &mut Vec<u8>, delimiter: char, item: &DatasetItem) {
    let id = with_mark(&item.id);
    let contents =
        [&item.input, &item.expected_output, &item.metadata].map(|value| value.to_string());
    let source = |id: &Option<String>| id.as_deref().map(with_mark).unwrap_or_default();
    let (trace, observation) = (source(&item.source_trace_id), source(&item.source_observation_id));
    let [input, expected, metadata] = &contents;
    let cells: [&str; 7] =
        [&id, input, expected, metadata, item.status.as_str(), &trace, &observation];
    let mut line = String::new();
    csv::push_texts(&mut line, delimiter, cells);
    out.extend_from_slice(line.as_bytes());
}

/// Appends the start of a file.
pub(super) fn push_header(out: &mut Vec<u8>, format: FileFormat) {
    match format {
        FileFormat::Csv | FileFormat::Tsv => {
            let mut line = String::new();
            csv::push_texts(&mut line, delimiter(format), EXPORT_COLUMNS);
            out.extend_from_slice(line.as_bytes());
        }
        FileFormat::Json => out.push(b'['),
        FileFormat::Jsonl => {}
    }
}

/// Writes items in a format.
#[derive(Debug)]
pub(super) struct Serializer {
    format: FileFormat,
    has_items: bool,
}

impl Serializer {
    pub(super) fn new(format: FileFormat) -> Self {
        Self { format, has_items: false }
    }

    /// Appends an item.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, item: &DatasetItem) -> Result<(), Problem> {
        match self.format {
            FileFormat::Csv | FileFormat::Tsv => push_line(out, delimiter(self.format), item),
            FileFormat::Jsonl => {
                parts::json(out, &ExportedItem::from(item))?;
                out.push(b'\n');
            }
            FileFormat::Json => {
                let separator = if self.has_items { ",\n" } else { "\n" };
                out.extend_from_slice(separator.as_bytes());
                parts::json(out, &ExportedItem::from(item))?;
            }
        }
        self.has_items = true;
        Ok(())
    }

    /// Appends the end of a file.
    pub(super) fn end(&self, out: &mut Vec<u8>) {
        if self.format == FileFormat::Json {
            out.extend_from_slice(b"\n]\n");
        }
    }
}

/// Items that were not sent yet.
struct Export {
    app: App,
    project: ProjectId,
    query: ItemQuery,
    after: Option<Cursor>,
    serializer: Serializer,
}

impl BodyParts for Export {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let catalog = &self.app.store.catalog;
        let some =
            catalog.oldest_dataset_items(&self.project, &self.query, self.after.as_ref(), PER_READ);
        let (some, is_cut) = some.await?;
        let is_last = !is_cut && some.len() < PER_READ as usize;
        for version in &some {
            self.serializer.push(out, &version.item)?;
        }
        if let Some(last) = some.last() {
            let (at, id) = (last.item.created_at, last.item.id.clone());
            self.after = Some(Cursor::new(at, id));
        }
        if is_last {
            self.serializer.end(out);
        }
        Ok(is_last)
    }
}

async fn export_items(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    let format = params.choice("format", FileFormat::ALL, FileFormat::as_str)?;
    let format = format.unwrap_or(FileFormat::Jsonl);
    let at = params.time("version")?.map(as_of);
    let with_archived = params.flag("archived")?.unwrap_or(true);
    let dataset = find(&app, &caller, &name).await?.dataset;
    let mut first = Vec::new();
    push_header(&mut first, format);
    let query =
        ItemQuery { dataset_id: Some(dataset.id), at, with_archived, ..ItemQuery::default() };
    let project = caller.project;
    let serializer = Serializer::new(format);
    let export = Export { app, project, query, after: None, serializer };
    let response = parts::answer(first, export).await?;
    let file = format!("attachment; filename=\"{}.{format}\"", file_name(&dataset.name));
    let headers = [(CONTENT_TYPE, media_type(format).to_owned()), (CONTENT_DISPOSITION, file)];
    Ok((headers, response).into_response())
}

//! Bodies of imports.

use perpend_api_types::any_json::AnyJson;
use perpend_catalog::dataset_imports::{DatasetImport, ImportReject};
use perpend_domain::dataset_import::{
    ColumnMapping, ColumnType, DuplicatePolicy, ImportSettings, ImportTarget,
};
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A column and the place of its values in items.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetImportColumn)]
pub(super) struct MappingView {
    /// Name of the column, or of the member of objects.
    column: String,
    /// `id`, `input`, `expectedOutput`, `metadata`, `status`, `sourceTraceId` or `sourceObservationId`.
    target: String,
    /// Keys from the member to the value; absent or empty if the value is the whole member.
    #[serde(default)]
    path: Vec<String>,
    /// `text`, `number`, `boolean` or `json`; `text` when absent. Values of JSON files have types already.
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// A change of the settings of an import. Absent members are kept.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetImportSettings)]
pub(super) struct SettingsInput {
    /// Label of the character encoding, such as `utf-8` or `windows-1252`.
    pub(super) encoding: Option<String>,
    /// One ASCII character.
    pub(super) delimiter: Option<String>,
    /// Whether the first line has the names of the columns.
    pub(super) has_header: Option<bool>,
    /// Whether the apostrophe is removed that an export puts in front of text that spreadsheets evaluate.
    pub(super) is_marked: Option<bool>,
    /// The columns that are imported.
    pub(super) mapping: Option<Vec<MappingView>>,
    /// Treatment of rows whose id exists: `skip`, `update` or `stop`.
    pub(super) duplicates: Option<String>,
}

/// An import of a file.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetImport)]
pub(super) struct ImportView {
    id: String,
    file_name: String,
    byte_count: u64,
    /// `uploaded`, `checking`, `checked`, `importing`, `completed`, `failed` or `cancelled`.
    state: &'static str,
    /// Why it failed.
    error: Option<String>,
    /// Whether the items are made of traces or observations. Then there is no file, and `preview` has the query.
    is_of_traces: bool,
    /// `csv`, `tsv`, `jsonl` or `json`.
    format: &'static str,
    encoding: String,
    delimiter: String,
    has_header: bool,
    is_marked: bool,
    mapping: Vec<MappingView>,
    duplicates: &'static str,
    /// Names of the columns, and the first 20 rows: a list of values by column, or an object with the `problem` of a
    /// row that cannot be read.
    preview: AnyJson,
    /// Rows so far in the current or last stage.
    progress: ProgressView,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Rows of an import by outcome. While it is checked, the outcomes are those that the import would have.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetImportProgress)]
struct ProgressView {
    /// Share of the file, from 0 to 1.
    share: f64,
    rows: u64,
    created: u64,
    updated: u64,
    unchanged: u64,
    skipped: u64,
    invalid: u64,
}

/// A problem of a row that is not imported.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DatasetImportReject)]
pub(super) struct RejectView {
    /// From 1, without the header.
    pub(super) row: u64,
    /// Empty if the problem is about the whole row.
    pub(super) column: String,
    /// JSON Pointer from the item.
    pub(super) pointer: String,
    pub(super) reason: String,
}

impl From<ImportReject> for RejectView {
    fn from(reject: ImportReject) -> Self {
        Self {
            row: reject.row,
            column: reject.column,
            pointer: reject.pointer,
            reason: reject.message,
        }
    }
}

impl From<&ColumnMapping> for MappingView {
    fn from(mapping: &ColumnMapping) -> Self {
        Self {
            column: mapping.column.clone(),
            target: mapping.target.to_string(),
            path: mapping.path.clone(),
            kind: Some(mapping.kind.to_string()),
        }
    }
}

pub(super) fn import(import: &DatasetImport) -> ImportView {
    let (settings, counts) = (&import.settings, &import.counts);
    let share = match import.n_bytes {
        0 if import.state.is_running() => 0.0,
        0 => 1.0,
        n_bytes => counts.n_bytes as f64 / n_bytes as f64,
    };
    ImportView {
        id: import.id.clone(),
        file_name: import.file_name.clone(),
        byte_count: import.n_bytes,
        state: import.state.as_str(),
        error: import.error.clone(),
        is_of_traces: settings.is_of_traces,
        format: settings.format.as_str(),
        encoding: settings.encoding.clone(),
        delimiter: settings.delimiter.to_string(),
        has_header: settings.has_header,
        is_marked: settings.is_marked,
        mapping: settings.mapping.iter().map(MappingView::from).collect(),
        duplicates: settings.duplicates.as_str(),
        preview: (&import.preview).into(),
        progress: ProgressView {
            share,
            rows: counts.n_rows,
            created: counts.n_created,
            updated: counts.n_updated,
            unchanged: counts.n_unchanged,
            skipped: counts.n_skipped,
            invalid: counts.n_invalid,
        },
        created_at: import.created_at,
        updated_at: import.updated_at,
    }
}

/// One of the names of a closed list.
fn named<T: Copy>(
    field: &str,
    raw: &str,
    all: &[T],
    text: fn(T) -> &'static str,
) -> Result<T, Problem> {
    let found = all.iter().copied().find(|value| text(*value) == raw);
    found.ok_or_else(|| {
        let allowed: Vec<&str> = all.iter().map(|value| text(*value)).collect();
        Problem::body(field, must_be_one_of(&allowed, raw))
    })
}

/// Reads a delimiter.
pub(super) fn delimiter(raw: &str) -> Result<char, String> {
    let mut characters = raw.chars();
    match (characters.next(), characters.next()) {
        (Some(delimiter), None) if delimiter.is_ascii() => Ok(delimiter),
        _ => Err(format!("must be one ASCII character, got {raw:?}")),
    }
}

/// Reads the label of an encoding.
pub(super) fn encoding(raw: &str) -> Result<String, String> {
    match encoding_rs::Encoding::for_label(raw.as_bytes()) {
        Some(encoding) => Ok(encoding.name().to_ascii_lowercase()),
        None => Err(format!("must be the label of a character encoding, got {raw:?}")),
    }
}

/// Reads a treatment of duplicates.
pub(super) fn duplicates(raw: &str) -> Result<DuplicatePolicy, Problem> {
    named("duplicates", raw, DuplicatePolicy::ALL, DuplicatePolicy::as_str)
}

impl SettingsInput {
    /// Whether the file has to be read again.
    pub(super) fn changes_reading(&self) -> bool {
        self.encoding.is_some() || self.delimiter.is_some() || self.has_header.is_some()
    }

    /// Sets what does not depend on the file.
    pub(super) fn apply(&self, settings: &mut ImportSettings) -> Result<(), Problem> {
        if let Some(is_marked) = self.is_marked {
            settings.is_marked = is_marked;
        }
        if let Some(raw) = &self.duplicates {
            settings.duplicates = duplicates(raw)?;
        }
        if let Some(mapping) = &self.mapping {
            let mapping = mapping.iter().enumerate().map(|(at, each)| {
                let target = format!("mapping[{at}].target");
                let kind = format!("mapping[{at}].type");
                Ok(ColumnMapping {
                    column: each.column.clone(),
                    target: named(&target, &each.target, ImportTarget::ALL, ImportTarget::as_str)?,
                    path: each.path.clone(),
                    kind: match each.kind.as_deref() {
                        None => ColumnType::Text,
                        Some(raw) => named(&kind, raw, ColumnType::ALL, ColumnType::as_str)?,
                    },
                })
            });
            settings.mapping = mapping.collect::<Result<_, Problem>>()?;
        }
        Ok(())
    }
}

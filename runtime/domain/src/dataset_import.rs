//! Imports of files into datasets: settings, the mapping of columns, and the item that results from a row.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dataset::{ItemPatch, ItemStatus, MAX_ITEM_ID_CHARS};
use crate::ids::MAX_ID_CHARS;
use crate::named::named_enum;
use crate::plugin::Digest;

/// Levels of a key path.
pub const MAX_KEYS: usize = 16;
/// Most columns of a mapping.
pub const MAX_MAPPED: usize = 2_000;
/// The first characters of text that spreadsheets evaluate.
const FORMULA_STARTS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];
/// Marks text that a spreadsheet must not evaluate.
const TEXT_MARK: char = '\'';

/// Columns of an export, in order.
pub const EXPORT_COLUMNS: [&str; 7] = [
    "id",
    "input",
    "expected_output",
    "metadata",
    "status",
    "source_trace_id",
    "source_observation_id",
];

named_enum!(
    /// The stage of an import.
    ImportState {
        Uploaded = "uploaded",
        Checking = "checking",
        Checked = "checked",
        Importing = "importing",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
);

impl ImportState {
    /// Whether a job works on it.
    #[must_use]
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Checking | Self::Importing)
    }

    /// Whether its file is no longer needed.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

named_enum!(
    /// The format of a file of items.
    FileFormat {
        Csv = "csv",
        Tsv = "tsv",
        Jsonl = "jsonl",
        Json = "json",
    }
);

impl FileFormat {
    /// Whether its rows are lines of cells.
    #[must_use]
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

named_enum!(
    /// The member of an item that a column sets.
    ImportTarget {
        Id = "id",
        Input = "input",
        ExpectedOutput = "expectedOutput",
        Metadata = "metadata",
        Status = "status",
        SourceTraceId = "sourceTraceId",
        SourceObservationId = "sourceObservationId",
    }
);

named_enum!(
    /// The type of the values of a column.
    ColumnType {
        Text = "text",
        Number = "number",
        Boolean = "boolean",
        Json = "json",
    }
);

named_enum!(
    /// The treatment of a row whose id an item has already.
    DuplicatePolicy {
        Skip = "skip",
        Update = "update",
        Stop = "stop",
    }
);

/// A column of a file and the place of its values in items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ColumnMapping {
    /// Name of the column, or of the member of objects.
    pub column: String,
    /// Member of the item.
    pub target: ImportTarget,
    /// Keys from the member to the value; empty if the value is the whole member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Type of the values. Values of JSON files have types already.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// How the rows of a file become items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportSettings {
    /// Format of the file.
    pub format: FileFormat,
    /// Label of the character encoding.
    pub encoding: String,
    /// Separator of cells, one ASCII character; of tables only.
    pub delimiter: char,
    /// Whether the first line has the names of the columns; of tables only.
    pub has_header: bool,
    /// Whether the apostrophe is removed that an export puts in front of text that spreadsheets evaluate.
    pub is_marked: bool,
    /// Columns that are imported.
    pub mapping: Vec<ColumnMapping>,
    /// Treatment of rows whose id exists.
    pub duplicates: DuplicatePolicy,
    /// Whether the file is a request for items of traces; then the other settings have no effect.
    #[serde(default)]
    pub is_of_traces: bool,
}

/// The item that a row describes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedItem {
    /// Its id; absent if no column has it.
    pub id: Option<String>,
    /// Its members.
    pub patch: ItemPatch,
}

/// A value of a row that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFault {
    /// Column of the file.
    pub column: String,
    /// JSON Pointer from the item.
    pub pointer: String,
    /// The problem.
    pub message: String,
}

/// Text with an apostrophe in front if a spreadsheet would evaluate it. [`without_mark`] is the inverse.
#[must_use]
pub fn with_mark(text: &str) -> String {
    if text.starts_with(FORMULA_STARTS) || text.starts_with(TEXT_MARK) {
        return format!("{TEXT_MARK}{text}");
    }
    text.to_owned()
}

/// Text without the apostrophe of [`with_mark`].
#[must_use]
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(TEXT_MARK).unwrap_or(text)
}

/// The id of the item of a row without an id: the same for each run of the import.
#[must_use]
pub fn row_item_id(import_id: &str, row: u64) -> String {
    let key = serde_json::json!(["import-row", import_id, row]);
    let mut id = Digest::of(key.to_string().as_bytes()).to_string();
    id.truncate(32);
    id
}

/// The mapping that the names of columns suggest.
#[must_use]
pub fn guessed_mapping(format: FileFormat, columns: &[String]) -> Vec<ColumnMapping> {
    let is_export = is_export(columns);
    let mut mapping: Vec<ColumnMapping> = Vec::new();
    for column in columns {
        let Some(target) = target_of(column) else { continue };
        if mapping.iter().any(|known| known.target == target) {
            continue;
        }
        let is_value = matches!(
            target,
            ImportTarget::Input | ImportTarget::ExpectedOutput | ImportTarget::Metadata
        );
        let kind = match is_value && (is_export || !format.is_table()) {
            true => ColumnType::Json,
            false => ColumnType::Text,
        };
        mapping.push(ColumnMapping { column: column.clone(), target, path: Vec::new(), kind });
    }
    mapping
}

/// Whether a table with these columns is an export.
#[must_use]
pub fn is_export(columns: &[String]) -> bool {
    columns == EXPORT_COLUMNS
}

/// The member that a column with this name holds.
fn target_of(column: &str) -> Option<ImportTarget> {
    let name: String = column.chars().filter(|c| c.is_alphanumeric()).collect();
    match name.to_lowercase().as_str() {
        "id" | "itemid" => Some(ImportTarget::Id),
        "input" | "question" | "prompt" => Some(ImportTarget::Input),
        "expectedoutput" | "expected" | "output" | "answer" | "groundtruth" | "reference" => {
            Some(ImportTarget::ExpectedOutput)
        }
        "metadata" => Some(ImportTarget::Metadata),
        "status" => Some(ImportTarget::Status),
        "sourcetraceid" => Some(ImportTarget::SourceTraceId),
        "sourceobservationid" => Some(ImportTarget::SourceObservationId),
        _ => None,
    }
}

impl ImportSettings {
    /// The settings of an import of traces.
    #[must_use]
    pub fn of_traces() -> Self {
        Self {
            format: FileFormat::Jsonl,
            encoding: "utf-8".to_owned(),
            delimiter: ',',
            has_header: false,
            is_marked: false,
            mapping: Vec::new(),
            duplicates: DuplicatePolicy::Update,
            is_of_traces: true,
        }
    }

    /// The first rule that the mapping breaks.
    ///
    /// # Errors
    /// The message for the user.
    pub fn check(&self, columns: &[String]) -> Result<(), String> {
        if self.mapping.is_empty() {
            return Err("mapping must map at least one column".to_owned());
        }
        if MAX_MAPPED < self.mapping.len() {
            let n = self.mapping.len();
            return Err(format!("mapping must have at most {MAX_MAPPED} columns, got {n}"));
        }
        if !self.delimiter.is_ascii() || matches!(self.delimiter, '"' | '\n' | '\r' | '\0') {
            return Err(format!("delimiter must be an ASCII character, got {:?}", self.delimiter));
        }
        for (at, each) in self.mapping.iter().enumerate() {
            if self.format.is_table() && !columns.contains(&each.column) {
                return Err(format!("mapping[{at}].column: unknown column {:?}", each.column));
            }
            if MAX_KEYS < each.path.len() {
                let n = each.path.len();
                return Err(format!(
                    "mapping[{at}].path must have at most {MAX_KEYS} keys, got {n}"
                ));
            }
            let has_members = matches!(
                each.target,
                ImportTarget::Input | ImportTarget::ExpectedOutput | ImportTarget::Metadata
            );
            if !has_members && !each.path.is_empty() {
                let target = each.target;
                return Err(format!("mapping[{at}].path must be absent for {target}"));
            }
            let is_same_place = |other: &&ColumnMapping| {
                other.target == each.target && overlap(&other.path, &each.path)
            };
            if let Some(other) = self.mapping[..at].iter().find(is_same_place) {
                return Err(format!(
                    "mapping[{at}]: columns {:?} and {:?} have the same place",
                    other.column, each.column
                ));
            }
        }
        Ok(())
    }

    /// The item of a row. `cell` gives the value of a column: text of a table, JSON of other files; `None` if the row
    /// has no such column. An empty cell sets nothing.
    ///
    /// # Errors
    /// All values that have another type than their column.
    pub fn item(
        &self,
        cell: impl Fn(&str) -> Option<Value>,
    ) -> Result<ImportedItem, Vec<RowFault>> {
        let mut item = ImportedItem::default();
        let mut faults = Vec::new();
        for mapping in &self.mapping {
            let Some(value) = cell(&mapping.column) else { continue };
            let set = self.typed(mapping, value).and_then(|value| match value {
                Some(value) => item.set(mapping, value),
                None => Ok(()),
            });
            if let Err(message) = set {
                let column = mapping.column.clone();
                faults.push(RowFault { column, pointer: pointer(mapping), message });
            }
        }
        match faults.is_empty() {
            true => Ok(item),
            false => Err(faults),
        }
    }

    /// The value of a cell by the type of its column; `None` for an empty cell.
    fn typed(&self, mapping: &ColumnMapping, value: Value) -> Result<Option<Value>, String> {
        let Value::String(text) = &value else { return Ok(Some(value)) };
        if !self.format.is_table() {
            return Ok(Some(value));
        }
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |expected: &str| format!("must be {expected}, got {:?}", shortened(text));
        match mapping.kind {
            ColumnType::Text if self.is_marked => Ok(Some(without_mark(text).into())),
            ColumnType::Text => Ok(Some(value)),
            ColumnType::Number => match text.trim().parse::<serde_json::Number>() {
                Ok(number) => Ok(Some(Value::Number(number))),
                Err(_) => Err(wrong("a number")),
            },
            ColumnType::Boolean => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Ok(Some(Value::Bool(true))),
                "false" | "no" | "0" => Ok(Some(Value::Bool(false))),
                _ => Err(wrong("`true` or `false`")),
            },
            ColumnType::Json => match serde_json::from_str(text) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(format!("must be JSON: {error}")),
            },
        }
    }
}

/// Whether one path is the start of the other.
fn overlap(one: &[String], other: &[String]) -> bool {
    let n = one.len().min(other.len());
    one[..n] == other[..n]
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

fn pointer(mapping: &ColumnMapping) -> String {
    let mut pointer = format!("/{}", mapping.target);
    for key in &mapping.path {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

impl ImportedItem {
    fn set(&mut self, mapping: &ColumnMapping, value: Value) -> Result<(), String> {
        match mapping.target {
            ImportTarget::Input => insert(&mut self.patch.input, &mapping.path, value),
            ImportTarget::ExpectedOutput => {
                insert(&mut self.patch.expected_output, &mapping.path, value)
            }
            ImportTarget::Metadata => insert(&mut self.patch.metadata, &mapping.path, value),
            ImportTarget::Id => set_id(&mut self.id, &value, MAX_ITEM_ID_CHARS),
            ImportTarget::SourceTraceId => {
                set_id(&mut self.patch.source_trace_id, &value, MAX_ID_CHARS)
            }
            ImportTarget::SourceObservationId => {
                set_id(&mut self.patch.source_observation_id, &value, MAX_ID_CHARS)
            }
            ImportTarget::Status => {
                if value.is_null() {
                    return Ok(());
                }
                let status = value.as_str().and_then(|text| text.parse::<ItemStatus>().ok());
                let status = status.ok_or("must be one of `ACTIVE`, `ARCHIVED`")?;
                self.patch.status = Some(status);
                Ok(())
            }
        }
    }
}

/// Sets an id. `null` sets nothing; a number is its text.
fn set_id(id: &mut Option<String>, value: &Value, max_chars: usize) -> Result<(), String> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err("must be text".to_owned()),
    };
    let is_valid = !text.is_empty()
        && text.chars().count() <= max_chars
        && !text.chars().any(char::is_control);
    if !is_valid {
        return Err(format!(
            "must have 1 to {max_chars} characters, without control characters, got {:?}",
            shortened(&text)
        ));
    }
    *id = Some(text);
    Ok(())
}

/// Puts a value at a path of keys, whose objects are created.
fn insert(member: &mut Option<Value>, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, keys)) = path.split_last() else {
        *member = Some(value);
        return Ok(());
    };
    let mut place = member.get_or_insert_with(|| Value::Object(Map::new()));
    for key in keys {
        let Some(members) = place.as_object_mut() else {
            return Err(format!("{key:?} must be in an object"));
        };
        place = members.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
    }
    let Some(members) = place.as_object_mut() else {
        return Err(format!("{last:?} must be in an object"));
    };
    members.insert(last.clone(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(mapping: Vec<ColumnMapping>) -> ImportSettings {
        ImportSettings {
            format: FileFormat::Csv,
            encoding: "utf-8".to_owned(),
            delimiter: ',',
            has_header: true,
            is_marked: false,
            mapping,
            duplicates: DuplicatePolicy::Update,
            is_of_traces: false,
        }
    }

    fn map(column: &str, target: ImportTarget, path: &[&str], kind: ColumnType) -> ColumnMapping {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        ColumnMapping { column: column.to_owned(), target, path, kind }
    }

    #[test]
    fn a_row_becomes_an_item_by_types_and_key_paths() {
        let settings = settings(vec![
            map("key", ImportTarget::Id, &[], ColumnType::Text),
            map("q", ImportTarget::Input, &["question"], ColumnType::Text),
            map("n", ImportTarget::Input, &["limits", "n"], ColumnType::Number),
            map("e", ImportTarget::ExpectedOutput, &[], ColumnType::Json),
            map("b", ImportTarget::Metadata, &["is/new"], ColumnType::Boolean),
        ]);
        let row = |b: &'static str| {
            move |column: &str| {
                let text = match column {
                    "key" => "one",
                    "q" => "=1+1",
                    "n" => "3.5",
                    "e" => "[1]",
                    "b" => b,
                    _ => return None,
                };
                Some(Value::from(text))
            }
        };
        let item = settings.item(row("yes")).unwrap();
        assert_eq!(item.id.as_deref(), Some("one"));
        assert_eq!(item.patch.input, Some(json!({ "question": "=1+1", "limits": { "n": 3.5 } })));
        assert_eq!(item.patch.expected_output, Some(json!([1])));
        assert_eq!(item.patch.metadata, Some(json!({ "is/new": true })));
        assert_eq!(settings.item(row("")).unwrap().patch.metadata, None);
        let faults = settings.item(row("maybe")).unwrap_err();
        assert_eq!((faults.len(), faults[0].pointer.as_str()), (1, "/metadata/is~1new"));
    }

    #[test]
    fn two_columns_cannot_have_the_same_place() {
        let columns = ["a".to_owned(), "b".to_owned()];
        let text = ColumnType::Text;
        let whole = map("a", ImportTarget::Input, &[], text);
        let inside = map("b", ImportTarget::Input, &["x"], text);
        let other = map("a", ImportTarget::Input, &["y"], text);
        assert!(settings(vec![whole, inside.clone()]).check(&columns).is_err());
        assert_eq!(settings(vec![other, inside]).check(&columns), Ok(()));
        assert!(settings(Vec::new()).check(&columns).is_err());
        let many = vec![map("a", ImportTarget::Metadata, &["x"], text); MAX_MAPPED + 1];
        assert!(settings(many).check(&columns).unwrap_err().contains("at most"));
    }

    #[test]
    fn the_columns_of_an_export_map_themselves() {
        let columns = EXPORT_COLUMNS.map(str::to_owned);
        let mapping = guessed_mapping(FileFormat::Csv, &columns);
        assert_eq!(mapping.len(), columns.len());
        assert_eq!(mapping[2].target, ImportTarget::ExpectedOutput);
        assert_eq!(mapping[2].kind, ColumnType::Json);
        assert_eq!(mapping[0].kind, ColumnType::Text);
    }

    #[test]
    fn a_mark_is_undone_exactly() {
        for text in ["", "a", "=1", "'", "''=1", "@x", "-1", "\t"] {
            assert_eq!(without_mark(&with_mark(text)), text);
        }
    }
}

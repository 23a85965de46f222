//! Format, encoding, delimiter and header of an uploaded file, and its first rows.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read as _};
use std::path::Path;

use encoding_rs::Encoding;
use encoding_rs_io::DecodeReaderBytesBuilder;
use perpend_domain::dataset_import::{
    DuplicatePolicy, FileFormat, ImportSettings, guessed_mapping, is_export,
};
use serde_json::{Value, json};

use super::rows::{RowContent, RowReader};

/// Start of the file from which format and delimiter are derived.
const SAMPLE_BYTES: u64 = 256 << 10;
/// Rows of a preview.
const PREVIEW_ROWS: usize = 20;
/// Rows from which the members of objects are collected.
const COLUMN_ROWS: usize = 200;
/// Most columns of a preview.
const MAX_COLUMNS: usize = 500;
/// Characters of a cell of a preview. Those of many columns are shorter, at least `MIN_CELL_CHARS`.
const MAX_CELL_CHARS: usize = 500;
const MIN_CELL_CHARS: usize = 20;
/// Characters of all cells of a row of a preview.
const MAX_ROW_CHARS: usize = 20_000;
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];

/// The properties of a file that a caller gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileHints {
    pub(super) format: Option<FileFormat>,
    /// Label of a character encoding.
    pub(super) encoding: Option<String>,
    pub(super) delimiter: Option<char>,
    pub(super) has_header: Option<bool>,
}

/// A file as it is understood.
#[derive(Clone, Debug)]
pub(super) struct Detected {
    pub(super) settings: ImportSettings,
    pub(super) columns: Vec<String>,
    /// The first rows: a list of values by column, or the reason for which a row cannot be read.
    pub(super) rows: Vec<Value>,
}

impl Detected {
    /// As it is stored with the import.
    pub(super) fn preview(&self) -> Value {
        json!({ "columns": self.columns, "rows": self.rows })
    }
}

/// Reads the properties of a file that the hints leave open, and its first rows.
pub(super) fn detect(path: &Path, file_name: &str, hints: &FileHints) -> io::Result<Detected> {
    let encoding =
        match hints.encoding.as_deref().map(|label| Encoding::for_label(label.as_bytes())) {
            Some(Some(encoding)) => encoding,
            _ => encoding_of(path)?,
        };
    let file = BufReader::new(File::open(path)?);
    let text = DecodeReaderBytesBuilder::new().encoding(Some(encoding)).build(file);
    let mut sample = Vec::new();
    text.take(SAMPLE_BYTES).read_to_end(&mut sample)?;
    let sample = String::from_utf8_lossy(&sample).into_owned();
    let format = hints.format.unwrap_or_else(|| format_of(file_name, &sample));
    let mut settings = ImportSettings {
        format,
        encoding: encoding.name().to_ascii_lowercase(),
        delimiter: ',',
        has_header: false,
        is_marked: false,
        mapping: Vec::new(),
        duplicates: DuplicatePolicy::Update,
        is_of_traces: false,
    };
    if format.is_table() {
        settings.delimiter = match (hints.delimiter, format) {
            (Some(delimiter), _) => delimiter,
            (None, FileFormat::Tsv) => '\t',
            (None, _) => delimiter_of(&sample, &settings)?,
        };
        let first = first_rows(&sample, &settings, 2)?;
        settings.has_header = hints.has_header.unwrap_or_else(|| is_header(&first));
    }
    let (columns, rows) = preview(path, &settings)?;
    settings.is_marked = format.is_table() && is_export(&columns);
    settings.mapping = guessed_mapping(format, &columns);
    Ok(Detected { settings, columns, rows })
}

/// The encoding by byte order mark; UTF-8 if the whole file is; else UTF-16 or a Western encoding.
fn encoding_of(path: &Path) -> io::Result<&'static Encoding> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 64 << 10];
    let mut n_kept = 0;
    let mut is_first = true;
    loop {
        let n_read = file.read(&mut buffer[n_kept..])?;
        let bytes = &buffer[..n_kept + n_read];
        if is_first {
            is_first = false;
            if let Some((encoding, _)) = Encoding::for_bom(bytes) {
                return Ok(encoding);
            }
            // Every other byte of Western text in UTF-16 is 0.
            let n_even = bytes.iter().step_by(2).filter(|byte| **byte == 0).count();
            let n_odd = bytes.iter().skip(1).step_by(2).filter(|byte| **byte == 0).count();
            if bytes.len() / 4 < n_odd {
                return Ok(encoding_rs::UTF_16LE);
            }
            if bytes.len() / 4 < n_even {
                return Ok(encoding_rs::UTF_16BE);
            }
        }
        let n_valid = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(error) if error.error_len().is_some() || n_read == 0 => {
                return Ok(encoding_rs::WINDOWS_1252);
            }
            Err(error) => error.valid_up_to(),
        };
        if n_read == 0 {
            return Ok(encoding_rs::UTF_8);
        }
        let n_bytes = bytes.len();
        buffer.copy_within(n_valid..n_bytes, 0);
        n_kept = n_bytes - n_valid;
    }
}

fn format_of(file_name: &str, sample: &str) -> FileFormat {
    let extension = file_name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("csv") => return FileFormat::Csv,
        Some("tsv" | "tab") => return FileFormat::Tsv,
        Some("jsonl" | "ndjson") => return FileFormat::Jsonl,
        _ => {}
    }
    match sample.trim_start().chars().next() {
        Some('[') => FileFormat::Json,
        Some('{') => FileFormat::Jsonl,
        _ => FileFormat::Csv,
    }
}

/// The first rows of a text as cells.
fn first_rows(text: &str, settings: &ImportSettings, n: usize) -> io::Result<Vec<Vec<String>>> {
    let settings = ImportSettings { has_header: false, ..settings.clone() };
    let source = Cursor::new(text.as_bytes().to_vec());
    let mut reader = RowReader::over(Box::new(source), &settings)?;
    let mut rows = Vec::new();
    while rows.len() < n
        && let Some(row) = reader.next_row()?
    {
        if let RowContent::Cells(cells) = row.content {
            rows.push(cells);
        }
    }
    Ok(rows)
}

/// The delimiter that divides most rows into the same number of cells, more than one.
fn delimiter_of(sample: &str, settings: &ImportSettings) -> io::Result<char> {
    let mut best = (0, ',');
    for delimiter in DELIMITERS {
        let settings = ImportSettings { delimiter, ..settings.clone() };
        // Rows with another number of cells than the first are not among them.
        let rows = first_rows(sample, &settings, PREVIEW_ROWS)?;
        let n_cells = rows.first().map_or(0, Vec::len);
        let score = if 1 < n_cells { rows.len() * 1_000 + n_cells.min(999) } else { 0 };
        if best.0 < score {
            best = (score, delimiter);
        }
    }
    Ok(best.1)
}

/// Whether the first row has names: short and different texts, neither numbers nor JSON.
fn is_header(rows: &[Vec<String>]) -> bool {
    let Some(first) = rows.first() else { return true };
    let is_name = |cell: &String| {
        let cell = cell.trim();
        !cell.is_empty()
            && cell.len() <= 100
            && !cell.starts_with(['{', '[', '"'])
            && cell.parse::<f64>().is_err()
    };
    let is_unique = |(at, cell): (usize, &String)| !first[..at].contains(cell);
    first.iter().all(is_name) && first.iter().enumerate().all(is_unique)
}

fn shortened(mut text: String, max_chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max_chars) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Names of columns, and the first rows.
fn preview(path: &Path, settings: &ImportSettings) -> io::Result<(Vec<String>, Vec<Value>)> {
    let mut reader = RowReader::open(path, settings)?;
    let mut columns: Vec<String> = reader.columns().to_vec();
    let mut contents = Vec::new();
    for at in 0..COLUMN_ROWS {
        let Some(row) = reader.next_row()? else { break };
        if let RowContent::Members(members) = &row.content {
            let new = members.keys().filter(|name| !columns.contains(name));
            let new: Vec<String> = new.take(MAX_COLUMNS).cloned().collect();
            columns.extend(new);
            columns.truncate(MAX_COLUMNS);
        }
        if at < PREVIEW_ROWS {
            contents.push(row.content);
        }
    }
    let max_chars = (MAX_ROW_CHARS / columns.len().max(1)).clamp(MIN_CELL_CHARS, MAX_CELL_CHARS);
    let rows = contents.into_iter().map(|content| match content {
        RowContent::Cells(cells) => {
            cells.into_iter().map(|cell| shortened(cell, max_chars)).collect()
        }
        RowContent::Members(members) => {
            let cells = columns.iter().map(|name| match members.get(name) {
                None => Value::Null,
                Some(Value::String(text)) => shortened(text.clone(), max_chars).into(),
                Some(other) => match other.to_string() {
                    text if text.len() <= max_chars => other.clone(),
                    text => shortened(text, max_chars).into(),
                },
            });
            cells.collect()
        }
        RowContent::Broken(reason) => json!({ "problem": reason }),
    });
    let rows = rows.collect();
    Ok((columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(file_name: &str, bytes: &[u8]) -> Detected {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        detect(&path, file_name, &FileHints::default()).unwrap()
    }

    #[test]
    fn delimiter_header_and_mapping_follow_from_the_content() {
        let found = detected("a.csv", b"question;answer\nWhat?;\"a;b\"\nWhy?;c,d\n");
        assert_eq!((found.settings.delimiter, found.settings.has_header), (';', true));
        assert_eq!(found.columns, ["question", "answer"]);
        assert_eq!(found.settings.mapping.len(), 2);
        assert_eq!(found.rows[0], json!(["What?", "a;b"]));
        let found = detected("a.csv", b"1,2\n3,4\n");
        assert_eq!((found.settings.has_header, found.rows.len()), (false, 2));
        assert_eq!(found.columns, ["column 1", "column 2"]);
    }

    #[test]
    fn the_preview_of_a_wide_table_is_small() {
        let row = |n: usize, cell: &str| vec![cell; n].join(",") + "\n";
        let wide = row(2_000, "name") + &row(2_000, &"x".repeat(100)).repeat(30);
        let found = detected("a.csv", wide.as_bytes());
        assert_eq!((found.columns.len(), found.rows.len()), (2_000, PREVIEW_ROWS));
        assert!(found.preview().to_string().len() < 2 << 20);
        let wider = detected("a.csv", row(300_000, "").repeat(3).as_bytes());
        assert!(wider.columns.is_empty());
        assert!(wider.rows[0]["problem"].as_str().unwrap().contains("2000"), "{:?}", wider.rows);
    }

    #[test]
    fn encodings_are_distinguished() {
        let label = |bytes: &[u8]| detected("a.csv", bytes).settings.encoding;
        assert_eq!(label("id,input\n1,ü\n".as_bytes()), "utf-8");
        assert_eq!(label(b"id,input\n1,\xfc\n"), "windows-1252");
        let utf16: Vec<u8> =
            "id,input\n1,\u{fc}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let found = detected("a.csv", &utf16);
        assert_eq!((found.settings.encoding.as_str(), found.columns.len()), ("utf-16le", 2));
        assert_eq!(found.rows[0], json!(["1", "\u{fc}"]));
        assert_eq!(label(b"\xef\xbb\xbfid,input\n1,2\n"), "utf-8");
        assert_eq!(detected("a.csv", b"\xef\xbb\xbfid,input\n1,2\n").columns[0], "id");
    }

    #[test]
    fn json_is_recognized_and_its_members_are_columns() {
        let found = detected("", b"[{\"input\": 1}, {\"input\": 2, \"expectedOutput\": {}}]");
        assert_eq!(found.settings.format, FileFormat::Json);
        assert_eq!(found.columns, ["input", "expectedOutput"]);
        assert_eq!(found.rows[1], json!([2, {}]));
        assert_eq!(detected("", b"{\"input\": 1}\n").settings.format, FileFormat::Jsonl);
        assert_eq!(detected("x.csv", b"").columns.len(), 0);
    }
}

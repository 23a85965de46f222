//! Rows of an uploaded file, read one after the other in constant memory. A row that cannot be read costs only itself.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use encoding_rs::Encoding;
use encoding_rs_io::DecodeReaderBytesBuilder;
use perpend_domain::dataset_import::{FileFormat, ImportSettings};
use serde_json::{Map, Value};

/// Largest row as UTF-8.
const MAX_ROW_BYTES: usize = 4 << 20;
/// As `MAX_ROW_BYTES`, after `MAX_UNCLOSED` quoted values without an end.
const SHORT_ROW_BYTES: usize = 64 << 10;
const MAX_UNCLOSED: u32 = 100;
/// As `SHORT_ROW_BYTES`, after `MANY_UNCLOSED` of them: their lines are read again.
const SHORTEST_ROW_BYTES: usize = 1 << 10;
const MANY_UNCLOSED: u32 = 10_000;
/// Most lines of a row of a table.
const MAX_LINES: usize = 100_000;
/// Most cells of a row of a table: empty ones take much more memory than text.
pub(super) const MAX_CELLS: usize = 2_000;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Size of the buffers for reading.
const BUFFER_BYTES: usize = 64 << 10;

/// The values of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowContent {
    /// Cells of a table.
    Cells(Vec<String>),
    /// Members of an object.
    Members(Map<String, Value>),
    /// The row cannot be read, for this reason.
    Broken(String),
}

/// A row of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// From 1, without the header.
    pub(super) number: u64,
    pub(super) content: RowContent,
    /// Size of its text.
    pub(super) n_bytes: usize,
}

/// A line with its end.
struct Line {
    bytes: Vec<u8>,
    is_too_long: bool,
}

/// Lines of a text, which can be put back.
struct Lines {
    source: Box<dyn BufRead + Send>,
    returned: VecDeque<Line>,
    n_bytes: u64,
}

impl Lines {
    fn next_line(&mut self) -> io::Result<Option<Line>> {
        if let Some(line) = self.returned.pop_front() {
            return Ok(Some(line));
        }
        let mut bytes = Vec::new();
        let mut limited = (&mut self.source).take(MAX_ROW_BYTES as u64 + 1);
        let n_read = limited.read_until(b'\n', &mut bytes)?;
        self.n_bytes += n_read as u64;
        if n_read == 0 {
            return Ok(None);
        }
        let is_too_long = MAX_ROW_BYTES < bytes.len();
        if is_too_long && !bytes.ends_with(b"\n") {
            self.skip_line()?;
        }
        Ok(Some(Line { bytes, is_too_long }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.source.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let n_bytes = end.map_or(buffer.len(), |end| end + 1);
            self.source.consume(n_bytes);
            self.n_bytes += n_bytes as u64;
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// Whether the end of a line is within a quoted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    /// At the start of a value.
    Start,
    Plain,
    Quoted,
    /// After a quote in a quoted value.
    Quote,
}

impl Quotes {
    fn after(mut self, bytes: &[u8], delimiter: u8) -> Self {
        for byte in bytes {
            self = match (self, *byte) {
                (Self::Start | Self::Quote, b'"') => Self::Quoted,
                (Self::Quoted, b'"') => Self::Quote,
                (Self::Quoted, _) => Self::Quoted,
                (_, b'\n' | b'\r') => Self::Start,
                (_, byte) if byte == delimiter => Self::Start,
                (Self::Start | Self::Plain | Self::Quote, _) => Self::Plain,
            };
        }
        self
    }
}

/// Reader of the rows of a file.
pub(super) struct RowReader {
    lines: Lines,
    format: FileFormat,
    delimiter: u8,
    /// Names of the columns of a table.
    columns: Vec<String>,
    number: u64,
    n_unclosed: u32,
    /// The array of a JSON file was entered.
    is_in_array: bool,
    /// Nothing follows.
    is_at_end: bool,
}

impl RowReader {
    /// Opens a file. The names of the columns of a table are read.
    pub(super) fn open(path: &Path, settings: &ImportSettings) -> io::Result<Self> {
        let label = settings.encoding.as_bytes();
        let encoding = Encoding::for_label(label).unwrap_or(encoding_rs::UTF_8);
        let file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
        let text = DecodeReaderBytesBuilder::new().encoding(Some(encoding)).build(file);
        let text = BufReader::with_capacity(BUFFER_BYTES, text);
        Self::over(Box::new(text), settings)
    }

    /// Reads UTF-8.
    pub(super) fn over(
        source: Box<dyn BufRead + Send>,
        settings: &ImportSettings,
    ) -> io::Result<Self> {
        let mut reader = Self {
            lines: Lines { source, returned: VecDeque::new(), n_bytes: 0 },
            format: settings.format,
            delimiter: u8::try_from(settings.delimiter).unwrap_or(b','),
            columns: Vec::new(),
            number: 0,
            n_unclosed: 0,
            is_in_array: false,
            is_at_end: false,
        };
        if settings.format.is_table() {
            reader.read_columns(settings.has_header)?;
        }
        Ok(reader)
    }

    fn read_columns(&mut self, has_header: bool) -> io::Result<()> {
        if has_header {
            if let Some(RowContent::Cells(cells)) = self.record()?.map(|(content, _)| content) {
                self.columns = cells;
            }
            return Ok(());
        }
        // The first row decides the number of columns and is read again.
        let Some(line) = self.lines.next_line()? else { return Ok(()) };
        if let RowContent::Cells(cells) = cells_of(&line.bytes, self.delimiter) {
            self.columns = (1..=cells.len()).map(|n| format!("column {n}")).collect();
        }
        self.lines.returned.push_front(line);
        Ok(())
    }

    /// Names of the columns of a table.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Bytes of text that were read.
    pub(super) fn n_bytes(&self) -> u64 {
        self.lines.n_bytes
    }

    /// The next row.
    pub(super) fn next_row(&mut self) -> io::Result<Option<Row>> {
        let read = match self.format {
            FileFormat::Csv | FileFormat::Tsv => self.record()?,
            FileFormat::Jsonl => self.json_line()?,
            FileFormat::Json => self.element()?,
        };
        let Some((mut content, n_bytes)) = read else { return Ok(None) };
        if let RowContent::Cells(cells) = &content
            && cells.len() != self.columns.len()
        {
            let (n, expected) = (cells.len(), self.columns.len());
            content = RowContent::Broken(format!("must have {expected} cells, got {n}"));
        }
        self.number += 1;
        Ok(Some(Row { number: self.number, content, n_bytes }))
    }

    /// The next record of a table; lines without characters are skipped.
    fn record(&mut self) -> io::Result<Option<(RowContent, usize)>> {
        loop {
            let Some(first) = self.lines.next_line()? else { return Ok(None) };
            if first.is_too_long {
                return Ok(Some(too_long(first.bytes.len())));
            }
            if first.bytes.trim_ascii_end().is_empty() && !first.bytes.contains(&self.delimiter) {
                continue;
            }
            return self.record_from(first).map(Some);
        }
    }

    /// The record that starts with a line. Without the end of a quoted value it is only this line.
    fn record_from(&mut self, first: Line) -> io::Result<(RowContent, usize)> {
        let max_bytes = match self.n_unclosed {
            ..MAX_UNCLOSED => MAX_ROW_BYTES,
            MAX_UNCLOSED..MANY_UNCLOSED => SHORT_ROW_BYTES,
            MANY_UNCLOSED.. => SHORTEST_ROW_BYTES,
        };
        let mut quotes = Quotes::Start.after(&first.bytes, self.delimiter);
        let mut record = first.bytes;
        let mut ends = vec![record.len()];
        while quotes == Quotes::Quoted {
            let next = self.lines.next_line()?;
            let fits = |line: &Line| {
                let n_bytes = record.len() + line.bytes.len();
                !line.is_too_long && n_bytes <= max_bytes && ends.len() < MAX_LINES
            };
            match next {
                Some(line) if fits(&line) => {
                    quotes = quotes.after(&line.bytes, self.delimiter);
                    record.extend_from_slice(&line.bytes);
                    ends.push(record.len());
                }
                other => {
                    self.n_unclosed += 1;
                    other.into_iter().for_each(|line| self.lines.returned.push_front(line));
                    for window in ends.windows(2).rev() {
                        let bytes = record[window[0]..window[1]].to_vec();
                        self.lines.returned.push_front(Line { bytes, is_too_long: false });
                    }
                    let reason = "a quoted value has no end".to_owned();
                    return Ok((RowContent::Broken(reason), ends[0]));
                }
            }
        }
        Ok((cells_of(&record, self.delimiter), record.len()))
    }

    fn json_line(&mut self) -> io::Result<Option<(RowContent, usize)>> {
        loop {
            let Some(line) = self.lines.next_line()? else { return Ok(None) };
            if line.is_too_long {
                return Ok(Some(too_long(line.bytes.len())));
            }
            let text = line.bytes.trim_ascii();
            if !text.is_empty() {
                return Ok(Some((object(text), line.bytes.len())));
            }
        }
    }

    /// The next element of the array of a JSON file.
    fn element(&mut self) -> io::Result<Option<(RowContent, usize)>> {
        if self.is_at_end || !self.enter_array()? {
            return Ok(None);
        }
        let mut element = ElementReader::default();
        loop {
            let buffer = self.lines.source.fill_buf()?;
            if buffer.is_empty() {
                self.is_at_end = true;
                let is_empty = element.text.is_empty();
                let reason = "the file ends within a value".to_owned();
                return Ok((!is_empty).then_some((RowContent::Broken(reason), element.n_bytes)));
            }
            let (n_read, end) = element.read(buffer);
            self.lines.source.consume(n_read);
            self.lines.n_bytes += n_read as u64;
            match end {
                None => {}
                Some(ElementEnd::Array) if element.text.is_empty() => {
                    self.is_at_end = true;
                    return Ok(None);
                }
                Some(end) => {
                    self.is_at_end = end == ElementEnd::Array;
                    if MAX_ROW_BYTES < element.n_bytes {
                        return Ok(Some(too_long(element.n_bytes)));
                    }
                    return Ok(Some((object(&element.text), element.n_bytes)));
                }
            }
        }
    }

    /// `false` if the file is not an array.
    fn enter_array(&mut self) -> io::Result<bool> {
        while !self.is_in_array {
            let buffer = self.lines.source.fill_buf()?;
            let Some(first) = buffer.first().copied() else { return Ok(false) };
            if first == b'[' {
                self.is_in_array = true;
            } else if !first.is_ascii_whitespace() {
                self.is_at_end = true;
                return Ok(false);
            }
            self.lines.source.consume(1);
            self.lines.n_bytes += 1;
        }
        Ok(true)
    }
}

fn too_long(n_bytes: usize) -> (RowContent, usize) {
    let reason = format!("must have at most {} MiB", MAX_ROW_BYTES >> 20);
    (RowContent::Broken(reason), n_bytes)
}

/// An object as JSON.
fn object(text: &[u8]) -> RowContent {
    match serde_json::from_slice(text) {
        Ok(Value::Object(members)) => RowContent::Members(members),
        Ok(_) => RowContent::Broken("must be an object".to_owned()),
        Err(error) => RowContent::Broken(format!("must be JSON: {error}")),
    }
}

/// The cells of a record.
fn cells_of(record: &[u8], delimiter: u8) -> RowContent {
    // The parser removes a byte order mark; the one of the file is removed already.
    let marked;
    let record: &[u8] = match record.starts_with(BYTE_ORDER_MARK) {
        true => {
            marked = [BYTE_ORDER_MARK, record].concat();
            &marked
        }
        false => record,
    };
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.has_headers(false).flexible(true).delimiter(delimiter);
    let mut reader = reader.buffer_capacity(record.len().max(1)).from_reader(record);
    let mut cells = csv::ByteRecord::new();
    // A slice gives no error of input.
    let is_read = reader.read_byte_record(&mut cells).unwrap_or_default();
    if MAX_CELLS < cells.len() {
        let n = cells.len();
        return RowContent::Broken(format!("must have at most {MAX_CELLS} cells, got {n}"));
    }
    RowContent::Cells(match is_read {
        true => cells.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect(),
        false => vec![String::new()],
    })
}

/// The end of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementEnd {
    /// Another one may follow.
    Element,
    /// It was the last one.
    Array,
}

/// Reads one element of an array: the text up to the next comma or bracket outside of strings and containers.
#[derive(Debug, Default)]
struct ElementReader {
    text: Vec<u8>,
    /// Size of the element, which is stored up to the limit only.
    n_bytes: usize,
    depth: u32,
    is_string: bool,
    is_escape: bool,
}

impl ElementReader {
    /// Reads from a buffer; the number of bytes read, and the end if it was reached.
    fn read(&mut self, buffer: &[u8]) -> (usize, Option<ElementEnd>) {
        for (at, byte) in buffer.iter().enumerate() {
            if self.is_string {
                match byte {
                    _ if self.is_escape => self.is_escape = false,
                    b'\\' => self.is_escape = true,
                    b'"' => self.is_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.is_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b']' if self.depth == 0 => return (at + 1, Some(ElementEnd::Array)),
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    b',' if self.depth == 0 && self.text.is_empty() => continue,
                    b',' if self.depth == 0 => return (at + 1, Some(ElementEnd::Element)),
                    byte if byte.is_ascii_whitespace() && self.text.is_empty() => continue,
                    _ => {}
                }
            }
            self.n_bytes += 1;
            if self.n_bytes <= MAX_ROW_BYTES {
                self.text.push(*byte);
            }
        }
        (buffer.len(), None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use perpend_domain::dataset_import::DuplicatePolicy;
    use serde_json::json;

    use super::*;

    fn rows(format: FileFormat, has_header: bool, text: &str) -> Vec<RowContent> {
        let settings = ImportSettings {
            format,
            encoding: "utf-8".to_owned(),
            delimiter: ',',
            has_header,
            is_marked: false,
            mapping: Vec::new(),
            duplicates: DuplicatePolicy::Update,
            is_of_traces: false,
        };
        let source = Cursor::new(text.as_bytes().to_vec());
        let mut reader = RowReader::over(Box::new(source), &settings).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = reader.next_row().unwrap() {
            assert_eq!(row.number, rows.len() as u64 + 1);
            rows.push(row.content);
        }
        rows
    }

    fn cells(cells: &[&str]) -> RowContent {
        RowContent::Cells(cells.iter().map(|cell| (*cell).to_owned()).collect())
    }

    #[test]
    fn a_table_has_quoted_values_with_line_ends_and_quotes() {
        let text = "a,b\r\n\"x\ny\",\"say \"\"hi\"\"\"\r\n\r\n=1+1,5\" pipe\n";
        let expected = [cells(&["x\ny", "say \"hi\""]), cells(&["=1+1", "5\" pipe"])];
        assert_eq!(rows(FileFormat::Csv, true, text), expected);
        assert_eq!(rows(FileFormat::Csv, false, "1,2\n3,4").len(), 2);
        let text = "a,b\n\u{feff}x,y\n";
        assert_eq!(rows(FileFormat::Csv, true, text), [cells(&["\u{feff}x", "y"])]);
    }

    #[test]
    fn a_broken_row_costs_only_itself() {
        let text = "a,b\n\"never closed,1\n2,3\n4\n5,6\n";
        let rows_of_table = rows(FileFormat::Csv, true, text);
        assert!(matches!(rows_of_table[0], RowContent::Broken(_)));
        assert_eq!(rows_of_table[1], cells(&["2", "3"]));
        assert!(matches!(rows_of_table[2], RowContent::Broken(_)));
        assert_eq!(rows_of_table[3], cells(&["5", "6"]));
        let text = "{\"a\":1}\n{\"a\":\n[1]\n\n{\"a\":2}";
        let lines = rows(FileFormat::Jsonl, false, text);
        let is_broken: Vec<bool> =
            lines.iter().map(|row| matches!(row, RowContent::Broken(_))).collect();
        assert_eq!(is_broken, [false, true, true, false]);
    }

    #[test]
    fn a_quoted_value_of_too_many_lines_costs_only_its_row() {
        let text = format!("a,b\n\"{}\",1\n2,3\n", "\n".repeat(MAX_LINES + 1));
        let rows_of_table = rows(FileFormat::Csv, true, &text);
        assert!(matches!(rows_of_table[0], RowContent::Broken(_)));
        assert_eq!(rows_of_table.last(), Some(&cells(&["2", "3"])));
    }

    #[test]
    fn elements_of_an_array_are_read_one_by_one() {
        let text = " [ {\"a\": \"],{\\\"\"}, {\"b\": [1, {}]} , {\"c\": } , 7, {\"d\": 1} ] ";
        let elements = rows(FileFormat::Json, false, text);
        assert_eq!(elements.len(), 5);
        let first = json!({ "a": "],{\"" });
        assert_eq!(elements[0], RowContent::Members(first.as_object().unwrap().clone()));
        assert!(matches!(elements[2], RowContent::Broken(_)));
        assert!(matches!(elements[3], RowContent::Broken(_)));
        assert!(matches!(elements[4], RowContent::Members(_)));
        assert_eq!(rows(FileFormat::Json, false, "{}"), []);
        assert!(matches!(rows(FileFormat::Json, false, "[{\"a\":")[0], RowContent::Broken(_)));
    }
}

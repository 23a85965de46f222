//! Serialisation of rows to a file.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use perpend_catalog::blob_exports::FileType;
use perpend_domain::csv;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A file that is being written; its bytes are taken out in parts.
#[derive(Debug)]
pub(super) struct ExportFile {
    file_type: FileType,
    columns: Vec<String>,
    bytes: Bytes,
    n_rows: u64,
    /// Size before compression.
    pub(super) n_bytes: usize,
}

#[derive(Debug)]
enum Bytes {
    Plain(Vec<u8>),
    Packed(Box<GzEncoder<Vec<u8>>>),
}

impl io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(plain) => plain.write(bytes),
            Self::Packed(packed) => packed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file name extension.
pub(super) fn ending(file_type: FileType, is_compressed: bool) -> &'static str {
    match (file_type, is_compressed) {
        (FileType::Json, false) => "json",
        (FileType::Json, true) => "json.gz",
        (FileType::Jsonl, false) => "jsonl",
        (FileType::Jsonl, true) => "jsonl.gz",
        (FileType::Csv, false) => "csv",
        (FileType::Csv, true) => "csv.gz",
    }
}

/// A row as an object.
struct NamedRow<'r>(&'r [String], &'r [Value]);

impl Serialize for NamedRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0.iter().zip(self.1) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn csv_line(cells: &[Value]) -> String {
    let mut line = String::new();
    csv::push_line(&mut line, cells);
    line
}

impl ExportFile {
    /// # Errors
    /// Never: the bytes stay in memory.
    pub(super) fn new(
        file_type: FileType,
        is_compressed: bool,
        columns: Vec<String>,
    ) -> io::Result<Self> {
        let bytes = match is_compressed {
            true => Bytes::Packed(Box::new(GzEncoder::new(Vec::new(), Compression::fast()))),
            false => Bytes::Plain(Vec::new()),
        };
        let names: Vec<Value> = columns.iter().map(|name| name.as_str().into()).collect();
        let mut file = Self { file_type, columns, bytes, n_rows: 0, n_bytes: 0 };
        match file_type {
            FileType::Json => file.put(b"[")?,
            FileType::Csv => file.put(csv_line(&names).as_bytes())?,
            FileType::Jsonl => {}
        }
        Ok(file)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.n_bytes += bytes.len();
        self.bytes.write_all(bytes)
    }

    /// Appends a row: a value for each column.
    ///
    /// # Errors
    /// Never: the bytes stay in memory.
    pub(super) fn row(&mut self, values: &[Value]) -> io::Result<()> {
        match self.file_type {
            FileType::Csv => self.put(csv_line(values).as_bytes())?,
            FileType::Json | FileType::Jsonl => {
                let mut json = serde_json::to_vec(&NamedRow(&self.columns, values))?;
                match (self.file_type, self.n_rows) {
                    (FileType::Jsonl, _) => json.push(b'\n'),
                    (_, 0) => self.put(b"\n")?,
                    _ => self.put(b",\n")?,
                }
                self.put(&json)?;
            }
        }
        self.n_rows += 1;
        Ok(())
    }

    /// The bytes since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.bytes {
            Bytes::Plain(plain) => plain,
            Bytes::Packed(packed) => packed.get_mut(),
        })
    }

    /// The last bytes.
    ///
    /// # Errors
    /// Never: the bytes stay in memory.
    pub(super) fn end(mut self) -> io::Result<Vec<u8>> {
        if self.file_type == FileType::Json {
            self.put(b"\n]\n")?;
        }
        match self.bytes {
            Bytes::Plain(plain) => Ok(plain),
            Bytes::Packed(packed) => packed.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::json;

    use super::*;

    fn made(file_type: FileType, is_compressed: bool, rows: &[[Value; 2]]) -> String {
        let columns = vec!["id".to_owned(), "tags".to_owned()];
        let mut file = ExportFile::new(file_type, is_compressed, columns).unwrap();
        let mut bytes = Vec::new();
        for row in rows {
            file.row(row).unwrap();
            bytes.extend(file.take());
        }
        bytes.extend(file.end().unwrap());
        if !is_compressed {
            return String::from_utf8(bytes).unwrap();
        }
        let mut text = String::new();
        let mut packed = flate2::read::GzDecoder::new(bytes.as_slice());
        packed.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn rows_read_back_from_each_kind_of_file() {
        let rows = [[json!("a,\"b\"\nc"), json!(["x", "y"])], [json!("plain"), Value::Null]];
        for is_compressed in [false, true] {
            let text = made(FileType::Json, is_compressed, &rows);
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read[0]["id"], "a,\"b\"\nc");
            assert_eq!(read[1], json!({ "id": "plain", "tags": null }));
            let lines = made(FileType::Jsonl, is_compressed, &rows);
            let read: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!((read.len(), &read[0]["tags"]), (2, &json!(["x", "y"])));
            let table = made(FileType::Csv, is_compressed, &rows);
            let expected = "id,tags\r\n\"a,\"\"b\"\"\nc\",\"[\"\"x\"\",\"\"y\"\"]\"\r\nplain,\r\n";
            assert_eq!(table, expected);
        }
    }

    #[test]
    fn a_file_without_rows_is_a_file() {
        assert_eq!(made(FileType::Json, false, &[]).trim(), "[\n]");
        assert_eq!(made(FileType::Jsonl, true, &[]), "");
        assert_eq!(made(FileType::Csv, true, &[]), "id,tags\r\n");
    }
}

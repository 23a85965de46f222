//! A form with a file (RFC 7578). The fields in front of the file are small; the file is read as a stream.
//!
//! Invariant: **bounded.** Only the fields and one chunk of the file are in memory.

use std::io;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use futures_util::{StreamExt as _, stream};
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::with_query;

/// Bytes of the headers of a part, and of a field.
const MAX_PART_BYTES: usize = 8 << 10;
/// Fields in front of the file.
const MAX_FIELDS: usize = 20;
/// Time in which the fields in front of the file arrive.
const FIELDS_TIMEOUT: Duration = Duration::from_secs(30);

/// A form with a file.
#[derive(Debug)]
pub(crate) struct FileForm {
    /// Fields in front of the file.
    pub(crate) fields: Params,
    /// Name of the file as the browser sent it.
    pub(crate) file_name: String,
    /// Content of the file.
    pub(crate) content: Body,
}

/// Reads the fields of a form up to its first file.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<FileForm, Problem> {
    let boundary = boundary(headers).ok_or_else(|| {
        Problem::new(Code::UnsupportedMediaType, "the form must be multipart/form-data")
    })?;
    let mut reader = PartReader {
        chunks: body.into_data_stream(),
        // So that the first delimiter is found like the others.
        buffer: b"\r\n".to_vec(),
        delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
        is_at_end: false,
    };
    let read = tokio::time::timeout(FIELDS_TIMEOUT, reader.fields());
    let (fields, file_name) =
        read.await.map_err(|_| Problem::too_slow("the form arrived too slowly"))??;
    let fields = with_query("", &fields);
    let content = stream::try_unfold(reader, |mut reader| async move {
        Ok::<_, io::Error>(reader.content().await?.map(|bytes| (bytes, reader)))
    });
    Ok(FileForm {
        fields: Params::parse(fields.trim_start_matches('?')),
        file_name,
        content: Body::from_stream(content),
    })
}

/// The boundary in the content type.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (media_type, parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(parameters, "boundary")?;
    (!boundary.is_empty() && boundary.len() <= 70).then_some(boundary)
}

/// A parameter of a header, with or without quotes.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut all = parameters.split(';').filter_map(|one| one.trim().split_once('='));
    let (_, value) = all.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    let value = value.trim();
    let unquoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    // Browsers percent-encode quotes and line breaks in names.
    Some(unquoted.unwrap_or(value).replace("%22", "\""))
}

fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

struct PartReader {
    chunks: BodyDataStream,
    /// Bytes that were received and not used.
    buffer: Vec<u8>,
    delimiter: Vec<u8>,
    /// Whether the content of the file has ended.
    is_at_end: bool,
}

impl PartReader {
    /// Receives another chunk; `false` at the end of the body.
    async fn receive(&mut self) -> Result<bool, io::Error> {
        match self.chunks.next().await {
            None => Ok(false),
            Some(Ok(chunk)) => {
                self.buffer.extend_from_slice(&chunk);
                Ok(true)
            }
            Some(Err(error)) => Err(io::Error::other(error)),
        }
    }

    /// The bytes up to a mark, which is skipped.
    async fn until(&mut self, mark: &[u8]) -> Result<Vec<u8>, Problem> {
        loop {
            if let Some(at) = position(&self.buffer, mark) {
                let rest = self.buffer.split_off(at + mark.len());
                let mut found = std::mem::replace(&mut self.buffer, rest);
                found.truncate(at);
                return Ok(found);
            }
            if MAX_PART_BYTES < self.buffer.len() {
                let message = format!("a field must have at most {MAX_PART_BYTES} bytes");
                return Err(Problem::new(Code::TooLarge, message));
            }
            let is_more = self.receive().await.map_err(|error| {
                let cause: &dyn std::error::Error = &error;
                tracing::debug!(error = cause, "request body ended early");
                Problem::new(Code::InvalidBody, "the request body ended early")
            })?;
            if !is_more {
                return Err(Problem::new(Code::InvalidBody, "the request body ended early"));
            }
        }
    }

    /// The fields in front of the file, and the name of the file.
    async fn fields(&mut self) -> Result<(Vec<(String, String)>, String), Problem> {
        let delimiter = self.delimiter.clone();
        self.until(&delimiter).await?;
        let mut fields = Vec::new();
        while fields.len() < MAX_FIELDS {
            if self.until(b"\r\n").await?.starts_with(b"--") {
                break;
            }
            let head = self.until(b"\r\n\r\n").await?;
            let head = String::from_utf8_lossy(&head);
            let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
            let disposition =
                lines.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"));
            let (_, parameters) = disposition.unwrap_or_default();
            if let Some(file_name) = parameter(parameters, "filename") {
                return Ok((fields, file_name));
            }
            let name = parameter(parameters, "name").unwrap_or_default();
            let value = self.until(&delimiter).await?;
            fields.push((name, String::from_utf8_lossy(&value).into_owned()));
        }
        Err(Problem::body("file", "is required"))
    }

    /// The next bytes of the file.
    async fn content(&mut self) -> Result<Option<Bytes>, io::Error> {
        if self.is_at_end {
            return Ok(None);
        }
        loop {
            if let Some(at) = position(&self.buffer, &self.delimiter) {
                self.buffer.truncate(at);
                self.is_at_end = true;
                return Ok(Some(std::mem::take(&mut self.buffer).into()));
            }
            // The last bytes may be the beginning of the delimiter.
            if let Some(n @ 1..) = self.buffer.len().checked_sub(self.delimiter.len()) {
                let rest = self.buffer.split_off(n);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest).into()));
            }
            if !self.receive().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::HeaderValue;

    use super::*;

    const FORM: &str = "--b0\r\nContent-Disposition: form-data; name=\"form\"\r\n\r\ntoken &\r\n--b0\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"a b.csv\"\r\nContent-Type: text/csv\r\n\r\n\
        id,input\r\n--b\r\n1,\"x\"\r\n\r\n--b0--\r\n";

    async fn read_in_chunks(text: &'static str, n: usize) -> Result<FileForm, Problem> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_static("multipart/form-data; boundary=\"b0\"");
        headers.insert(CONTENT_TYPE, value);
        let chunks = text.as_bytes().chunks(n).map(|chunk| Ok::<_, io::Error>(chunk.to_vec()));
        read(&headers, Body::from_stream(stream::iter(chunks))).await
    }

    #[tokio::test]
    async fn fields_and_the_file_are_the_same_however_the_body_is_divided() {
        for n in 1..=FORM.len() {
            let form = read_in_chunks(FORM, n).await.unwrap();
            assert_eq!(form.fields.text("form"), Some("token &"));
            assert_eq!(form.file_name, "a b.csv");
            let content = to_bytes(form.content, usize::MAX).await.unwrap();
            assert_eq!(content, "id,input\r\n--b\r\n1,\"x\"\r\n");
        }
    }

    #[tokio::test]
    async fn a_form_that_ends_early_or_has_no_file_is_refused() {
        let without_end = FORM.strip_suffix("\r\n--b0--\r\n").unwrap();
        let form = read_in_chunks(without_end, 7).await.unwrap();
        assert!(to_bytes(form.content, usize::MAX).await.is_err());
        assert!(read_in_chunks("--b0\r\nContent-Disp", 7).await.is_err());
        let none = "--b0\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--b0--\r\n";
        assert!(read_in_chunks(none, 7).await.unwrap_err().message().contains("file"));
        assert!(read(&HeaderMap::new(), Body::empty()).await.is_err());
    }
}

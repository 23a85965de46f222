//! Downloads of whole lists as CSV or JSON Lines.
//!
//! A download has the rows of a list from its first page on, with the filter, the order and the columns of the URL.
//!
//! Invariants:
//! - **One page in memory.** Rows are read and sent page by page, and the time limit of read requests applies to each page.
//! - **No parameter is ignored.** A page shows a notice about an invalid parameter. A file cannot, so the request fails.
//! - **No formula.** Text that a spreadsheet would evaluate starts with an apostrophe in CSV.

use axum::http::HeaderName;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use perpend_domain::csv;
use perpend_domain::query::Parsed;
use perpend_http_kit::parts::{self, BodyParts};
use perpend_http_kit::problem::Problem;
use perpend_views::{MAX_EXPORTED, Text, date};
use serde_json::{Map, Value};

use crate::state::App;

/// Rows that are read at a time.
pub(crate) const PAGE_ROWS: u32 = 100;
/// Header with the maximum number of rows.
const ROW_LIMIT: HeaderName = HeaderName::from_static("perpend-row-limit");
/// First characters of text that spreadsheets evaluate.
const FORMULA_STARTS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];

/// The format of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    Csv,
    Jsonl,
}

impl ExportFormat {
    /// The parameter `format` of a query string.
    pub(crate) fn from_query(raw: Option<&str>) -> Result<Self, Problem> {
        let query = form_urlencoded::parse(raw.unwrap_or_default().as_bytes());
        let mut formats = query.filter(|(name, _)| name == "format").map(|(_, value)| value);
        let format = formats.next().unwrap_or_default();
        if formats.next().is_some() {
            return Err(Problem::query("format", "must not be repeated"));
        }
        match &*format {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::Jsonl),
            other => {
                let other: String = other.chars().take(100).collect();
                let message = format!("must be one of `csv`, `jsonl`; got `{other}`");
                Err(Problem::query("format", message))
            }
        }
    }

    /// Extension of the file name, and media type.
    const fn file_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Csv => ("csv", "text/csv; charset=utf-8"),
            Self::Jsonl => ("jsonl", "application/x-ndjson; charset=utf-8"),
        }
    }
}

/// A column of a download.
pub(crate) struct ExportColumn<R> {
    /// Name of the member in JSON.
    id: String,
    /// Heading in CSV.
    heading: String,
    value: Box<dyn Fn(&R) -> Value + Send + Sync>,
}

impl<R> ExportColumn<R> {
    pub(crate) fn new(
        id: impl Into<String>,
        heading: impl Into<String>,
        value: impl Fn(&R) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self { id: id.into(), heading: heading.into(), value: Box::new(value) }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// Rows of a list.
pub(crate) struct ExportedPage<R> {
    /// May be empty before the last page, if a search tested many rows without a match.
    pub(crate) rows: Vec<R>,
    pub(crate) is_last: bool,
}

/// A list that is read page by page.
pub(crate) trait ExportedList: Send + 'static {
    type Row: Send + 'static;

    fn next_page(
        &mut self,
    ) -> impl Future<Output = Result<ExportedPage<Self::Row>, Problem>> + Send;
}

/// Rejects parameters about which the page of the list shows an error.
pub(crate) fn reject_faults(notices: &[Text], parsed: &Parsed) -> Result<(), Problem> {
    if let Some(fault) = parsed.faults().next() {
        return Err(Problem::query("q", fault.message.as_str()));
    }
    match notices.first() {
        Some(notice) => {
            let message = format!("invalid parameter: {}", notice.raw());
            Err(Problem::query("", message))
        }
        None => Ok(()),
    }
}

/// The response with a list as a file. `name` is the beginning of the file name.
pub(crate) async fn respond<L: ExportedList>(
    app: &App,
    (name, format): (&str, ExportFormat),
    list: L,
    columns: Vec<ExportColumn<L::Row>>,
) -> Result<Response, Problem> {
    let mut first = Vec::new();
    if format == ExportFormat::Csv {
        let headings = columns.iter().map(|column| Value::from(column.heading.as_str()));
        push_csv(&mut first, headings);
    }
    let download = Download { list, columns, format, n_left: MAX_EXPORTED };
    let response = parts::answer(first, download).await?;
    let (extension, media_type) = format.file_type();
    let day = date(app.web.clock.now());
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}-{day}.{extension}\"")),
        (ROW_LIMIT, MAX_EXPORTED.to_string()),
    ];
    Ok((headers, response).into_response())
}

/// The rows that were not sent yet.
struct Download<L: ExportedList> {
    list: L,
    columns: Vec<ExportColumn<L::Row>>,
    format: ExportFormat,
    n_left: usize,
}

impl<L: ExportedList> Download<L> {
    fn push_row(&self, out: &mut Vec<u8>, row: &L::Row) -> Result<(), Problem> {
        let values = self.columns.iter().map(|column| (column.value)(row));
        match self.format {
            ExportFormat::Csv => push_csv(out, values),
            ExportFormat::Jsonl => {
                let ids = self.columns.iter().map(|column| column.id.clone());
                let object: Map<String, Value> = ids.zip(values).collect();
                parts::json(out, &object)?;
                out.push(b'\n');
            }
        }
        Ok(())
    }
}

impl<L: ExportedList> BodyParts for Download<L> {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let page = self.list.next_page().await?;
        let n = page.rows.len().min(self.n_left);
        for row in &page.rows[..n] {
            self.push_row(out, row)?;
        }
        self.n_left -= n;
        Ok(page.is_last || self.n_left == 0)
    }
}

fn push_csv(out: &mut Vec<u8>, values: impl Iterator<Item = Value>) {
    let cells: Vec<Value> = values.map(without_formula).collect();
    let mut line = String::new();
    csv::push_line(&mut line, &cells);
    out.extend_from_slice(line.as_bytes());
}

/// Text that a spreadsheet would evaluate gets an apostrophe in front. Numbers are unchanged.
fn without_formula(mut cell: Value) -> Value {
    if let Value::String(text) = &mut cell
        && text.starts_with(FORMULA_STARTS)
    {
        text.insert(0, '\'');
    }
    cell
}

#[cfg(test)]
mod tests {
    use perpend_http_kit::problem::Code;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_format_is_required_once_and_one_of_two() {
        let read = |raw| ExportFormat::from_query(Some(raw)).map_err(|problem| problem.code());
        assert_eq!(read("q=format&format=csv"), Ok(ExportFormat::Csv));
        assert_eq!(read("format=jsonl"), Ok(ExportFormat::Jsonl));
        for raw in ["", "format=", "format=CSV", "format=xlsx", "format=csv&format=csv"] {
            assert_eq!(read(raw), Err(Code::InvalidQuery), "{raw}");
        }
    }

    #[test]
    fn text_is_neutralized_and_numbers_are_not() {
        for text in ["=1+1", "+1", "-1", "@a", "\ta", "\ra"] {
            assert_eq!(without_formula(json!(text)), json!(format!("'{text}")));
        }
        for other in [json!(-1.5), json!("a=b"), json!(["=1"]), Value::Null] {
            assert_eq!(without_formula(other.clone()), other);
        }
    }
}

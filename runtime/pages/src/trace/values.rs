//! `GET P/value`: one node of a recorded value in a display form, or the matches of a text search in it.
//!
//! Invariant: **bounded.** A value is scanned as text, and a page contains one window of it, regardless of the number and the
//! depth of its nodes.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::mapping::NodePath;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    Form, MessageSelection, Section, Text, ValueInput, ValuePage, ValueParams, ValueView,
};
use serde::Deserialize;

use crate::read;
use crate::request::query::Query;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::raw;

/// Characters of the search text.
const MAX_TEXT: usize = 200;

/// Query parameters: the value, the node and the display form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ValuePageParams {
    trace: String,
    observation: Option<String>,
    part: String,
    path: Option<String>,
    #[serde(rename = "as")]
    form: Option<String>,
    from: Option<String>,
    n: Option<String>,
    depth: Option<String>,
    find: Option<String>,
}

/// The page. Invalid parameters add notices and are ignored.
pub(crate) async fn value_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<ValuePageParams>,
) -> Result<Response, Problem> {
    let (view, faults) = view(&app, &viewer, params).await?;
    let status = match faults.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::BAD_REQUEST,
    };
    let notice = |fault: &Problem| Text::from(format!("{}; ignored.", fault.message()));
    let page_of = ValuePage {
        shell: viewer.shell(Section::Traces),
        notices: faults.iter().map(notice).collect(),
        view,
    };
    page(status, &page_of)
}

/// `GET P/_/value`: the content of the page, for scripts.
pub(crate) async fn value_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<ValuePageParams>,
) -> Result<Response, Problem> {
    let (view, faults) = view(&app, &viewer, params).await?;
    match faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => page(StatusCode::OK, &view),
    }
}

/// Parses an optional parameter; an empty value counts as absent.
fn parameter<T>(
    name: &str,
    raw: &Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, Problem> {
    let Some(raw) = raw.as_deref().filter(|raw| !raw.is_empty()) else {
        return Ok(None);
    };
    let error = || Problem::query(name, format!("must be {expected}"));
    parse(raw).map(Some).ok_or_else(error)
}

fn number(name: &str, raw: &Option<String>) -> Result<Option<usize>, Problem> {
    parameter(name, raw, |raw| raw.parse().ok(), "a non-negative integer")
}

/// The parsed value; an error is added to the faults.
fn or_fault<T>(read: Result<Option<T>, Problem>, faults: &mut Vec<Problem>) -> Option<T> {
    read.unwrap_or_else(|fault| {
        faults.push(fault);
        None
    })
}

impl ValuePageParams {
    /// The node, the display options and the errors.
    fn parse(&self) -> (NodePath, ValueParams, Vec<Problem>) {
        let mut faults = Vec::new();
        let path = raw::parse_path(self.path.as_deref()).map(Some);
        let path = or_fault(path, &mut faults).unwrap_or_default();
        let form = parameter("as", &self.form, Form::from_name, Form::NAMES);
        let n = parameter("n", &self.n, MessageSelection::parse, MessageSelection::FORM);
        let value_params = ValueParams {
            form: or_fault(form, &mut faults),
            from: or_fault(number("from", &self.from), &mut faults).unwrap_or_default(),
            n: or_fault(n, &mut faults),
            depth: or_fault(number("depth", &self.depth), &mut faults),
            ..ValueParams::default()
        };
        (path, value_params, faults)
    }
}

/// The view of the value and the errors of its parameters.
async fn view(
    app: &App,
    viewer: &Viewer,
    params: ValuePageParams,
) -> Result<(ValueView, Vec<Problem>), Problem> {
    let (path, value_params, faults) = params.parse();
    let find = params.find.as_deref().map(str::trim);
    let find = find.filter(|text| !text.is_empty());
    let find = find.map(|text| text.chars().take(MAX_TEXT).collect());
    let trace = TraceId::new(&params.trace).map_err(|_| raw::unknown())?;
    let observation = params.observation.filter(|id| !id.is_empty());
    let (content, observation, name) = match observation {
        Some(id) => {
            let id = ObservationId::new(&id).map_err(|_| raw::unknown())?;
            let stored = read::observation_with_content(app, &viewer.project, &trace, &id).await?;
            let stored = stored.ok_or_else(raw::unknown)?;
            let key = (id.to_string(), Text::from(stored.name.as_str()));
            let whole = read::trace_without_content(app, &viewer.project, &trace).await?;
            let name = whole.and_then(|whole| whole.name).map(Text::from);
            (stored.content, Some(key), name)
        }
        None => {
            let whole = read::trace_with_content(app, &viewer.project, &trace).await?;
            let whole = whole.ok_or_else(raw::unknown)?;
            let name = whole.name.as_deref().map(Text::from);
            (raw::trace_content(whole), None, name)
        }
    };
    let input = ValueInput {
        base: viewer.base(),
        trace: (trace.to_string(), name),
        observation,
        payload: raw::value(content, &params.part).ok_or_else(raw::unknown)?,
        part: params.part,
        path,
        params: value_params,
        find,
    };
    let view = on_blocking_thread(move || ValueView::new(input)).await?;
    Ok((view.ok_or_else(raw::unknown)?, faults))
}

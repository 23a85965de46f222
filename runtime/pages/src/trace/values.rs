//! `GET P/value`: one node of a recorded value, shown in the form asked for, or the matches of a text search in it.
//!
//! Invariant: **bounded by the value.** It is read as text; a page holds a window of it, however many nodes it has and
//! however deep they are.

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

/// A longer text is not looked for.
const MAX_TEXT: usize = 200;

/// Which value, which node of it, and what of that.
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

/// The page. What of its address cannot be read is named, and the rest holds.
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
    let said = |fault: &Problem| Text::from(format!("{}. It is left out.", fault.message()));
    let page_of = ValuePage {
        shell: viewer.shell(Section::Traces),
        notices: faults.iter().map(said).collect(),
        view,
    };
    page(status, &page_of)
}

/// `GET P/_/value`: the content of that page without the page around it, which the script inserts.
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

/// A parameter, where it is given; refused when it cannot be read.
fn parameter<T>(
    name: &str,
    raw: &Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    may_be: &str,
) -> Result<Option<T>, Problem> {
    let Some(raw) = raw.as_deref().filter(|raw| !raw.is_empty()) else {
        return Ok(None);
    };
    let wrong = || Problem::query(name, format!("may be {may_be}"));
    parse(raw).map(Some).ok_or_else(wrong)
}

fn number(name: &str, raw: &Option<String>) -> Result<Option<usize>, Problem> {
    parameter(name, raw, |raw| raw.parse().ok(), "a whole number from 0")
}

/// What can be read, with what cannot put to the faults.
fn held<T>(read: Result<Option<T>, Problem>, faults: &mut Vec<Problem>) -> Option<T> {
    read.unwrap_or_else(|fault| {
        faults.push(fault);
        None
    })
}

impl ValuePageParams {
    /// The node, what is asked of it, and what of both cannot be read.
    fn read(&self) -> (NodePath, ValueParams, Vec<Problem>) {
        let mut faults = Vec::new();
        let path = raw::path_of(self.path.as_deref()).map(Some);
        let path = held(path, &mut faults).unwrap_or_default();
        let form = parameter("as", &self.form, Form::from_name, Form::NAMES);
        let n = parameter("n", &self.n, MessageSelection::parse, MessageSelection::FORM);
        let asked = ValueParams {
            form: held(form, &mut faults),
            from: held(number("from", &self.from), &mut faults).unwrap_or_default(),
            n: held(n, &mut faults),
            depth: held(number("depth", &self.depth), &mut faults),
            ..ValueParams::default()
        };
        (path, asked, faults)
    }
}

/// The value, and what of its address cannot be read.
async fn view(
    app: &App,
    viewer: &Viewer,
    params: ValuePageParams,
) -> Result<(ValueView, Vec<Problem>), Problem> {
    let (path, asked, faults) = params.read();
    let find = params.find.as_deref().map(str::trim);
    let find = find.filter(|text| !text.is_empty());
    let find = find.map(|text| text.chars().take(MAX_TEXT).collect());
    let trace = TraceId::new(&params.trace).map_err(|_| raw::unknown())?;
    let observation = params.observation.filter(|id| !id.is_empty());
    let (content, observation, name) = match observation {
        Some(id) => {
            let id = ObservationId::new(&id).map_err(|_| raw::unknown())?;
            let step = read::observation_with_content(app, &viewer.project, &trace, &id).await?;
            let step = step.ok_or_else(raw::unknown)?;
            let of = (id.to_string(), Text::from(step.name.as_str()));
            let whole = read::trace_without_content(app, &viewer.project, &trace).await?;
            let name = whole.and_then(|whole| whole.name).map(Text::from);
            (step.content, Some(of), name)
        }
        None => {
            let whole = read::trace_with_content(app, &viewer.project, &trace).await?;
            let whole = whole.ok_or_else(raw::unknown)?;
            let name = whole.name.as_deref().map(Text::from);
            (raw::of_whole(whole), None, name)
        }
    };
    let input = ValueInput {
        base: viewer.base(),
        trace: (trace.to_string(), name),
        observation,
        payload: raw::value(content, &params.part).ok_or_else(raw::unknown)?,
        part: params.part,
        path,
        params: asked,
        find,
    };
    let view = on_blocking_thread(move || ValueView::new(input)).await?;
    Ok((view.ok_or_else(raw::unknown)?, faults))
}

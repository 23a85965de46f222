//! `GET P/dataset-items/new`: an item from a trace or an observation, with a mapping and a preview.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission;
use perpend_domain::json_path::{JsonPath, Steps};
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{ItemPage, ItemSourceView, Section, Text, encode, segment};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::DatasetContext;
use super::item::empty_page;
use super::item_form::{ItemWriteResult, VALUES, WriteMode, editors_of, write_item};
use super::links::folder_href;
use super::list::dataset_names;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::raw;

/// Steps of the evaluation of a path.
const MAX_STEPS: usize = 1_000_000;

/// Query parameters: the source, the dataset and the paths of the values.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FromTraceParams {
    trace: String,
    observation: Option<String>,
    /// Id of the dataset.
    dataset: Option<String>,
    input: Option<String>,
    expected: Option<String>,
    metadata: Option<String>,
}

impl FromTraceParams {
    fn observation(&self) -> Option<&str> {
        self.observation.as_deref().filter(|id| !id.is_empty())
    }

    fn dataset(&self) -> Option<&str> {
        self.dataset.as_deref().filter(|id| !id.is_empty())
    }

    /// The paths of input, expected output and metadata.
    fn paths(&self) -> [&str; 3] {
        [
            self.input.as_deref().unwrap_or("$.input"),
            self.expected.as_deref().unwrap_or("$.output"),
            self.metadata.as_deref().unwrap_or_default(),
        ]
    }

    /// The fields of the form that stay when the dataset or a path is changed.
    fn hidden_fields(&self) -> Vec<(&'static str, String)> {
        let observation = self.observation().map(|id| ("observation", id.to_owned()));
        [("trace", self.trace.clone())].into_iter().chain(observation).collect()
    }

    /// URL of the trace or observation.
    fn origin_href(&self, base: &str) -> String {
        let trace = format!("{base}/traces/{}", segment(&self.trace));
        match self.observation() {
            Some(observation) => format!("{trace}?observation={}", encode(observation)),
            None => trace,
        }
    }
}

/// The value that a path selects: one node, a list of several, or null for an empty path.
fn selected(document: &Value, path: &str) -> Result<Value, Text> {
    if path.trim().is_empty() {
        return Ok(Value::Null);
    }
    let parsed = JsonPath::parse(path.trim()).map_err(|error| Text::from(error.to_string()))?;
    let nodes = parsed.select(document, &mut Steps::new(MAX_STEPS));
    match nodes.map_err(|error| Text::from(error.to_string()))?.as_slice() {
        [] => Err(Text::from("selects nothing")),
        [only] => Ok((*only).clone()),
        several => Ok(several.iter().map(|node| (*node).clone()).collect()),
    }
}

/// The recorded values of the trace or observation as one document.
async fn document(app: &App, viewer: &Viewer, params: &FromTraceParams) -> Result<Value, Problem> {
    let trace = segment(&params.trace);
    // The functions take path segments after percent-decoding, which differ from ids only for `.` and `..`.
    let trace = if trace.starts_with('~') { &trace } else { &params.trace };
    let content = match params.observation() {
        Some(id) => raw::content_of_observation(app, viewer, trace, id).await?,
        None => raw::content_of_trace(app, viewer, trace).await?,
    };
    let value = |payload: Option<perpend_domain::payload::Payload>| {
        payload.map_or(Value::Null, |payload| payload.to_value())
    };
    Ok(json!({
        "input": value(content.input),
        "output": value(content.output),
        "metadata": content.metadata,
    }))
}

/// `GET P/dataset-items/new`
pub(crate) async fn from_trace_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<FromTraceParams>,
) -> Result<Response, Problem> {
    if !viewer.may(Permission::TraceRead) {
        return Err(Problem::new(Code::AccessDenied, "requires the permission `trace.read`"));
    }
    let document = document(&app, &viewer, &params).await?;
    let mut values = [Value::Null, Value::Null, Value::Null];
    let mut paths = Vec::new();
    for (((field, _, label), path), value) in
        VALUES.into_iter().zip(params.paths()).zip(&mut values)
    {
        let problem = match selected(&document, path) {
            Ok(found) => {
                *value = found;
                None
            }
            Err(problem) => Some(problem),
        };
        paths.push((field, label, path.to_owned(), problem));
    }
    let base = viewer.base();
    let datasets = dataset_names(&app, &viewer).await?;
    let options = datasets.into_iter().map(|(name, id)| {
        let is_selected = params.dataset() == Some(id.as_str());
        (id, Text::from(name), is_selected)
    });
    let source = ItemSourceView {
        action: format!("{base}/dataset-items/new"),
        hidden_fields: params.hidden_fields(),
        origin: Text::from(params.observation().unwrap_or(&params.trace)),
        origin_href: params.origin_href(&base),
        datasets: options.collect(),
        paths,
        is_chosen: params.dataset().is_some(),
    };
    let view = match params.dataset() {
        Some(id) => {
            let context = DatasetContext::of_id(&app, viewer, id).await?;
            let [input, expected, metadata] = &values;
            let problems = problems(&app, &context, [input, expected, metadata]).await?;
            let editors = editors_of([input, expected, metadata]).into_iter();
            ItemPage {
                editors: editors.map(|editor| editor.with_problems(&problems)).collect(),
                hidden_fields: params.hidden_fields(),
                source: Some(source),
                ..empty_page(&context, [])
            }
        }
        None => page_without_dataset(&viewer, source),
    };
    page(StatusCode::OK, &view)
}

/// The violations of the schemas by the values.
async fn problems(
    app: &App,
    context: &DatasetContext,
    values: [&Value; 3],
) -> Result<Vec<(&'static str, Text)>, Problem> {
    let members = VALUES.into_iter().zip(values);
    let item = members.map(|((_, member, _), value)| (member.to_owned(), value.clone())).collect();
    Ok(match write_item(app, context, item, WriteMode::Check).await? {
        ItemWriteResult::Done(..) => Vec::new(),
        ItemWriteResult::Invalid(problems) => problems,
    })
}

/// The page before a dataset is chosen.
fn page_without_dataset(viewer: &Viewer, source: ItemSourceView) -> ItemPage {
    ItemPage {
        shell: viewer.shell(Section::Datasets),
        crumbs: vec![(Text::from("Datasets"), folder_href(&viewer.base(), ""))],
        dataset_href: String::new(),
        action: String::new(),
        check_href: String::new(),
        may_write: true,
        editors: Vec::new(),
        rejected_form: perpend_views::RejectedForm::default(),
        stored: None,
        hidden_fields: Vec::new(),
        source: Some(source),
        notices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_selects_a_value_a_list_or_nothing() {
        let document = json!({ "input": { "q": [1, 2] }, "output": "a" });
        assert_eq!(selected(&document, "$.input"), Ok(json!({ "q": [1, 2] })));
        assert_eq!(selected(&document, "$.input.q[*]"), Ok(json!([1, 2])));
        assert_eq!(selected(&document, " "), Ok(Value::Null));
        assert!(selected(&document, "$.none").is_err());
        assert!(selected(&document, "input").is_err());
    }
}

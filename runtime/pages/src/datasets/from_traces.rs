//! `GET P/dataset-items/from-traces`: items from selected traces, or from all traces of a list, by an operation of the API.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use percent_encoding::percent_decode_str;
use perpend_domain::query::print_condition;
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    FromTraceLine, FromTracesPage, ItemSourceView, Section, Text, beginning, count, plural, segment,
};
use serde_json::{Value, json};

use super::context::DatasetContext;
use super::item_form::VALUES;
use super::list::dataset_names;
use crate::read;
use crate::request::forms::ContentForm;
use crate::request::operations::{call, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::Conditions;
use crate::traces::params::TraceListParams;

/// Traces of a list that one form adds.
const MAX_MATCHES: u32 = 10_000;
/// Traces of a list in a preview.
const PREVIEWED: u32 = 20;
/// Fields with the paths of input, expected output and metadata, and their defaults.
const PATHS: [(&str, &str, &str); 3] = [
    ("input", "input", "$.input"),
    ("expected", "expectedOutput", "$.output"),
    ("metadata", "metadata", ""),
];

/// The traces and the mapping of a query string or of a form.
struct Selection {
    /// Ids of selected traces.
    traces: Vec<String>,
    /// URL of a list relative to the project; all its traces if no trace is selected.
    list: Option<String>,
    /// Id of the dataset.
    dataset: Option<String>,
    /// Paths of input, expected output and metadata.
    paths: [String; 3],
}

impl Selection {
    fn of(params: &Params) -> Self {
        let decoded = |raw: String| percent_decode_str(&raw).decode_utf8_lossy().into_owned();
        let path = |(field, _, default): (&str, &str, &str)| {
            params.raw(field).unwrap_or(default).trim().to_owned()
        };
        Self {
            traces: params.all("trace").into_iter().map(decoded).collect(),
            list: params.text("in").filter(|list| list.starts_with("/traces")).map(str::to_owned),
            dataset: params.text("dataset").map(str::to_owned),
            paths: PATHS.map(path),
        }
    }

    /// The fields that identify the traces.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let traces = self.traces.iter().map(|id| ("trace", perpend_views::encode(id)));
        let list = self.list.iter().map(|list| ("in", list.clone()));
        traces.chain(list).collect()
    }

    /// The filter of the list as text, with its time range and environments; `None` if a condition has no text.
    fn query(&self, now: Timestamp) -> Option<String> {
        let query = self.list.as_deref()?.split_once('?').map(|(_, query)| query);
        let params = TraceListParams::new(query);
        let conditions = Conditions::new(&params.query, read::start_of_minute(now)).filter();
        let terms = conditions.conditions.iter().map(print_condition);
        Some(terms.collect::<Option<Vec<String>>>()?.join(" "))
    }

    /// The body of the operation; `limit` applies to a list.
    fn body(&self, now: Timestamp, limit: u32) -> Result<Value, Text> {
        let mut mapping = json!({});
        for ((_, member, _), path) in PATHS.iter().zip(&self.paths) {
            mapping[*member] = path.as_str().into();
        }
        if !self.traces.is_empty() {
            return Ok(json!({ "traceIds": self.traces, "mapping": mapping }));
        }
        match self.query(now) {
            Some(query) => Ok(json!({
                "query": query, "target": "trace", "limit": limit, "mapping": mapping,
            })),
            None => Err(Text::from("Select traces in the list, or open this page from the list.")),
        }
    }
}

/// Such as `3 created, 1 invalid`.
fn counts_of(result: &Value) -> String {
    let names = ["created", "updated", "unchanged", "skipped", "invalid"];
    let counts = names.map(|name| (result["counts"][name].as_u64().unwrap_or_default(), name));
    let shown = counts.into_iter().filter(|(n, _)| 0 < *n);
    let shown: Vec<String> = shown.map(|(n, name)| format!("{} {name}", count(n))).collect();
    match shown.is_empty() {
        true => "no traces".to_owned(),
        false => shown.join(", "),
    }
}

fn line(base: &str, outcome: &Value) -> FromTraceLine {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let trace = text(&outcome["traceId"]);
    let problems = outcome["problems"].as_array().into_iter().flatten().map(|problem| {
        let path = format!("{}{}", text(&problem["field"]), text(&problem["pointer"]));
        let message = text(&problem["message"]);
        Text::from(if path.is_empty() { message } else { format!("{path}: {message}") })
    });
    let shown = |member: &str| match &outcome["item"][member] {
        Value::Null => Text::default(),
        value => {
            Text::from(beginning(&perpend_domain::payload::Payload::from_value(value.clone())))
        }
    };
    FromTraceLine {
        href: format!("{base}/traces/{}", segment(&trace)),
        id: Text::from(trace),
        result: text(&outcome["result"]),
        problems: problems.collect(),
        input: shown("input"),
        expected: shown("expectedOutput"),
    }
}

/// `GET P/dataset-items/from-traces`
pub(crate) async fn from_traces_page(
    State(app): State<App>,
    viewer: Viewer,
    params: Params,
) -> Result<Response, Problem> {
    let selection = Selection::of(&params);
    let view = view(&app, &viewer, &selection).await?;
    page(StatusCode::OK, &view)
}

async fn view(
    app: &App,
    viewer: &Viewer,
    selection: &Selection,
) -> Result<FromTracesPage, Problem> {
    let base = viewer.base();
    let mut notices = Vec::new();
    let (mut counts, mut results) = (String::new(), Vec::new());
    let body = selection.body(app.web.clock.now(), PREVIEWED);
    match (&selection.dataset, body) {
        (_, Err(notice)) => notices.push(notice),
        (None, Ok(_)) => {}
        (Some(id), Ok(mut body)) => {
            let context = DatasetContext::of_id(app, viewer.clone(), id).await?;
            body["dryRun"] = true.into();
            let path = context.operation("/from-traces");
            match Box::pin(call(app, viewer, (Method::POST, &path), &body)).await {
                Ok(result) => {
                    let all = result["results"].as_array().into_iter().flatten();
                    results = all.map(|outcome| line(&base, outcome)).collect();
                    let more = match result["hasMore"].as_bool() {
                        Some(true) => " Only the first traces of the list are shown.",
                        _ => "",
                    };
                    counts = format!("Would give: {}.{more}", counts_of(&result));
                }
                Err(problem) if is_about_input(&problem) => {
                    notices.push(Text::from(problem.message()));
                }
                Err(problem) => return Err(problem),
            }
        }
    }
    let datasets = dataset_names(app, viewer).await?;
    let options = datasets.into_iter().map(|(name, id)| {
        let is_selected = selection.dataset.as_deref() == Some(id.as_str());
        (id, Text::from(name), is_selected)
    });
    let paths = VALUES.into_iter().zip(PATHS).zip(&selection.paths);
    let paths =
        paths.map(|(((_, _, label), (field, ..)), path)| (field, label, path.clone(), None));
    let paths: Vec<(&str, &str, String, Option<Text>)> = paths.collect();
    let (origin, label) = match selection.traces.len() {
        0 => ("all traces of the list".to_owned(), "Add all matching traces".to_owned()),
        n => {
            let traces = plural(n as u64, "trace");
            (format!("{traces} of the list"), format!("Add {traces}"))
        }
    };
    let list = selection.list.as_deref().unwrap_or("/traces");
    let dataset = selection.dataset.iter().map(|id| ("dataset", id.clone()));
    let own = PATHS.into_iter().zip(&selection.paths);
    let own = own.map(|((field, ..), path)| (field, path.clone()));
    Ok(FromTracesPage {
        shell: viewer.shell(Section::Datasets),
        fields: selection.fields().into_iter().chain(dataset).chain(own).collect(),
        source: ItemSourceView {
            action: format!("{base}/dataset-items/from-traces"),
            hidden_fields: selection.fields(),
            origin: Text::from(origin),
            origin_href: format!("{base}{list}"),
            datasets: options.collect(),
            paths,
            is_chosen: selection.dataset.is_some(),
        },
        label,
        counts,
        results,
        notices,
    })
}

/// `POST P/dataset-items/from-traces`: the fields of the page.
pub(crate) async fn add_traces(
    State(app): State<App>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let selection = Selection::of(&form.fields);
    let id = selection.dataset.as_deref().unwrap_or_default();
    let context = DatasetContext::of_id(&app, viewer.clone(), id).await?;
    let body = selection.body(app.web.clock.now(), MAX_MATCHES);
    let body = body.map_err(|message| Problem::body("trace", message.raw()))?;
    let act = async {
        let path = context.operation("/from-traces");
        let result = call(&app, viewer, (Method::POST, &path), &body).await?;
        let mut words = format!("Traces added: {}.", counts_of(&result));
        let first = result["results"].as_array().and_then(|all| all.first());
        let problem = first.filter(|outcome| outcome["result"] == "invalid");
        if let Some(problem) = problem.map(|outcome| line("", outcome)) {
            let reason = problem.problems.first().map_or("", Text::raw);
            words.push_str(&format!(" Trace {}: {reason}.", problem.id.raw()));
        }
        if result["hasMore"] == true {
            words.push_str(&format!(" More than {} traces match.", count(MAX_MATCHES.into())));
        }
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(context.href()))
    };
    Box::pin(form.run_once(&app, act)).await
}

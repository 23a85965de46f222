//! `GET P/dataset-items/from-traces`: items from selected traces or observations, or from all of a list, by an operation of the API.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    FromTraceLine, FromTracesPage, ItemSourceView, Section, Text, beginning, count, plural, segment,
};
use serde_json::{Value, json};

use super::context::DatasetContext;
use super::item_form::VALUES;
use super::list::dataset_names;
use crate::list::params::filter_text;
use crate::list::selected::SelectedRows;
use crate::observations::Observations;
use crate::request::forms::ContentForm;
use crate::request::operations::{call, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::list::Traces;

/// Traces or observations of a list that one form adds.
const MAX_MATCHES: u32 = 10_000;
/// Traces or observations of a list in a preview.
const PREVIEWED: u32 = 20;
/// Fields with the paths of input, expected output and metadata, and their defaults.
const PATHS: [(&str, &str, &str); 3] = [
    ("input", "input", "$.input"),
    ("expected", "expectedOutput", "$.output"),
    ("metadata", "metadata", ""),
];

/// Sources of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceKind {
    Trace,
    Observation,
}

impl SourceKind {
    /// Singular, which is also the target of the operation.
    fn noun(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Observation => "observation",
        }
    }

    fn nouns(self) -> &'static str {
        match self {
            Self::Trace => "traces",
            Self::Observation => "observations",
        }
    }
}

/// The sources and the mapping of a query string or of a form.
struct Selection {
    kind: SourceKind,
    rows: SelectedRows,
    /// URL of a list relative to the project; all its rows if none is selected.
    list: Option<String>,
    /// Id of the dataset.
    dataset: Option<String>,
    /// Paths of input, expected output and metadata.
    paths: [String; 3],
}

impl Selection {
    fn of(params: &Params) -> Self {
        let path = |(field, _, default): (&str, &str, &str)| {
            params.raw(field).unwrap_or(default).trim().to_owned()
        };
        let rows = SelectedRows::of(params);
        let is_list =
            |list: &&str| list.starts_with("/traces") || list.starts_with("/observations");
        let list = params.text("in").filter(is_list).map(str::to_owned);
        let is_of_observations = !rows.observations.is_empty()
            || list.as_deref().is_some_and(|list| list.starts_with("/observations"));
        Self {
            kind: match is_of_observations {
                true => SourceKind::Observation,
                false => SourceKind::Trace,
            },
            rows,
            list,
            dataset: params.text("dataset").map(str::to_owned),
            paths: PATHS.map(path),
        }
    }

    /// Number of selected rows; 0 for all of the list.
    fn n_selected(&self) -> usize {
        match self.kind {
            SourceKind::Trace => self.rows.traces.len(),
            SourceKind::Observation => self.rows.observations.len(),
        }
    }

    /// The fields that identify the sources.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let rows = self.rows.fields().into_iter().filter(|(name, _)| *name == self.kind.noun());
        rows.chain(self.list.iter().map(|list| ("in", list.clone()))).collect()
    }

    /// The filter of the list as text, with its time range and environments; `None` if a condition has no text.
    fn query(&self, app: &App, viewer: &Viewer) -> Option<String> {
        let query = self.list.as_deref()?.split_once('?').map(|(_, query)| query);
        match self.kind {
            SourceKind::Trace => filter_text::<Traces>(app, viewer, query),
            SourceKind::Observation => filter_text::<Observations>(app, viewer, query),
        }
    }

    /// The body of the operation; `limit` applies to a list.
    fn body(&self, app: &App, viewer: &Viewer, limit: u32) -> Result<Value, Text> {
        let mut mapping = json!({});
        for ((_, member, _), path) in PATHS.iter().zip(&self.paths) {
            mapping[*member] = path.as_str().into();
        }
        if 0 < self.n_selected() {
            let observations = self
                .rows
                .observations
                .iter()
                .map(|(trace, id)| json!({ "traceId": trace, "observationId": id }));
            return Ok(match self.kind {
                SourceKind::Trace => json!({ "traceIds": self.rows.traces, "mapping": mapping }),
                SourceKind::Observation => {
                    json!({ "observations": observations.collect::<Value>(), "mapping": mapping })
                }
            });
        }
        match self.query(app, viewer) {
            Some(query) => Ok(json!({
                "query": query, "target": self.kind.noun(), "limit": limit, "mapping": mapping,
            })),
            None => {
                let nouns = self.kind.nouns();
                let message =
                    format!("Select {nouns} in the list, or open this page from the list.");
                Err(Text::from(message))
            }
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
        true => "nothing".to_owned(),
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
    let href = format!("{base}/traces/{}", segment(&trace));
    let (href, id) = match outcome["observationId"].as_str() {
        Some(id) => (format!("{href}?observation={}", perpend_views::encode(id)), id.to_owned()),
        None => (href, trace),
    };
    FromTraceLine {
        href,
        id: Text::from(id),
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

/// The result of a dry run of the operation, and its problems.
#[derive(Default)]
struct Preview {
    counts: String,
    results: Vec<FromTraceLine>,
    notices: Vec<Text>,
    /// Problems of the paths, by field.
    path_problems: Vec<(&'static str, Text)>,
}

impl Preview {
    async fn of(app: &App, viewer: &Viewer, selection: &Selection) -> Result<Self, Problem> {
        let mut preview = Self::default();
        let body = selection.body(app, viewer, PREVIEWED);
        let (id, mut body) = match (&selection.dataset, body) {
            (_, Err(notice)) => {
                preview.notices.push(notice);
                return Ok(preview);
            }
            (None, Ok(_)) => return Ok(preview),
            (Some(id), Ok(body)) => (id, body),
        };
        let context = DatasetContext::of_id(app, viewer.clone(), id).await?;
        body["dryRun"] = true.into();
        let path = context.operation("/from-traces");
        match Box::pin(call(app, viewer, (Method::POST, &path), &body)).await {
            Ok(result) => {
                let (base, all) = (viewer.base(), result["results"].as_array());
                let all = all.into_iter().flatten();
                preview.results = all.map(|outcome| line(&base, outcome)).collect();
                let more = match result["hasMore"].as_bool() {
                    Some(true) => {
                        format!(" Only the first {} of the list are shown.", selection.kind.nouns())
                    }
                    _ => String::new(),
                };
                preview.counts = format!("Would give: {}.{more}", counts_of(&result));
            }
            Err(problem) if is_about_input(&problem) => preview.reject(&problem),
            Err(problem) => return Err(problem),
        }
        Ok(preview)
    }

    /// Adds the message of a problem, at its path if it is about one.
    fn reject(&mut self, problem: &Problem) {
        let message = problem.message();
        let of_path = PATHS.iter().find_map(|(field, member, _)| {
            let rest = message.strip_prefix("mapping.")?.strip_prefix(member)?;
            Some((*field, Text::from(rest.strip_prefix(": ")?)))
        });
        self.notices.push(Text::from(message));
        self.path_problems.extend(of_path);
    }
}

async fn view(
    app: &App,
    viewer: &Viewer,
    selection: &Selection,
) -> Result<FromTracesPage, Problem> {
    let preview = Preview::of(app, viewer, selection).await?;
    view_of(app, viewer, selection, preview).await
}

async fn view_of(
    app: &App,
    viewer: &Viewer,
    selection: &Selection,
    preview: Preview,
) -> Result<FromTracesPage, Problem> {
    let base = viewer.base();
    let datasets = dataset_names(app, viewer).await?;
    let options = datasets.into_iter().map(|(name, id)| {
        let is_selected = selection.dataset.as_deref() == Some(id.as_str());
        (id, Text::from(name), is_selected)
    });
    let paths = VALUES.into_iter().zip(PATHS).zip(&selection.paths);
    let paths = paths.map(|(((_, _, label), (field, ..)), path)| {
        let problem = preview.path_problems.iter().find(|(of, _)| *of == field);
        (field, label, path.clone(), problem.map(|(_, problem)| problem.clone()))
    });
    let paths: Vec<(&str, &str, String, Option<Text>)> = paths.collect();
    let nouns = selection.kind.nouns();
    let (origin, label) = match selection.n_selected() {
        0 => (format!("all {nouns} of the list"), format!("Add all matching {nouns}")),
        n => {
            let selected = plural(n as u64, selection.kind.noun());
            (format!("{selected} of the list"), format!("Add {selected}"))
        }
    };
    let list = selection.list.clone().unwrap_or_else(|| format!("/{nouns}"));
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
        nouns,
        label,
        counts: preview.counts,
        results: preview.results,
        notices: preview.notices,
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
    let body = selection.body(&app, viewer, MAX_MATCHES);
    let kind = selection.kind;
    let body = body.map_err(|message| Problem::body(kind.noun(), message.raw()))?;
    let act = async {
        let path = context.operation("/from-traces");
        let result = call(&app, viewer, (Method::POST, &path), &body).await?;
        let title = match kind {
            SourceKind::Trace => "Traces",
            SourceKind::Observation => "Observations",
        };
        let mut words = format!("{title} added: {}.", counts_of(&result));
        let first = result["results"].as_array().and_then(|all| all.first());
        let problem = first.filter(|outcome| outcome["result"] == "invalid");
        if let Some(problem) = problem.map(|outcome| line("", outcome)) {
            let reason = problem.problems.first().map_or("", Text::raw);
            words.push_str(&format!(" {}: {reason}.", problem.id.raw()));
        }
        if result["hasMore"] == true {
            words.push_str(&format!(
                " More than {} {} match.",
                count(MAX_MATCHES.into()),
                kind.nouns()
            ));
        }
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(context.href()))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let mut preview = Preview::default();
            preview.reject(&problem);
            let view = view_of(&app, viewer, &selection, preview).await?;
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}

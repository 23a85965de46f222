//! The values in the form of an item, and their write or check by an operation of the API.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{ItemProblemsFragment, JsonEditor, Text};
use serde_json::{Map, Value, json};

use super::context::{DatasetContext, DatasetPath};
use super::schemas::parsed_field;
use crate::request::forms::ContentForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Field of the form, member of the API and label of each value.
pub(super) const VALUES: [(&str, &str, &str); 3] = [
    ("input", "input", "Input"),
    ("expected", "expectedOutput", "Expected output"),
    ("metadata", "metadata", "Metadata"),
];

/// Messages at the fields of a form.
pub(super) type FieldProblems = Vec<(&'static str, Text)>;

/// Editors of stored values.
pub(super) fn editors_of(values: [&Value; 3]) -> Vec<JsonEditor> {
    let editors = VALUES.into_iter().zip(values);
    editors.map(|((field, _, label), value)| JsonEditor::of_value((field, label), value)).collect()
}

/// Editors of typed texts with the problems at their fields.
pub(super) fn typed_editors(
    form: &ContentForm,
    problems: &[(&'static str, Text)],
) -> Vec<JsonEditor> {
    let editors = VALUES.into_iter().map(|(field, _, label)| {
        let typed = form.fields.raw(field).unwrap_or_default();
        JsonEditor::of_text((field, label), typed).with_problems(problems)
    });
    editors.collect()
}

/// The typed values as members of an item.
pub(super) fn typed_values(form: &ContentForm) -> Result<Map<String, Value>, FieldProblems> {
    let mut values = Map::new();
    let mut problems = Vec::new();
    for (field, member, _) in VALUES {
        match parsed_field(form, field) {
            Ok(value) => {
                values.insert(member.to_owned(), value);
            }
            Err(problem) => problems.push(problem),
        }
    }
    match problems.is_empty() {
        true => Ok(values),
        false => Err(problems),
    }
}

/// The outcome of the change of an item.
pub(super) enum ItemWriteResult {
    /// `created`, `updated`, `unchanged`, `deleted` or `skipped`, and the id.
    Done(String, String),
    /// The item was not changed.
    Invalid(FieldProblems),
}

/// How an item is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Creates it or its next version.
    Put,
    /// Creates it unless it exists.
    Create,
    /// Only reports the outcome.
    Check,
}

/// Writes or checks one item.
pub(super) async fn write_item(
    app: &App,
    context: &DatasetContext,
    item: Map<String, Value>,
    mode: WriteMode,
) -> Result<ItemWriteResult, Problem> {
    let path = context.operation("/items/batch");
    let body = json!({
        "items": [item],
        "onExisting": if mode == WriteMode::Create { "skip" } else { "update" },
        "dryRun": mode == WriteMode::Check,
    });
    let answer = match call(app, &context.viewer, (Method::POST, &path), &body).await {
        Ok(answer) => answer,
        Err(problem) if is_about_input(&problem) => {
            return Ok(ItemWriteResult::Invalid(field_problems(&problem, &[], "input")));
        }
        Err(problem) => return Err(problem),
    };
    let outcome = &answer["results"][0];
    let text = |value: &Value, member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let result = text(outcome, "result");
    if result != "invalid" {
        return Ok(ItemWriteResult::Done(result, text(outcome, "id")));
    }
    let no_problems = Vec::new();
    let problems = outcome["problems"].as_array().unwrap_or(&no_problems);
    let problems = problems.iter().map(|problem| {
        let (member, pointer) = (text(problem, "field"), text(problem, "pointer"));
        let message = text(problem, "message");
        let field = VALUES.iter().find(|(_, own, _)| *own == member).map(|(field, ..)| *field);
        let shown = match (field, pointer.is_empty()) {
            (Some(_), true) => message,
            (Some(_), false) => format!("{pointer}: {message}"),
            (None, _) if member.is_empty() => message,
            (None, _) => format!("{member}{pointer}: {message}"),
        };
        (field.unwrap_or("id"), Text::from(shown))
    });
    Ok(ItemWriteResult::Invalid(problems.collect()))
}

/// `POST P/_/datasets/{dataset}/check`: the problems of typed values, for scripts. Nothing is stored.
pub(crate) async fn check_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let problems = match typed_values(&form) {
        Ok(item) => match write_item(&app, &context, item, WriteMode::Check).await? {
            ItemWriteResult::Done(..) => Vec::new(),
            ItemWriteResult::Invalid(problems) => problems,
        },
        Err(problems) => problems,
    };
    page(StatusCode::OK, &ItemProblemsFragment { editors: typed_editors(&form, &problems) })
}

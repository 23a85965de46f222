//! The schemas of a dataset: two text areas, and the items that new schemas would break.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DatasetSchemasPage, JsonEditor, RejectedForm, SchemaImpactView, Text, plural};
use serde_json::{Value, json};

use super::check::{SchemaImpact, inferred};
use super::context::{DatasetContext, DatasetParams, DatasetPath, instant};
use super::links::item_href;
use crate::request::forms::ContentForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Field of the form, member of the API and label of each schema.
const SCHEMAS: [(&str, &str, &str); 2] = [
    ("input_schema", "inputSchema", "Schema of inputs"),
    ("expected_schema", "expectedOutputSchema", "Schema of expected outputs"),
];

/// The tab with the stored schemas.
fn stored_view(context: &DatasetContext) -> DatasetSchemasPage {
    let dataset = &context.stored.dataset;
    DatasetSchemasPage {
        shell: context.shell(),
        head: context.head("schemas", Vec::new(), RejectedForm::default()),
        editors: editors([dataset.input_schema.as_ref(), dataset.expected_output_schema.as_ref()]),
        impact: None,
        note: None,
    }
}

/// The tab with the stored schemas, or with those as of the parameter `asof`, which the form can save again.
pub(super) async fn view(
    app: &App,
    context: &DatasetContext,
    params: &DatasetParams,
) -> Result<DatasetSchemasPage, Problem> {
    let mut faults = Vec::new();
    let current = stored_view(context);
    let Some(at) = instant("asof", params.asof.as_deref(), &mut faults) else {
        return Ok(DatasetSchemasPage {
            head: context.head("schemas", faults, RejectedForm::default()),
            ..current
        });
    };
    let then = app.store.catalog.dataset_at(&context.viewer.project, context.id(), at).await?;
    let Some(then) = then else {
        let note = format!("The dataset did not exist at {}.", at.to_iso_micros());
        return Ok(DatasetSchemasPage { note: Some(Text::from(note)), ..current });
    };
    let dataset = &context.stored.dataset;
    let then = then.of(dataset);
    let words = match dataset.changes_schema(&then) {
        true => "Save restores them; nothing was saved yet.",
        false => "They are the current ones.",
    };
    Ok(DatasetSchemasPage {
        editors: editors([then.input_schema.as_ref(), then.expected_output_schema.as_ref()]),
        note: Some(Text::from(format!("Schemas as of {}. {words}", at.to_iso_micros()))),
        ..current
    })
}

/// The editors of schemas.
fn editors(schemas: [Option<&Value>; 2]) -> Vec<JsonEditor> {
    let editors = SCHEMAS.into_iter().zip(schemas).map(|((field, _, label), schema)| {
        JsonEditor::of_value((field, label), schema.unwrap_or(&Value::Null))
    });
    editors.collect()
}

/// The tab with typed schemas and the problems at their fields.
fn typed_view(
    context: &DatasetContext,
    form: &ContentForm,
    problems: Vec<(&'static str, Text)>,
) -> DatasetSchemasPage {
    let editors = SCHEMAS.into_iter().map(|(field, _, label)| {
        let typed = form.fields.raw(field).unwrap_or_default();
        JsonEditor::of_text((field, label), typed).with_problems(&problems)
    });
    DatasetSchemasPage {
        editors: editors.collect(),
        head: context.head(
            "schemas",
            Vec::new(),
            RejectedForm { values: Vec::new(), problems: problems.clone() },
        ),
        ..stored_view(context)
    }
}

/// The JSON value of a text area; an empty one is null.
pub(super) fn parsed_field(
    form: &ContentForm,
    field: &'static str,
) -> Result<Value, (&'static str, Text)> {
    let text = form.fields.raw(field).unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| {
        let message = format!("must be JSON, with text in double quotes: {error}");
        (field, Text::from(message))
    })
}

/// The typed schemas as members of a body.
fn typed_schemas(form: &ContentForm) -> Result<Value, Vec<(&'static str, Text)>> {
    let mut body = json!({});
    let mut problems = Vec::new();
    for (field, member, _) in SCHEMAS {
        match parsed_field(form, field) {
            Ok(schema) => body[member] = schema,
            Err(problem) => problems.push(problem),
        }
    }
    match problems.is_empty() {
        true => Ok(body),
        false => Err(problems),
    }
}

/// `POST P/datasets/{dataset}/schemas`: fields `input_schema` and `expected_schema`; `act` is `save`, `impact` or `infer`.
pub(crate) async fn change_schemas(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let body = match typed_schemas(&form) {
        Ok(body) => body,
        Err(problems) => {
            return page(StatusCode::UNPROCESSABLE_ENTITY, &typed_view(&context, &form, problems));
        }
    };
    match form.fields.text("act") {
        Some("infer") => return inferred_page(&app, &context, &form).await,
        Some("impact") => return impact_page(&app, &context, &form, &body).await,
        _ => {}
    }
    let act = async {
        let path = context.operation("");
        call(&app, &context.viewer, (Method::PATCH, &path), &body).await?;
        let location = format!("{}?tab=schemas", context.href());
        Ok::<_, Problem>(SubmissionOutcome::new("Schemas saved.").at(location))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let view = rejected_view(&context, &form, &problem);
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}

/// The tab with the items that the typed schemas would break; nothing is saved.
async fn impact_page(
    app: &App,
    context: &DatasetContext,
    form: &ContentForm,
    body: &Value,
) -> Result<Response, Problem> {
    match SchemaImpact::of(app, context, body).await {
        Ok(impact) => {
            let (violations, n) = (&impact.violations, impact.n_failing);
            let summary = Text::from(format!("{} Nothing was saved.", impact.summary()));
            let view = DatasetSchemasPage {
                impact: Some(impact_view(context, summary, violations, n)),
                ..typed_view(context, form, Vec::new())
            };
            page(StatusCode::OK, &view)
        }
        Err(problem) if is_about_input(&problem) => {
            page(StatusCode::UNPROCESSABLE_ENTITY, &rejected_view(context, form, &problem))
        }
        Err(problem) => Err(problem),
    }
}

/// The tab with schemas that the newest items match; nothing is saved. Without items, the typed texts stay.
async fn inferred_page(
    app: &App,
    context: &DatasetContext,
    form: &ContentForm,
) -> Result<Response, Problem> {
    let (found, n_items) = inferred(app, context).await?;
    if n_items == 0 {
        let note = Text::from("There are no active items from which schemas can be inferred.");
        let view = DatasetSchemasPage { note: Some(note), ..typed_view(context, form, Vec::new()) };
        return page(StatusCode::OK, &view);
    }
    let editors = SCHEMAS
        .into_iter()
        .map(|(field, member, label)| JsonEditor::of_value((field, label), &found[member]));
    let note = format!("Inferred from {}. Nothing was saved.", plural(n_items, "item"));
    let view = DatasetSchemasPage {
        editors: editors.collect(),
        note: Some(Text::from(note)),
        ..stored_view(context)
    };
    page(StatusCode::OK, &view)
}

/// The tab with typed schemas that were not saved.
fn rejected_view(
    context: &DatasetContext,
    form: &ContentForm,
    problem: &Problem,
) -> DatasetSchemasPage {
    let fields = SCHEMAS.map(|(field, member, _)| (member, field));
    let body = problem.rfc9457_body();
    let Some(n_items) = body["itemsAtFault"].as_u64() else {
        let problems = field_problems(problem, &fields, SCHEMAS[0].0);
        return typed_view(context, form, problems);
    };
    let no_violations = Vec::new();
    let violations = body["violations"].as_array().unwrap_or(&no_violations);
    let summary = format!(
        "Not saved: {} {} not match these schemas.",
        plural(n_items, "item"),
        if n_items == 1 { "does" } else { "do" }
    );
    DatasetSchemasPage {
        impact: Some(impact_view(context, Text::from(summary), violations, n_items)),
        ..typed_view(context, form, Vec::new())
    }
}

/// Listed violations of items, one for each item.
fn impact_view(
    context: &DatasetContext,
    summary: Text,
    violations: &[Value],
    n_items: u64,
) -> SchemaImpactView {
    let text =
        |violation: &Value, member: &str| violation[member].as_str().unwrap_or_default().to_owned();
    let mut listed: Vec<(Text, String, Text)> = Vec::new();
    for violation in violations {
        let id = text(violation, "itemId");
        if listed.last().is_some_and(|(last, ..)| last.raw() == id) {
            continue;
        }
        let path = format!("{}{}", text(violation, "field"), text(violation, "pointer"));
        let href = item_href(&context.viewer.base(), context.id(), &id);
        let message = format!("{path}: {}", text(violation, "message"));
        listed.push((Text::from(id), href, Text::from(message)));
    }
    let n_more = n_items.saturating_sub(listed.len() as u64);
    SchemaImpactView {
        summary,
        is_good: n_items == 0,
        violations: listed,
        more: (0 < n_more).then(|| Text::from(format!("{} more", plural(n_more, "item")))),
    }
}

//! `GET P/datasets/{dataset}/edit`: name, description, archive and deletion of a dataset.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_catalog::datasets::ItemSearch;
use perpend_domain::list::Paging;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{DatasetEditPage, RejectedForm, Text, Undo, plural};
use serde_json::{Value, json};

use super::context::{DatasetContext, DatasetPath};
use super::links::folder_href;
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Runs counted of a dataset.
const MAX_RUNS: u32 = 1_000;

/// `GET P/datasets/{dataset}/edit`
pub(crate) async fn edit_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let view = view(&app, &context, RejectedForm::default()).await?;
    page(StatusCode::OK, &view)
}

async fn view(
    app: &App,
    context: &DatasetContext,
    rejected: RejectedForm,
) -> Result<DatasetEditPage, Problem> {
    let (project, id) = (&context.viewer.project, context.id());
    let all = ItemSearch { dataset_id: id.to_owned(), ..ItemSearch::default() };
    let one = Paging { page: 1, limit: 1 };
    let n_items = app.store.catalog.search_dataset_items(project, &all, one).await?.n_total;
    let runs = app.store.telemetry.dataset_run_names(project, &[id], MAX_RUNS).await?;
    let n_runs = runs.values().map(Vec::len).sum::<usize>() as u64;
    let typed = |name: &str| {
        let found = rejected.values.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.clone())
    };
    let dataset = &context.stored.dataset;
    Ok(DatasetEditPage {
        shell: context.shell(),
        name: typed("name").unwrap_or_else(|| dataset.name.clone()),
        description: typed("description")
            .unwrap_or_else(|| dataset.description.clone().unwrap_or_default()),
        deleted: format!(
            "{} and {}{}",
            plural(n_items, "item"),
            plural(n_runs, "run"),
            if u64::from(MAX_RUNS) <= n_runs { " or more" } else { "" }
        ),
        head: context.head("edit", Vec::new(), rejected),
    })
}

async fn rejected_page(
    app: &App,
    context: &DatasetContext,
    rejected: RejectedForm,
) -> Result<Response, Problem> {
    let view = view(app, context, rejected).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

/// `POST P/datasets/{dataset}/edit`: fields `name` and `description`; an empty description removes it.
pub(crate) async fn change_dataset(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let name = form.fields.raw("name").unwrap_or_default().trim();
    let description = form.fields.raw("description").unwrap_or_default().replace("\r\n", "\n");
    let description = description.trim();
    let body = json!({
        "name": name,
        "description": match description {
            "" => Value::Null,
            text => Value::from(text),
        },
    });
    let act = async {
        let path = context.operation("");
        call(&app, &context.viewer, (Method::PATCH, &path), &body).await?;
        Ok::<_, Problem>(SubmissionOutcome::new("Dataset saved.").at(context.href()))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let fields = [("name", "name"), ("description", "description")];
            let rejected = RejectedForm {
                values: vec![("name", name.to_owned()), ("description", description.to_owned())],
                problems: match problem.code() {
                    Code::NameConflict => {
                        vec![("name", Text::from("must be unused; another dataset has this name"))]
                    }
                    _ => field_problems(&problem, &fields, "name"),
                },
            };
            rejected_page(&app, &context, rejected).await
        }
        outcome => outcome,
    }
}

/// `POST P/datasets/{dataset}/archive`: `act` is `archive` or `activate`.
pub(crate) async fn archive_dataset(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let (is_archived, word, back) = match form.fields.text("act") {
        Some("archive") => (true, "archived", "activate"),
        Some("activate") => (false, "active again", "archive"),
        _ => return Err(Problem::body("act", "must be one of `archive`, `activate`")),
    };
    let act = async {
        let path = context.operation("");
        let body = json!({ "isArchived": is_archived });
        call(&app, &context.viewer, (Method::PATCH, &path), &body).await?;
        let outcome = SubmissionOutcome::new(format!("Dataset {} is {word}.", context.name()));
        Ok::<_, Problem>(outcome.at(context.href()).with_undo(Undo {
            action: format!("{}/archive", context.href()),
            fields: vec![("act", back.to_owned())],
        }))
    };
    Box::pin(form.run_once(&app, act)).await
}

/// `POST P/datasets/{dataset}/delete`: the field `confirm` is the name of the dataset.
pub(crate) async fn delete_dataset(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let name = context.name();
    if form.fields.raw("confirm").unwrap_or_default().trim() != name.trim() {
        let problem = Text::from(format!("must be the name of the dataset, `{name}`"));
        let rejected = RejectedForm { values: Vec::new(), problems: vec![("confirm", problem)] };
        return rejected_page(&app, &context, rejected).await;
    }
    let act = async {
        let path = context.operation("");
        call(&app, &context.viewer, (Method::DELETE, &path), &json!({})).await?;
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let list = folder_href(&context.viewer.base(), folder);
        Ok::<_, Problem>(SubmissionOutcome::new(format!("Dataset {name} deleted.")).at(list))
    };
    Box::pin(form.run_once(&app, act)).await
}

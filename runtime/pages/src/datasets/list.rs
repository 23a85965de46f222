//! `GET P/datasets`: the datasets of the project by folders; `POST P/datasets` creates one.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use perpend_catalog::datasets::{DatasetSummary, ItemCounts};
use perpend_domain::access::Permission;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, DatasetLine, DatasetsPage, FolderLine, RejectedForm, Section, Text, count, plural,
};
use serde::Deserialize;
use serde_json::json;

use super::links::{dataset_href, folder_crumbs, folder_href};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;

/// Runs counted of a dataset.
const MAX_RUNS: u32 = 100;

/// Query parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListParams {
    /// Path of a folder without a slash at its end.
    folder: Option<String>,
    /// Present to list archived datasets instead of active ones.
    archived: Option<String>,
}

/// A folder of which active or archived datasets are listed.
struct ShownFolder {
    /// Path without a slash at its end; empty for the root.
    path: String,
    is_archived: bool,
}

/// `GET P/datasets`
pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(params): Query<ListParams>,
) -> Result<Response, Problem> {
    let shown = ShownFolder {
        path: params.folder.unwrap_or_default(),
        is_archived: params.archived.is_some(),
    };
    let view = view(&app, &viewer, &headers, (&shown, RejectedForm::default())).await?;
    page(StatusCode::OK, &view)
}

/// `POST P/datasets`: fields `name` and `description`.
pub(crate) async fn create_dataset(
    State(app): State<App>,
    headers: HeaderMap,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let name = form.fields.raw("name").unwrap_or_default().trim();
    let description = form.fields.text("description");
    let act = async {
        if app.store.catalog.dataset(&viewer.project, name).await?.is_some() {
            return Err(Problem::body("name", "must be unused; a dataset has this name"));
        }
        let mut body = json!({ "name": name });
        if let Some(description) = description {
            body["description"] = description.into();
        }
        let path = "/api/public/v2/datasets";
        let dataset = call(&app, viewer, (Method::POST, path), &body).await?;
        let id = dataset["id"].as_str().unwrap_or_default();
        let outcome = SubmissionOutcome::new(format!("Dataset {name} created."));
        Ok(outcome.at(dataset_href(&viewer.base(), id)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let fields = [("name", "name"), ("description", "description")];
            let rejected = RejectedForm {
                values: vec![
                    ("name", name.to_owned()),
                    ("description", description.unwrap_or_default().to_owned()),
                ],
                problems: field_problems(&problem, &fields, "name"),
            };
            let shown = ShownFolder { path: folder_of(name).to_owned(), is_archived: false };
            let view = view(&app, viewer, &headers, (&shown, rejected)).await?;
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}

/// The folder in a name; empty for the root.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folders in a folder with the number of their datasets, and its own datasets with the last part of their names.
fn split_by_folder<'s>(
    all: &'s [DatasetSummary],
    prefix: &str,
) -> (BTreeMap<&'s str, u64>, Vec<(&'s str, &'s DatasetSummary)>) {
    let mut folders = BTreeMap::new();
    let mut datasets = Vec::new();
    for dataset in all {
        let Some(rest) = dataset.name.strip_prefix(prefix) else { continue };
        match rest.split_once('/') {
            Some((folder, inner)) if !folder.is_empty() && !inner.is_empty() => {
                *folders.entry(folder).or_default() += 1;
            }
            _ => datasets.push((rest, dataset)),
        }
    }
    (folders, datasets)
}

async fn view(
    app: &App,
    viewer: &Viewer,
    headers: &HeaderMap,
    (shown, rejected_form): (&ShownFolder, RejectedForm),
) -> Result<DatasetsPage, Problem> {
    let (store, project, base) = (&app.store, &viewer.project, viewer.base());
    let all = store.catalog.dataset_summaries(project, DatasetsPage::LIMIT + 1).await?;
    let (has_any, n_all) = (!all.is_empty(), all.len());
    let folder = shown.path.as_str();
    let prefix = match folder {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let n_archived =
        all.iter().filter(|one| one.is_archived && one.name.starts_with(&prefix)).count() as u64;
    let listed: Vec<DatasetSummary> =
        all.into_iter().filter(|one| one.is_archived == shown.is_archived).collect();
    let (folders, datasets) = split_by_folder(&listed, &prefix);
    let ids: Vec<&str> = datasets.iter().map(|(_, dataset)| dataset.id.as_str()).collect();
    let items = store.catalog.dataset_item_counts(project, &ids).await?;
    let runs = store.telemetry.run_names_of_datasets(project, &ids, MAX_RUNS).await?;
    let lines = datasets.iter().map(|&(name, dataset)| {
        let n_runs = runs.get(&dataset.id).map_or(0, Vec::len);
        line((name, dataset), items.get(&dataset.id), n_runs, &base)
    });
    let folder_lines = folders.iter().map(|(name, n)| FolderLine {
        name: Text::from(*name),
        href: state_href(&base, &format!("{prefix}{name}"), shown.is_archived),
        n_datasets: plural(*n, "dataset"),
    });
    let setup = match has_any {
        false => Some(setup::setup_guide(app, project, headers).await?),
        true => None,
    };
    let other_state = match (shown.is_archived, n_archived) {
        (true, _) => Some(("Show active datasets".to_owned(), folder_href(&base, folder))),
        (false, 0) => None,
        (false, n) => {
            let label = plural(n, "archived dataset");
            Some((label, state_href(&base, folder, true)))
        }
    };
    let api = ApiRequest::new(&viewer.origin, "/api/public/v2/datasets");
    Ok(DatasetsPage {
        shell: viewer.shell(Section::Datasets).with_api([api]),
        crumbs: folder_crumbs(&base, folder),
        folders: folder_lines.collect(),
        datasets: lines.collect(),
        has_any,
        shows_archived: shown.is_archived,
        other_state,
        has_more: DatasetsPage::LIMIT < u32::try_from(n_all).unwrap_or(u32::MAX),
        may_write: viewer.may(Permission::DatasetWrite),
        prefix,
        rejected_form,
        setup,
    })
}

/// URL of the active or of the archived datasets in a folder.
fn state_href(base: &str, folder: &str, is_archived: bool) -> String {
    let href = folder_href(base, folder);
    match (is_archived, folder) {
        (false, _) => href,
        (true, "") => format!("{href}?archived=1"),
        (true, _) => format!("{href}&archived=1"),
    }
}

fn line(
    (name, dataset): (&str, &DatasetSummary),
    items: Option<&ItemCounts>,
    n_runs: usize,
    base: &str,
) -> DatasetLine {
    let has = (dataset.has_input_schema, dataset.has_expected_output_schema);
    DatasetLine {
        name: Text::from(name),
        href: dataset_href(base, &dataset.id),
        description: dataset.description.as_deref().map(Text::from),
        n_items: count(items.map_or(0, |items| items.n_active)),
        n_runs: match u32::try_from(n_runs) {
            Ok(n) if n < MAX_RUNS => n.to_string(),
            _ => format!("{}+", MAX_RUNS - 1),
        },
        schemas: match has {
            (true, true) => "input, expected output",
            (true, false) => "input",
            (false, true) => "expected output",
            (false, false) => "none",
        },
        changed_at: items
            .map_or(dataset.updated_at, |items| items.changed_at.max(dataset.updated_at)),
    }
}

/// The names and ids of the active datasets, for fields that select one.
pub(super) async fn dataset_names(
    app: &App,
    viewer: &Viewer,
) -> Result<Vec<(String, String)>, Problem> {
    let all = app.store.catalog.dataset_summaries(&viewer.project, DatasetsPage::LIMIT).await?;
    let active = all.into_iter().filter(|dataset| !dataset.is_archived);
    Ok(active.map(|dataset| (dataset.name, dataset.id)).collect())
}

#[cfg(test)]
mod tests {
    use perpend_domain::time::Timestamp;

    use super::*;

    fn named(name: &str) -> DatasetSummary {
        DatasetSummary {
            id: name.to_owned(),
            name: name.to_owned(),
            description: None,
            has_input_schema: false,
            has_expected_output_schema: false,
            updated_at: Timestamp::from_millis(0),
            is_archived: false,
        }
    }

    #[test]
    fn a_slash_makes_a_folder_unless_a_part_is_empty() {
        let all = ["a", "a/b", "a/b/c", "a/d", "/x", "e/"].map(named);
        let names = |found: Vec<(&str, &DatasetSummary)>| -> Vec<String> {
            found.into_iter().map(|(name, _)| name.to_owned()).collect()
        };
        let (folders, datasets) = split_by_folder(&all, "");
        assert_eq!(folders.into_iter().collect::<Vec<_>>(), [("a", 3)]);
        assert_eq!(names(datasets), ["a", "/x", "e/"]);
        let (folders, datasets) = split_by_folder(&all, "a/");
        assert_eq!(folders.into_iter().collect::<Vec<_>>(), [("b", 1)]);
        assert_eq!(names(datasets), ["b", "d"]);
        assert_eq!((folder_of("a/b/c"), folder_of("a")), ("a/b", ""));
    }
}

//! The log of changes of a dataset, the differences of two instants, and the return to an earlier one.

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use perpend_catalog::datasets::{ChangeLogEntry, DatasetVersion, ItemDifference, VersionRef};
use perpend_domain::dataset::ItemStatus;
use perpend_domain::list::Paging;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    ApiRequest, ChangeLine, DatasetVersionsPage, PageLinks, RejectedForm, Text, VersionDifference,
    encode, plural,
};
use serde_json::json;

use super::context::{DatasetContext, DatasetParams, DatasetPath, instant, numbered_links};
use super::links::item_href;
use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Changes and differing items on a page.
const LIMIT: u32 = 50;

/// The tab with the log of changes, or with the differences of the instants `a` and `b`.
pub(super) async fn view(
    app: &App,
    context: &DatasetContext,
    params: &DatasetParams,
) -> Result<DatasetVersionsPage, Problem> {
    let mut faults = Vec::new();
    let number = params.page_number(&mut faults);
    let paging = Paging { page: number, limit: LIMIT };
    let a = instant("a", params.a.as_deref(), &mut faults);
    let b = instant("b", params.b.as_deref(), &mut faults);
    let sent = [&params.a, &params.b].map(|sent| sent.clone().unwrap_or_default());
    let difference = match (a, b) {
        (Some(a), Some(b)) => Some(difference(app, context, (a, b), (&sent, paging)).await?),
        _ => None,
    };
    let (mut changes, mut page_links) = (Vec::new(), PageLinks::default());
    if difference.is_none() {
        let catalog = &app.store.catalog;
        let project = &context.viewer.project;
        let found = catalog.dataset_changes(project, context.id(), paging).await?;
        let href = context.href();
        let is_last_page = found.n_total <= u64::from(number) * u64::from(LIMIT);
        let entries = found.items.iter().enumerate();
        let lines = entries.map(|(at, entry)| {
            let before = found.items.get(at + 1);
            change_line(&href, entry, (before, is_last_page && before.is_none()))
        });
        changes = lines.collect();
        let pairs = [("tab", "versions".to_owned())];
        page_links = numbered_links(&href, &pairs, (number, LIMIT, found.n_total));
    }
    let api = ApiRequest::new(&context.viewer.origin, &context.operation("/changes"));
    Ok(DatasetVersionsPage {
        shell: context.shell().with_api([api]),
        head: context.head("versions", faults, RejectedForm::default()),
        changes,
        instants: sent,
        difference,
        page_links,
    })
}

fn change_line(
    href: &str,
    entry: &ChangeLogEntry,
    (before, is_oldest): (Option<&ChangeLogEntry>, bool),
) -> ChangeLine {
    let counts =
        [(entry.n_added, "added"), (entry.n_changed, "changed"), (entry.n_removed, "removed")];
    let mut parts: Vec<String> = counts
        .into_iter()
        .filter(|(n, _)| 0 < *n)
        .map(|(n, word)| format!("{} {word}", plural(n, "item")))
        .collect();
    if is_oldest {
        parts.push("dataset created".to_owned());
    } else if 0 < entry.n_settings {
        parts.push("description, metadata or schemas changed".to_owned());
    }
    let at = encode(&entry.last_at.to_iso_micros());
    let has_other_schemas = !is_oldest && 0 < entry.n_settings;
    ChangeLine {
        at: entry.last_at,
        schemas_href: has_other_schemas.then(|| format!("{href}?tab=schemas&asof={at}")),
        summary: parts.join(", "),
        as_of_href: format!("{href}?asof={at}"),
        diff_href: before.map(|before| {
            let from = encode(&before.last_at.to_iso_micros());
            format!("{href}?tab=versions&a={from}&b={at}")
        }),
    }
}

/// The fields of the dataset that differ between two of its versions.
fn changed_settings(
    before: Option<&DatasetVersion>,
    after: Option<&DatasetVersion>,
) -> Vec<&'static str> {
    let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
    let fields = [
        ("description", before.description != after.description),
        ("metadata", before.metadata != after.metadata),
        ("schema of inputs", before.input_schema != after.input_schema),
        (
            "schema of expected outputs",
            before.expected_output_schema != after.expected_output_schema,
        ),
    ];
    fields.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect()
}

async fn difference(
    app: &App,
    context: &DatasetContext,
    (a, b): (Timestamp, Timestamp),
    (sent, paging): (&[String; 2], Paging),
) -> Result<VersionDifference, Problem> {
    let (catalog, project, id) = (&app.store.catalog, &context.viewer.project, context.id());
    let counts = catalog.count_dataset_differences(project, id, (a, b)).await?;
    let found = catalog.dataset_differences(project, id, (a, b), paging).await?;
    let before = catalog.dataset_at(project, id, a).await?;
    let after = catalog.dataset_at(project, id, b).await?;
    let items = found.items.iter().map(|difference| difference_line(context, difference));
    let pairs = [("tab", "versions".to_owned()), ("a", sent[0].clone()), ("b", sent[1].clone())];
    let paging = (paging.page, paging.limit, found.n_total);
    Ok(VersionDifference {
        summary: format!(
            "{} added, {} changed, {} removed",
            plural(counts.n_added, "item"),
            counts.n_changed,
            counts.n_removed
        ),
        settings: changed_settings(before.as_ref(), after.as_ref()),
        items: items.collect(),
        page_links: numbered_links(&context.href(), &pairs, paging),
    })
}

fn difference_line(
    context: &DatasetContext,
    difference: &ItemDifference,
) -> (&'static str, &'static str, Text, String) {
    let is_active = |version: Option<VersionRef>| {
        version.is_some_and(|version| version.status == ItemStatus::Active)
    };
    let (word, class) = match (is_active(difference.before), is_active(difference.after)) {
        (false, _) => ("added", "good"),
        (true, true) => ("changed", "waiting"),
        (true, false) => ("removed", "bad"),
    };
    let href = item_href(&context.viewer.base(), context.id(), &difference.id);
    let at = |version: Option<VersionRef>| version.map(|it| encode(&it.valid_from.to_iso_micros()));
    let href = match (at(difference.before), at(difference.after)) {
        (Some(before), Some(after)) => format!("{href}?version={after}&compare={before}"),
        (Some(one), None) | (None, Some(one)) => format!("{href}?version={one}"),
        (None, None) => href,
    };
    (word, class, Text::from(difference.id.as_str()), href)
}

/// `POST P/datasets/{dataset}/restore`: gives all items the state as of the field `asof`; `include` is that of the operation.
pub(crate) async fn restore(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let version = form.fields.text("asof").map(str::trim).unwrap_or_default();
    let include = form.fields.text("include").unwrap_or("items");
    let act = async {
        let path = context.operation("/restore");
        let body = json!({ "version": version, "include": include });
        let result = call(&app, &context.viewer, (Method::POST, &path), &body).await?;
        let count = |name: &str| result["counts"][name].as_u64().unwrap_or_default();
        let (n_invalid, changed) =
            (count("invalid"), count("created") + count("updated") + count("deleted"));
        let schemas = if result["hasRestoredSchemas"] == true { "Schemas and " } else { "" };
        let mut words =
            format!("{schemas}{} restored; all versions are kept.", plural(changed, "item"));
        if 0 < n_invalid {
            let first = &result["problems"][0];
            let text = |name: &str| first[name].as_str().unwrap_or_default();
            words.push_str(&format!(
                " {} not changed because of the current schemas, such as {}: {}{} {}.",
                plural(n_invalid, "item"),
                text("itemId"),
                text("field"),
                text("pointer"),
                text("message")
            ));
        }
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(context.href()))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if problem.code() == Code::InvalidBody => {
            Err(Problem::body("asof", problem.message()))
        }
        outcome => outcome,
    }
}

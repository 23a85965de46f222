//! The items of a dataset, and changes, copies and runs of selected ones.

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::{IntoResponse as _, Redirect, Response};
use percent_encoding::percent_decode_str;
use perpend_catalog::datasets::ItemSearch;
use perpend_domain::access::Permission;
use perpend_domain::dataset::{DatasetItem, ItemStatus};
use perpend_domain::list::Paging;
use perpend_domain::payload::Payload;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, DatasetItemsPage, ItemFilterView, ItemLine, Preview, RejectedForm, Text, Undo,
    count, encode, plural, segment, with_query,
};
use serde_json::{Value, json};

use super::check::SchemaImpact;
use super::context::{DatasetContext, DatasetParams, DatasetPath, fault, instant, numbered_links};
use super::links::item_href;
use super::list::dataset_names;
use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Characters of a shortened id.
const ID: usize = 12;

impl DatasetParams {
    /// The filter of the items, and the same for the page.
    fn filter(
        &self,
        context: &DatasetContext,
        faults: &mut Vec<Text>,
    ) -> (ItemSearch, ItemFilterView) {
        let (status, name) = match self.status.as_deref() {
            None | Some("" | "active") => (Some(ItemStatus::Active), "active"),
            Some("archived") => (Some(ItemStatus::Archived), "archived"),
            Some("all") => (None, "all"),
            Some(other) => {
                faults.push(fault("status", "one of `active`, `archived`, `all`", other));
                (Some(ItemStatus::Active), "active")
            }
        };
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
        let shown = ItemFilterView {
            status: name,
            text: text(&self.q),
            key: text(&self.key),
            value: text(&self.value),
        };
        if shown.key.is_empty() != shown.value.is_empty() {
            faults.push(Text::from("`key` and `value` must both be set; both were ignored."));
        }
        let has_metadata = !shown.key.is_empty() && !shown.value.is_empty();
        let search = ItemSearch {
            dataset_id: context.id().to_owned(),
            at: instant("asof", self.asof.as_deref(), faults),
            status,
            text: Some(shown.text.clone()).filter(|text| !text.is_empty()),
            metadata: has_metadata.then(|| (shown.key.clone(), shown.value.clone())),
        };
        (search, shown)
    }

    /// The parameters of the filter as they were sent.
    fn filter_pairs(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("q", &self.q),
            ("key", &self.key),
            ("value", &self.value),
            ("status", &self.status),
            ("asof", &self.asof),
        ];
        let set = fields.into_iter().filter_map(|(name, value)| {
            let value = value.as_deref().filter(|value| !value.is_empty())?;
            Some((name, value.to_owned()))
        });
        set.collect()
    }
}

/// The tab with the items.
pub(super) async fn view(
    app: &App,
    context: &DatasetContext,
    params: &DatasetParams,
    mut faults: Vec<Text>,
) -> Result<DatasetItemsPage, Problem> {
    let (search, filter) = params.filter(context, &mut faults);
    let number = params.page_number(&mut faults);
    let (catalog, project) = (&app.store.catalog, &context.viewer.project);
    let paging = Paging { page: number, limit: DatasetItemsPage::LIMIT };
    let found = catalog.search_dataset_items(project, &search, paging).await?;
    let has_any = !found.items.is_empty() || {
        let any = ItemSearch { dataset_id: search.dataset_id.clone(), ..ItemSearch::default() };
        let one = Paging { page: 1, limit: 1 };
        0 < catalog.search_dataset_items(project, &any, one).await?.n_total
    };
    let dataset = &context.stored.dataset;
    let has_schema = dataset.input_schema.is_some() || dataset.expected_output_schema.is_some();
    let impact = match has_schema && params.check.is_some() && search.at.is_none() {
        true => Some(SchemaImpact::of(app, context, &json!({})).await?),
        false => None,
    };
    let by_item = impact.as_ref().and_then(SchemaImpact::by_item);
    let (href, pairs) = (context.href(), params.filter_pairs());
    let lines = found.items.iter().map(|version| {
        let item = &version.item;
        let checked = by_item.as_ref().filter(|_| item.status == ItemStatus::Active);
        let n_problems = checked.map(|counts| counts.get(item.id.as_str()).copied().unwrap_or(0));
        line(context, item, (search.at.is_some(), filter.text.as_str()), n_problems)
    });
    let lines: Vec<ItemLine> = lines.collect();
    let has_other_schemas = match search.at {
        Some(at) => {
            let then = catalog.dataset_at(project, context.id(), at).await?;
            then.is_some_and(|then| dataset.changes_schema(&then.of(dataset)))
        }
        None => false,
    };
    let checked_pairs = [pairs.clone(), vec![("check", "1".to_owned())]].concat();
    let api = ApiRequest::new(&context.viewer.origin, "/api/public/dataset-items")
        .with("datasetName", context.name());
    let api = match search.at {
        Some(at) => api.with("version", at.to_iso_micros()),
        None => api,
    };
    let targets = match context.viewer.may(Permission::DatasetWrite) && search.at.is_none() {
        true => targets(app, context).await?,
        false => Vec::new(),
    };
    Ok(DatasetItemsPage {
        shell: context.shell().with_api([api]),
        targets,
        may_run: context.viewer.may(Permission::ExperimentWrite),
        head: context.head("items", faults, RejectedForm::default()),
        as_of: search.at,
        as_of_text: params.asof.clone().unwrap_or_default(),
        has_other_schemas,
        shown: shown(paging, lines.len(), found.n_total),
        has_any,
        validity: impact.as_ref().map(SchemaImpact::validity),
        check_href: (has_schema && has_any && search.at.is_none())
            .then(|| with_query(&href, &checked_pairs)),
        page_links: numbered_links(&href, &pairs, (number, paging.limit, found.n_total)),
        filter,
        lines,
    })
}

/// Ids and names of the other active datasets.
async fn targets(app: &App, context: &DatasetContext) -> Result<Vec<(String, Text)>, Problem> {
    let all = dataset_names(app, &context.viewer).await?;
    let others = all.into_iter().filter(|(_, id)| id != context.id());
    Ok(others.map(|(name, id)| (id, Text::from(name))).collect())
}

fn shown(paging: Paging, n: usize, n_total: u64) -> String {
    if n == 0 {
        return String::new();
    }
    let first = paging.offset() + 1;
    let last = paging.offset() + n as u64;
    match first == 1 && last == n_total {
        true => plural(n_total, "item"),
        false => format!("{} to {} of {}", count(first), count(last), plural(n_total, "item")),
    }
}

fn preview(value: &Value, text: &str) -> Option<Preview> {
    let terms: Vec<&str> = Some(text).filter(|text| !text.is_empty()).into_iter().collect();
    match value {
        Value::Null => None,
        value => Preview::of_payload(&Payload::from_value(value.clone()), &terms),
    }
}

/// URL of the trace or observation that an item was made from.
pub(super) fn source_href(base: &str, item: &DatasetItem) -> Option<String> {
    let trace = item.source_trace_id.as_deref()?;
    let href = format!("{base}/traces/{}", segment(trace));
    Some(match item.source_observation_id.as_deref() {
        Some(observation) => format!("{href}?observation={}", encode(observation)),
        None => href,
    })
}

fn line(
    context: &DatasetContext,
    item: &DatasetItem,
    (is_past, text): (bool, &str),
    n_problems: Option<usize>,
) -> ItemLine {
    let base = context.viewer.base();
    let href = item_href(&base, &item.dataset_id, &item.id);
    let mut short: String = item.id.chars().take(ID).collect();
    if short.len() < item.id.len() {
        short.push('…');
    }
    ItemLine {
        id: Text::from(item.id.as_str()),
        short_id: Text::from(short),
        href: match is_past {
            true => format!("{href}?version={}", encode(&item.valid_from.to_iso_micros())),
            false => href,
        },
        input: preview(&item.input, text),
        expected: preview(&item.expected_output, text),
        metadata: preview(&item.metadata, text),
        source: source_href(&base, item),
        is_archived: item.status == ItemStatus::Archived,
        changed_at: item.valid_from,
        n_problems,
    }
}

/// Changes the status of items, or deletes them, with the operations of single items.
async fn change_items(
    app: &App,
    context: &DatasetContext,
    ids: &[String],
    change: ItemChange,
) -> Result<(), Problem> {
    for id in ids {
        let of_item = format!("/api/public/dataset-items/{}", encode(id));
        let found = app.store.catalog.dataset_item(&context.viewer.project, id).await?;
        let own = found.filter(|found| found.item.dataset_id == context.id() && !found.is_deleted);
        // An item that was deleted meanwhile needs no change.
        if own.is_none() {
            continue;
        }
        let path = "/api/public/dataset-items";
        let (operation, body) = match change {
            ItemChange::Delete => ((Method::DELETE, of_item.as_str()), Value::Null),
            ItemChange::Status(status) => {
                let body = json!({ "datasetName": context.name(), "id": id, "status": status });
                ((Method::POST, path), body)
            }
        };
        call(app, &context.viewer, operation, &body).await?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum BulkAct {
    Change(ItemChange),
    Copy { is_move: bool },
    Run,
}

#[derive(Clone, Copy, Debug)]
enum ItemChange {
    Delete,
    Status(ItemStatus),
}

impl BulkAct {
    fn parse(raw: Option<&str>) -> Result<Self, Problem> {
        Ok(match raw {
            Some("archive") => Self::Change(ItemChange::Status(ItemStatus::Archived)),
            Some("activate") => Self::Change(ItemChange::Status(ItemStatus::Active)),
            Some("delete") => Self::Change(ItemChange::Delete),
            Some("copy") => Self::Copy { is_move: false },
            Some("move") => Self::Copy { is_move: true },
            Some("run") => Self::Run,
            _ => {
                let expected =
                    "must be one of `archive`, `activate`, `delete`, `copy`, `move`, `run`";
                return Err(Problem::body("act", expected));
            }
        })
    }
}

impl ItemChange {
    /// The participle of the message, and the act that undoes the change.
    fn done(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Status(ItemStatus::Archived) => ("archived", Some("activate")),
            Self::Status(ItemStatus::Active) => ("activated", Some("archive")),
            Self::Delete => ("deleted; their versions are kept", None),
        }
    }
}

/// Copies or moves items with the operation; returns the message.
async fn copy_items(
    app: &App,
    context: &DatasetContext,
    (ids, to): (&[String], &str),
    is_move: bool,
) -> Result<String, Problem> {
    let project = &context.viewer.project;
    let to = match to {
        "" => None,
        id => app.store.catalog.dataset_by_id(project, id).await?,
    };
    let to = to.ok_or_else(|| Problem::body("to", "must be a dataset of this project"))?;
    let name = to.dataset.name.as_str();
    let path = context.operation("/items/copy");
    let body = json!({ "itemIds": ids, "to": name, "move": is_move });
    let result = call(app, &context.viewer, (Method::POST, &path), &body).await?;
    let n_invalid = result["counts"]["invalid"].as_u64().unwrap_or_default();
    let n_copied = (ids.len() as u64).saturating_sub(n_invalid);
    let done = if is_move { "moved" } else { "copied" };
    let mut words = format!("{} {done} to {name}.", plural(n_copied, "item"));
    let mut results = result["results"].as_array().into_iter().flatten();
    if let Some(first) = results.find(|outcome| outcome["result"] == "invalid") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let problem = &first["problems"][0];
        words.push_str(&format!(
            " {} not {done}, such as {}: {}{} {}.",
            plural(n_invalid, "item"),
            text(&first["id"]),
            text(&problem["field"]),
            text(&problem["pointer"]),
            text(&problem["message"])
        ));
    }
    Ok(words)
}

/// The form of a new experiment with these items.
fn run_href(context: &DatasetContext, ids: &[String]) -> String {
    let items: Vec<String> = ids.iter().map(|id| encode(id)).collect();
    let path = format!("{}/experiments/new", context.viewer.base());
    let dataset = context.name().to_owned();
    with_query(&path, &[("dataset", dataset), ("items", items.join(","))])
}

/// `POST P/datasets/{dataset}/bulk`: `act` is `archive`, `activate`, `delete`, `copy`, `move` or `run`; each `item` is a
/// percent-encoded id, and `to` is the dataset to copy or move to.
pub(crate) async fn change_selected(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let decoded = |raw: String| percent_decode_str(&raw).decode_utf8_lossy().into_owned();
    let ids: Vec<String> = form.fields.all("item").into_iter().map(decoded).collect();
    let act = BulkAct::parse(form.fields.text("act"))?;
    if let BulkAct::Run = act
        && !ids.is_empty()
    {
        return Ok(Redirect::to(&run_href(&context, &ids)).into_response());
    }
    let run = async {
        if ids.is_empty() {
            return Ok(SubmissionOutcome::new("No item was selected."));
        }
        let change = match act {
            BulkAct::Change(change) => change,
            BulkAct::Copy { is_move } => {
                let to = form.fields.text("to").unwrap_or_default();
                let words = copy_items(&app, &context, (&ids, to), is_move).await?;
                return Ok(SubmissionOutcome::new(words));
            }
            BulkAct::Run => return Ok(SubmissionOutcome::new("No item was selected.")),
        };
        change_items(&app, &context, &ids, change).await?;
        let (done, undone_by) = change.done();
        let outcome =
            SubmissionOutcome::new(format!("{} {done}.", plural(ids.len() as u64, "item")));
        let Some(back) = undone_by else { return Ok::<_, Problem>(outcome) };
        let fields = ids.iter().map(|id| ("item", encode(id)));
        Ok(outcome.with_undo(Undo {
            action: format!("{}/bulk", context.href()),
            fields: [("act", back.to_owned())].into_iter().chain(fields).collect(),
        }))
    };
    Box::pin(form.run_once(&app, run)).await
}

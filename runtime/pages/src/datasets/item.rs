//! `GET P/datasets/{dataset}/items/{item}` and `GET P/datasets/{dataset}/new-item`: an item with its versions and runs, and
//! its form.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_catalog::datasets::ItemVersion;
use perpend_domain::access::Permission;
use perpend_domain::dataset::{DatasetItem, ItemStatus};
use perpend_domain::list::Paging;
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, Diff, DiffChoice, ItemPage, ItemRunLine, ItemVersionLine, JsonEditor, RejectedForm,
    StoredItemView, Text, Undo, decode_segment, encode, segment,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::context::{DatasetContext, DatasetPath, fault};
use super::item_form::{
    FieldProblems, ItemWriteResult, VALUES, WriteMode, editors_of, typed_editors, typed_values,
    write_item,
};
use super::items::source_href;
use super::links::item_href;
use crate::request::forms::ContentForm;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Versions and runs listed on the page of an item.
const MAX_VERSIONS: u32 = 50;
const MAX_RUNS: u32 = 20;
/// Bytes of each compared value on a page.
const DIFF_BYTES: usize = 64 << 10;

/// The path of an item.
#[derive(Debug, Deserialize)]
pub(crate) struct ItemPath {
    dataset: String,
    item: String,
}

/// Query parameters of the page of an item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ItemParams {
    /// Start of the shown version; the newest one if absent.
    version: Option<String>,
    /// Start of the version that the shown one is compared with.
    compare: Option<String>,
}

/// An item with its versions.
pub(super) struct ItemHistory {
    pub(super) context: DatasetContext,
    /// Newest first, at most [`MAX_VERSIONS`].
    versions: Vec<ItemVersion>,
}

impl ItemHistory {
    pub(super) async fn of_path(
        app: &App,
        viewer: Viewer,
        (dataset, item): (&str, &str),
    ) -> Result<Self, Problem> {
        let context = DatasetContext::of_id(app, viewer, decode_segment(dataset)).await?;
        let paging = Paging { page: 1, limit: MAX_VERSIONS };
        let id = decode_segment(item);
        let catalog = &app.store.catalog;
        let found = catalog.dataset_item_versions(&context.viewer.project, id, paging).await?;
        let is_own = found.items.first().is_some_and(|it| it.item.dataset_id == context.id());
        if !is_own {
            return Err(Problem::not_found("item"));
        }
        Ok(Self { context, versions: found.items })
    }

    /// The newest version.
    fn newest(&self) -> &ItemVersion {
        // `of_path` has checked that there is one.
        &self.versions[0]
    }

    /// The version that started at this time.
    pub(super) async fn version(
        &self,
        app: &App,
        at: Timestamp,
    ) -> Result<Option<ItemVersion>, Problem> {
        if let Some(listed) = self.versions.iter().find(|it| it.item.valid_from == at) {
            return Ok(Some(listed.clone()));
        }
        let (catalog, project) = (&app.store.catalog, &self.context.viewer.project);
        let key = [(self.newest().item.id.as_str(), at)];
        let found = catalog.dataset_items_in_versions(project, &key).await?;
        Ok(found.into_iter().next().map(|item| ItemVersion { item, is_deleted: false }))
    }

    /// The version of a query parameter; an unknown one adds a fault.
    async fn version_of_parameter(
        &self,
        app: &App,
        (name, raw): (&str, Option<&str>),
        faults: &mut Vec<Text>,
    ) -> Result<Option<ItemVersion>, Problem> {
        let Some(raw) = raw.filter(|raw| !raw.is_empty()) else { return Ok(None) };
        let found = match Timestamp::parse(raw) {
            Ok(at) => self.version(app, at).await?,
            Err(_) => None,
        };
        if found.is_none() {
            faults.push(fault(name, "the start of a version of this item", raw));
        }
        Ok(found)
    }

    /// The values of a stored version as members of an item.
    async fn stored_values(
        &self,
        app: &App,
        version: Option<&str>,
    ) -> Result<Map<String, Value>, Problem> {
        let at = version.and_then(|raw| Timestamp::parse(raw).ok());
        let stored = match at {
            Some(at) => self.version(app, at).await?,
            None => None,
        };
        let item = stored.ok_or_else(|| Problem::not_found("version"))?.item;
        let members = VALUES.into_iter().zip(values_of(&item));
        Ok(members.map(|((_, member, _), value)| (member.to_owned(), value.clone())).collect())
    }

    fn href(&self) -> String {
        item_href(&self.context.viewer.base(), self.context.id(), &self.newest().item.id)
    }

    fn version_lines(&self, shown: Timestamp) -> Vec<ItemVersionLine> {
        let href = self.href();
        let at = |version: &ItemVersion| encode(&version.item.valid_from.to_iso_micros());
        let lines = self.versions.iter().enumerate().map(|(n, version)| {
            let before = self.versions.get(n + 1);
            ItemVersionLine {
                at: version.item.valid_from,
                href: format!("{href}?version={}", at(version)),
                change: change_between(before, version),
                is_current: version.item.valid_from == shown,
                diff_href: before.map(|before| {
                    format!("{href}?version={}&compare={}#changes", at(version), at(before))
                }),
            }
        });
        lines.collect()
    }
}

fn change_between(before: Option<&ItemVersion>, version: &ItemVersion) -> &'static str {
    let status = |version: &ItemVersion| version.item.status;
    match before {
        _ if version.is_deleted => "deleted",
        None => "created",
        Some(before) if before.is_deleted => "created again",
        Some(before) if status(before) != status(version) => match status(version) {
            ItemStatus::Active => "activated",
            ItemStatus::Archived => "archived",
        },
        Some(_) => "changed",
    }
}

fn values_of(item: &DatasetItem) -> [&Value; 3] {
    [&item.input, &item.expected_output, &item.metadata]
}

fn payload(value: &Value) -> Option<Payload> {
    match value {
        Value::Null => None,
        value => Some(Payload::from_value(value.clone())),
    }
}

/// The differences of the values of two versions, by title.
fn differences(before: &DatasetItem, after: &DatasetItem) -> Vec<(&'static str, Diff)> {
    let pairs = values_of(before).into_iter().zip(values_of(after));
    let diffs = VALUES.into_iter().zip(pairs).map(|((_, _, title), (a, b))| {
        let (a, b) = (payload(a), payload(b));
        (title, Diff::new(a.as_ref(), b.as_ref(), DiffChoice::default(), DIFF_BYTES))
    });
    diffs.collect()
}

async fn run_lines(app: &App, history: &ItemHistory) -> Result<Vec<ItemRunLine>, Problem> {
    let (context, item) = (&history.context, &history.newest().item);
    let (telemetry, project) = (&app.store.telemetry, &context.viewer.project);
    let runs = telemetry.runs_of_item(project, context.id(), &item.id, MAX_RUNS).await?;
    let base = context.viewer.base();
    let lines = runs.into_iter().map(|run| {
        let trace = format!("{base}/traces/{}", segment(&run.trace_id));
        ItemRunLine {
            name: Text::from(run.run_name),
            href: format!("{}/runs/{}", context.href(), encode(&run.run_id)),
            trace_href: match run.observation_id {
                Some(observation) => format!("{trace}?observation={}", encode(&observation)),
                None => trace,
            },
            at: run.created_at,
        }
    });
    Ok(lines.collect())
}

/// The page of a stored version. `before` is the version that it is compared with.
async fn stored_page(
    app: &App,
    history: &ItemHistory,
    shown: &ItemVersion,
    before: Option<&ItemVersion>,
) -> Result<ItemPage, Problem> {
    let (context, newest) = (&history.context, history.newest());
    let (base, item) = (context.viewer.base(), &shown.item);
    let is_past = item.valid_from != newest.item.valid_from;
    let next = match newest.is_deleted {
        true => None,
        false => app.store.catalog.next_dataset_item(&context.viewer.project, &newest.item).await?,
    };
    let version = item.valid_from.to_iso_micros();
    let raw = format!("{}/versions/{}", history.href(), encode(&version));
    let titled = [
        ("Input", "input", &item.input),
        ("Expected output", "output", &item.expected_output),
        ("Metadata", "metadata", &item.metadata),
    ];
    let stored = StoredItemView {
        id: Text::from(item.id.as_str()),
        is_past,
        is_archived: item.status == ItemStatus::Archived,
        is_deleted: shown.is_deleted,
        source: source_href(&base, item),
        next: next.map(|id| item_href(&base, context.id(), &id)),
        values: StoredItemView::blocks(&base, &raw, titled),
        versions: history.version_lines(item.valid_from),
        comparison: before.map(|it| (it.item.valid_from, differences(&it.item, item))),
        runs: run_lines(app, history).await?,
        version,
    };
    let path = format!("/api/public/dataset-items/{}", encode(&item.id));
    let api = ApiRequest::new(&context.viewer.origin, &path);
    let mut notices = Vec::new();
    if is_past {
        notices.push(Text::from("This is an earlier version of the item."));
    }
    Ok(ItemPage {
        action: history.href(),
        editors: editors_of(values_of(item)),
        stored: Some(stored),
        notices,
        ..empty_page(context, [api])
    })
}

/// The page of a new item without values.
pub(super) fn empty_page(
    context: &DatasetContext,
    api: impl IntoIterator<Item = ApiRequest>,
) -> ItemPage {
    let mut crumbs = context.crumbs();
    crumbs.push((context.last_name(), context.href()));
    let base = context.viewer.base();
    ItemPage {
        shell: context.shell().with_api(api),
        crumbs,
        dataset_href: context.href(),
        action: format!("{}/items", context.href()),
        check_href: format!("{base}/_/datasets/{}/check", segment(context.id())),
        may_write: context.viewer.may(Permission::DatasetWrite),
        editors: editors_of([&Value::Null; 3]),
        rejected_form: RejectedForm::default(),
        stored: None,
        hidden_fields: Vec::new(),
        source: None,
        notices: Vec::new(),
    }
}

/// `GET P/datasets/{dataset}/items/{item}`
pub(crate) async fn item_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ItemPath>,
    Query(params): Query<ItemParams>,
) -> Result<Response, Problem> {
    let history = ItemHistory::of_path(&app, viewer, (&path.dataset, &path.item)).await?;
    let mut faults = Vec::new();
    let version = ("version", params.version.as_deref());
    let shown = history.version_of_parameter(&app, version, &mut faults).await?;
    let compare = ("compare", params.compare.as_deref());
    let before = history.version_of_parameter(&app, compare, &mut faults).await?;
    let shown = shown.unwrap_or_else(|| history.newest().clone());
    let mut view = Box::pin(stored_page(&app, &history, &shown, before.as_ref())).await?;
    view.notices.extend(faults);
    page(StatusCode::OK, &view)
}

/// `GET P/datasets/{dataset}/new-item`
pub(crate) async fn new_item_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    page(StatusCode::OK, &empty_page(&context, []))
}

/// The page of a form that was not saved.
fn rejected_page(
    view: ItemPage,
    form: &ContentForm,
    problems: FieldProblems,
) -> Result<Response, Problem> {
    let typed_id = form.fields.raw("id").unwrap_or_default().to_owned();
    let editors: Vec<JsonEditor> = typed_editors(form, &problems);
    let view = ItemPage {
        editors,
        rejected_form: RejectedForm { values: vec![("id", typed_id)], problems },
        ..view
    };
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

/// Fields with the source of a new item, and the members of the item.
const SOURCES: [(&str, &str); 2] =
    [("trace", "sourceTraceId"), ("observation", "sourceObservationId")];

/// `POST P/datasets/{dataset}/items`: creates an item; fields of the form of an item, `id`, `trace` and `observation`.
pub(crate) async fn create_item(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let sent_sources = SOURCES.into_iter().filter_map(|(field, member)| {
        let id = form.fields.text(field)?;
        Some((field, member, id.to_owned()))
    });
    let sources: Vec<(&'static str, &'static str, String)> = sent_sources.collect();
    let rejected = |problems| {
        let mut view = empty_page(&context, []);
        view.hidden_fields = sources.iter().map(|(field, _, id)| (*field, id.clone())).collect();
        rejected_page(view, &form, problems)
    };
    let mut item = match typed_values(&form) {
        Ok(item) => item,
        Err(problems) => return rejected(problems),
    };
    if let Some(id) = form.fields.text("id").map(str::trim).filter(|id| !id.is_empty()) {
        item.insert("id".to_owned(), id.into());
    }
    for (_, member, id) in &sources {
        item.insert((*member).to_owned(), id.as_str().into());
    }
    let mut problems = None;
    let act = async {
        match write_item(&app, &context, item, WriteMode::Create).await? {
            ItemWriteResult::Invalid(found) => problems = Some(found),
            ItemWriteResult::Done(result, _) if result == "skipped" => {
                let text = Text::from("must be unused; an item of this dataset has this id");
                problems = Some(vec![("id", text)]);
            }
            ItemWriteResult::Done(_, id) => {
                let href = item_href(&context.viewer.base(), context.id(), &id);
                return Ok(SubmissionOutcome::new("Item added.").at(href));
            }
        }
        // Not stored as the outcome of the form; the problems are shown instead.
        Err(Problem::body("input", "does not match the schemas of the dataset"))
    };
    let sent = Box::pin(form.run_once(&app, act)).await;
    match problems {
        Some(problems) => rejected(problems),
        None => sent,
    }
}

/// The change of a button of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemAct {
    Save,
    Restore,
    Status(ItemStatus),
    Delete,
}

impl ItemAct {
    fn of(form: &ContentForm) -> Result<Self, Problem> {
        Ok(match form.fields.text("act").unwrap_or("save") {
            "save" => Self::Save,
            "restore" => Self::Restore,
            "archive" => Self::Status(ItemStatus::Archived),
            "activate" => Self::Status(ItemStatus::Active),
            "delete" => Self::Delete,
            _ => {
                let message = "must be one of `save`, `restore`, `archive`, `activate`, `delete`";
                return Err(Problem::body("act", message));
            }
        })
    }

    /// The fields of the form that undoes the change; `before` is the version before it.
    fn undo(self, before: &ItemVersion) -> Option<Vec<(&'static str, String)>> {
        let act = match self {
            Self::Save | Self::Restore => return None,
            Self::Status(ItemStatus::Archived) => "activate",
            Self::Status(ItemStatus::Active) => "archive",
            Self::Delete => "restore",
        };
        let version = before.item.valid_from.to_iso_micros();
        Some(vec![("act", act.to_owned()), ("version", version)])
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Save => "Item saved.",
            Self::Restore => "Item restored.",
            Self::Status(ItemStatus::Archived) => "Item archived.",
            Self::Status(ItemStatus::Active) => "Item activated.",
            Self::Delete => "Item deleted; its versions are kept.",
        }
    }
}

/// `POST P/datasets/{dataset}/items/{item}`: `act` is `save`, `restore`, `archive`, `activate` or `delete`; `version` is
/// the start of the version that the form shows.
pub(crate) async fn change_item(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ItemPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let history = ItemHistory::of_path(&app, viewer, (&path.dataset, &path.item)).await?;
    let act = ItemAct::of(&form)?;
    let newest = history.newest();
    let mut item = match act {
        // The form that undoes a deletion has no values.
        ItemAct::Restore if form.fields.raw("input").is_none() => {
            history.stored_values(&app, form.fields.text("version")).await?
        }
        ItemAct::Save | ItemAct::Restore => match typed_values(&form) {
            Ok(item) => item,
            Err(problems) => {
                let view = Box::pin(stored_page(&app, &history, newest, None)).await?;
                return rejected_page(view, &form, problems);
            }
        },
        ItemAct::Status(_) | ItemAct::Delete => Map::new(),
    };
    item.insert("id".to_owned(), newest.item.id.as_str().into());
    match act {
        ItemAct::Save => {
            let is_current = form.fields.text("version")
                == Some(newest.item.valid_from.to_iso_micros().as_str());
            if !is_current {
                return conflict_page(&app, &history, &form).await;
            }
        }
        ItemAct::Restore => {
            item.insert("status".to_owned(), ItemStatus::Active.as_str().into());
            // A deleted item would start without them.
            let sources = [&newest.item.source_trace_id, &newest.item.source_observation_id];
            for ((_, member), id) in SOURCES.iter().zip(sources) {
                if let Some(id) = id {
                    item.insert((*member).to_owned(), id.as_str().into());
                }
            }
        }
        ItemAct::Status(status) => {
            item.insert("status".to_owned(), status.as_str().into());
        }
        ItemAct::Delete => {
            item.insert("delete".to_owned(), true.into());
        }
    }
    let context = &history.context;
    let mut problems = None;
    let run = async {
        match write_item(&app, context, item, WriteMode::Put).await? {
            ItemWriteResult::Invalid(found) => {
                problems = Some(found);
                // Not stored as the outcome of the form; the problems are shown instead.
                Err(Problem::body("input", "does not match the schemas of the dataset"))
            }
            ItemWriteResult::Done(..) => {
                let outcome = SubmissionOutcome::new(act.message()).at(history.href());
                Ok(match act.undo(newest) {
                    Some(fields) => outcome.with_undo(Undo { action: history.href(), fields }),
                    None => outcome,
                })
            }
        }
    };
    let sent = Box::pin(form.run_once(&app, run)).await;
    match problems {
        Some(problems) => {
            let view = Box::pin(stored_page(&app, &history, newest, None)).await?;
            rejected_page(view, &form, problems)
        }
        None => sent,
    }
}

/// The page of a form whose item was changed since the form was opened: the typed texts stay, and the stored values are
/// compared with those of the version of the form.
async fn conflict_page(
    app: &App,
    history: &ItemHistory,
    form: &ContentForm,
) -> Result<Response, Problem> {
    let newest = history.newest();
    let seen = form.fields.text("version").and_then(|raw| Timestamp::parse(raw).ok());
    let before = match seen {
        Some(at) => history.version(app, at).await?,
        None => None,
    };
    let mut view = Box::pin(stored_page(app, history, newest, before.as_ref())).await?;
    view.editors = typed_editors(form, &[]);
    let at = newest.item.valid_from.to_iso_micros();
    view.notices.push(Text::from(format!(
        "Not saved: the item was changed at {at}, after this form was opened. Compare the changes below and save again to \
         replace them."
    )));
    page(StatusCode::CONFLICT, &view)
}

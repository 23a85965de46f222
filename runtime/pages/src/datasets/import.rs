//! Imports of files into a dataset: upload, mapping, check and result. The work is done by a job of the API.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use perpend_catalog::dataset_imports::DatasetImport;
use perpend_domain::dataset_import::{
    ColumnType, DuplicatePolicy, FileFormat, ImportSettings, ImportTarget,
};
use perpend_domain::list::Paging;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    ImportColumnView, ImportLine, ImportPage, ImportProgressFragment, ImportRejectLine,
    ImportSettingsView, ImportStatePage, RejectedForm, Text, count, decode_segment, encode,
    segment, with_query,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::{DatasetContext, DatasetPath};
use crate::request::forms::{ContentForm, check_token};
use crate::request::operations::{call, field_problems, is_about_input, json_of, send};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::request::{multipart, origin};
use crate::state::App;

/// Imports listed below the form.
const MAX_IMPORTS: u32 = 20;
/// Members of the settings and their fields.
const SETTINGS: [(&str, &str); 5] = [
    ("mapping", "mapping"),
    ("duplicates", "duplicates"),
    ("encoding", "encoding"),
    ("delimiter", "delimiter"),
    ("hasHeader", "header"),
];
/// Rejected rows on the page of an import.
const MAX_REJECTS: u32 = 100;

/// The path of an import.
#[derive(Debug, Deserialize)]
pub(crate) struct ImportPath {
    pub(super) dataset: String,
    pub(super) import: String,
}

/// `GET P/datasets/{dataset}/import`
pub(crate) async fn import_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let view = upload_view(&app, &context, RejectedForm::default()).await?;
    page(StatusCode::OK, &view)
}

async fn upload_view(
    app: &App,
    context: &DatasetContext,
    rejected: RejectedForm,
) -> Result<ImportPage, Problem> {
    let (catalog, project) = (&app.store.catalog, &context.viewer.project);
    let newest = Paging { page: 1, limit: MAX_IMPORTS };
    let found = catalog.dataset_imports(project, context.id(), newest).await?;
    let lines = found.items.iter().map(|import| ImportLine {
        name: name_of(import),
        href: import_href(context, &import.id),
        state: import.state.as_str(),
        counts: counts(import),
        at: import.created_at,
    });
    let text = rejected.values.first().map(|(_, text)| text.clone());
    Ok(ImportPage {
        shell: context.shell(),
        imports: lines.collect(),
        text: text.unwrap_or_default(),
        head: context.head("import", Vec::new(), rejected),
    })
}

fn import_href(context: &DatasetContext, id: &str) -> String {
    format!("{}/imports/{}", context.href(), encode(id))
}

fn name_of(import: &DatasetImport) -> Text {
    match import.file_name.as_str() {
        "" => Text::from("pasted text"),
        name => Text::from(name),
    }
}

/// Such as `1,000 rows: 997 created, 3 invalid`; empty before the first row.
fn counts(import: &DatasetImport) -> String {
    let all = &import.counts;
    if all.n_rows == 0 {
        return String::new();
    }
    let parts = [
        (all.n_created, "created"),
        (all.n_updated, "updated"),
        (all.n_unchanged, "unchanged"),
        (all.n_skipped, "skipped"),
        (all.n_invalid, "invalid"),
    ];
    let parts = parts.into_iter().filter(|(n, _)| 0 < *n);
    let parts: Vec<String> = parts.map(|(n, word)| format!("{} {word}", count(n))).collect();
    format!("{}: {}", perpend_views::plural(all.n_rows, "row"), parts.join(", "))
}

/// Uploads a file; returns the URL of the import.
async fn upload(
    app: &App,
    context: &DatasetContext,
    file_name: &str,
    content: Body,
) -> Result<String, Problem> {
    let path = context.operation("/import");
    let path = with_query(&path, &[("fileName", file_name.to_owned())]);
    let body = ("application/octet-stream", content);
    let response = send(app, &context.viewer, (Method::POST, &path), body).await?;
    let import = json_of(response).await?;
    Ok(import_href(context, import["id"].as_str().unwrap_or_default()))
}

/// `POST P/datasets/{dataset}/import`: the field `text` has the rows.
pub(crate) async fn paste_rows(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let text = form.fields.raw("text").unwrap_or_default().to_owned();
    let act = async {
        if text.trim().is_empty() {
            return Err(Problem::body("text", "must not be empty"));
        }
        let href = upload(&app, &context, "", Body::from(text.clone())).await?;
        Ok(SubmissionOutcome::new("Select the target of each column.").at(href))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let rejected = RejectedForm {
                values: vec![("text", text)],
                problems: vec![("text", Text::from(problem.message()))],
            };
            page(StatusCode::UNPROCESSABLE_ENTITY, &upload_view(&app, &context, rejected).await?)
        }
        outcome => outcome,
    }
}

/// `POST P/datasets/{dataset}/import/file`: a form with the token and a file.
pub(crate) async fn upload_file(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    request: Request,
) -> Result<Response, Problem> {
    origin::same_site(&app, request.headers())?;
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let (parts, body) = request.into_parts();
    let form = multipart::read(&parts.headers, body).await?;
    check_token(&context.viewer, &form.fields)?;
    let href = Box::pin(upload(&app, &context, &form.file_name, form.content)).await;
    match href {
        Ok(href) => Ok(Redirect::to(&href).into_response()),
        Err(problem) if is_about_input(&problem) => {
            let problems = vec![("file", Text::from(problem.message()))];
            let rejected = RejectedForm { values: Vec::new(), problems };
            page(StatusCode::UNPROCESSABLE_ENTITY, &upload_view(&app, &context, rejected).await?)
        }
        Err(problem) => Err(problem),
    }
}

/// An import with its dataset.
async fn find(
    app: &App,
    viewer: Viewer,
    path: &ImportPath,
) -> Result<(DatasetContext, DatasetImport), Problem> {
    let context = DatasetContext::of_id(app, viewer, decode_segment(&path.dataset)).await?;
    let import = app.store.catalog.dataset_import(&context.viewer.project, &path.import).await?;
    let import = import.filter(|import| import.dataset_id == context.id());
    Ok((context, import.ok_or_else(|| Problem::not_found("import"))?))
}

/// `GET P/datasets/{dataset}/imports/{import}`
pub(crate) async fn state_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ImportPath>,
) -> Result<Response, Problem> {
    let (context, import) = find(&app, viewer, &path).await?;
    let view = state_view(&app, &context, &import, RejectedForm::default()).await?;
    page(StatusCode::OK, &view)
}

async fn state_view(
    app: &App,
    context: &DatasetContext,
    import: &DatasetImport,
    rejected: RejectedForm,
) -> Result<ImportStatePage, Problem> {
    let (catalog, project) = (&app.store.catalog, &context.viewer.project);
    let rejects = catalog.dataset_import_rejects(project, &import.id, 0, MAX_REJECTS).await?;
    let rejects = rejects.into_iter().map(|reject| ImportRejectLine {
        row: reject.row,
        column: Text::from(reject.column),
        pointer: Text::from(reject.pointer),
        reason: Text::from(reject.message),
    });
    let is_open = !import.state.is_running() && !import.state.is_final();
    let of_import =
        format!("/_/datasets/{}/imports/{}/progress", segment(context.id()), encode(&import.id));
    Ok(ImportStatePage {
        shell: context.shell(),
        name: name_of(import),
        href: import_href(context, &import.id),
        state: import.state.as_str(),
        error: import.error.as_deref().map(Text::from),
        counts: counts(import),
        percent: percent(import),
        progress_href: format!("{}{of_import}", context.viewer.base()),
        settings: is_open.then(|| settings_view(&import.settings, &import.preview)),
        rejects: rejects.collect(),
        n_rejected: import.counts.n_invalid,
        head: context.head("import", Vec::new(), rejected),
    })
}

/// Completed percentage of a running stage.
fn percent(import: &DatasetImport) -> Option<u32> {
    let share = match import.n_bytes {
        0 => 100,
        n_bytes => import.counts.n_bytes.saturating_mul(100) / n_bytes,
    };
    import.state.is_running().then(|| u32::try_from(share).unwrap_or(100))
}

/// `GET P/_/datasets/{dataset}/imports/{import}/progress`
pub(crate) async fn progress_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ImportPath>,
) -> Result<Response, Problem> {
    let (context, import) = find(&app, viewer, &path).await?;
    let view = ImportProgressFragment {
        href: import_href(&context, &import.id),
        state: import.state.as_str(),
        counts: counts(&import),
        percent: percent(&import),
    };
    page(StatusCode::OK, &view)
}

/// Labels of the members of items.
const TARGETS: [(ImportTarget, &str); 7] = [
    (ImportTarget::Id, "id"),
    (ImportTarget::Input, "input"),
    (ImportTarget::ExpectedOutput, "expected output"),
    (ImportTarget::Metadata, "metadata"),
    (ImportTarget::Status, "status"),
    (ImportTarget::SourceTraceId, "source trace id"),
    (ImportTarget::SourceObservationId, "source observation id"),
];

fn settings_view(settings: &ImportSettings, preview: &Value) -> ImportSettingsView {
    let columns = preview["columns"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let columns = columns.map(|name| {
        let mapping = settings.mapping.iter().find(|mapping| mapping.column == name);
        let target = mapping.map(|mapping| mapping.target);
        let kind = mapping.map_or(ColumnType::Text, |mapping| mapping.kind);
        let none = [("", "not imported", target.is_none())].into_iter();
        let targets =
            TARGETS.iter().map(|(each, label)| (each.as_str(), *label, target == Some(*each)));
        ImportColumnView {
            name: name.to_owned(),
            targets: none.chain(targets).collect(),
            path: mapping.map(|mapping| mapping.path.join(".")).unwrap_or_default(),
            types: ColumnType::ALL.iter().map(|each| (each.as_str(), *each == kind)).collect(),
        }
    });
    let text = |value: &Value| match value {
        Value::Null => Text::default(),
        Value::String(text) => Text::from(text.as_str()),
        other => Text::from(other.to_string()),
    };
    let rows = preview["rows"].as_array().into_iter().flatten();
    let rows = rows.map(|row| match row.as_array() {
        Some(cells) => Ok(cells.iter().map(text).collect()),
        None => Err(text(&row["problem"])),
    });
    let duplicates = [
        (DuplicatePolicy::Update, "get a new version"),
        (DuplicatePolicy::Skip, "are skipped"),
        (DuplicatePolicy::Stop, "stop the import"),
    ];
    let duplicates =
        duplicates.map(|(policy, label)| (policy.as_str(), label, policy == settings.duplicates));
    ImportSettingsView {
        format: settings.format.as_str(),
        encoding: settings.encoding.clone(),
        delimiter: match settings.delimiter {
            '\t' => "\\t".to_owned(),
            delimiter => delimiter.to_string(),
        },
        is_table: matches!(settings.format, FileFormat::Csv | FileFormat::Tsv),
        has_header: settings.has_header,
        duplicates: duplicates.to_vec(),
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

/// The settings of a form as the body of the operation. Options of reading are sent only if they differ, because the file
/// is read again with them and the mapping is derived again.
fn settings_of(form: &ContentForm, settings: &ImportSettings) -> Value {
    let fields = &form.fields;
    let mut body = json!({});
    if let Some(duplicates) = fields.text("duplicates") {
        body["duplicates"] = duplicates.into();
    }
    let mut is_read_again = false;
    if let Some(encoding) = fields.text("encoding").filter(|raw| *raw != settings.encoding) {
        body["encoding"] = encoding.into();
        is_read_again = true;
    }
    let delimiter = fields.text("delimiter").map(|raw| if raw == "\\t" { "\t" } else { raw });
    if let Some(delimiter) = delimiter.filter(|raw| *raw != settings.delimiter.to_string()) {
        body["delimiter"] = delimiter.into();
        is_read_again = true;
    }
    let header = fields.text("header").map(|raw| raw == "true");
    if let Some(header) = header.filter(|header| *header != settings.has_header) {
        body["hasHeader"] = header.into();
        is_read_again = true;
    }
    if !is_read_again {
        body["mapping"] = mapping_of(form);
    }
    body
}

/// The settings with the values of a form.
fn typed_settings(shown: ImportSettingsView, form: &ContentForm) -> ImportSettingsView {
    let fields = &form.fields;
    let [targets, paths, types] = ["target", "path", "type"].map(|name| fields.raw_all(name));
    let of = |list: &[&str], at: usize| list.get(at).copied().unwrap_or_default().to_owned();
    let columns = shown.columns.into_iter().enumerate().map(|(at, column)| {
        let (target, kind) = (of(&targets, at), of(&types, at));
        ImportColumnView {
            targets: column
                .targets
                .into_iter()
                .map(|(value, label, _)| (value, label, value == target))
                .collect(),
            types: column.types.into_iter().map(|(value, _)| (value, value == kind)).collect(),
            path: of(&paths, at),
            ..column
        }
    });
    let typed = |name: &str, shown: String| fields.raw(name).map_or(shown, str::to_owned);
    let duplicates = fields.text("duplicates").map(str::to_owned);
    ImportSettingsView {
        columns: columns.collect(),
        encoding: typed("encoding", shown.encoding),
        delimiter: typed("delimiter", shown.delimiter),
        has_header: fields.text("header").map_or(shown.has_header, |raw| raw == "true"),
        duplicates: shown
            .duplicates
            .into_iter()
            .map(|(value, label, is_stored)| {
                let typed = duplicates.as_deref().map(|typed| typed == value);
                (value, label, typed.unwrap_or(is_stored))
            })
            .collect(),
        ..shown
    }
}

/// The columns that a form maps. Its lists have one value for each column, in order.
fn mapping_of(form: &ContentForm) -> Value {
    let [columns, targets, paths, types] =
        ["column", "target", "path", "type"].map(|name| form.fields.raw_all(name));
    let mapped = columns.iter().enumerate().filter_map(|(at, column)| {
        let of = |list: &[&str]| list.get(at).copied().unwrap_or_default().to_owned();
        let target = of(&targets);
        if target.is_empty() {
            return None;
        }
        let path = of(&paths);
        let keys: Vec<&str> =
            path.split('.').map(str::trim).filter(|key| !key.is_empty()).collect();
        Some(json!({ "column": column, "target": target, "path": keys, "type": of(&types) }))
    });
    mapped.collect()
}

/// `POST P/datasets/{dataset}/imports/{import}`: `act` is `save`, `check`, `import` or `cancel`; the other fields are the
/// settings.
pub(crate) async fn change_import(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ImportPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let (context, import) = find(&app, viewer, &path).await?;
    let act = form.fields.text("act").unwrap_or("save").to_owned();
    if !["save", "check", "import", "cancel"].contains(&act.as_str()) {
        let message = "must be one of `save`, `check`, `import`, `cancel`";
        return Err(Problem::body("act", message));
    }
    let href = import_href(&context, &import.id);
    let operation = context.operation(&format!("/imports/{}", encode(&import.id)));
    let run = async {
        let viewer = &context.viewer;
        if act == "cancel" {
            call(&app, viewer, (Method::DELETE, &operation), &json!({})).await?;
            let words = "Import cancelled; imported items are kept.";
            return Ok(SubmissionOutcome::new(words).at(href.clone()));
        }
        let settings = settings_of(&form, &import.settings);
        let is_read_again = settings.get("mapping").is_none();
        call(&app, viewer, (Method::PATCH, &operation), &settings).await?;
        let stage = match act.as_str() {
            "check" => "/check",
            "import" => "/start",
            _ => "",
        };
        let words = match (stage, is_read_again) {
            (_, true) => "The file was read again; check the columns.",
            ("", false) => "Mapping saved.",
            ("/check", false) => "All rows are being checked.",
            (_, false) => "The import has started.",
        };
        if !stage.is_empty() && !is_read_again {
            let path = format!("{operation}{stage}");
            call(&app, viewer, (Method::POST, &path), &json!({})).await?;
        }
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(href.clone()))
    };
    match Box::pin(form.run_once(&app, run)).await {
        Err(problem) if is_about_input(&problem) && problem.code() != Code::Conflict => {
            let problems = field_problems(&problem, &SETTINGS, "mapping");
            let rejected = RejectedForm { values: Vec::new(), problems };
            let (context, import) = find(&app, context.viewer, &path).await?;
            let mut view = state_view(&app, &context, &import, rejected).await?;
            view.settings = view.settings.map(|settings| typed_settings(settings, &form));
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}

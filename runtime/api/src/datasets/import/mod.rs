//! Import of files: upload, preview, mapping, check of all rows, and import of the valid ones.

mod detect;
mod job;
#[cfg(test)]
mod round_trip;
mod rows;
mod spool;
mod view;

use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::dataset_imports::{DatasetImport, ImportCounts};
use perpend_domain::access::Permission::{DatasetRead, DatasetWrite};
use perpend_domain::csv;
use perpend_domain::dataset_import::{FileFormat, ImportSettings, ImportState, with_mark};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::parts::{self, BodyParts};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde_json::Value;

use super::find::find;
use crate::state::{App, Routes};
use detect::{Detected, FileHints, detect};
use spool::{MAX_PROJECT_BYTES, Spool};
use view::{ImportView, RejectView, SettingsInput};

pub use job::DatasetImports;

const UPLOAD: &str = "/api/v1/datasets/{datasetName}/import";
const ALL: &str = "/api/v1/datasets/{datasetName}/imports";
const ONE: &str = "/api/v1/datasets/{datasetName}/imports/{importId}";
const CHECK: &str = "/api/v1/datasets/{datasetName}/imports/{importId}/check";
const START: &str = "/api/v1/datasets/{datasetName}/imports/{importId}/start";
const REJECTED: &str = "/api/v1/datasets/{datasetName}/imports/{importId}/rejected";

/// Characters of the name of a file.
const MAX_NAME_CHARS: usize = 200;
/// Rejected rows that are read at a time.
const PER_READ: u32 = 500;

const UPLOAD_PARAMS: &[Param] = &[
    param(
        "fileName",
        "string",
        "Name of the file; its extension gives the format if `format` is absent.",
    ),
    param(
        "format",
        "string",
        "`csv`, `tsv`, `jsonl` or `json`; derived from the file when absent.",
    ),
    param(
        "encoding",
        "string",
        "Label of the character encoding; derived from the file when absent.",
    ),
    param("delimiter", "string", "One ASCII character; derived from the file when absent."),
    param(
        "header",
        "boolean",
        "Whether the first line has names; derived from the file when absent.",
    ),
    param("duplicates", "string", "Rows whose id exists: `skip`, `update` (default) or `stop`."),
    param(
        "start",
        "string",
        "`check` or `import` starts this stage with the derived mapping; otherwise the import waits.",
    ),
];
const REJECTED_PARAMS: &[Param] = &[param("format", "string", "`csv` (default) or `jsonl`.")];

pub(super) fn routes(routes: &mut Routes) {
    let upload = Operation::post(
        "uploadDatasetImport",
        UPLOAD,
        "Upload a file of items, up to 512 MiB, and get its first rows and a mapping",
        DatasetWrite,
    );
    routes.add(upload.query(UPLOAD_PARAMS), upload_file);
    let list = Operation::get(
        "listDatasetImports",
        ALL,
        "List the imports into a dataset, newest first",
        DatasetRead,
    );
    routes.add(list.query(page::PAGED), list_imports);
    routes.add(
        Operation::get("getDatasetImport", ONE, "Get an import with its progress", DatasetRead),
        get_import,
    );
    let change = Operation::patch(
        "patchDatasetImport",
        ONE,
        "Change the settings of an import that does not run",
        DatasetWrite,
    );
    routes.add(change.body::<SettingsInput>(), change_import);
    routes.add(
        Operation::delete(
            "cancelDatasetImport",
            ONE,
            "Cancel an import; imported items are kept",
            DatasetWrite,
        ),
        cancel_import,
    );
    routes.add(
        Operation::post(
            "checkDatasetImport",
            CHECK,
            "Check all rows of an import without writing items",
            DatasetWrite,
        ),
        check_import,
    );
    routes.add(
        Operation::post(
            "startDatasetImport",
            START,
            "Import the valid rows; the others are reported",
            DatasetWrite,
        ),
        start_import,
    );
    let rejected = Operation::get(
        "listRejectedDatasetRows",
        REJECTED,
        "Download the problems of rows that are not imported",
        DatasetRead,
    );
    routes.add(rejected.query(REJECTED_PARAMS).bytes("text/csv"), list_rejected);
}

fn hints(params: &Params) -> Result<FileHints, Problem> {
    let of_query = |name: &'static str| move |message: String| Problem::query(name, message);
    Ok(FileHints {
        format: params.choice("format", FileFormat::ALL, FileFormat::as_str)?,
        encoding: params
            .text("encoding")
            .map(|raw| view::encoding(raw).map_err(of_query("encoding")))
            .transpose()?,
        delimiter: params
            .text("delimiter")
            .map(|raw| view::delimiter(raw).map_err(of_query("delimiter")))
            .transpose()?,
        has_header: params.flag("header")?,
    })
}

/// The stage that starts with the upload.
fn first_stage(params: &Params) -> Result<ImportState, Problem> {
    match params.text("start") {
        None => Ok(ImportState::Uploaded),
        Some("check") => Ok(ImportState::Checking),
        Some("import") => Ok(ImportState::Importing),
        Some(other) => {
            let message = perpend_http_kit::extract::must_be_one_of(&["check", "import"], other);
            Err(Problem::query("start", message))
        }
    }
}

async fn upload_file(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
    request: Request,
) -> Result<Answer<ImportView, 201>, Problem> {
    let project = &caller.project;
    let stored = find(&app, &caller, &name).await?;
    let (hints, state) = (hints(&params)?, first_stage(&params)?);
    let duplicates = params.text("duplicates").map(view::duplicates).transpose()?;
    let file_name = params.text("fileName").unwrap_or_default();
    let file_name: String = file_name.chars().take(MAX_NAME_CHARS).collect();
    let n_open = app.store.catalog.open_dataset_import_bytes(project).await?;
    if MAX_PROJECT_BYTES <= n_open {
        let message = format!(
            "the files of imports that have not ended have {} MiB: start or cancel them first",
            n_open >> 20
        );
        return Err(Problem::new(Code::Conflict, message));
    }
    let id = app.web.ids.uuid().to_string();
    let spool = Spool::of(&app.web);
    let (n_bytes, file) = spool.receive(&app.web, &id, request).await?;
    let mut detected = detected(&spool, &id, file_name.clone(), hints).await?;
    detected.settings.duplicates = duplicates.unwrap_or(detected.settings.duplicates);
    if state.is_running() {
        check_mapping(&detected)?;
    }
    let now = app.web.clock.now();
    let import = DatasetImport {
        id,
        dataset_id: stored.dataset.id,
        file_name,
        n_bytes,
        state,
        preview: detected.preview(),
        settings: detected.settings,
        revision: 1,
        counts: ImportCounts::default(),
        error: None,
        created_at: now,
        updated_at: now,
    };
    // Without its import it is deleted with the old files.
    file.keep();
    app.store.catalog.create_dataset_import(project, &import).await?;
    app.jobs.wake(job::NAME);
    Ok(Answer(view::import(&import)))
}

/// Starts an import whose file is a request for items of traces; its id.
pub(super) async fn start_of_traces(
    app: &App,
    (project, dataset_id): (&ProjectId, &str),
    request: &[u8],
    preview: Value,
) -> Result<String, Problem> {
    let id = app.web.ids.uuid().to_string();
    let file = Spool::of(&app.web).store(&id, request).await?;
    let now = app.web.clock.now();
    let import = DatasetImport {
        id,
        dataset_id: dataset_id.to_owned(),
        file_name: String::new(),
        n_bytes: 0,
        state: ImportState::Importing,
        preview,
        settings: ImportSettings::of_traces(),
        revision: 1,
        counts: ImportCounts::default(),
        error: None,
        created_at: now,
        updated_at: now,
    };
    // Without its import it is deleted with the old files.
    file.keep();
    app.store.catalog.create_dataset_import(project, &import).await?;
    app.jobs.wake(job::NAME);
    Ok(import.id)
}

/// Reads the first rows of a file.
async fn detected(
    spool: &Spool,
    id: &str,
    file_name: String,
    hints: FileHints,
) -> Result<Detected, Problem> {
    let path = spool.path(id);
    let detected = tokio::task::spawn_blocking(move || detect(&path, &file_name, &hints)).await;
    let detected = detected.map_err(|_| Problem::internal())?;
    detected.map_err(|error| {
        let cause: &dyn std::error::Error = &error;
        tracing::error!(error = cause, "an uploaded file cannot be read");
        Problem::new(Code::Unprocessable, "the uploaded file cannot be read")
    })
}

fn check_mapping(detected: &Detected) -> Result<(), Problem> {
    let checked = detected.settings.check(&detected.columns);
    checked.map_err(|message| {
        let columns = detected.columns.join(", ");
        let message = format!("{message}; the columns of the file are: {columns}");
        Problem::new(Code::Unprocessable, message)
    })
}

async fn list_imports(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<NumberedList<ImportView>>, Problem> {
    let stored = find(&app, &caller, &name).await?;
    let paging = page::paging(&params)?;
    let catalog = &app.store.catalog;
    let found = catalog.dataset_imports(&caller.project, &stored.dataset.id, paging).await?;
    Ok(page::list(paging, &found, view::import))
}

/// The import of a path.
async fn import_of(
    app: &App,
    caller: &Act,
    (name, id): (&str, &str),
) -> Result<DatasetImport, Problem> {
    let stored = find(app, caller, name).await?;
    let import = app.store.catalog.dataset_import(&caller.project, id).await?;
    let import = import.filter(|import| import.dataset_id == stored.dataset.id);
    import.ok_or_else(|| Problem::not_found("import"))
}

async fn get_import(
    State(app): State<App>,
    caller: Act,
    Path((name, id)): Path<(String, String)>,
) -> Result<Answer<ImportView>, Problem> {
    let import = import_of(&app, &caller, (&name, &id)).await?;
    Ok(Answer(view::import(&import)))
}

/// Refuses a change of an import that runs or has ended.
fn require_waiting(import: &DatasetImport) -> Result<(), Problem> {
    match import.state.is_running() || import.state.is_final() {
        false => Ok(()),
        true => {
            let message = format!("the import is {}; it cannot be changed", import.state);
            Err(Problem::new(Code::Conflict, message))
        }
    }
}

/// Stores a state of an import, from its first row on, and wakes the job.
async fn store_state(
    app: &App,
    project: &ProjectId,
    mut import: DatasetImport,
) -> Result<Answer<ImportView>, Problem> {
    let now = app.web.clock.now();
    if !app.store.catalog.start_dataset_import(project, &import, now).await? {
        return Err(Problem::new(Code::Conflict, "the import was changed at the same time"));
    }
    app.jobs.wake(job::NAME);
    import.counts = ImportCounts::default();
    import.error = None;
    import.updated_at = now;
    Ok(Answer(view::import(&import)))
}

async fn change_import(
    State(app): State<App>,
    caller: Act,
    Path((name, id)): Path<(String, String)>,
    Body(input): Body<SettingsInput>,
) -> Result<Answer<ImportView>, Problem> {
    let mut import = import_of(&app, &caller, (&name, &id)).await?;
    require_waiting(&import)?;
    if input.changes_reading() {
        let in_body = |field: &'static str| move |message: String| Problem::body(field, message);
        let settings = &import.settings;
        let encoding = input.encoding.as_deref();
        let delimiter = input.delimiter.as_deref();
        let hints = FileHints {
            format: Some(settings.format),
            encoding: match encoding {
                Some(raw) => Some(view::encoding(raw).map_err(in_body("encoding"))?),
                None => Some(settings.encoding.clone()),
            },
            delimiter: match delimiter {
                Some(raw) => Some(view::delimiter(raw).map_err(in_body("delimiter"))?),
                None => Some(settings.delimiter),
            },
            has_header: Some(input.has_header.unwrap_or(settings.has_header)),
        };
        let spool = Spool::of(&app.web);
        if !spool.has(&import.id) {
            let message = "the file of the import is on another server";
            return Err(Problem::new(Code::Unprocessable, message));
        }
        let detected = detected(&spool, &import.id, import.file_name.clone(), hints).await?;
        import.preview = detected.preview();
        let duplicates = import.settings.duplicates;
        import.settings = detected.settings;
        import.settings.duplicates = duplicates;
    }
    input.apply(&mut import.settings)?;
    import.settings.check(&columns(&import)).map_err(|message| Problem::body("", message))?;
    import.state = ImportState::Uploaded;
    store_state(&app, &caller.project, import).await
}

/// The columns in the preview of an import.
fn columns(import: &DatasetImport) -> Vec<String> {
    let columns = import.preview["columns"].as_array();
    let columns = columns.into_iter().flatten().filter_map(Value::as_str);
    columns.map(str::to_owned).collect()
}

/// Starts a stage.
async fn start(
    app: &App,
    caller: &Act,
    path: (&str, &str),
    state: ImportState,
) -> Result<Answer<ImportView>, Problem> {
    let mut import = import_of(app, caller, path).await?;
    require_waiting(&import)?;
    import.settings.check(&columns(&import)).map_err(|message| {
        Problem::new(Code::Unprocessable, format!("{message}; set the mapping first"))
    })?;
    import.state = state;
    store_state(app, &caller.project, import).await
}

async fn check_import(
    State(app): State<App>,
    caller: Act,
    Path((name, id)): Path<(String, String)>,
) -> Result<Answer<ImportView>, Problem> {
    start(&app, &caller, (&name, &id), ImportState::Checking).await
}

async fn start_import(
    State(app): State<App>,
    caller: Act,
    Path((name, id)): Path<(String, String)>,
) -> Result<Answer<ImportView>, Problem> {
    start(&app, &caller, (&name, &id), ImportState::Importing).await
}

async fn cancel_import(
    State(app): State<App>,
    caller: Act,
    Path((name, id)): Path<(String, String)>,
) -> Result<Answer<Confirmation>, Problem> {
    let import = import_of(&app, &caller, (&name, &id)).await?;
    let now = app.web.clock.now();
    if !app.store.catalog.cancel_dataset_import(&caller.project, &import.id, now).await? {
        return Err(Problem::new(Code::Conflict, "the import has ended"));
    }
    Spool::of(&app.web).delete(&import.id).await;
    Ok(Answer(Confirmation::new("Import cancelled; imported items are kept")))
}

async fn list_rejected(
    State(app): State<App>,
    caller: Act,
    Path((name, id)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Problem> {
    let formats = [FileFormat::Csv, FileFormat::Jsonl];
    let format = params.choice("format", &formats, FileFormat::as_str)?;
    let format = format.unwrap_or(FileFormat::Csv);
    let import = import_of(&app, &caller, (&name, &id)).await?;
    let mut first = Vec::new();
    if format == FileFormat::Csv {
        first.extend_from_slice(b"row,column,pointer,reason\r\n");
    }
    let rejects = Rejects { app, project: caller.project, id: import.id, format, after: 0 };
    let response = parts::answer(first, rejects).await?;
    let media_type = match format {
        FileFormat::Csv => "text/csv; charset=utf-8",
        _ => "application/x-ndjson; charset=utf-8",
    };
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"rejected.{format}\"")),
    ];
    Ok((headers, response).into_response())
}

/// Rejected rows that were not sent yet.
struct Rejects {
    app: App,
    project: ProjectId,
    id: String,
    format: FileFormat,
    after: u64,
}

impl BodyParts for Rejects {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let catalog = &self.app.store.catalog;
        let some = catalog.dataset_import_rejects(&self.project, &self.id, self.after, PER_READ);
        let some = some.await?;
        let is_last = some.len() < PER_READ as usize;
        for reject in some {
            self.after = reject.place;
            let reject = RejectView::from(reject);
            match self.format {
                FileFormat::Csv => {
                    let mut line = String::new();
                    let cells = [
                        Value::from(reject.row),
                        with_mark(&reject.column).into(),
                        reject.pointer.into(),
                        with_mark(&reject.reason).into(),
                    ];
                    csv::push_line(&mut line, &cells);
                    out.extend_from_slice(line.as_bytes());
                }
                _ => {
                    parts::json(out, &reject)?;
                    out.push(b'\n');
                }
            }
        }
        Ok(is_last)
    }
}

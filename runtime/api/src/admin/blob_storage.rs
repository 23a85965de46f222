//! Exports of the data of projects to buckets. The key of a bucket is
//! write-only.

pub(crate) use axum::extract::{Path, State};
use axum::http::Uri;
use object_store::path;
use perpend_catalog::blob_exports::{
    BlobExport, BucketKind, ExportMode, ExportSettings, ExportSource, ExportState, FileType,
    Frequency,
};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::access::Permission::ExportWrite;
use perpend_domain::ids::OrganizationId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::OrganizationAct;
use perpend_http_kit::extract::{Body, must_be_one_of};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_jobs::exports;
use perpend_jobs::exports::bucket::{self, Retries};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::projects;
use crate::admin::state::{App, Routes};

const LIST: &str = "/api/public/integrations/blob-storage";
const ONE: &str = "/api/public/integrations/blob-storage/{id}";

const DAY_MS: i64 = 86_400_000;
/// The date of today in the time zone furthest ahead is accepted.
const AHEAD_MS: i64 = 27 * 3_600_000;
const MAX_TEXT: usize = 512;
const MAX_SECRET: usize = 16 << 10;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listBucketExports",
        LIST,
        "List the bucket exports of the projects of the organization",
        ExportWrite,
    );
    routes.add(list, list_integrations);
    let put = Operation::put(
        "putBucketExport",
        LIST,
        "Create or replace the bucket export of a project",
        ExportWrite,
    );
    let put = put.body::<IntegrationInput>();
    routes.add(put, put_integration);
    let get = Operation::get(
        "getBucketExportStatus",
        ONE,
        "Get the progress of a bucket export",
        ExportWrite,
    );
    routes.add(get, get_status);
    let delete = Operation::delete(
        "deleteBucketExport",
        ONE,
        "Delete a bucket export; its files are kept",
        ExportWrite,
    );
    routes.add(delete, delete_integration);
}

fn string_enum(words: &[&str]) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.enum_values(Some(words.iter().copied())).build()
}

fn kinds() -> Object {
    string_enum(&["S3", "S3_COMPATIBLE", "AZURE_BLOB_STORAGE", "GOOGLE_CLOUD_STORAGE"])
}

fn frequencies() -> Object {
    string_enum(&["every_20_minutes", "hourly", "daily", "weekly"])
}

fn file_types() -> Object {
    string_enum(&["JSON", "CSV", "JSONL"])
}

fn modes() -> Object {
    string_enum(&["FULL_HISTORY", "FROM_TODAY", "FROM_CUSTOM_DATE"])
}

fn sources() -> Object {
    string_enum(&[
        "LEGACY_TRACES_OBSERVATIONS",
        "OBSERVATIONS_V2",
        "LEGACY_TRACES_AND_ENRICHED_OBSERVATIONS",
    ])
}

// Not `Debug`: it contains the key.
/// Settings of a bucket export.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct IntegrationInput {
    project_id: String,
    #[serde(rename = "type")]
    #[schema(rename = "type", schema_with = kinds)]
    kind: BucketKind,
    /// Name of the bucket; on Azure, of the container.
    bucket_name: String,
    /// Required for `S3_COMPATIBLE`.
    endpoint: Option<String>,
    region: String,
    /// On Azure, the account. Not used on Google. When absent, the stored one is kept.
    access_key_id: Option<String>,
    /// On Google, the JSON of a service account. Never returned. When absent, the stored one is kept if `type`, `endpoint` and
    /// `accessKeyId` are unchanged.
    secret_access_key: Option<String>,
    /// Prefix of the object names, with a trailing slash.
    prefix: Option<String>,
    #[schema(schema_with = frequencies)]
    export_frequency: Frequency,
    enabled: bool,
    force_path_style: bool,
    #[schema(schema_with = file_types)]
    file_type: FileType,
    #[schema(schema_with = modes)]
    export_mode: ExportMode,
    /// Required for `FROM_CUSTOM_DATE`.
    #[schema(value_type = Option<String>)]
    export_start_date: Option<Timestamp>,
    /// Whether files are compressed with gzip; true when absent.
    compressed: Option<bool>,
    /// `LEGACY_TRACES_OBSERVATIONS`, `OBSERVATIONS_V2` or `LEGACY_TRACES_AND_ENRICHED_OBSERVATIONS`.
    #[schema(value_type = Option<String>)]
    export_source: Option<ExportSource>,
    /// Groups of observation columns; all when absent. Requires `exportSource`.
    export_field_groups: Option<Vec<String>>,
}

/// A bucket export, without its key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Integration {
    id: String,
    project_id: String,
    #[serde(rename = "type")]
    #[schema(rename = "type", schema_with = kinds)]
    kind: BucketKind,
    bucket_name: String,
    #[schema(required)]
    endpoint: Option<String>,
    region: String,
    #[schema(required)]
    access_key_id: Option<String>,
    prefix: String,
    #[schema(schema_with = frequencies)]
    export_frequency: Frequency,
    enabled: bool,
    force_path_style: bool,
    #[schema(schema_with = file_types)]
    file_type: FileType,
    #[schema(schema_with = modes)]
    export_mode: ExportMode,
    #[schema(required, value_type = Option<String>)]
    export_start_date: Option<Timestamp>,
    compressed: bool,
    #[schema(schema_with = sources)]
    export_source: ExportSource,
    export_field_groups: Vec<String>,
    #[serde(flatten)]
    progress: Progress,
    #[schema(value_type = String)]
    created_at: Timestamp,
    #[schema(value_type = String)]
    updated_at: Timestamp,
}

/// Progress of a bucket export.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Progress {
    /// Time of the next run.
    #[schema(required, value_type = Option<String>)]
    next_sync_at: Option<Timestamp>,
    /// Data received before this time has been exported.
    #[schema(required, value_type = Option<String>)]
    last_sync_at: Option<Timestamp>,
    /// Error of the last run; null after a success.
    #[schema(required)]
    last_error: Option<String>,
    #[schema(required, value_type = Option<String>)]
    last_error_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Integrations {
    data: Vec<Integration>,
}

/// State and progress of a bucket export.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExportStatus)]
struct Status {
    id: String,
    project_id: String,
    /// `disabled`, `running`, `error`, `queued`, `idle` or `up_to_date`.
    sync_status: &'static str,
    enabled: bool,
    #[serde(flatten)]
    progress: Progress,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeletedExport)]
struct Deleted {
    message: &'static str,
}

impl From<ExportState> for Progress {
    fn from(state: ExportState) -> Self {
        Self {
            next_sync_at: state.next_sync_at,
            last_sync_at: state.last_sync_at,
            last_error: state.last_error,
            last_error_at: state.last_error_at,
        }
    }
}

impl From<BlobExport> for Integration {
    fn from(export: BlobExport) -> Self {
        let settings = export.settings;
        Self {
            id: export.id,
            project_id: export.project.to_string(),
            kind: settings.kind,
            bucket_name: settings.bucket,
            endpoint: settings.endpoint,
            region: settings.region,
            access_key_id: settings.access_key_id,
            prefix: settings.prefix,
            export_frequency: settings.frequency,
            enabled: export.is_enabled,
            force_path_style: settings.force_path_style,
            file_type: settings.file_type,
            export_mode: settings.mode,
            export_start_date: settings.start,
            compressed: settings.is_compressed,
            export_source: settings.source,
            export_field_groups: settings.field_groups,
            progress: export.state.into(),
            created_at: export.created_at,
            updated_at: export.updated_at,
        }
    }
}

/// The state of an export.
fn sync_status(export: &BlobExport, now: Timestamp) -> &'static str {
    let state = &export.state;
    let is_past = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    match () {
        () if !export.is_enabled => "disabled",
        () if state.leased_until.is_some_and(|until| now < until) => "running",
        () if state.last_error.is_some() => "error",
        () if is_past(state.next_sync_at) => "queued",
        () if state.last_sync_at.is_none() => "idle",
        () => "up_to_date",
    }
}

fn invalid<T>(field: &str, message: &str) -> Result<T, Problem> {
    Err(Problem::body(field, message))
}

fn is_alphanumeric_or(text: &str, more: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

impl IntegrationInput {
    /// Validates names against the rules of the providers, so that none of them changes the address.
    fn check(&self) -> Result<(), Problem> {
        self.check_bucket()?;
        if MAX_TEXT < self.region.len() || !is_alphanumeric_or(&self.region, "-") {
            return invalid("region", "must consist of letters, digits and hyphens");
        }
        if self.kind == BucketKind::S3 && self.region.is_empty() {
            return invalid("region", "is required for S3");
        }
        match &self.endpoint {
            Some(endpoint) => {
                check_endpoint(endpoint)?;
                let is_google = self.kind == BucketKind::GoogleCloudStorage;
                if is_google && !endpoint.starts_with("https://") {
                    return invalid(
                        "endpoint",
                        "must start with https:// for GOOGLE_CLOUD_STORAGE",
                    );
                }
            }
            None if self.kind == BucketKind::S3Compatible => {
                return invalid("endpoint", "is required for S3_COMPATIBLE");
            }
            None => {}
        }
        if let Some(key) = &self.access_key_id {
            let is_account = self.kind != BucketKind::AzureBlobStorage
                || ((3..=24).contains(&key.len()) && is_alphanumeric_or(key, ""));
            if key.is_empty()
                || MAX_TEXT < key.len()
                || key.chars().any(char::is_control)
                || !is_account
            {
                return invalid("accessKeyId", "must be an access key or an account name");
            }
        }
        if let Some(secret) = &self.secret_access_key
            && (secret.is_empty() || MAX_SECRET < secret.len())
        {
            return invalid("secretAccessKey", "must have 1 to 16384 characters");
        }
        let prefix = self.prefix.as_deref().unwrap_or_default();
        if !prefix.is_empty() {
            let names = prefix.strip_suffix('/');
            let Some(names) = names.filter(|names| (1..MAX_TEXT).contains(&names.len())) else {
                return invalid(
                    "prefix",
                    "must be a path of at most 512 characters that ends with /",
                );
            };
            if path::Path::parse(names).is_err() || names.starts_with('/') {
                return invalid(
                    "prefix",
                    "must not contain empty segments, segments of dots, or characters that are invalid in names",
                );
            }
        }
        self.check_groups()
    }

    fn check_bucket(&self) -> Result<(), Problem> {
        let name = self.bucket_name.as_str();
        let is_lower = name == name.to_ascii_lowercase();
        let ends_well = !name.starts_with(['-', '.']) && !name.ends_with(['-', '.']);
        let is_right = ends_well
            && match self.kind {
                BucketKind::S3 => {
                    (3..=63).contains(&name.len()) && is_lower && is_alphanumeric_or(name, "-.")
                }
                BucketKind::S3Compatible => {
                    (1..=255).contains(&name.len()) && is_alphanumeric_or(name, "-._")
                }
                BucketKind::AzureBlobStorage => {
                    let is_plain = !name.contains("--") && is_alphanumeric_or(name, "-");
                    (3..=63).contains(&name.len()) && is_lower && is_plain
                }
                BucketKind::GoogleCloudStorage => {
                    (3..=222).contains(&name.len()) && is_lower && is_alphanumeric_or(name, "-._")
                }
            };
        match is_right && !name.contains("..") {
            true => Ok(()),
            false => {
                invalid("bucketName", "must be a valid name of a bucket or container of this type")
            }
        }
    }

    fn check_groups(&self) -> Result<(), Problem> {
        const FIELD: &str = "exportFieldGroups";
        let Some(groups) = &self.export_field_groups else {
            return Ok(());
        };
        if self.export_source.is_none() {
            return invalid(FIELD, "requires exportSource");
        }
        if let Some(unknown) =
            groups.iter().find(|name| exports::groups().all(|known| known != *name))
        {
            let known: Vec<_> = exports::groups().collect();
            return invalid(FIELD, &must_be_one_of(&known, unknown));
        }
        match groups.is_empty() || groups.iter().any(|name| name == "core") {
            true => Ok(()),
            false => invalid(FIELD, "must contain core"),
        }
    }

    /// Whether the stored secret may be reused: it is sent to the same place as before.
    fn keeps_secret_of(&self, current: &ExportSettings) -> bool {
        let endpoint = self.endpoint.as_deref().map(without_slash);
        let key = self.access_key_id.as_ref();
        (self.kind, endpoint) == (current.kind, current.endpoint.as_deref())
            && key.is_none_or(|key| current.access_key_id.as_ref() == Some(key))
    }

    /// The start of the export. `FROM_TODAY` keeps the date on which it was first set.
    fn start(
        &self,
        current: Option<&ExportSettings>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Problem> {
        const FIELD: &str = "exportStartDate";
        match (self.export_mode, self.export_start_date) {
            (ExportMode::FullHistory, _) => Ok(None),
            (ExportMode::FromToday, _) => {
                let current = current.filter(|settings| settings.mode == ExportMode::FromToday);
                let today = now.as_millis() - now.as_millis().rem_euclid(DAY_MS);
                let today = Timestamp::from_millis(today);
                Ok(current.map_or(Some(today), |settings| settings.start))
            }
            (ExportMode::FromCustomDate, None) => {
                invalid(FIELD, "is required for FROM_CUSTOM_DATE")
            }
            (ExportMode::FromCustomDate, Some(start)) => match start <= now.plus_millis(AHEAD_MS) {
                // With the precision of the store: the same date again does not restart the export.
                true => Ok(Some(Timestamp::from_millis(start.as_millis()))),
                false => invalid(FIELD, "must not be in the future"),
            },
        }
    }

    fn settings(
        self,
        current: Option<&ExportSettings>,
        now: Timestamp,
    ) -> Result<ExportSettings, Problem> {
        let start = self.start(current, now)?;
        let same_kind = current.filter(|settings| settings.kind == self.kind);
        let access_key_id = self.access_key_id.or_else(|| same_kind?.access_key_id.clone());
        if access_key_id.is_none() && self.kind != BucketKind::GoogleCloudStorage {
            return invalid(
                "accessKeyId",
                "is required: the identity of the server is never used for exports",
            );
        }
        let all = || exports::groups().map(str::to_owned).collect();
        let field_groups = match self.export_field_groups {
            Some(groups) if groups.is_empty() => all(),
            Some(groups) => groups,
            None => current.map_or_else(all, |settings| settings.field_groups.clone()),
        };
        Ok(ExportSettings {
            kind: self.kind,
            bucket: self.bucket_name,
            endpoint: self.endpoint.as_deref().map(without_slash).map(str::to_owned),
            region: self.region,
            access_key_id,
            prefix: self.prefix.unwrap_or_default(),
            frequency: self.export_frequency,
            force_path_style: self.force_path_style,
            file_type: self.file_type,
            mode: self.export_mode,
            start,
            is_compressed: self.compressed.unwrap_or(true),
            source: self
                .export_source
                .or(current.map(|settings| settings.source))
                .unwrap_or(ExportSource::Older),
            field_groups,
        })
    }
}

fn without_slash(endpoint: &str) -> &str {
    endpoint.trim_end_matches('/')
}

fn check_endpoint(endpoint: &str) -> Result<(), Problem> {
    let uri = endpoint.parse::<Uri>().ok();
    let is_right = uri.is_some_and(|uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("@", |authority| authority.as_str());
        is_http && !authority.contains('@') && uri.query().is_none()
    });
    match is_right && endpoint.len() <= MAX_TEXT {
        true => Ok(()),
        false => invalid(
            "endpoint",
            "must be a URL such as https://minio.example.com, without user and query",
        ),
    }
}

/// Checks that the URL parses. The library requires that.
fn check_address(settings: &ExportSettings) -> Result<(), Problem> {
    let is_address = |address: &str| url::Url::parse(address).is_ok();
    let address = bucket::endpoint_of(settings);
    if address.is_none_or(|address| is_address(&address)) {
        return Ok(());
    }
    match settings.endpoint.as_deref().is_some_and(is_address) {
        true => invalid(
            "forcePathStyle",
            "must be true: with the bucket in front of its host the endpoint is not a valid URL",
        ),
        false => invalid("endpoint", "must be a valid URL"),
    }
}

/// Opens the bucket and writes a small file there. The error is returned to the caller, who can correct the settings.
async fn probe_bucket(app: &App, export: &BlobExport, secret: &str) -> Result<(), Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("the bucket cannot be written to: {error}");
        Problem::body("bucketName", bucket::shown(&message))
    };
    let opened = bucket::open(&export.settings, secret, &app.outbound, Retries::None);
    let opened = opened
        .map_err(|error| Problem::body("secretAccessKey", bucket::shown(&error.to_string())))?;
    if !export.is_enabled {
        return Ok(());
    }
    let probed = bucket::probe(&export.settings, &export.project, opened.as_ref()).await;
    probed.map_err(|error| failed(&error))
}

async fn list_integrations(
    State(app): State<App>,
    caller: OrganizationAct,
) -> Result<Answer<Integrations>, Problem> {
    let found = app.store.catalog.organization_blob_exports(&caller.organization).await?;
    let data = found.into_iter().map(Into::into).collect();
    Ok(Answer(Integrations { data }))
}

async fn put_integration(
    State(app): State<App>,
    caller: OrganizationAct,
    Body(mut input): Body<IntegrationInput>,
) -> Result<Answer<Integration>, Problem> {
    input.check()?;
    let project = projects::find::find(&app, &caller.organization, &input.project_id).await?;
    let current = app.store.catalog.blob_export(&project.id).await?;
    let (now, is_enabled) = (app.web.clock.now(), input.enabled);
    let owner = SealedAt::Export.owner(&project.id);
    let broken = |error: perpend_http_client::Error| {
        tracing::error!(error = &error as &dyn std::error::Error, "the vault failed");
        Problem::internal()
    };
    let kept = current.as_ref().filter(|export| input.keeps_secret_of(&export.settings));
    let secret = match (input.secret_access_key.take(), kept) {
        (Some(secret), _) => secret,
        (None, Some(export)) => match app.vault.unseal(&owner, &export.secret) {
            Ok(secret) => secret,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the key of an export cannot be decrypted"
                );
                return invalid(
                    "secretAccessKey",
                    "is required: the stored one cannot be decrypted",
                );
            }
        },
        (None, None) if current.is_none() => return invalid("secretAccessKey", "is required"),
        (None, None) => {
            return invalid(
                "secretAccessKey",
                "is required: the stored one belongs to another type, endpoint or accessKeyId",
            );
        }
    };
    let settings = input.settings(current.as_ref().map(|export| &export.settings), now)?;
    check_address(&settings)?;
    // Another start date restarts the export; any other change continues it.
    let continued = current.as_ref().filter(|export| {
        (export.settings.mode, export.settings.start) == (settings.mode, settings.start)
    });
    let state = ExportState {
        next_sync_at: is_enabled.then_some(now),
        last_sync_at: continued.and_then(|export| export.state.last_sync_at),
        window_end: continued.and_then(|export| export.state.window_end),
        ..ExportState::default()
    };
    let export = BlobExport {
        id: app.web.ids.uuid().to_string(),
        secret: app.vault.seal(&owner, &secret, app.web.ids.as_ref()).map_err(broken)?,
        project: project.id,
        settings,
        is_enabled,
        state,
        created_at: now,
        updated_at: now,
    };
    probe_bucket(&app, &export, &secret).await?;
    app.store.catalog.put_blob_export(&export).await?;
    let stored = app.store.catalog.blob_export(&export.project).await?;
    Ok(Answer(stored.unwrap_or(export).into()))
}

async fn find(app: &App, organization: &OrganizationId, id: &str) -> Result<BlobExport, Problem> {
    let found = app.store.catalog.organization_blob_export(organization, id).await?;
    found.ok_or_else(|| Problem::not_found("blob storage integration"))
}

async fn get_status(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
) -> Result<Answer<Status>, Problem> {
    let export = find(&app, &caller.organization, &id).await?;
    Ok(Answer(Status {
        sync_status: sync_status(&export, app.web.clock.now()),
        id: export.id,
        project_id: export.project.to_string(),
        enabled: export.is_enabled,
        progress: export.state.into(),
    }))
}

async fn delete_integration(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
) -> Result<Answer<Deleted>, Problem> {
    let export = find(&app, &caller.organization, &id).await?;
    match app.store.catalog.delete_blob_export(&export.project, &export.id).await {
        Ok(()) | Err(perpend_db::Error::NotFound) => {
            Ok(Answer(Deleted { message: "The export was deleted; its files are kept" }))
        }
        Err(error) => Err(error.into()),
    }
}

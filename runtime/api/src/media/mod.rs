//! Media: announced by clients, uploaded to and downloaded from signed URLs. Without a
//! signature, a key pair is required.

mod content;
mod link;
pub(super) mod reference;
mod signer;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use perpend_domain::access::Permission::{ContentRead, IngestWrite};
use perpend_domain::ids::TraceId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::{Act, Requirement};
use perpend_http_kit::extract::{Body, must_be_one_of};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_telemetry::media::{MediaOwner, Medium, NewMedia, UploadReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use crate::state::{App, Routes};

pub(super) use link::Origin;

pub(crate) use signer::Signer;

const ALL: &str = "/api/public/media";
const ONE: &str = "/api/public/media/{mediaId}";
const CONTENT: &str = "/api/public/media/{mediaId}/content";

/// Largest medium.
const MAX_BYTES: i64 = 100 << 20;
/// Length of an id.
const ID_CHARS: usize = 22;
const FIELDS: &[&str] = &["input", "output", "metadata", "expectedOutput"];

pub(super) fn routes(routes: &mut Routes) {
    let announce = Operation::post(
        "createMedia",
        ALL,
        "Announce a medium and get the URL of its upload",
        IngestWrite,
    );
    let announce = announce.body::<MediaInput>();
    routes.add(announce.secret(), announce_media);
    let report =
        Operation::patch("reportMediaUpload", ONE, "Report the result of an upload", IngestWrite)
            .status(204);
    routes.add(report.body::<ReportInput>(), report_upload);
    routes.add(
        Operation::get("getMedia", ONE, "Get a medium with the URL of its download", ContentRead)
            .secret(),
        get_medium,
    );
    let put = Operation::new(
        HttpMethod::Put,
        "putMediaContent",
        CONTENT,
        "Upload the content of a medium to a signed URL",
        Requirement::Signed(IngestWrite),
    );
    routes.add(put, content::put_content);
    let get = Operation::get(
        "getMediaContent",
        CONTENT,
        "Download the content of a medium from a signed URL",
        Requirement::Signed(ContentRead),
    );
    routes.add(get.bytes("*/*"), content::get_content);
}

/// An announced medium.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MediaInput {
    /// Trace of the medium. Either this or `datasetId` with `datasetItemId` is required.
    trace_id: Option<String>,
    observation_id: Option<String>,
    dataset_id: Option<String>,
    dataset_item_id: Option<String>,
    /// MIME type.
    content_type: String,
    /// Number of bytes, at most 100 MiB.
    content_length: i64,
    /// SHA-256 of the bytes in base64.
    sha256_hash: String,
    /// `input`, `output`, `metadata` or `expectedOutput`.
    field: String,
}

impl MediaInput {
    fn location(&self) -> Result<MediaOwner, Problem> {
        let ids = [
            ("traceId", &self.trace_id),
            ("observationId", &self.observation_id),
            ("datasetId", &self.dataset_id),
            ("datasetItemId", &self.dataset_item_id),
        ];
        for (field, id) in ids {
            if let Some(Err(error)) = id.as_deref().map(TraceId::to_store) {
                return Err(Problem::body(field, error.to_string()));
            }
        }
        match (&self.trace_id, &self.dataset_id, &self.dataset_item_id) {
            (Some(trace), None, None) => {
                Ok(MediaOwner::Trace(trace.clone(), self.observation_id.clone()))
            }
            (None, Some(dataset), Some(item)) if self.observation_id.is_none() => {
                Ok(MediaOwner::Item(dataset.clone(), item.clone()))
            }
            _ => Err(Problem::body(
                "traceId",
                "either traceId (with or without observationId) or \
                 datasetId with datasetItemId is required",
            )),
        }
    }

    fn check(self) -> Result<NewMedia, Problem> {
        let place = self.location()?;
        if !perpend_otlp::is_media_type(&self.content_type) {
            let message = format!("must be a supported media type, got {:?}", self.content_type);
            return Err(Problem::body("contentType", message));
        }
        if !(1..=MAX_BYTES).contains(&self.content_length) {
            let message = format!("must be from 1 to {MAX_BYTES}, got {}", self.content_length);
            return Err(Problem::body("contentLength", message));
        }
        if !FIELDS.contains(&self.field.as_str()) {
            let message = must_be_one_of(FIELDS, &self.field);
            return Err(Problem::body("field", message));
        }
        let digest = STANDARD.decode(&self.sha256_hash).ok();
        let sha256: Option<[u8; 32]> = digest.and_then(|digest| digest.try_into().ok());
        let sha256 = sha256.ok_or_else(|| {
            Problem::body("sha256Hash", "must be 32 bytes in base64 (44 characters)")
        })?;
        let mut id = URL_SAFE_NO_PAD.encode(sha256);
        id.truncate(ID_CHARS);
        Ok(NewMedia {
            id,
            sha256,
            content_type: self.content_type,
            content_length: self.content_length,
            place,
            field: self.field,
        })
    }
}

/// An announced medium.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AnnouncedMedium {
    media_id: String,
    /// Signed URL of the upload; null when the content was uploaded already.
    upload_url: Option<String>,
}

/// A medium with the URL of its download.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Medium)]
pub(super) struct MediumView {
    media_id: String,
    /// MIME type.
    content_type: String,
    /// Number of bytes.
    content_length: i64,
    /// Signed URL of the download.
    url: String,
    /// End of the validity of the URL.
    url_expiry: Timestamp,
}

/// A medium with the time of its upload.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UploadedMedium {
    #[serde(flatten)]
    medium: MediumView,
    #[schema(value_type = Timestamp)]
    uploaded_at: Option<Timestamp>,
}

async fn announce_media(
    State(app): State<App>,
    caller: Act,
    origin: Origin,
    Body(input): Body<MediaInput>,
) -> Result<Answer<AnnouncedMedium, 201>, Problem> {
    let new = input.check()?;
    let project = &caller.project;
    if let MediaOwner::Item(dataset, _) = &new.place {
        let known = app.store.catalog.dataset_by_id(project, dataset).await?;
        known.ok_or_else(|| Problem::not_found("dataset"))?;
    }
    let now = app.web.clock.now();
    let is_uploaded = app.store.telemetry.announce_media(project, &new, now).await?;
    let url = match is_uploaded {
        true => None,
        false => Some(origin.link(&app, "PUT", project, &new.id).0),
    };
    Ok(Answer(AnnouncedMedium { media_id: new.id, upload_url: url }))
}

/// The result of an upload.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReportInput {
    uploaded_at: String,
    upload_http_status: i64,
    upload_http_error: Option<String>,
    upload_time_ms: Option<i64>,
}

async fn report_upload(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<ReportInput>,
) -> Result<StatusCode, Problem> {
    Timestamp::parse(&input.uploaded_at)
        .map_err(|error| Problem::body("uploadedAt", error.to_string()))?;
    let report = UploadReport {
        http_status: input.upload_http_status,
        http_error: input.upload_http_error,
        time_ms: input.upload_time_ms,
    };
    let reported = app.store.telemetry.report_upload(&caller.project, &id, &report).await;
    reported.map_err(|error| match error {
        perpend_db::Error::NotFound => Problem::not_found("medium"),
        error => error.into(),
    })?;
    Ok(StatusCode::NO_CONTENT)
}

async fn get_medium(
    State(app): State<App>,
    caller: Act,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Answer<UploadedMedium>, Problem> {
    let medium = app.store.telemetry.medium(&caller.project, &id).await?;
    let medium = medium.filter(|medium| medium.uploaded_at.is_some());
    let medium = medium.ok_or_else(|| Problem::not_found("medium"))?;
    let view = view(&app, &caller.project, &origin, &medium);
    Ok(Answer(UploadedMedium { medium: view, uploaded_at: medium.uploaded_at }))
}

/// A medium with the URL of its download.
fn view(
    app: &App,
    project: &perpend_domain::ids::ProjectId,
    origin: &Origin,
    medium: &Medium,
) -> MediumView {
    let (url, url_expiry) = origin.link(app, "GET", project, &medium.id);
    MediumView {
        media_id: medium.id.clone(),
        content_type: medium.content_type.clone(),
        content_length: medium.content_length,
        url,
        url_expiry,
    }
}

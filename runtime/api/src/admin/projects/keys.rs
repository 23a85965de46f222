//! Keys of a project, managed by its organization or by a member of the project.

use axum::extract::{Path, State};
use perpend_catalog::{ApiKey, Rights};
use perpend_domain::access::Permission::{KeyRead, KeyWrite};
use perpend_domain::ids::PublicKey;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::{KeyPair, ManagerAct};
use perpend_http_kit::extract::{Body, must_be_one_of};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::find::find_managed;
use crate::admin::state::{App, Routes};

const KEYS: &str = "/api/public/projects/{projectId}/apiKeys";
const KEY: &str = "/api/public/projects/{projectId}/apiKeys/{apiKeyId}";
const MAX_NOTE_CHARS: usize = 500;
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=800;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listProjectKeys",
        KEYS,
        "List the keys of a project, oldest first",
        KeyRead,
    );
    routes.add(list, list_keys);
    let create = Operation::post(
        "createProjectKey",
        KEYS,
        "Create a key pair; its secret is returned only once",
        KeyWrite,
    );
    let create = create.body::<NewKey>();
    routes.add(create, create_key);
    let delete =
        Operation::delete("deleteProjectKey", KEY, "Delete a key, with immediate effect", KeyWrite);
    routes.add(delete, delete_key);
}

/// Keys without secrets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKeys {
    api_keys: Vec<KeyView>,
}

/// A key without its secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApiKey)]
pub(super) struct KeyView {
    id: String,
    created_at: Timestamp,
    /// Time from which the key is refused.
    expires_at: Option<Timestamp>,
    /// Time of the last use with either secret, accurate to about a minute.
    last_used_at: Option<Timestamp>,
    /// Display name.
    name: Option<String>,
    /// Former name of `name`.
    note: Option<String>,
    public_key: String,
    /// The ends of the secret half.
    display_secret_key: String,
    /// `full`, `read` or `ingest`.
    scope: &'static str,
    /// `false` if the public half is not accepted alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_scores: Option<bool>,
    /// The last rotation of the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotation: Option<RotationView>,
}

/// A rotation of a key.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeyRotation)]
struct RotationView {
    rotated_at: Timestamp,
    /// Time of the last use with the new secret.
    new_secret_last_used_at: Option<Timestamp>,
    /// Time of the last use with the previous secret.
    previous_secret_last_used_at: Option<Timestamp>,
    /// Time from which the previous secret is refused.
    previous_secret_expires_at: Timestamp,
    /// The ends of the previous secret.
    previous_display_secret_key: String,
}

/// A new key pair.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CreatedKey {
    id: String,
    created_at: Timestamp,
    /// Time from which the key is refused.
    expires_at: Option<Timestamp>,
    public_key: String,
    secret_key: String,
    /// The ends of the secret half.
    display_secret_key: String,
    /// Display name.
    name: Option<String>,
    /// Former name of `name`.
    note: Option<String>,
    /// `full`, `read` or `ingest`.
    scope: &'static str,
}

/// A deleted key.
#[derive(Serialize, ToSchema)]
struct DeletedKey {
    /// Always true.
    success: bool,
}

/// A new key pair.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewKey {
    /// Display name.
    name: Option<String>,
    /// Former name of `name`.
    note: Option<String>,
    /// Public half of an existing pair. Requires `secretKey`.
    public_key: Option<String>,
    /// Secret half of an existing pair, at least 16 characters. Requires `publicKey`.
    secret_key: Option<String>,
    /// `full`, the default; `read`: changes nothing; or `ingest`: only sends telemetry and scores.
    scope: Option<String>,
    /// Time from which the key is refused.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

pub(super) fn view(key: &ApiKey) -> KeyView {
    KeyView {
        id: key.made.id.clone(),
        created_at: key.created_at,
        expires_at: key.made.expires_at,
        last_used_at: key.last_used_with_any_secret(),
        name: key.made.note.clone(),
        note: key.made.note.clone(),
        public_key: key.made.public_key.to_string(),
        display_secret_key: key.made.secret_hint.clone(),
        scope: key.made.rights.as_str(),
        public_scores: (!key.public_scores).then_some(false),
        rotation: key.rotation.as_ref().map(|rotation| RotationView {
            rotated_at: rotation.at,
            new_secret_last_used_at: key.last_used_at,
            previous_secret_last_used_at: rotation.previous_last_used_at,
            previous_secret_expires_at: rotation.previous_expires_at,
            previous_display_secret_key: rotation.previous_hint.clone(),
        }),
    }
}

/// A list of keys.
pub(crate) fn key_views(keys: &[ApiKey]) -> Answer<ApiKeys> {
    let api_keys = keys.iter().map(view).collect();
    Answer(ApiKeys { api_keys })
}

impl NewKey {
    fn rights(&self) -> Result<Rights, Problem> {
        let scope = self.scope.as_deref().unwrap_or("full");
        scope.parse().map_err(|_: String| {
            let scope: String = scope.chars().take(40).collect();
            Problem::body("scope", must_be_one_of(&Rights::ALL.map(Rights::as_str), &scope))
        })
    }

    /// The pair in the request, if any.
    fn pair(&self) -> Result<Option<KeyPair>, Problem> {
        let (public_key, secret_key) = match (&self.public_key, &self.secret_key) {
            (None, None) => return Ok(None),
            (Some(public_key), Some(secret_key)) => (public_key.clone(), secret_key.clone()),
            (None, _) => return Err(Problem::body("publicKey", "requires secretKey")),
            (_, None) => return Err(Problem::body("secretKey", "requires publicKey")),
        };
        if public_key.contains(':') || PublicKey::to_store(&public_key).is_err() {
            let message = "must have 1 to 800 characters, without colons and control characters";
            return Err(Problem::body("publicKey", message));
        }
        let is_long = SECRET_CHARS.contains(&secret_key.chars().count());
        if !is_long || secret_key.chars().any(char::is_control) {
            let message = "must have 16 to 800 characters, without control characters";
            return Err(Problem::body("secretKey", message));
        }
        Ok(Some(KeyPair { public_key, secret_key }))
    }
}

pub(super) fn check_note(note: Option<&str>) -> Result<(), Problem> {
    let is_wrong =
        |note: &str| MAX_NOTE_CHARS < note.chars().count() || note.chars().any(char::is_control);
    match note.is_some_and(is_wrong) {
        true => {
            let message = "must have at most 500 characters, without control characters";
            Err(Problem::body("name", message))
        }
        false => Ok(()),
    }
}

pub(super) fn check_expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    match expires_at.is_some_and(|end| end <= now) {
        true => Err(Problem::body("expiresAt", "must be in the future")),
        false => Ok(()),
    }
}

/// The problem of a change of a key.
pub(super) fn key_problem(error: perpend_db::Error) -> Problem {
    match error {
        perpend_db::Error::NotFound => Problem::new(Code::NotFound, "no such key in this project"),
        error => error.into(),
    }
}

async fn list_keys(
    State(app): State<App>,
    caller: ManagerAct,
    Path(id): Path<String>,
) -> Result<Answer<ApiKeys>, Problem> {
    let project = find_managed(&app, &caller, &id).await?;
    Ok(key_views(&app.store.catalog.api_keys(&project).await?))
}

async fn create_key(
    State(app): State<App>,
    caller: ManagerAct,
    Path(id): Path<String>,
    Body(input): Body<NewKey>,
) -> Result<Answer<CreatedKey>, Problem> {
    let now = app.web.clock.now();
    let (sent_pair, rights) = (input.pair()?, input.rights()?);
    let note = input.name.or(input.note);
    check_note(note.as_deref())?;
    check_expiry(input.expires_at, now)?;
    let project = find_managed(&app, &caller, &id).await?;
    let pair = sent_pair.unwrap_or_else(|| KeyPair::random(app.web.ids.as_ref()));
    let key = pair.to_key(app.web.ids.as_ref(), note, input.expires_at);
    let mut key = key.map_err(|error| Problem::body("publicKey", error.to_string()))?;
    key.rights = rights;
    app.store.catalog.create_api_key(&project, &key, now).await?;
    // The cache may contain the result of a look-up before the key existed.
    app.web.keys.clear();
    Ok(Answer(CreatedKey {
        id: key.id,
        created_at: now,
        expires_at: key.expires_at,
        public_key: key.public_key.to_string(),
        secret_key: pair.secret_key,
        display_secret_key: key.secret_hint,
        name: key.note.clone(),
        note: key.note,
        scope: key.rights.as_str(),
    }))
}

async fn delete_key(
    State(app): State<App>,
    caller: ManagerAct,
    Path((id, key)): Path<(String, String)>,
) -> Result<Answer<DeletedKey>, Problem> {
    let project = find_managed(&app, &caller, &id).await?;
    let deleted = app.store.catalog.delete_api_key(&project, &key).await;
    deleted.map_err(key_problem)?;
    app.web.keys.clear();
    Ok(Answer(DeletedKey { success: true }))
}

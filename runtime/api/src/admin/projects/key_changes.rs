//! `/api/v1/projects/{projectId}/api-keys/{apiKeyId}`: changes and rotation of a key.

use axum::extract::{Path, State};
use perpend_api_types::nullable;
use perpend_catalog::{ApiKey, KeyOwner, KeyPatch, MAX_OVERLAP_HOURS};
use perpend_domain::access::Permission::KeyWrite;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::{KeyPair, ManagerAct};
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::find::find_managed;
use super::keys::{KeyView, check_expiry, check_note, key_problem, view};
use crate::admin::state::{App, Routes};

const KEY: &str = "/api/v1/projects/{projectId}/api-keys/{apiKeyId}";
const ROTATE: &str = "/api/v1/projects/{projectId}/api-keys/{apiKeyId}/rotate";
const END_PREVIOUS: &str = "/api/v1/projects/{projectId}/api-keys/{apiKeyId}/end-previous-secret";
const HOUR_MS: i64 = 3_600_000;

pub(super) fn routes(routes: &mut Routes) {
    let change = Operation::patch(
        "updateProjectKey",
        KEY,
        "Change name, expiry and use of the public half of a key, with immediate effect",
        KeyWrite,
    );
    routes.add(change.body::<KeyChange>(), change_key);
    let rotate = Operation::post(
        "rotateProjectKey",
        ROTATE,
        "Replace the secret of a key; the new secret is returned only once",
        KeyWrite,
    );
    routes.add(rotate.body::<RotateInput>(), rotate_key);
    let end = Operation::post(
        "endPreviousSecret",
        END_PREVIOUS,
        "Refuse the previous secret of a rotated key, with immediate effect",
        KeyWrite,
    );
    routes.add(end, end_previous_secret);
}

/// Changes of a key. Absent members are kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyChange {
    /// Display name; `null` removes it.
    #[serde(default, deserialize_with = "nullable::present")]
    #[schema(value_type = Option<String>)]
    name: Option<Option<String>>,
    /// Time from which the key is refused; `null` removes it.
    #[serde(default, deserialize_with = "nullable::present")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Option<Timestamp>>,
    /// Whether the public half may be sent alone to write scores, as browsers of end users do.
    public_scores: Option<bool>,
}

/// A rotation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = KeyRotationRequest)]
struct RotateInput {
    /// Hours for which the current secret is still accepted, at most 720. 0 ends it at once.
    overlap_hours: i64,
}

/// A key with its new secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RotatedKey {
    /// The new secret half.
    secret_key: String,
    api_key: KeyView,
}

/// The project in the path as the owner of its keys.
async fn owner(app: &App, caller: &ManagerAct, project: &str) -> Result<KeyOwner, Problem> {
    Ok(KeyOwner::Project(find_managed(app, caller, project).await?))
}

async fn change_key(
    State(app): State<App>,
    caller: ManagerAct,
    Path((project, key)): Path<(String, String)>,
    Body(input): Body<KeyChange>,
) -> Result<Answer<KeyView>, Problem> {
    let owner = owner(&app, &caller, &project).await?;
    check_note(input.name.as_ref().and_then(|name| name.as_deref()))?;
    check_expiry(input.expires_at.flatten(), app.web.clock.now())?;
    let patch = KeyPatch {
        note: input.name,
        expires_at: input.expires_at,
        public_scores: input.public_scores,
    };
    let changed = app.store.catalog.change_key((&owner, &key), &patch).await;
    shown(&app, changed)
}

async fn rotate_key(
    State(app): State<App>,
    caller: ManagerAct,
    Path((project, key)): Path<(String, String)>,
    Body(input): Body<RotateInput>,
) -> Result<Answer<RotatedKey>, Problem> {
    let owner = owner(&app, &caller, &project).await?;
    let hours = input.overlap_hours;
    if !(0..=i64::from(MAX_OVERLAP_HOURS)).contains(&hours) {
        let message = format!("must be 0 to {MAX_OVERLAP_HOURS}, got {hours}");
        return Err(Problem::body("overlapHours", message));
    }
    let (ids, now) = (app.web.ids.as_ref(), app.web.clock.now());
    let pair = KeyPair::random(ids);
    let (secret, end) = (pair.to_secret(ids), now.plus_millis(hours * HOUR_MS));
    let rotated = app.store.catalog.rotate_key((&owner, &key), &secret, end, now).await;
    let Answer(api_key) = shown(&app, rotated)?;
    Ok(Answer(RotatedKey { secret_key: pair.secret_key, api_key }))
}

async fn end_previous_secret(
    State(app): State<App>,
    caller: ManagerAct,
    Path((project, key)): Path<(String, String)>,
) -> Result<Answer<KeyView>, Problem> {
    let owner = owner(&app, &caller, &project).await?;
    let now = app.web.clock.now();
    let ended = app.store.catalog.end_previous_secret((&owner, &key), now).await;
    shown(&app, ended)
}

/// The changed key, which this server accepts and refuses from now on as changed.
fn shown(
    app: &App,
    changed: Result<ApiKey, perpend_db::Error>,
) -> Result<Answer<KeyView>, Problem> {
    let changed = changed.map_err(key_problem)?;
    app.web.keys.clear();
    Ok(Answer(view(&changed)))
}

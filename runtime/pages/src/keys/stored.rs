//! The responses of the API operations of keys.

use axum::http::Method;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{KeyLine, KeyRotationView, KeyState, Text, decode_segment, encode, segment};
use serde::Deserialize;
use serde_json::json;

use crate::request::operations::{call, parsed};
use crate::request::viewer::Viewer;
use crate::state::App;

/// Keys that expire within this time have a mark.
const SOON_MS: i64 = 30 * 24 * 3_600_000;

/// Path of the operations that list and create keys.
pub(super) fn keys_operation(viewer: &Viewer) -> String {
    format!("/api/public/projects/{}/apiKeys", segment(viewer.project.as_str()))
}

/// URL of the list of keys.
pub(super) fn list_href(viewer: &Viewer) -> String {
    format!("{}/settings/keys", viewer.base())
}

/// URL of a key.
pub(super) fn key_href(viewer: &Viewer, id: &str) -> String {
    format!("{}/{}", list_href(viewer), encode(id))
}

/// The path of a key.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyPath {
    key: String,
}

impl KeyPath {
    fn id(&self) -> &str {
        decode_segment(&self.key)
    }

    /// URL of the page of the key.
    pub(super) fn href(&self, viewer: &Viewer) -> String {
        key_href(viewer, self.id())
    }

    /// Path of an operation that changes the key; `rest` begins with a slash unless it is empty.
    pub(super) fn operation(&self, viewer: &Viewer, rest: &str) -> String {
        let project = segment(viewer.project.as_str());
        format!("/api/v1/projects/{project}/api-keys/{}{rest}", segment(self.id()))
    }

    /// Path of the operation that deletes the key.
    pub(super) fn deletion(&self, viewer: &Viewer) -> String {
        format!("{}/{}", keys_operation(viewer), segment(self.id()))
    }

    /// The key.
    pub(super) async fn key(&self, app: &App, viewer: &Viewer) -> Result<StoredKey, Problem> {
        let found = stored_keys(app, viewer).await?.into_iter().find(|key| key.id == self.id());
        found.ok_or_else(|| Problem::new(Code::NotFound, "no such key in this project"))
    }
}

/// A key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredKey {
    pub(super) id: String,
    created_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    pub(super) name: Option<String>,
    pub(super) public_key: String,
    display_secret_key: String,
    pub(super) scope: String,
    public_scores: Option<bool>,
    rotation: Option<StoredRotation>,
}

/// The last rotation of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRotation {
    rotated_at: Timestamp,
    new_secret_last_used_at: Option<Timestamp>,
    previous_secret_last_used_at: Option<Timestamp>,
    previous_secret_expires_at: Timestamp,
    previous_display_secret_key: String,
}

impl StoredKey {
    /// Whether the public half may be sent alone to write scores; absent for a key that does not write them.
    pub(super) fn public_scores(&self) -> Option<bool> {
        (self.scope != "read").then(|| self.public_scores.unwrap_or(true))
    }

    pub(super) fn line(&self, viewer: &Viewer, now: Timestamp) -> KeyLine {
        let text = |text: &str| Text::from(text);
        KeyLine {
            name: text(self.name.as_deref().unwrap_or(&self.public_key)),
            href: key_href(viewer, &self.id),
            public_key: text(&self.public_key),
            secret_ends: text(&self.display_secret_key),
            scope: text(&self.scope),
            created_at: self.created_at,
            expires_at: self.expires_at,
            last_used_at: self.last_used_at,
            state: match self.expires_at {
                Some(end) if end <= now => KeyState::Expired,
                Some(end) if end <= now.plus_millis(SOON_MS) => KeyState::ExpiresSoon,
                _ => KeyState::Valid,
            },
            rotation: self.rotation.as_ref().map(|rotation| KeyRotationView {
                rotated_at: rotation.rotated_at,
                new_last_used_at: rotation.new_secret_last_used_at,
                previous_ends: text(&rotation.previous_display_secret_key),
                previous_expires_at: rotation.previous_secret_expires_at,
                previous_last_used_at: rotation.previous_secret_last_used_at,
                is_overlapping: now < rotation.previous_secret_expires_at,
            }),
        }
    }
}

/// The keys of the project, oldest first.
pub(super) async fn stored_keys(app: &App, viewer: &Viewer) -> Result<Vec<StoredKey>, Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List {
        api_keys: Vec<StoredKey>,
    }
    let path = keys_operation(viewer);
    let list: List = parsed(call(app, viewer, (Method::GET, &path), &json!({})).await?)?;
    Ok(list.api_keys)
}

/// The value of `expiresAt` for a date in a form: the start of that day in UTC.
pub(super) fn start_of_day(date: &str) -> Option<String> {
    (!date.is_empty()).then(|| format!("{date}T00:00:00Z"))
}

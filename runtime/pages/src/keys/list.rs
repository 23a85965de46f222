//! `GET P/settings/keys`: the key pairs of the project.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::KeyWrite;
use perpend_http_kit::problem::Problem;
use perpend_views::{ApiRequest, KeysPage, Section};

use super::stored::{keys_operation, stored_keys};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// `GET P/settings/keys`
pub(crate) async fn list_page(State(app): State<App>, viewer: Viewer) -> Result<Response, Problem> {
    let (keys, now) = (stored_keys(&app, &viewer).await?, app.web.clock.now());
    let api = ApiRequest::new(&viewer.origin, &keys_operation(&viewer));
    let view = KeysPage {
        shell: viewer.shell(Section::Keys).with_api([api]),
        keys: keys.iter().map(|key| key.line(&viewer, now)).collect(),
        may_write: viewer.may(KeyWrite),
    };
    page(StatusCode::OK, &view)
}

//! Who looks at a page, and the project that it shows.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use perpend_domain::access::Scope;
use perpend_domain::ids::ProjectId;
use perpend_ui::{Opened, Preferences, Section, Shell};
use perpend_web::auth::{Act, act_of_session};
use perpend_web::problem::Problem;

use crate::sent;
use crate::state::App;

/// Who looks at a page, and the project that it shows.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    pub(super) project: ProjectId,
    /// What they may see.
    pub(super) scope: Scope,
    name: String,
    preferences: Preferences,
}

impl Viewer {
    /// The address that those of all pages of the project begin with.
    pub(super) fn base(&self) -> String {
        perpend_ui::base(self.project.as_str())
    }

    pub(super) fn shell(&self, section: Section) -> Shell {
        Shell {
            project: Some(Opened::new(self.project.as_str(), &self.name)),
            section,
            preferences: self.preferences,
        }
    }
}

/// The viewer whose act it is, while the project exists.
pub(super) async fn viewer(
    app: &App,
    act: Act,
    headers: &HeaderMap,
) -> Result<Option<Viewer>, Problem> {
    let found = app.store.catalog.project(&act.project).await?;
    Ok(found.map(|found| Viewer {
        project: act.project,
        scope: act.scope,
        name: found.name,
        preferences: sent::preferences(headers),
    }))
}

/// The viewer whose session the headers carry, for pages that need none.
pub(super) async fn of_session(app: &App, headers: &HeaderMap) -> Result<Option<Viewer>, Problem> {
    match act_of_session(&app.web, headers).await? {
        Some(act) => viewer(app, act, headers).await,
        None => Ok(None),
    }
}

/// The frame of a page that needs no session.
pub(super) async fn shell(
    app: &App,
    headers: &HeaderMap,
    section: Section,
) -> Result<Shell, Problem> {
    Ok(match of_session(app, headers).await? {
        Some(viewer) => viewer.shell(section),
        None => sent::shell(headers),
    })
}

impl FromRequestParts<App> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| {
            tracing::error!("a page without a guard asks who looks at it");
            Problem::internal()
        })
    }
}

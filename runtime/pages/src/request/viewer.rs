//! Who looks at a page, and the project that it shows.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use perpend_domain::access::{Permission, Scope};
use perpend_domain::filter::{Column, Condition, Test, find};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::{FormToken, Session, session_of};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    AttentionCounts, Focus, FormContext, Forms, Parameter, Preferences, ProjectLink, Section,
    Shell, Text, UnknownParameters,
};

use crate::read;
use crate::request;
use crate::request::fragment;
use crate::request::submissions::NOTICE_COOKIE;
use crate::setup;
use crate::state::App;

/// Executions that failed in this time are counted, in milliseconds.
const RECENT: i64 = 24 * 60 * 60 * 1_000;

/// Who looks at a page, and the project that it shows.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) project: ProjectId,
    /// What they may see.
    pub(crate) scope: Scope,
    /// What the forms of the session carry.
    pub(crate) token: FormToken,
    name: String,
    /// The other projects of the session.
    others: Vec<ProjectLink>,
    preferences: Preferences,
    /// The forms of values that they chose last.
    pub(crate) forms: Forms,
    waits: AttentionCounts,
    kit: FormContext,
    /// The time and the environments of the page, or of the list that it was opened from.
    pub(crate) focus: Focus,
    /// What of it cannot be read.
    pub(crate) faults: Vec<Text>,
    /// What no page reads of the address.
    unread: UnknownParameters,
    /// Scheme, host and port under which they reach this server.
    pub(crate) origin: String,
    /// When they asked.
    now: Timestamp,
}

impl Viewer {
    /// The address that those of all pages of the project begin with.
    pub(crate) fn base(&self) -> String {
        perpend_views::base(self.project.as_str())
    }

    /// Whether the viewer has this permission. Pages leave out the controls of what the viewer may not do.
    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.scope.holds(permission)
    }

    /// What of the address no page reads, for links that lead to the same page.
    pub(crate) fn unread(&self) -> Vec<Parameter> {
        self.unread.parameters().collect()
    }

    /// The same with the time and the environments.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        [self.focus.parameters(), self.unread()].concat()
    }

    /// The same viewer on another page: where its forms lead back to.
    pub(crate) fn at(&self, back: &str) -> Self {
        let mut viewer = self.clone();
        viewer.kit.back = back.to_owned();
        viewer
    }

    /// The environments that are shown: those that are chosen, or all but those of evaluations and experiments.
    pub(crate) fn environments(&self, columns: &'static [Column]) -> Condition {
        match self.focus.environments.as_slice() {
            [] => read::exclude_internal(columns),
            chosen => Condition {
                column: find(columns, "environment"),
                test: Test::AnyOf(chosen.to_vec()),
            },
        }
    }

    /// What forms in a fragment carry.
    pub(crate) const fn kit(&self) -> &FormContext {
        &self.kit
    }

    pub(crate) fn shell(&self, section: Section) -> Shell {
        Shell {
            project: Some(ProjectLink::new(self.project.as_str(), &self.name)),
            others: self.others.clone(),
            section,
            preferences: self.preferences,
            forms: self.kit.clone(),
            focus: self.focus.clone(),
            here: self.kit.back.clone(),
            waits: self.waits,
            api: Vec::new(),
            now: self.now,
        }
    }
}

/// The focus of an address, or else of the list in it, and what of it cannot be read.
fn focus_of(query: &str) -> (Focus, Vec<Text>) {
    let mut focus = Focus::default();
    let mut faults = Vec::new();
    let mut list = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match focus.take(&name, &value) {
            Some(Err(may_be)) => {
                let said: String = value.chars().take(100).collect();
                let fault = format!("{name}: {said} is not {may_be}.");
                faults.push(Text::from(fault));
            }
            Some(Ok(())) => {}
            None if name == "in" => list = Some(value),
            None => {}
        }
    }
    let within = list.as_deref().and_then(|list| list.split_once('?'));
    match within {
        Some((_, query)) if focus == Focus::default() => {
            for (name, value) in form_urlencoded::parse(query.as_bytes()) {
                focus.take(&name, &value);
            }
            (focus, Vec::new())
        }
        _ => (focus, faults),
    }
}

fn path_of(address: &Uri) -> &str {
    let address = address.path_and_query();
    address.map_or("", |address| address.as_str())
}

/// What waits in a project, or did some seconds ago.
async fn waits(app: &App, project: &ProjectId) -> Result<AttentionCounts, Problem> {
    let now = app.web.clock.now();
    if let Some(waits) = app.attention_counts().get(project, now) {
        return Ok(waits);
    }
    let (store, since) = (&app.store, now.plus_millis(-RECENT));
    let failed = store.ledger.n_failed_since(project, since, AttentionCounts::LIMIT);
    let waits = AttentionCounts {
        paused: store.catalog.n_paused_rules(project).await?,
        failed: failed.await?,
    };
    app.attention_counts().insert(project, now, waits);
    Ok(waits)
}

/// The project that an address is of.
pub(crate) fn project_of_path(path: &str) -> Option<String> {
    let id = path.strip_prefix("/project/")?.split('/').next()?;
    Some(percent_decode_str(id).decode_utf8_lossy().into_owned())
}

/// Whose session the headers carry: in the project of the address, if they are logged in there.
pub(crate) async fn viewer(
    app: &App,
    headers: &HeaderMap,
    address: &Uri,
) -> Result<Option<Viewer>, Problem> {
    let wanted = project_of_path(address.path());
    let session = session_of(&app.web, headers, wanted.as_deref()).await?;
    Ok(match session {
        Some(session) => Some(in_session(app, session, headers, address).await),
        None => None,
    })
}

async fn in_session(app: &App, session: Session, headers: &HeaderMap, address: &Uri) -> Viewer {
    let Session { act, project, others, token } = session;
    let others = others.iter();
    let waits = match act.scope.holds(Permission::EvaluatorRead) {
        // A page does not fail for a number at its side.
        true => waits(app, &act.project).await.unwrap_or_else(|problem| {
            tracing::warn!(problem = problem.message(), "nothing is counted on the rail");
            AttentionCounts::default()
        }),
        false => AttentionCounts::default(),
    };
    let (submissions, now) = (app.submissions(), app.web.clock.now());
    let told = request::origin::cookie(headers, NOTICE_COOKIE);
    let told = told.and_then(|id| submissions.told((token, &act.project), id, now));
    let here = path_of(address);
    let query = address.query().unwrap_or_default();
    let (focus, mut faults) = focus_of(query);
    if focus.is_backwards(now) {
        let fault = "to: this is not after the start of the time, so nothing is in it.";
        faults.push(Text::from(fault));
    }
    Viewer {
        waits,
        focus,
        faults,
        unread: UnknownParameters::of(form_urlencoded::parse(query.as_bytes())),
        now,
        origin: setup::origin_of_request(app, headers),
        project: act.project,
        scope: act.scope,
        token,
        name: project.name,
        others: others.map(|other| ProjectLink::new(other.id.as_str(), &other.name)).collect(),
        preferences: request::origin::preferences(headers),
        forms: request::origin::forms(headers),
        kit: FormContext {
            token: format!(
                "{}.{}.{}",
                token.masked(&*app.web.ids),
                token.session_tag(),
                submissions.last(token, now)
            ),
            back: fragment::page_of(here).unwrap_or_else(|| here.to_owned()),
            told,
        },
    }
}

/// The viewer whose session the headers carry, for pages that need none.
pub(crate) async fn of_session(app: &App, headers: &HeaderMap) -> Result<Option<Viewer>, Problem> {
    viewer(app, headers, &Uri::default()).await
}

/// The frame of an address that has no page, for whoever is signed in.
pub(crate) async fn shell_without_page(app: &App, headers: &HeaderMap, address: &Uri) -> Shell {
    match viewer(app, headers, address).await {
        Ok(Some(viewer)) => viewer.shell(Section::Other),
        Ok(None) => request::origin::shell(headers),
        Err(problem) => {
            tracing::warn!(problem = problem.message(), "an error page has no sections");
            request::origin::shell(headers)
        }
    }
}

/// The frame of a page that needs no session, at this address.
pub(crate) async fn shell(
    app: &App,
    headers: &HeaderMap,
    (address, section): (&Uri, Section),
) -> Result<Shell, Problem> {
    Ok(match of_session(app, headers).await? {
        Some(viewer) => Shell {
            focus: focus_of(address.query().unwrap_or_default()).0,
            here: path_of(address).to_owned(),
            ..viewer.shell(section)
        },
        None => request::origin::shell(headers),
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

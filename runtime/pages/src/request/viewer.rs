//! The session of a request: user, project and display settings.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use perpend_domain::access::{Permission, PermissionSet};
use perpend_domain::filter::{Column, Condition, Test, find};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::{
    Act, FormToken, Member, Session, SessionPerson, SignedIn, session_of,
};
use perpend_http_kit::cookies::cookie_values;
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

/// Period whose failed executions are counted, in milliseconds.
const FAILURE_PERIOD_MS: i64 = 24 * 60 * 60 * 1_000;

/// The logged-in user of a page and its project.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) project: ProjectId,
    /// Permissions in the project.
    permissions: PermissionSet,
    /// The person.
    session: Option<SessionPerson>,
    /// The account, in a session that began with its password.
    pub(crate) account: Option<SignedIn>,
    /// Token that the forms of the session contain.
    pub(crate) token: FormToken,
    project_name: String,
    /// The other projects of the session.
    others: Vec<ProjectLink>,
    preferences: Preferences,
    /// The last selected display forms of values.
    pub(crate) forms: Forms,
    waits: AttentionCounts,
    /// Failures of the server.
    alarms: Vec<&'static str>,
    /// Whether the session is one of the operator: see [`is_of_operator`].
    pub(crate) is_operator: bool,
    form_context: FormContext,
    /// Time range and environments of the page, or else of the list that it was opened from.
    pub(crate) focus: Focus,
    /// Messages about invalid parameters of the focus.
    pub(crate) faults: Vec<Text>,
    /// Query parameters that no page uses.
    unknown_parameters: UnknownParameters,
    /// Scheme, host and port of this server as the browser reaches it.
    pub(crate) origin: String,
    /// Time of the request.
    now: Timestamp,
}

impl Viewer {
    /// URL prefix of all pages of the project.
    pub(crate) fn base(&self) -> String {
        perpend_views::base(self.project.as_str())
    }

    /// Whether the viewer has this permission. Pages hide controls of actions that are not permitted.
    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.permissions.holds(permission)
    }

    /// Whether the viewer may change a score or comment by a person: the author may, or any viewer if the author is unknown.
    pub(crate) fn may_change_of(&self, author: Option<&str>) -> bool {
        author.is_none() || self.act().author() == author
    }

    /// The member of the organization, in a session of an account.
    pub(crate) const fn member(&self) -> Option<&Member> {
        match &self.session {
            Some(SessionPerson::Member(member)) => Some(member),
            _ => None,
        }
    }

    /// The identity of a request that a page sends to an operation of the API.
    pub(crate) fn act(&self) -> Act {
        Act {
            project: self.project.clone(),
            permissions: self.permissions,
            public_half: None,
            session: self.session.clone(),
        }
    }

    /// Query parameters that no page uses; links to the same page preserve them.
    pub(crate) fn unknown_parameters(&self) -> Vec<Parameter> {
        self.unknown_parameters.parameters().collect()
    }

    /// Query parameters of the focus and the unknown ones.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        [self.focus.parameters(), self.unknown_parameters()].concat()
    }

    /// A copy whose forms redirect to this page.
    pub(crate) fn with_return_path(&self, back: &str) -> Self {
        let mut viewer = self.clone();
        viewer.form_context.return_url = back.to_owned();
        viewer
    }

    /// Condition for the selected environments, or for all except the internal ones if none is selected.
    pub(crate) fn environments(&self, columns: &'static [Column]) -> Condition {
        match self.focus.environments.as_slice() {
            [] => read::exclude_internal(columns),
            chosen => Condition {
                column: find(columns, "environment"),
                test: Test::AnyOf(chosen.to_vec()),
            },
        }
    }

    /// Values that the forms of a fragment contain.
    pub(crate) const fn form_context(&self) -> &FormContext {
        &self.form_context
    }

    pub(crate) fn shell(&self, section: Section) -> Shell {
        Shell {
            project: Some(ProjectLink::new(self.project.as_str(), &self.project_name)),
            others: self.others.clone(),
            section,
            preferences: self.preferences,
            forms: self.form_context.clone(),
            focus: self.focus.clone(),
            url: self.form_context.return_url.clone(),
            attention: self.waits,
            alarms: self.alarms.clone(),
            is_operator: self.is_operator,
            account: self.account.as_ref().map(|own| Text::from(own.account.name.as_str())),
            hidden: [
                (Permission::KeyRead, Section::Keys),
                (Permission::MemberRead, Section::Members),
                (Permission::AuditRead, Section::Audit),
            ]
            .into_iter()
            .filter(|(needs, _)| !self.may(*needs))
            .map(|(_, section)| section)
            .collect(),
            api: Vec::new(),
            now: self.now,
        }
    }
}

/// The focus in a query, or else in the list URL of its `in` parameter, with messages about invalid parameters.
pub(crate) fn focus_of(query: &str) -> (Focus, Vec<Text>) {
    let mut focus = Focus::default();
    let mut faults = Vec::new();
    let mut list = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match focus.take(&name, &value) {
            Some(Err(expected)) => {
                let value: String = value.chars().take(100).collect();
                let fault = format!("`{name}` must be {expected}; got `{value}`.");
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

/// Numbers of paused rules and failed executions of a project, cached for some seconds.
async fn attention_counts(app: &App, project: &ProjectId) -> Result<AttentionCounts, Problem> {
    let now = app.web.clock.now();
    if let Some(waits) = app.attention_counts().get(project, now) {
        return Ok(waits);
    }
    let (store, since) = (&app.store, now.plus_millis(-FAILURE_PERIOD_MS));
    let failed = store.ledger.n_failed_since(project, since, AttentionCounts::LIMIT);
    let waits = AttentionCounts {
        paused: store.catalog.n_paused_rules(project).await?,
        failed: failed.await?,
    };
    app.attention_counts().insert(project, now, waits);
    Ok(waits)
}

/// The project id in a path; absent if the path is not in a project.
pub(crate) fn project_of_path(path: &str) -> Option<String> {
    let id = path.strip_prefix("/project/")?.split('/').next()?;
    Some(percent_decode_str(id).decode_utf8_lossy().into_owned())
}

/// The viewer of the session cookie. The project is that of the path, if it is part of the session.
pub(crate) async fn viewer(
    app: &App,
    headers: &HeaderMap,
    address: &Uri,
) -> Result<Option<Viewer>, Problem> {
    let project = project_of_path(address.path());
    let session = session_of(&app.web, headers, project.as_deref()).await?;
    Ok(match session {
        Some(session) => Some(viewer_of_session(app, session, headers, address).await),
        None => None,
    })
}

/// Whether the account is one of the operator, or only the operator can have started the session: with the printed login token, or in the project of the configured
/// key pair, or in the only project.
async fn is_of_operator(app: &App, session: &Session) -> bool {
    if let Some(own) = &session.account {
        return own.account.is_operator;
    }
    if session.is_of_login_token {
        return true;
    }
    let mut projects = [&session.project].into_iter().chain(&session.others);
    if projects.all(|project| project.id != app.home_project) {
        return false;
    }
    if app.is_home_configured {
        return true;
    }
    // A page does not fail because of this.
    app.store.catalog.has_one_project().await.unwrap_or_else(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "counting the projects failed");
        false
    })
}

async fn viewer_of_session(
    app: &App,
    session: Session,
    headers: &HeaderMap,
    address: &Uri,
) -> Viewer {
    let is_operator = is_of_operator(app, &session).await;
    let Session { act, project, others, token, account, .. } = session;
    let others = others.iter();
    let waits = match act.permissions.holds(Permission::EvaluatorRead) {
        // A page does not fail because of these counts.
        true => attention_counts(app, &act.project).await.unwrap_or_else(|problem| {
            tracing::warn!(
                problem = problem.message(),
                "counting paused rules and failed executions failed"
            );
            AttentionCounts::default()
        }),
        false => AttentionCounts::default(),
    };
    let (submissions, now) = (app.submissions(), app.web.clock.now());
    let notice = cookie_values(headers, NOTICE_COOKIE).next();
    let notice = notice.and_then(|id| submissions.notice((token, &act.project), id, now));
    let here = path_of(address);
    let query = address.query().unwrap_or_default();
    let (focus, mut faults) = focus_of(query);
    if focus.is_backwards(now) {
        let fault = "`to` must be after `from`, so no data is shown.";
        faults.push(Text::from(fault));
    }
    Viewer {
        waits,
        alarms: app.instance.alarms(),
        is_operator,
        focus,
        faults,
        unknown_parameters: UnknownParameters::of(form_urlencoded::parse(query.as_bytes())),
        now,
        origin: setup::origin_of_request(app, headers),
        project: act.project,
        permissions: act.permissions,
        session: act.session,
        account,
        token,
        project_name: project.name,
        others: others.map(|other| ProjectLink::new(other.id.as_str(), &other.name)).collect(),
        preferences: request::origin::preferences(headers),
        forms: request::origin::forms(headers),
        form_context: FormContext {
            token: format!(
                "{}.{}.{}",
                token.masked(&*app.web.ids),
                token.session_tag(),
                submissions.last(token, now)
            ),
            return_url: fragment::page_of(here).unwrap_or_else(|| here.to_owned()),
            flash: notice,
        },
    }
}

/// The viewer of the session cookie, for pages that require no session.
pub(crate) async fn session_viewer(
    app: &App,
    headers: &HeaderMap,
) -> Result<Option<Viewer>, Problem> {
    viewer(app, headers, &Uri::default()).await
}

/// The shell of an error page for a path without a page.
pub(crate) async fn shell_without_page(app: &App, headers: &HeaderMap, address: &Uri) -> Shell {
    match viewer(app, headers, address).await {
        Ok(Some(viewer)) => viewer.shell(Section::Other),
        Ok(None) => request::origin::shell(headers),
        Err(problem) => {
            tracing::warn!(
                problem = problem.message(),
                "loading the session for an error page failed"
            );
            request::origin::shell(headers)
        }
    }
}

/// The shell of a page that requires no session.
pub(crate) async fn shell(
    app: &App,
    headers: &HeaderMap,
    (address, section): (&Uri, Section),
) -> Result<Shell, Problem> {
    Ok(match session_viewer(app, headers).await? {
        Some(viewer) => Shell {
            focus: focus_of(address.query().unwrap_or_default()).0,
            url: path_of(address).to_owned(),
            ..viewer.shell(section)
        },
        None => request::origin::shell(headers),
    })
}

impl FromRequestParts<App> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| {
            tracing::error!("the route of a page has no authenticator");
            Problem::internal()
        })
    }
}

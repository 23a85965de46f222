//! `GET P/sessions` and `GET P/users`: by last activity, and the same lists as files.

use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::Filter;
use perpend_domain::list::BidirectionalPage;
use perpend_domain::telemetry::{GroupKey, GroupQuery, TraceGroup};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, GroupRow, GroupSetup, ListDeclaration, ListView, SESSION_ROWS, Text, USER_ROWS,
    href, with_query,
};

use crate::groups::lines::group_rows;
use crate::list::source::{
    ListConditions, ListQuery, ListRequest, ListScope, ListSource, OwnParameter, OwnParameters,
    PageResult, ShownPage, ViewResult,
};
use crate::read;
use crate::reference;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::trace;
use crate::traces::news::TRACES;

/// Traces read to count all sessions or users.
const MAX_COUNTED: u32 = 10_000;

/// The sessions of a project.
pub(crate) type Sessions = Groups<false>;
/// The users of a project.
pub(crate) type Users = Groups<true>;

/// The sessions or users of a project.
#[derive(Default)]
pub(crate) struct Groups<const OF_USERS: bool> {
    /// The id in the form that opens a session or user.
    id: String,
    /// The session or user whose new traces are counted instead of new rows.
    of: String,
}

impl<const OF_USERS: bool> Groups<OF_USERS> {
    const KEY: GroupKey = if OF_USERS { GroupKey::User } else { GroupKey::Session };

    fn query(&self, conditions: &ListConditions, limit: u32) -> GroupQuery {
        GroupQuery {
            started: conditions.range,
            environments: conditions.environments.clone(),
            ..GroupQuery::new(Self::KEY, limit)
        }
    }
}

impl<const OF_USERS: bool> ListSource for Groups<OF_USERS> {
    type Item = TraceGroup;
    type Row = GroupRow;

    const LIST: &'static ListDeclaration<GroupRow> = match Self::KEY {
        GroupKey::Session => &SESSION_ROWS,
        GroupKey::User => &USER_ROWS,
    };
    const PARAMETERS: &'static [OwnParameter] =
        &[OwnParameter::transient("id"), OwnParameter::transient("of")];
    const RULE_TARGET: Option<TargetKind> = if OF_USERS { None } else { Some(TargetKind::Session) };
    /// The store has a limit of its own and reports the number of tested rows.
    const MAX_TESTED: u64 = 0;
    const ORDER: &'static str = "recently active ones";

    fn apply(&mut self, own: &OwnParameters, _: &Filter, _: &mut Vec<Text>) {
        [self.id, self.of] = ["id", "of"].map(|name| own.text(name).to_owned());
    }

    async fn read(&self, scope: &ListScope, page: ListQuery<'_>) -> PageResult<TraceGroup> {
        let (telemetry, project) = scope.telemetry();
        let ListQuery { conditions, position, limit, .. } = page;
        let position = position.clone();
        let query = GroupQuery { position, ..self.query(conditions, limit) };
        Ok(match conditions.filter.conditions.is_empty() {
            true => telemetry.trace_groups(project, &query).await?,
            false => telemetry.search_groups(project, &query, &conditions.filter).await?,
        })
    }

    /// The sums of a row are of the time range and the environments of the focus.
    async fn rows(
        &self,
        ListScope { app, viewer }: &ListScope,
        items: Vec<TraceGroup>,
    ) -> Result<Vec<GroupRow>, Problem> {
        let focus = &viewer.focus;
        let conditions = ListConditions {
            range: focus.range(read::start_of_minute(app.web.clock.now())),
            environments: focus.environments.clone(),
            ..ListConditions::default()
        };
        let query = self.query(&conditions, 1);
        group_rows(app, viewer, &query, items).await
    }

    fn time_of(item: &TraceGroup) -> Timestamp {
        item.last
    }

    fn api(&self, viewer: &Viewer, page: ShownPage<'_, TraceGroup>) -> Vec<ApiRequest> {
        let query = self.query(page.conditions, page.n);
        let is_filtered = !page.conditions.filter.conditions.is_empty();
        let request = match page.is_later {
            true => None,
            false => reference::equivalent_requests::groups(viewer, &query, is_filtered),
        };
        request.into_iter().collect()
    }

    async fn count_new(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
        since: (Timestamp, u32),
    ) -> Result<(u64, bool), Problem> {
        let (telemetry, project) = scope.telemetry();
        let of = Some(self.of.as_str()).filter(|id| !id.is_empty());
        let query = match (Self::KEY, of) {
            // The page of a session has no time range.
            (GroupKey::Session, Some(_)) => GroupQuery::new(Self::KEY, 1),
            _ => self.query(conditions, 1),
        };
        Ok(telemetry.groups_since(project, &query, of, since).await?)
    }

    fn news_page(&self, viewer: &Viewer) -> Option<([&'static str; 2], String)> {
        let path = href(&viewer.base(), Self::KEY, &self.of);
        (!self.of.is_empty()).then(|| (TRACES, with_query(&path, &viewer.parameters())))
    }

    async fn total(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
        page: &BidirectionalPage<TraceGroup>,
        is_later: bool,
    ) -> Result<Option<BoundedCount>, Problem> {
        let counted = |n| Some(BoundedCount { n, is_more: false });
        if !is_later && page.older.is_none() && page.stopped.is_none() {
            return Ok(counted(page.items.len() as u64));
        }
        if !conditions.filter.conditions.is_empty() {
            return Ok(None);
        }
        let ever = (Timestamp::from_micros(i64::MIN), MAX_COUNTED);
        let (telemetry, project) = scope.telemetry();
        let query = self.query(conditions, 1);
        let (n, is_more) = telemetry.groups_since(project, &query, None, ever).await?;
        Ok(counted(n).filter(|_| !is_more))
    }

    async fn redirect(
        &self,
        ListScope { app, viewer }: &ListScope,
    ) -> Result<Option<String>, Problem> {
        if self.id.is_empty() {
            return Ok(None);
        }
        let id = self.id.as_str();
        let any = GroupQuery::new(Self::KEY, 1);
        let found = app.store.telemetry.trace_group(&viewer.project, &any, id).await?;
        let is_known = found.is_some()
            || (!OF_USERS && trace::scores_only::has_session(app, viewer, id).await?);
        Ok(is_known.then(|| href(&viewer.base(), Self::KEY, id)))
    }

    async fn complete(&self, request: &ListRequest<Self>, mut view: ListView) -> ViewResult {
        let ListScope { app, viewer } = &request.scope;
        let (label, row) = match Self::KEY {
            GroupKey::Session => ("Session id", "session"),
            GroupKey::User => ("User id", "user"),
        };
        view.open_by_id = Some((label, Text::from(self.id.as_str())));
        if !self.id.is_empty() {
            view.notices.insert(0, Text::from(format!("No {row} has the id {}.", self.id)));
        }
        if view.is_bare() {
            let setup = setup::guide_at(app, &viewer.project, viewer.origin.clone()).await?;
            view.setup = GroupSetup { by: Self::KEY, setup }.html();
        }
        Ok(view)
    }
}

//! `GET P/sessions` and `GET P/users`: by last activity, and the same lists as files.

use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::Filter;
use perpend_domain::list::{BidirectionalPage, ListPosition};
use perpend_domain::telemetry::{GroupKey, GroupPage, GroupQuery, TraceGroup};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::GroupSearchResult;
use perpend_views::{
    ApiRequest, GroupRow, GroupSetup, ListDeclaration, ListView, SESSION_ROWS, Text, USER_ROWS,
    href,
};

use crate::groups::lines::group_rows;
use crate::list::source::{ListBounds, ListConditions, ListSource, OwnParameters};
use crate::read;
use crate::reference;
use crate::request::viewer::Viewer;
use crate::rules::links::new_rule_href;
use crate::setup;
use crate::state::App;
use crate::trace;

/// Traces read to count all sessions or users.
const MAX_COUNTED: u32 = 10_000;

/// The sessions of a project.
pub(crate) type Sessions = Groups<false>;
/// The users of a project.
pub(crate) type Users = Groups<true>;

/// The sessions or users of a project.
pub(crate) struct Groups<const OF_USERS: bool> {
    app: App,
    viewer: Viewer,
    /// The id in the form that opens a session or user.
    id: String,
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

    const PARAMETERS: &'static [&'static str] = &["id"];
    /// The store has a limit of its own and reports the number of tested rows.
    const MAX_TESTED: u64 = 0;
    const ORDER: &'static str = "recently active ones";

    fn declaration() -> &'static ListDeclaration<GroupRow> {
        match Self::KEY {
            GroupKey::Session => &SESSION_ROWS,
            GroupKey::User => &USER_ROWS,
        }
    }

    fn new(
        (app, viewer): (&App, &Viewer),
        own: &OwnParameters,
        _: &Filter,
        _: &mut Vec<Text>,
    ) -> Self {
        let id = own.get("id").map_or("", |id| id.trim());
        Self { app: app.clone(), viewer: viewer.clone(), id: id.to_owned() }
    }

    async fn read(
        &self,
        conditions: &ListConditions,
        position: &ListPosition,
        bounds: ListBounds,
    ) -> Result<BidirectionalPage<TraceGroup>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let mut query = self.query(conditions, bounds.limit);
        query.after.clone_from(&position.cursor);
        query.is_backwards = position.is_backwards;
        let tested = match conditions.filter.conditions.is_empty() {
            true => GroupSearchResult {
                page: telemetry.trace_groups(project, &query).await?,
                ..GroupSearchResult::default()
            },
            false => telemetry.search_groups(project, &query, &conditions.filter).await?,
        };
        let GroupSearchResult { page, stopped, n_tested, .. } = tested;
        let GroupPage { items, first, last, has_more, .. } = page;
        let has_others = position.cursor.is_some();
        let (has_newer, has_older) = match position.is_backwards {
            true => (has_more, has_others),
            false => (has_others, has_more),
        };
        Ok(BidirectionalPage {
            items,
            newer: first.filter(|_| has_newer),
            older: last.filter(|_| has_older),
            stopped,
            n_tested: Some(n_tested),
            total: None,
        })
    }

    /// The sums of a row are of the time range and the environments of the focus.
    async fn rows(&self, items: Vec<TraceGroup>) -> Result<Vec<GroupRow>, Problem> {
        let focus = &self.viewer.focus;
        let conditions = ListConditions {
            range: focus.range(read::start_of_minute(self.app.web.clock.now())),
            environments: focus.environments.clone(),
            ..ListConditions::default()
        };
        let query = self.query(&conditions, 1);
        group_rows(&self.app, &self.viewer, &query, items).await
    }

    fn time_of(item: &TraceGroup) -> Timestamp {
        item.last
    }

    fn api(
        &self,
        conditions: &ListConditions,
        _: &[TraceGroup],
        (n, is_later): (u32, bool),
    ) -> Vec<ApiRequest> {
        let query = self.query(conditions, n);
        let is_filtered = !conditions.filter.conditions.is_empty();
        let request = match is_later {
            true => None,
            false => reference::equivalent_requests::groups(&self.viewer, &query, is_filtered),
        };
        request.into_iter().collect()
    }

    async fn total(
        &self,
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
        let telemetry = &self.app.store.telemetry;
        let query = self.query(conditions, 1);
        let found = telemetry.groups_since(&self.viewer.project, &query, None, ever);
        let (n, is_more) = found.await?;
        Ok(counted(n).filter(|_| !is_more))
    }

    async fn redirect(&self) -> Result<Option<String>, Problem> {
        if self.id.is_empty() {
            return Ok(None);
        }
        let (app, viewer, id) = (&self.app, &self.viewer, self.id.as_str());
        let any = GroupQuery::new(Self::KEY, 1);
        let found = app.store.telemetry.trace_group(&viewer.project, &any, id).await?;
        let is_known = found.is_some()
            || (!OF_USERS && trace::scores_only::has_session(app, viewer, id).await?);
        Ok(is_known.then(|| href(&viewer.base(), Self::KEY, id)))
    }

    async fn complete(&self, mut view: ListView) -> Result<ListView, Problem> {
        let (label, row) = match Self::KEY {
            GroupKey::Session => ("Session id", "session"),
            GroupKey::User => ("User id", "user"),
        };
        view.open_by_id = Some((label, Text::from(self.id.as_str())));
        if !self.id.is_empty() {
            view.notices.insert(0, Text::from(format!("No {row} has the id {}.", self.id)));
        }
        if view.is_bare() {
            let origin = self.viewer.origin.clone();
            let setup = setup::guide_at(&self.app, &self.viewer.project, origin).await?;
            view.setup = GroupSetup { by: Self::KEY, setup }.html();
        } else if !OF_USERS {
            let q = view.filter.as_ref().map(|filter| filter.q.as_str()).unwrap_or_default();
            view.score_href = new_rule_href(&self.viewer, TargetKind::Session, q);
        }
        Ok(view)
    }
}

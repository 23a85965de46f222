//! `GET P/export/sessions` and `GET P/export/users`: the lists of sessions and users as files. The parameters are those of the
//! lists.

use std::collections::HashMap;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_domain::filter::Filter;
use perpend_domain::query::parse;
use perpend_domain::score::ScoreDataType;
use perpend_domain::telemetry::{GroupKey, GroupPage, GroupQuery, TraceGroup};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::{GroupSearchResult, ScoreSum};
use serde_json::{Value, json};

use crate::export::{
    ExportColumn, ExportFormat, ExportedList, ExportedPage, PAGE_ROWS, reject_faults, respond,
    seconds,
};
use crate::groups::lines::{DAYS, SCORED_TRACES, first_day, group_query};
use crate::groups::list::{GroupListParams, RECENTLY_ACTIVE, matching_groups, section_and_list};
use crate::request::cursor;
use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces;

struct ExportedGroup {
    group: TraceGroup,
    scores: Vec<ScoreSum>,
    /// Traces of the last days, for users.
    n_recent: u64,
}

type GroupColumn = ExportColumn<ExportedGroup>;

pub(crate) async fn export_groups(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
    Query(params): Query<GroupListParams>,
    by: GroupKey,
) -> Result<Response, Problem> {
    let format = ExportFormat::from_query(raw.as_deref())?;
    let (_, filterable) = section_and_list(by);
    let mut notices = viewer.faults.clone();
    let q = traces::params::filter(&params.q, &mut notices);
    let parsed = parse(&q, filterable.columns);
    let of_table = (&*params.n, &*params.sort, &*params.cols);
    cursor::page_size(of_table, RECENTLY_ACTIVE, &mut notices);
    reject_faults(&notices, &parsed)?;
    let query = group_query((&app, &viewer), by, PAGE_ROWS);
    let list = GroupExport { app: app.clone(), viewer, query, filter: parsed.filter };
    respond(&app, (filterable.list, format), list, columns(by)).await
}

struct GroupExport {
    app: App,
    viewer: Viewer,
    query: GroupQuery,
    filter: Filter,
}

impl ExportedList for GroupExport {
    type Row = ExportedGroup;

    async fn next_page(&mut self) -> Result<ExportedPage<ExportedGroup>, Problem> {
        let found = matching_groups(&self.app, &self.viewer, &self.query, &self.filter).await?;
        let GroupSearchResult { page: GroupPage { items, last, has_more, .. }, stopped, .. } =
            found;
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let ids: Vec<&str> = items.iter().map(|group| group.id.as_str()).collect();
        let scores = telemetry.scores_of_groups(project, &self.query, &ids, SCORED_TRACES);
        let mut scores = scores.await?;
        let days = match self.query.by {
            GroupKey::Session => HashMap::new(),
            GroupKey::User => {
                let since = (first_day(self.app.web.clock.now()), DAYS);
                telemetry.traces_by_day(project, &self.query, &ids, since).await?
            }
        };
        let row = |group: TraceGroup| ExportedGroup {
            scores: scores.remove(&group.id).unwrap_or_default(),
            n_recent: days.get(&group.id).map_or(0, |days| days.iter().sum()),
            group,
        };
        let rows = items.into_iter().map(row).collect();
        self.query.after = stopped.or_else(|| last.filter(|_| has_more));
        Ok(ExportedPage { rows, is_last: self.query.after.is_none() })
    }
}

/// Columns of the list, named as in filters.
fn columns(by: GroupKey) -> Vec<GroupColumn> {
    let [own, other_id, other, n_others] = match by {
        GroupKey::Session => ["Session", "userId", "User", "userCount"],
        GroupKey::User => ["User", "sessionId", "Session", "sessionCount"],
    };
    let mut columns = vec![
        GroupColumn::new("id", own, |row| row.group.id.as_str().into()),
        GroupColumn::new("lastSeen", "Last trace", |row| row.group.last.to_iso_micros().into()),
        GroupColumn::new("firstSeen", "First trace", |row| row.group.first.to_iso_micros().into()),
        GroupColumn::new("duration", "Duration (s)", |row| {
            seconds(row.group.end.micros_since(row.group.first))
        }),
        GroupColumn::new(other_id, other, |row| row.group.other.clone().into()),
        GroupColumn::new(n_others, format!("{other}s"), |row| row.group.n_others.into()),
        GroupColumn::new("traceCount", "Traces", |row| row.group.n_traces.into()),
        GroupColumn::new("observationCount", "Observations", |row| row.group.n_observations.into()),
        GroupColumn::new("errorCount", "Errors", |row| row.group.n_errors.into()),
        GroupColumn::new("totalTokens", "Tokens", |row| row.group.total_tokens.into()),
        GroupColumn::new("totalCost", "Cost (USD)", |row| row.group.cost.known().into()),
        GroupColumn::new("scores", "Scores", |row| row.scores.iter().map(score_sum).collect()),
    ];
    if by == GroupKey::User {
        let recent = format!("Traces in {DAYS} days");
        columns.push(GroupColumn::new("recentTraceCount", recent, |row| row.n_recent.into()));
    }
    columns
}

fn score_sum(sum: &ScoreSum) -> Value {
    let mut object = json!({
        "name": sum.name,
        "dataType": sum.data_type.as_str(),
        "isOfSession": sum.is_own,
        "count": sum.n,
    });
    match (sum.data_type, &sum.top) {
        (ScoreDataType::Numeric | ScoreDataType::Boolean, _) => {
            object["mean"] = (sum.total / sum.n as f64).into();
        }
        (_, Some((category, n))) => {
            object["mostFrequent"] = category.as_str().into();
            object["mostFrequentCount"] = (*n).into();
        }
        (_, None) => {}
    }
    object
}

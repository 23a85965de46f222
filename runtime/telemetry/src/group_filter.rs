//! Filtered lists of sessions and users.
//!
//! Equality conditions on texts lead to few groups by an index. Otherwise groups are scanned in parts, newest
//! first, and conditions on sums are tested per part. The scan stops at a limit and returns its position.

use std::collections::HashMap;

use perpend_db::Sql;
use perpend_domain::filter::{Cell, CellText, Condition, Filter, Row, Test, TextOp};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{BidirectionalPage, Cursor};
use perpend_domain::telemetry::{GroupKey, GroupQuery, TraceGroup};

use crate::trace_groups::{GroupConditions, bound, columns};
use crate::{Error, Telemetry};

/// Groups that are tested together.
const PART: u32 = 200;
/// Limit of groups that are tested for a page, and of traces that are summed for it. The part that reaches a
/// limit is the last one.
const MAX_GROUPS: u64 = 2_000;
const MAX_TRACES: u64 = 20_000;
/// Maximum of traces of a text from which groups are collected; with more traces groups are scanned.
const FEW: u32 = 2_000;

perpend_db::record! {
    struct TextRow {
        id: String,
        other: Option<String>,
        environment: String,
    }
}

/// The user or session ids and the environments of the traces of a group.
#[derive(Debug, Default)]
struct GroupTexts {
    others: Vec<String>,
    environments: Vec<String>,
}

/// The columns of the filter for a group and for the other id of its traces.
const fn names(by: GroupKey) -> [&'static str; 2] {
    match by {
        GroupKey::Session => ["sessionId", "userId"],
        GroupKey::User => ["userId", "sessionId"],
    }
}

/// A group of which only the id is known.
struct NamedGroup<'a> {
    by: GroupKey,
    id: &'a str,
}

impl Row for NamedGroup<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "id" => Cell::text(Some(self.id)),
            own if own == names(self.by)[0] => Cell::text(Some(self.id)),
            _ => Cell::Null,
        }
    }
}

/// A group with its sums.
struct SummedGroup<'a> {
    named: NamedGroup<'a>,
    group: &'a TraceGroup,
    texts: &'a GroupTexts,
}

fn texts(all: &[String]) -> Cell<'_> {
    Cell::Texts(all.iter().map(|text| CellText::Plain(text)).collect())
}

impl Row for SummedGroup<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let group = self.group;
        let count = |n: u64| Cell::Number(n as f64);
        match column {
            "environment" => texts(&self.texts.environments),
            "firstSeen" => Cell::Time(group.first),
            "lastSeen" => Cell::Time(group.last),
            "duration" => Cell::Number(group.end.micros_since(group.first) as f64 / 1e6),
            "traceCount" => count(group.n_traces),
            "observationCount" => count(group.n_observations),
            "errorCount" => count(group.n_errors),
            // Unknown is not zero.
            "totalTokens" if group.total_tokens == 0 => Cell::Null,
            "totalTokens" => count(group.total_tokens),
            "totalCost" if group.cost.n_priced == 0 => Cell::Null,
            "totalCost" => Cell::Number(group.cost.dollars),
            other if other == names(self.named.by)[1] => texts(&self.texts.others),
            own => self.named.cell(own),
        }
    }
}

/// The texts of which a row must have one, by a condition on one of these columns, with the index of the
/// condition.
fn one_of(filter: &Filter, of: &[&str]) -> Option<(usize, Vec<String>)> {
    let values = |(at, condition): (usize, &Condition)| {
        let column = condition.column?;
        let values = match &condition.test {
            Test::Text(TextOp::Equal, value) => std::slice::from_ref(value),
            Test::AnyOf(values) => values.as_slice(),
            _ => return None,
        };
        // The empty text matches groups whose traces have no id.
        let is_telling = of.contains(&column.id) && !values.iter().any(String::is_empty);
        is_telling.then(|| (at, values.to_vec()))
    };
    filter.conditions.iter().enumerate().find_map(values)
}

/// The remaining conditions for groups that were found by the texts of their traces. If all of their traces
/// are requested, the condition that led to them is not tested again.
fn remaining_conditions(filter: &Filter, query: &GroupQuery, is_found: bool) -> Filter {
    let [own, other] = names(query.by);
    let is_of_all = query.environments.is_empty() && query.started == (None, None);
    let mut left = filter.clone();
    if let (true, true, None, Some((at, _))) = (
        is_found,
        is_of_all && query.of.is_none(),
        one_of(filter, &["id", own]),
        one_of(filter, &[other]),
    ) {
        left.conditions.remove(at);
    }
    left
}

/// The groups of traces with one of these texts as the other id. An index on the grouping column would lead
/// to far more traces, so that column is made unusable for indexes.
pub(super) fn named_with(tenant: i64, by: GroupKey, others: &[String]) -> Sql {
    let (column, other) = columns(by);
    let mut sql = Sql::default();
    let tenant = sql.bind(tenant.into());
    let others = bound(others, &mut sql);
    sql.push(&format!(
        "SELECT t.{column} AS id FROM traces t WHERE t.tenant = {tenant} AND t.{other} IN ({others}) \
         AND t.{column} || '' <> '' LIMIT {}",
        FEW + 1
    ));
    sql
}

impl Telemetry {
    /// Sessions or users that match, by the start of their newest trace, with the number of tested ones. The search
    /// stops at a limit. The filter is one of
    /// [`GROUPS`](perpend_domain::filter::GROUPS).
    ///
    /// # Errors
    /// When the database fails.
    pub async fn search_groups(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        filter: &Filter,
    ) -> Result<BidirectionalPage<TraceGroup>, Error> {
        let (mut n_tested, mut stopped) = (0, None);
        let none = BidirectionalPage { n_tested: Some(n_tested), ..BidirectionalPage::default() };
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(none);
        };
        if !self.has_groups(tenant, query.by).await? {
            return Ok(none);
        }
        let among = self.candidates(tenant, query.by, filter).await?;
        let filter = &remaining_conditions(filter, query, among.is_some());
        let wanted = query.limit as usize;
        let mut walk = query.clone();
        if among.is_some() {
            // Their positions are read once.
            walk.limit = FEW;
        }
        let mut found: Vec<(Cursor, TraceGroup)> = Vec::new();
        let mut n_summed = 0;
        let mut waiting: Vec<Cursor> = Vec::new();
        let mut has_more = among.as_ref().is_none_or(|ids| !ids.is_empty());
        while found.len() <= wanted && (has_more || !waiting.is_empty()) {
            if waiting.is_empty() {
                (waiting, has_more) = self.places(tenant, &walk, among.as_deref()).await?;
                walk.position.cursor = waiting.last().cloned();
                walk.limit = PART;
            }
            let part = waiting.len().min(PART as usize);
            let part: Vec<Cursor> = waiting.drain(..part).collect();
            let last = part.last().cloned();
            n_tested += part.len() as u64;
            let fitting = self.fitting(tenant, &walk, filter, part).await?;
            n_summed += fitting.n_summed;
            found.extend(fitting.groups);
            let is_over = waiting.is_empty() && !has_more;
            let is_enough = MAX_GROUPS <= n_tested || MAX_TRACES <= n_summed;
            if !is_over && found.len() <= wanted && is_enough {
                stopped = last;
                break;
            }
        }
        let has_more = wanted < found.len();
        found.truncate(wanted);
        let cursor = |(place, _): &(Cursor, TraceGroup)| place.clone();
        let mut page = BidirectionalPage::read(found, &query.position, has_more, cursor);
        let groups = std::mem::take(&mut page.items).into_iter().map(|(_, group)| group);
        let groups: Vec<TraceGroup> = groups.collect();
        Ok(BidirectionalPage { stopped, n_tested: Some(n_tested), ..page.with_items(groups) })
    }

    /// The ids of all groups that may match, if a condition leads to few.
    async fn candidates(
        &self,
        tenant: i64,
        by: GroupKey,
        filter: &Filter,
    ) -> Result<Option<Vec<String>>, Error> {
        let [own, other] = names(by);
        let mut ids = match one_of(filter, &["id", own]) {
            Some((_, ids)) => ids,
            None => {
                let Some((_, others)) = one_of(filter, &[other]) else {
                    return Ok(None);
                };
                let sql = named_with(tenant, by, &others);
                let rows: Vec<(String,)> = self.pool.select(&sql.text, &sql.args).await?;
                if (FEW as usize) < rows.len() {
                    return Ok(None);
                }
                rows.into_iter().map(|(id,)| id).collect()
            }
        };
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(ids))
    }

    /// The matching ones of these groups, in their order.
    async fn fitting(
        &self,
        tenant: i64,
        query: &GroupQuery,
        filter: &Filter,
        places: Vec<Cursor>,
    ) -> Result<MatchingGroups, Error> {
        let by = query.by;
        let [own, other] = names(by);
        let (of_id, of_sums): (Vec<_>, Vec<_>) =
            filter.conditions.iter().cloned().partition(|condition| {
                let column = condition.column.map(|column| column.id);
                column.is_some_and(|id| id == "id" || id == own)
            });
        let [of_id, of_sums] = [of_id, of_sums].map(|conditions| Filter { conditions });
        let named = places.into_iter().filter(|place| {
            let id = place.id.as_str();
            of_id.matches(&NamedGroup { by, id })
        });
        let named: Vec<Cursor> = named.collect();
        let ids: Vec<&str> = named.iter().map(|place| place.id.as_str()).collect();
        let mut sums = self.sums(tenant, query, &ids).await?;
        let texts_by_id = match of_sums.reads(&[other, "environment"]) {
            true => self.texts_of(tenant, query, &ids).await?,
            false => HashMap::new(),
        };
        let none = GroupTexts::default();
        let n_summed = sums.values().map(|group| group.n_traces).sum();
        let mut groups = Vec::new();
        for place in named {
            let Some(group) = sums.remove(&place.id) else {
                continue;
            };
            let id = place.id.as_str();
            let row = SummedGroup {
                named: NamedGroup { by, id },
                group: &group,
                texts: texts_by_id.get(id).unwrap_or(&none),
            };
            if of_sums.matches(&row) {
                groups.push((place, group));
            }
        }
        Ok(MatchingGroups { groups, n_summed })
    }

    /// The texts of the traces of each of these groups.
    async fn texts_of(
        &self,
        tenant: i64,
        query: &GroupQuery,
        ids: &[&str],
    ) -> Result<HashMap<String, GroupTexts>, Error> {
        let mut texts_by_id: HashMap<String, GroupTexts> = HashMap::new();
        if ids.is_empty() {
            return Ok(texts_by_id);
        }
        let (column, other) = columns(query.by);
        let mut sql = Sql::default();
        let tenant = sql.bind(tenant.into());
        let ids = bound(ids, &mut sql);
        sql.push(&format!(
            "SELECT DISTINCT t.{column} AS id, NULLIF(t.{other}, '') AS other, t.environment AS environment \
               FROM traces t WHERE t.tenant = {tenant} AND t.{column} IN ({ids})"
        ));
        GroupConditions::new(query, &mut sql).push("t", &mut sql);
        let rows: Vec<TextRow> = self.pool.select(&sql.text, &sql.args).await?;
        for row in rows {
            let texts = texts_by_id.entry(row.id).or_default();
            texts.others.extend(row.other);
            texts.environments.push(row.environment);
        }
        Ok(texts_by_id)
    }
}

/// Matching groups of a part.
struct MatchingGroups {
    groups: Vec<(Cursor, TraceGroup)>,
    n_summed: u64,
}

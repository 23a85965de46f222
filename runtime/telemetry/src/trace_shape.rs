//! Access path of a list of traces: the index to use, and the conditions that are tested in memory.

use perpend_db::{Arg, Expr, Sql};
use perpend_domain::filter::{Filter, SetOp};
use perpend_domain::ids::ProjectId;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};

use super::leads::{is_about, is_error, lead, unled};
use super::marks::{MarkCondition, push_prefilter};
use super::read::{MemoryConditions, trace_column};
use super::score_lookup::{ScoreLookup, push_named, push_scored};
use crate::rows::score_names::needed;

/// SQLite has no statistics to show that few traces have errors; `has_errors` selects the index.
fn from_traces(tenant: &str, has_errors: bool) -> String {
    let index = match has_errors {
        true => " INDEXED BY traces_failed",
        false => "",
    };
    format!(" FROM traces t{index} WHERE t.tenant = {tenant}")
}

/// Restriction of the index to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessPath {
    /// The most selective one.
    Any,
    /// An index in the order of time.
    InTime,
    /// The index in the order of the list: the rows of a mark are too many to be sorted.
    InOrder,
    /// The same, and the scores are looked up per trace: for few traces, on SQLite only.
    OneByOne,
}

impl AccessPath {
    const fn through_scores(self) -> ScoreLookup {
        match self {
            Self::Any => ScoreLookup::Names,
            Self::InTime | Self::InOrder => ScoreLookup::Traces,
            Self::OneByOne => ScoreLookup::IndexOfTraces,
        }
    }
}

/// `FROM` for a mark of traces, without and with the table of traces.
fn from_marks(tenant: &str, mark: &str) -> [String; 2] {
    let here = format!("WHERE d.tenant = {tenant} AND d.mark = {mark}");
    ["", "JOIN traces t ON t.number = d.trace "]
        .map(|and| format!(" FROM trace_marks d {and}{here}"))
}

/// Access path of a list.
pub(super) struct ListShape {
    /// `FROM ... WHERE ...`, without the table of traces if another index decides everything.
    pub(super) from: String,
    /// The same with the table of traces as `t`.
    pub(super) from_traces: String,
    /// The conditions on a trace `t`, including its project, if no other index is used.
    pub(super) conditions: String,
    /// Whether the conditions are on environments only, so that maintained sums have the count.
    pub(super) is_of_environments: bool,
    pub(super) args: Vec<Arg<'static>>,
    pub(super) rest: MemoryConditions,
    /// The expression of the number of a trace.
    pub(super) number: &'static str,
    /// The expression of its start.
    pub(super) start: &'static str,
    pub(super) has_lead: bool,
    /// Whether the list is found by a mark.
    pub(super) is_led_by_mark: bool,
    pub(super) way: AccessPath,
    /// Whether all traces with a score of some name are collected before the first row is returned.
    pub(super) collects_scores: bool,
}

impl ListShape {
    pub(super) fn new(
        project: &ProjectId,
        tenant: i64,
        query: &TraceQuery,
        is_postgres: bool,
        way: AccessPath,
    ) -> Self {
        let filter: &Filter = &query.filter;
        // In the order of a score the table of scores is the outer one.
        let by_score = matches!(query.order, TraceOrder::Score(_));
        let may_lead = !by_score && !matches!(way, AccessPath::OneByOne | AccessPath::InOrder);
        let lead = lead(filter).filter(|_| may_lead);
        let lead_at = lead.map(|(_, at)| at);
        let mark = lead_at.and_then(|at| MarkCondition::of(&filter.conditions[at]));
        let lead_mark = mark.as_ref().and_then(MarkCondition::lead);
        let (start, number) = match lead_mark {
            Some(_) => ("d.started_at", "d.trace"),
            None => ("t.started_at", "t.number"),
        };
        let mut sql = Sql::default();
        let of_tenant = sql.bind(tenant.into());
        let hides = !is_postgres && (lead.is_some() || way != AccessPath::Any || by_score);
        let [mut collects_scores, mut reads_trace] = [false; 2];
        let mut rest = Vec::new();
        for (at, condition) in filter.conditions.iter().enumerate() {
            let is_lead = Some(at) == lead_at;
            if let Some(marked) = MarkCondition::of(condition) {
                if !is_lead || marked.marks.len() > 1 {
                    push_marks(&marked, &mut sql, &of_tenant, (start, number));
                }
                continue;
            }
            // A mark has these columns of its trace.
            reads_trace |= !is_about(condition, &["timestamp", "environment"]);
            let column = |id: &str| match id {
                "timestamp" => Some(Expr::Time(start)),
                "environment" if lead_mark.is_some() => Some(Expr::Text("d.environment")),
                id if hides && !is_lead => unled(id).or_else(|| trace_column(id)),
                id => trace_column(id),
            };
            if is_error(condition) {
                // The same by number, which has an index. A partial index is used only if the statement
                // contains its condition.
                let hidden = if is_lead { "" } else { "+" };
                sql.push(&format!(" AND {hidden}t.n_error > 0"));
                continue;
            }
            let (project, through) = (project.as_str(), way.through_scores());
            if push_named(&mut sql, condition, project, through) {
                collects_scores |= !needed(condition).is_empty();
            } else if !sql.condition(condition, column, is_postgres) {
                push_prefilter(&mut sql, condition, is_postgres);
                collects_scores |= push_scored(&mut sql, condition, project, through);
                rest.push(condition.clone());
            }
        }
        let conditions = std::mem::take(&mut sql.text);
        let leads = lead_at.is_some_and(|at| is_error(&filter.conditions[at]));
        let from = match lead_mark {
            Some(mark) => from_marks(&of_tenant, &sql.bind_text(mark)),
            None => [(); 2].map(|()| from_traces(&of_tenant, leads && !is_postgres)),
        };
        let [from, from_traces] = from.map(|from| from + &conditions);
        Self {
            from: match reads_trace {
                true => from_traces.clone(),
                false => from,
            },
            from_traces,
            conditions: format!("t.tenant = {of_tenant}{conditions}"),
            is_of_environments: filter.conditions.iter().all(|own| is_about(own, &["environment"])),
            args: sql.args,
            rest: MemoryConditions::new(rest),
            number,
            start,
            has_lead: lead.is_some(),
            is_led_by_mark: lead_mark.is_some(),
            way,
            collects_scores: collects_scores && !is_postgres,
        }
    }

    /// `FROM ... WHERE ...` with its values.
    pub(super) fn rows(&self) -> Sql {
        Sql { text: self.from.clone(), args: self.args.clone() }
    }

    /// The count of rows, if conditions are on environments only.
    pub(super) fn summed(&self) -> Option<Sql> {
        let conditions = &self.conditions;
        self.is_of_environments.then(|| Sql {
            text: format!(
                "SELECT CAST(COALESCE(SUM(t.n), 0) AS BIGINT) FROM trace_counts t WHERE {conditions}"
            ),
            args: self.args.clone(),
        })
    }

    /// Whether no condition is tested in memory.
    pub(super) fn is_decided_by_columns(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Appends ` AND ...` on a trace given by its start and its number.
pub(crate) fn push_marks(
    marked: &MarkCondition,
    sql: &mut Sql,
    tenant: &str,
    (start, number): (&str, &str),
) {
    let sets: Vec<&[String]> = match marked.op {
        SetOp::AnyOf | SetOp::NoneOf => vec![&marked.marks],
        SetOp::AllOf => marked.marks.chunks(1).collect(),
    };
    for set in sets {
        let places: Vec<String> = set.iter().map(|mark| sql.bind_text(mark)).collect();
        let not = if marked.op == SetOp::NoneOf { "NOT " } else { "" };
        sql.push(&format!(
            " AND {not}EXISTS (SELECT 1 FROM trace_marks m WHERE m.tenant = {tenant} \
             AND m.mark IN ({}) AND m.started_at = {start} AND m.trace = {number})",
            places.join(", ")
        ));
    }
}

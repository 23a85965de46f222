//! Finds traces by their scores.

use crate::rows::leads::bound;
use crate::rows::score_names::{named, needed};
use perpend_db::Sql;
use perpend_domain::filter::{Condition, SetOp};

/// Numeric scores on the trace itself, with the columns of the index of scores by value.
pub(super) const OWN_NUMBERS: &str =
    "s.trace_id IS NOT NULL AND s.observation_id IS NULL AND s.number IS NOT NULL";

/// How the scores of a trace are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoreLookup {
    /// All scores with the name, before the first trace.
    Names,
    /// The scores of each trace.
    Traces,
    /// The scores of each trace, by a named index; on SQLite only.
    IndexOfTraces,
}

/// Appends ` AND ...` over the traces `t` of a project for a condition on the names of their own scores.
/// Returns whether that decides the condition.
pub(super) fn push_named(
    sql: &mut Sql,
    condition: &Condition,
    project: &str,
    through: ScoreLookup,
) -> bool {
    let Some((op, names)) = named(condition) else {
        return false;
    };
    let sets: Vec<&[String]> = match op {
        SetOp::AnyOf | SetOp::NoneOf => vec![names],
        SetOp::AllOf => names.chunks(1).collect(),
    };
    for set in sets {
        let project = sql.bind_text(project);
        let names: Vec<String> = set.iter().map(|name| sql.bind_text(name)).collect();
        let names = names.join(", ");
        let own = format!("s.project_id = {project} AND s.observation_id IS NULL");
        sql.push(&match (op, through) {
            (SetOp::AnyOf | SetOp::AllOf, ScoreLookup::Names) => format!(
                " AND t.trace_id IN (SELECT s.trace_id FROM scores s WHERE {own} \
                 AND s.name IN ({names}) AND s.trace_id IS NOT NULL)"
            ),
            // A computed name makes the index of names unusable: a single trace has few scores.
            _ => format!(
                " AND {}EXISTS (SELECT 1 FROM scores s WHERE {own} AND s.trace_id = t.trace_id \
                 AND (s.name || '') IN ({names}))",
                if op == SetOp::NoneOf { "NOT " } else { "" }
            ),
        });
    }
    true
}

/// Appends a condition that every trace `t` of a project with the required score meets. Returns whether there
/// is such a condition.
pub(super) fn push_scored(
    sql: &mut Sql,
    condition: &Condition,
    project: &str,
    through: ScoreLookup,
) -> bool {
    let [name] = needed(condition)[..] else {
        return false;
    };
    let (project, name) = (sql.bind_text(project), sql.bind_text(name));
    let number = match bound(&condition.test) {
        Some((sign, bound)) => {
            let bound = sql.bind(bound.into());
            format!(" AND {OWN_NUMBERS} AND s.number {sign} {bound}")
        }
        None => String::new(),
    };
    let named = format!("s.project_id = {project} AND s.name = {name}{number}");
    sql.push(&match through {
        ScoreLookup::IndexOfTraces => format!(
            " AND EXISTS (SELECT 1 FROM scores s INDEXED BY scores_by_trace \
             WHERE s.trace_id = t.trace_id AND {named})"
        ),
        ScoreLookup::Names | ScoreLookup::Traces => {
            format!(" AND t.trace_id IN (SELECT s.trace_id FROM scores s WHERE {named})")
        }
    });
    true
}

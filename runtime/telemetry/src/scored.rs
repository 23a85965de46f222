//! Lists of traces are found by their scores.

use crate::rows::leads::bound;
use crate::rows::scored::{named, needed};
use perpend_db::Sql;
use perpend_domain::filter::{Condition, SetOp};

/// Numbers of one trace itself, as the index of scores by number has them.
pub(super) const OWN_NUMBERS: &str =
    "s.trace_id IS NOT NULL AND s.observation_id IS NULL AND s.number IS NOT NULL";

/// How the scores of a trace are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Through {
    /// All that have the name, before the first trace.
    Names,
    /// At each trace.
    Traces,
    /// At each trace, by an index that is named: of SQLite alone.
    IndexOfTraces,
}

/// Appends ` AND ...` over the traces `t` of a project for a condition on the names of their own scores; whether that
/// decides it.
pub(super) fn push_named(
    sql: &mut Sql,
    condition: &Condition,
    project: &str,
    through: Through,
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
            (SetOp::AnyOf | SetOp::AllOf, Through::Names) => format!(
                " AND t.trace_id IN (SELECT s.trace_id FROM scores s WHERE {own} \
                 AND s.name IN ({names}) AND s.trace_id IS NOT NULL)"
            ),
            // A name that is computed keeps the index of names away: of one trace there are few scores.
            _ => format!(
                " AND {}EXISTS (SELECT 1 FROM scores s WHERE {own} AND s.trace_id = t.trace_id \
                 AND (s.name || '') IN ({names}))",
                if op == SetOp::NoneOf { "NOT " } else { "" }
            ),
        });
    }
    true
}

/// Appends what every trace `t` of a project meets that has the score a condition asks for; whether there is such a thing.
pub(super) fn push_scored(
    sql: &mut Sql,
    condition: &Condition,
    project: &str,
    through: Through,
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
        Through::IndexOfTraces => format!(
            " AND EXISTS (SELECT 1 FROM scores s INDEXED BY scores_by_trace \
             WHERE s.trace_id = t.trace_id AND {named})"
        ),
        Through::Names | Through::Traces => {
            format!(" AND t.trace_id IN (SELECT s.trace_id FROM scores s WHERE {named})")
        }
    });
    true
}

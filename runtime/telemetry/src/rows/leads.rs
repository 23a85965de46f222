//! Which condition of a filter of traces leads to its rows.

use perpend_db::Expr;
use perpend_domain::filter::{Condition, Filter, Order, Test, TextOp};
use perpend_domain::observation::Level;

use crate::rows::marks::Marked;

/// Columns with an index of their own in the order of time, or with marks: the most selective first, as a rule.
const LEADS: [&str; 13] = [
    "id",
    "sessionId",
    "userId",
    "tags",
    "metadata",
    "name",
    "release",
    "version",
    "level",
    "prompts",
    "models",
    "kinds",
    "environment",
];
/// A column out of the reach of its index: SQLite has no statistics and might choose it. None for those without an index.
#[must_use]
pub fn unled(id: &str) -> Option<Expr> {
    Some(match id {
        "name" => Expr::NullableText("+t.name"),
        "environment" => Expr::Text("+t.environment"),
        "userId" => Expr::NullableText("+t.user_id"),
        "sessionId" => Expr::NullableText("+t.session_id"),
        "version" => Expr::NullableText("+t.version"),
        "release" => Expr::NullableText("+t.release"),
        "latency" => Expr::Seconds("+t.latency_us"),
        _ => return None,
    })
}

/// Whether the test leaves the rows of one value.
fn is_one_value(test: &Test) -> bool {
    match test {
        Test::Text(TextOp::Equal, value) => !value.is_empty(),
        Test::AnyOf(values) => matches!(values.as_slice(), [one] if !one.is_empty()),
        _ => false,
    }
}

/// Whether the condition is about one of these columns.
#[must_use]
pub fn is_about(condition: &Condition, ids: &[&str]) -> bool {
    condition.column.is_some_and(|column| ids.contains(&column.id))
}

/// Whether the condition leaves the traces with errors.
#[must_use]
pub fn is_error(condition: &Condition) -> bool {
    let is_error = |level: &str| level == Level::Error.as_str();
    is_about(condition, &["level"])
        && match &condition.test {
            Test::Text(TextOp::Equal, level) => is_error(level),
            Test::AnyOf(levels) => matches!(levels.as_slice(), [level] if is_error(level)),
            _ => false,
        }
}

/// The condition that leaves least, as far as one can tell without looking: its rank and its place.
#[must_use]
pub fn lead(filter: &Filter) -> Option<(usize, usize)> {
    let rank = |condition: &Condition| {
        let column = condition.column?;
        let leads = match (Marked::of(condition), column.id) {
            (Some(marked), _) => marked.lead().is_some(),
            (None, "tags" | "metadata" | "prompts" | "models" | "kinds") => false,
            (None, "level") => is_error(condition),
            (None, _) => is_one_value(&condition.test),
        };
        let place = LEADS.iter().position(|id| column.id == *id);
        place.filter(|_| leads)
    };
    let conditions = filter.conditions.iter().enumerate();
    conditions.filter_map(|(at, condition)| Some((rank(condition)?, at))).min()
}

/// More than the mean of a few thousand numbers is off by, as a part of it.
const ROUNDED: f64 = 1e-9;

/// What at least one of some numbers meets whose mean meets this test: a mean is below another number only where one of them is,
/// but for what adding them up rounds.
#[must_use]
pub fn bound(test: &Test) -> Option<(&'static str, f64)> {
    match test {
        Test::MemberNumber(_, Order::Less | Order::AtMost, most) => {
            Some(("<=", most + most.abs() * ROUNDED))
        }
        Test::MemberNumber(_, Order::Greater | Order::AtLeast, least) => {
            Some((">=", least - least.abs() * ROUNDED))
        }
        _ => None,
    }
}

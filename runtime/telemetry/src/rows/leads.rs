//! Selects the condition of a trace filter that is answered by an index.

use perpend_db::Expr;
use perpend_domain::filter::{Condition, Filter, Order, Test, TextOp};
use perpend_domain::observation::Level;

use crate::rows::marks::MarkCondition;

/// Columns with an index of their own in the order of time, or with marks: usually the most selective first.
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
/// Makes the index of a column unusable: SQLite has no statistics and might choose it. `None` for columns
/// without an index.
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

/// Whether the test restricts the column to one value.
fn is_one_value(test: &Test) -> bool {
    match test {
        Test::Text(TextOp::Equal, value) => !value.is_empty(),
        Test::AnyOf(values) => matches!(values.as_slice(), [one] if !one.is_empty()),
        _ => false,
    }
}

/// Whether the condition is on one of these columns.
#[must_use]
pub fn is_about(condition: &Condition, ids: &[&str]) -> bool {
    condition.column.is_some_and(|column| ids.contains(&column.id))
}

/// Whether the condition restricts the list to traces with errors.
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

/// The most selective condition, estimated without reading data: its rank and its index.
#[must_use]
pub fn lead(filter: &Filter) -> Option<(usize, usize)> {
    let rank = |condition: &Condition| {
        let column = condition.column?;
        let leads = match (MarkCondition::of(condition), column.id) {
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

/// Upper bound of the relative rounding error of the mean of a few thousand numbers.
const ROUNDED: f64 = 1e-9;

/// A test that at least one of several numbers passes if their mean passes this test: a mean is below another
/// number only if one of them is, except for rounding errors.
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

//! From conditions to text.

use super::syntax::is_bare;
use super::values::{SCORE, is_number_range, number, truth};
use crate::filter::ColumnKind::{
    Bool, BoolMembers, CategoryMembers, FullText, List, Members, Number, NumberMembers, Options,
    QueryMembers, Text, Time,
};
use crate::filter::{
    Column, Condition, Filter, Order, SCORE_COLUMNS, SCORE_NAMES, SetOp, Test, TextOp,
};

/// The filter as text. [`parse`](super::parse) restores the same filter from it, except for the conditions
/// without query syntax, which are omitted (see the module).
#[must_use]
pub fn print(filter: &Filter) -> String {
    let terms = filter.conditions.iter().filter_map(print_condition);
    terms.collect::<Vec<_>>().join(" ")
}

/// One condition as a term, or nothing where it has no text.
#[must_use]
pub fn print_condition(condition: &Condition) -> Option<String> {
    let column = condition.column?;
    Some(match (&condition.test, column.kind) {
        (Test::Text(TextOp::MatchesAnyCase, text), FullText) if column.id == "text" => word(text),
        (Test::IsNull, _) => term("", column, None, "null"),
        (Test::IsNotNull, _) => term("", column, None, "set"),
        (Test::Text(TextOp::MatchesAnyCase, _), Text | Options) => return None,
        (Test::Text(op, text), Text | FullText | Options) => text_term(column, None, *op, text),
        (Test::AnyOf(values), Text | FullText | Options | List | CategoryMembers) => {
            term("", column, None, &any_of(values)?)
        }
        (Test::NoneOf(values), Text | FullText | Options | List | CategoryMembers) => {
            term("-", column, None, &any_of(values)?)
        }
        (Test::List(op, values), List) => return list_term(column, *op, values),
        (Test::Time(order, at), Time) => {
            let value = format!("{}{}", sign(*order), at.to_iso_micros());
            term("", column, None, &value)
        }
        (Test::Number(order, number), Number) => {
            let value = format!("{}{}", sign(*order), number_text(*number));
            term("", column, None, &value)
        }
        (Test::Is(truth), Bool) => term("", column, None, &truth.to_string()),
        (Test::IsNot(truth), Bool) => term("-", column, None, &truth.to_string()),
        _ => return member_term(column, &condition.test),
    })
}

fn list_term(column: &'static Column, op: SetOp, values: &[String]) -> Option<String> {
    let one_name = match values {
        [name] if column.id == SCORE_NAMES && !name.is_empty() => Some(name.as_str()),
        _ => None,
    };
    Some(match (op, one_name) {
        (SetOp::AnyOf, _) if values.is_empty() => return None,
        (SetOp::AnyOf, Some(_)) => term("", column, one_name, "set"),
        (SetOp::NoneOf, Some(_)) => term("", column, one_name, "null"),
        (SetOp::AnyOf, None) => term("", column, None, &set("any", values)),
        (SetOp::NoneOf, None) => term("-", column, None, &set("any", values)),
        (SetOp::AllOf, _) => term("", column, None, &set("all", values)),
    })
}

fn member_term(column: &'static Column, test: &Test) -> Option<String> {
    let key = test.key()?;
    let term = |minus: &str, test: &str| term(minus, column, Some(key), test);
    Some(match (test, column.kind) {
        (Test::MemberText(_, TextOp::MatchesAnyCase, _), _) => return None,
        (Test::MemberText(_, op, text), Members | QueryMembers) => {
            text_term(column, Some(key), *op, text)
        }
        (Test::MemberIsSet(_), Members | QueryMembers) => term("", "set"),
        (Test::MemberIsNotSet(_), Members | QueryMembers) => term("", "null"),
        (Test::MemberNumber(_, Order::Equal, number), QueryMembers) => {
            term("", &format!("=={}", number_text(*number)))
        }
        (Test::MemberNumber(_, order, number), QueryMembers | NumberMembers) => {
            term("", &format!("{}{}", sign(*order), number_text(*number)))
        }
        (Test::MemberIs(_, truth), BoolMembers) => term("", &truth.to_string()),
        (Test::MemberIsNot(_, truth), BoolMembers) => term("-", &truth.to_string()),
        (Test::CategoryAnyOf(_, values), QueryMembers) => term("", &set("any", values)),
        (Test::CategoryNoneOf(_, values), QueryMembers) => term("-", &set("any", values)),
        (Test::CategoryAnyOf(_, values), CategoryMembers) => term("", &categories(values)),
        (Test::CategoryNoneOf(_, values), CategoryMembers) => term("-", &categories(values)),
        _ => return None,
    })
}

fn term(minus: &str, column: &'static Column, key: Option<&str>, test: &str) -> String {
    let name = match key {
        Some(_) if SCORE_COLUMNS.contains(&column.id) => SCORE,
        _ => column.id,
    };
    let name = quoted_if(name.contains([':', '.']) || name.starts_with('-'), name);
    match key {
        None => format!("{minus}{name}:{test}"),
        Some(key) => {
            let key = quoted_if(key.contains(':'), key);
            format!("{minus}{name}.{key}:{test}")
        }
    }
}

fn text_term(column: &'static Column, key: Option<&str>, op: TextOp, text: &str) -> String {
    let (minus, sign) = match op {
        // Equality is the default test of a member; for a column the default is a list.
        TextOp::Equal if key.is_some() => ("", ""),
        TextOp::Equal => ("", "="),
        TextOp::Contains => ("", "~"),
        TextOp::DoesNotContain => ("-", "~"),
        TextOp::StartsWith => ("", "^"),
        TextOp::EndsWith => ("", "$"),
        TextOp::MatchesAnyCase => ("", "*"),
    };
    let value = quoted_if(sign.is_empty() && is_number_range(text), text);
    term(minus, column, key, &format!("{sign}{value}"))
}

/// A value, a key or the name of a column as it is written: in quotes where it needs them.
#[must_use]
pub fn printed(text: &str) -> String {
    quoted_if(false, text)
}

/// The term of a filter that searches for a text: quoted unless the text reads as one plain word.
#[must_use]
pub fn word(text: &str) -> String {
    quoted_if(text.contains(':') || text.starts_with('-'), text)
}

fn quoted_if(is_quoted: bool, text: &str) -> String {
    match is_quoted || !is_bare(text) {
        true => serde_json::Value::from(text).to_string(),
        false => text.to_owned(),
    }
}

fn values(values: &[String]) -> String {
    let values = values.iter().map(|value| printed(value));
    values.collect::<Vec<_>>().join(",")
}

fn any_of(all: &[String]) -> Option<String> {
    (!all.is_empty()).then(|| values(all))
}

fn set(name: &str, all: &[String]) -> String {
    format!("{name}({})", values(all))
}

/// Quoted where one value would be taken for something other than a category.
fn categories(all: &[String]) -> String {
    match all {
        [] => set("any", all),
        [one] => {
            let is_other = number(one).is_some() || truth(one).is_some() || is_number_range(one);
            quoted_if(is_other, one)
        }
        _ => values(all),
    }
}

fn sign(order: Order) -> &'static str {
    match order {
        Order::Equal => "",
        other => other.sign(),
    }
}

/// Without loss, and short where the number is large or small.
fn number_text(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => format!("{number}"),
        false => format!("{number:?}"),
    }
}

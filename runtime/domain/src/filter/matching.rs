//! Tests conditions on a row in memory.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Condition, Filter, Test, TextOp};
use crate::payload::Payload;
use crate::time::Timestamp;

/// A row with columns.
pub trait Row {
    /// The cell of the column with this id; [`Cell::Null`] if the row has no such column.
    fn cell(&self, column: &'static str) -> Cell<'_>;
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// Text.
    Text(Cow<'a, str>),
    /// Several texts, each tested by itself.
    Texts(Vec<CellText<'a>>),
    /// A number.
    Number(f64),
    /// A truth value.
    Bool(bool),
    /// An instant.
    Time(Timestamp),
    /// A list of texts.
    List(Cow<'a, [String]>),
    /// An object.
    Object(Cow<'a, Map<String, Value>>),
}

/// One of the texts of [`Cell::Texts`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellText<'a> {
    /// Tested as it is.
    Plain(&'a str),
    /// Tested as it is written and as it is read: passes where one of [`Payload::readings`] does.
    Payload(&'a Payload),
}

impl<'a> CellText<'a> {
    /// The text as it is written.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        match self {
            Self::Plain(text) => text,
            Self::Payload(payload) => payload.as_str(),
        }
    }

    fn passes(self, mut test: impl FnMut(&str) -> bool) -> bool {
        match self {
            Self::Plain(text) => test(text),
            Self::Payload(payload) => payload.any_reading(test),
        }
    }
}

impl<'a> Cell<'a> {
    /// Text that may be absent.
    #[must_use]
    pub fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, |text| Self::Text(Cow::Borrowed(text)))
    }

    fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => text.is_empty(),
            Self::Texts(texts) => texts.iter().all(|text| text.as_str().is_empty()),
            _ => false,
        }
    }

    /// Null reads as empty; other kinds of value have no text.
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Null => Some(""),
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn member(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Object(members) => member_at(members, key),
            _ => None,
        }
    }

    /// A member for messages and for `explain`. Boolean scores are a list of `NAME:VALUE`, which may repeat a name.
    fn member_to_json(&self, key: &str) -> Value {
        let Self::List(entries) = self else {
            return self.member(key).cloned().unwrap_or_default();
        };
        let entries = entries.iter().filter_map(|entry| entry.rsplit_once(':'));
        let values = entries.filter(|(name, _)| *name == key).map(|(_, value)| value == "true");
        match values.collect::<Vec<_>>().as_slice() {
            [] => Value::Null,
            [value] => json!(value),
            values => json!(values),
        }
    }

    /// The value for messages and for `explain`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => json!(text),
            Self::Texts(texts) => texts.iter().map(|text| text.as_str()).collect(),
            Self::Number(number) => json!(number),
            Self::Bool(value) => json!(value),
            Self::Time(at) => json!(at.to_string()),
            Self::List(list) => json!(list),
            Self::Object(members) => json!(members),
        }
    }
}

/// The first condition that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Its index in the filter.
    pub index: usize,
    /// The value of the row.
    pub actual: Value,
}

impl Filter {
    /// `None` when the row matches.
    #[must_use]
    pub fn first_failing(&self, row: &dyn Row) -> Option<Mismatch> {
        self.conditions.iter().enumerate().find_map(|(index, condition)| {
            let cell = condition.column.map_or(Cell::Null, |column| row.cell(column.id));
            if condition.test.holds(&cell) {
                return None;
            }
            let actual = match condition.test.key() {
                Some(key) => cell.member_to_json(key),
                None => cell.to_json(),
            };
            Some(Mismatch { index, actual })
        })
    }

    /// Whether the row matches as far as conditions on these columns are left out.
    #[must_use]
    pub fn matches_but_for(&self, columns: &[&str], row: &dyn Row) -> bool {
        let is_left_out = |condition: &&Condition| {
            condition.column.is_some_and(|column| columns.contains(&column.id))
        };
        let mut others = self.conditions.iter().filter(|each| !is_left_out(each));
        others.all(|condition| condition.holds(row))
    }

    /// Whether the row matches.
    #[must_use]
    pub fn matches(&self, row: &dyn Row) -> bool {
        self.conditions.iter().all(|condition| condition.holds(row))
    }

    /// Whether a condition looks at one of these columns.
    #[must_use]
    pub fn reads(&self, ids: &[&str]) -> bool {
        let mut columns = self.conditions.iter().filter_map(|each| each.column);
        columns.any(|column| ids.contains(&column.id))
    }
}

impl Condition {
    /// Whether this condition holds for the row.
    #[must_use]
    pub fn holds(&self, row: &dyn Row) -> bool {
        let cell = self.column.map_or(Cell::Null, |column| row.cell(column.id));
        self.test.holds(&cell)
    }
}

/// The member of that name; if absent and the name has dots, a member of a member. Each step goes to
/// another value, so the time is bounded by the size of the object.
#[must_use]
pub fn member_at<'v>(members: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    members.get(key).or_else(|| {
        key.match_indices('.').find_map(|(at, _)| {
            let inner = members.get(&key[..at])?.as_object()?;
            member_at(inner, &key[at + 1..])
        })
    })
}

/// Text as is, anything else as compact JSON: the form in which members are compared.
fn member_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

fn member_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

/// Categories of one name; an absent one reads as a single empty text.
fn categories<'a>(members: &'a Map<String, Value>, key: &str) -> Vec<&'a str> {
    match members.get(key) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => vec![""],
    }
}

impl Test {
    /// The member it looks at.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::MemberText(key, ..)
            | Self::MemberIsSet(key)
            | Self::MemberIsNotSet(key)
            | Self::MemberNumber(key, ..)
            | Self::CategoryAnyOf(key, _)
            | Self::CategoryNoneOf(key, _)
            | Self::MemberIs(key, _)
            | Self::MemberIsNot(key, _) => Some(key),
            _ => None,
        }
    }

    /// Whether it holds for this cell.
    #[must_use]
    pub fn holds(&self, cell: &Cell<'_>) -> bool {
        match self {
            Self::Time(order, value) => {
                matches!(cell, Cell::Time(at) if order.holds(at, value))
            }
            Self::Number(order, value) => {
                matches!(cell, Cell::Number(number) if order.holds(number, value))
            }
            Self::Text(op, value) => match cell {
                Cell::Texts(texts) => {
                    let any = |op: TextOp| {
                        let mut texts = texts.iter();
                        texts.any(|text| text.passes(|text| op.holds(text, value)))
                    };
                    match op {
                        TextOp::DoesNotContain => !any(TextOp::Contains),
                        op => any(*op),
                    }
                }
                _ => cell.as_text().is_some_and(|text| op.holds(text, value)),
            },
            Self::AnyOf(values) => one_of(cell, values),
            Self::NoneOf(values) => !one_of(cell, values),
            Self::List(op, set) => matches!(cell, Cell::List(list) if op.holds(list, set)),
            Self::Is(value) => matches!(cell, Cell::Bool(is) if is == value),
            Self::IsNot(value) => !matches!(cell, Cell::Bool(is) if is == value),
            Self::IsNull => cell.is_null(),
            Self::IsNotNull => !cell.is_null(),
            Self::MemberText(key, op, value) => {
                cell.member(key).is_some_and(|member| op.holds(&member_text(member), value))
            }
            Self::MemberIsSet(key) => cell.member(key).is_some(),
            Self::MemberIsNotSet(key) => cell.member(key).is_none(),
            Self::MemberNumber(key, order, value) => cell
                .member(key)
                .and_then(member_number)
                .is_some_and(|number| order.holds(&number, value)),
            Self::CategoryAnyOf(key, values) => match cell {
                Cell::Object(members) => has_category(members, key, values),
                _ => false,
            },
            Self::CategoryNoneOf(key, values) => match cell {
                Cell::Object(members) => !has_category(members, key, values),
                _ => false,
            },
            Self::MemberIs(key, value) => has_boolean(cell, key, *value),
            Self::MemberIsNot(key, value) => !has_boolean(cell, key, *value),
            Self::Position => true,
            Self::Never => false,
        }
    }
}

/// A list counts as one of the values when it holds one of them.
fn one_of(cell: &Cell<'_>, values: &[String]) -> bool {
    match cell {
        Cell::List(list) => list.iter().any(|element| values.contains(element)),
        Cell::Texts(texts) => {
            let is_value = |text: &str| values.iter().any(|value| value == text);
            texts.iter().any(|text| text.passes(is_value))
        }
        Cell::Object(members) => members.values().any(|member| match member {
            Value::String(text) => values.contains(text),
            Value::Array(list) => list
                .iter()
                .filter_map(Value::as_str)
                .any(|text| values.iter().any(|value| value == text)),
            _ => false,
        }),
        _ => cell.as_text().is_some_and(|text| values.iter().any(|value| value == text)),
    }
}

fn has_category(members: &Map<String, Value>, key: &str, values: &[String]) -> bool {
    categories(members, key).iter().any(|category| values.iter().any(|value| value == category))
}

fn has_boolean(cell: &Cell<'_>, key: &str, value: bool) -> bool {
    match cell {
        Cell::List(list) => list.iter().any(|entry| {
            entry
                .rsplit_once(':')
                .is_some_and(|(name, is)| name == key && is == if value { "true" } else { "false" })
        }),
        _ => false,
    }
}

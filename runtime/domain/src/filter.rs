//! The filter language shared by evaluation rules and list calls (evaluation.md 2): conditions over
//! the columns of a row, AND-ed.
//!
//! [`Filter::parse`] checks JSON against a list of [`Column`]s and names every fault. One meaning
//! serves memory ([`Filter::first_failing`]) and the store, which turns the same typed conditions
//! into SQL. [`Condition::to_json`] gives the JSON of each; the crate `query` reads and prints the same
//! conditions as one line of text.

mod columns;
mod describe;
mod matching;
mod parse;
mod to_json;

pub use columns::{
    Column, ColumnKind, GROUPS, OBSERVATIONS, RULE_OBSERVATION, RULE_RUN, RULE_SESSION, RULE_TRACE,
    SCORE_COLUMNS, SCORE_NAMES, SCORES, TRACES, find,
};
pub use describe::describe_condition;
pub use matching::{Cell, CellText, Mismatch, Row, member_at};
pub use parse::{ConditionField, FilterError};

use serde_json::Value;

use crate::time::Timestamp;

/// Conditions that must all hold. An empty filter matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// In the order they were given.
    pub conditions: Vec<Condition>,
}

/// A filter as it was sent, together with its parsed conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenFilter {
    sent: Vec<Value>,
    filter: Filter,
}

impl WrittenFilter {
    /// Checks what was sent.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn parse(sent: Vec<Value>, columns: &'static [Column]) -> Result<Self, Vec<FilterError>> {
        let filter = Filter::parse(&sent, columns)?;
        Ok(Self { sent, filter })
    }

    /// Reads what was checked when it was stored, as [`Filter::parse_stored`] does.
    #[must_use]
    pub fn stored(sent: Vec<Value>, columns: &'static [Column]) -> (Self, Vec<FilterError>) {
        let (filter, errors) = Filter::parse_stored(&sent, columns);
        (Self { sent, filter }, errors)
    }

    /// The conditions as they were sent, to be shown.
    #[must_use]
    pub fn sent(&self) -> &[Value] {
        &self.sent
    }

    /// The parsed conditions.
    #[must_use]
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Each condition with what it means, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Value, &Condition)> {
        self.sent.iter().zip(&self.filter.conditions)
    }
}

/// One test of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The column; `None` only after [`Filter::parse_stored`], when the column has ceased to exist:
    /// it reads as null.
    pub column: Option<&'static Column>,
    /// The test.
    pub test: Test,
}

/// The test of a condition on a cell. Empty text and null are equivalent. A cell of several texts
/// ([`Cell::Texts`]) passes where one of them does, and a negative test where all of them do.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// An instant compared with `value`; null never matches.
    Time(Order, Timestamp),
    /// A number compared with `value`; text is never converted, null never matches.
    Number(Order, f64),
    /// Text, code unit exact; null reads as empty.
    Text(TextOp, String),
    /// Equal to one of the texts; null reads as empty.
    AnyOf(Vec<String>),
    /// Equal to none of the texts; null reads as empty.
    NoneOf(Vec<String>),
    /// A list column and a set; a null list never matches.
    List(SetOp, Vec<String>),
    /// A truth value equals `value`; null never matches.
    Is(bool),
    /// A truth value is not `value`; null matches.
    IsNot(bool),
    /// Nothing there: null or empty text.
    IsNull,
    /// Something there.
    IsNotNull,
    /// Text of one member of an object; a missing member never matches.
    MemberText(String, TextOp, String),
    /// The object has that member.
    MemberIsSet(String),
    /// The object lacks that member; a null object lacks all.
    MemberIsNotSet(String),
    /// Number in one member of an object, text parsed as a number; a missing member never matches.
    MemberNumber(String, Order, f64),
    /// Category of one name is one of these; an absent category reads as empty text, a null column
    /// never matches.
    CategoryAnyOf(String, Vec<String>),
    /// Category of one name is in none of these; absent and null as above.
    CategoryNoneOf(String, Vec<String>),
    /// A boolean of that name with that value exists.
    MemberIs(String, bool),
    /// No boolean of that name with that value exists.
    MemberIsNot(String, bool),
    /// Place within the trace: applied to a result list, holds for every single row.
    Position,
    /// A stored condition that cannot be read any more: holds for no row.
    Never,
}

impl Filter {
    /// Whether both are equivalent: the order of conditions and listed values and duplicates do not matter.
    #[must_use]
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let canonical = |filter: &Self| -> Vec<Condition> {
            let conditions = filter.conditions.iter();
            conditions.map(Condition::canonical).collect()
        };
        let (own, theirs) = (canonical(self), canonical(other));
        own.iter().all(|condition| theirs.contains(condition))
            && theirs.iter().all(|condition| own.contains(condition))
    }
}

impl Condition {
    /// With its listed values sorted and without repeats.
    fn canonical(&self) -> Self {
        let mut own = self.clone();
        if let Test::AnyOf(values)
        | Test::NoneOf(values)
        | Test::List(_, values)
        | Test::CategoryAnyOf(_, values)
        | Test::CategoryNoneOf(_, values) = &mut own.test
        {
            values.sort_unstable();
            values.dedup();
        }
        own
    }
}

/// Comparison operators of ordered values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Order {
    /// The sign, as filters and SQL spell it.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    /// Whether the comparison holds for `left` and `right`. It never holds for NaN.
    #[must_use]
    pub fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left.partial_cmp(right).is_some_and(std::cmp::Ordering::is_ne),
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }
}

/// Comparison operators of texts, without wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOp {
    /// `=`
    Equal,
    /// `contains`
    Contains,
    /// `does not contain`
    DoesNotContain,
    /// `starts with`
    StartsWith,
    /// `ends with`
    EndsWith,
    /// `matches`: contains, in any case.
    MatchesAnyCase,
}

impl TextOp {
    /// Whether the operator holds for `text` and `value`.
    #[must_use]
    pub fn holds(self, text: &str, value: &str) -> bool {
        match self {
            Self::Equal => text == value,
            Self::Contains => text.contains(value),
            Self::DoesNotContain => !text.contains(value),
            Self::StartsWith => text.starts_with(value),
            Self::EndsWith => text.ends_with(value),
            Self::MatchesAnyCase => text.to_lowercase().contains(&value.to_lowercase()),
        }
    }
}

/// Comparison operators of a list and a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// They share an element.
    AnyOf,
    /// They share no element.
    NoneOf,
    /// The list holds the whole set.
    AllOf,
}

impl SetOp {
    /// Whether the operator holds for `list` and `set`.
    #[must_use]
    pub fn holds(self, list: &[impl AsRef<str>], set: &[String]) -> bool {
        let has = |wanted: &String| list.iter().any(|element| element.as_ref() == wanted);
        match self {
            Self::AnyOf => set.iter().any(has),
            Self::NoneOf => !set.iter().any(has),
            Self::AllOf => set.iter().all(has),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_that_differ_only_in_order_and_repeats_are_equal() {
        let any_of = |values: &[&str]| json!({ "type": "stringOptions", "column": "type", "operator": "any of", "value": values });
        let named = |name: &str| json!({ "type": "string", "column": "name", "operator": "=", "value": name });
        let parse = |raw: &[serde_json::Value]| Filter::parse(raw, RULE_OBSERVATION).unwrap();
        let one = parse(&[named("a"), any_of(&["TOOL", "SPAN"])]);
        let same = parse(&[any_of(&["SPAN", "TOOL", "SPAN"]), named("a"), named("a")]);
        assert!(one.is_equivalent_to(&same) && same.is_equivalent_to(&one));
        for other in [
            vec![named("a")],
            vec![named("b"), any_of(&["TOOL", "SPAN"])],
            vec![named("a"), any_of(&["TOOL"])],
            vec![],
        ] {
            let other = parse(&other);
            assert!(!one.is_equivalent_to(&other) && !other.is_equivalent_to(&one));
        }
    }
}

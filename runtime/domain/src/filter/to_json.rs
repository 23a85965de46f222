//! Conditions in the form in which the API takes them.

use serde_json::{Value, json};

use super::{Condition, SetOp, Test, TextOp};

impl Condition {
    /// The condition as JSON, so that [`Filter::parse`](super::Filter::parse) gives it back. `None` where
    /// it has no column or a test that has no such form: [`Test::Position`] and [`Test::Never`].
    #[must_use]
    pub fn to_json(&self) -> Option<Value> {
        let column = self.column?.id;
        let (kind, operator, value) = parts(&self.test)?;
        let mut condition =
            json!({ "type": kind, "column": column, "operator": operator, "value": value });
        if let (Some(key), Some(members)) = (self.test.key(), condition.as_object_mut()) {
            members.insert("key".to_owned(), key.into());
        }
        Some(condition)
    }
}

/// Type, operator and value.
fn parts(test: &Test) -> Option<(&'static str, &'static str, Value)> {
    Some(match test {
        Test::Time(order, at) => ("datetime", order.sign(), at.to_iso_micros().into()),
        Test::Number(order, value) => ("number", order.sign(), number(*value)),
        Test::Text(op, value) => ("string", text_operator(*op), json!(value)),
        Test::AnyOf(values) => ("stringOptions", "any of", json!(values)),
        Test::NoneOf(values) => ("stringOptions", "none of", json!(values)),
        Test::List(op, values) => ("arrayOptions", set_operator(*op), json!(values)),
        Test::Is(value) => ("boolean", "=", json!(value)),
        Test::IsNot(value) => ("boolean", "<>", json!(value)),
        Test::IsNull => ("null", "is null", json!("")),
        Test::IsNotNull => ("null", "is not null", json!("")),
        Test::MemberText(_, op, value) => ("stringObject", text_operator(*op), json!(value)),
        Test::MemberIsSet(_) => ("stringObject", "is set", json!("")),
        Test::MemberIsNotSet(_) => ("stringObject", "is not set", json!("")),
        Test::MemberNumber(_, order, value) => ("numberObject", order.sign(), number(*value)),
        Test::CategoryAnyOf(_, values) => ("categoryOptions", "any of", json!(values)),
        Test::CategoryNoneOf(_, values) => ("categoryOptions", "none of", json!(values)),
        Test::MemberIs(_, value) => ("booleanObject", "=", json!(value)),
        Test::MemberIsNot(_, value) => ("booleanObject", "<>", json!(value)),
        Test::Position | Test::Never => return None,
    })
}

/// Whole numbers without a fraction, as people write them.
fn number(value: f64) -> Value {
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    match value.fract() == 0.0 && value.abs() < WHOLE {
        true => json!(value as i64),
        false => json!(value),
    }
}

const fn text_operator(op: TextOp) -> &'static str {
    match op {
        TextOp::Equal => "=",
        TextOp::Contains => "contains",
        TextOp::DoesNotContain => "does not contain",
        TextOp::StartsWith => "starts with",
        TextOp::EndsWith => "ends with",
        TextOp::MatchesAnyCase => "matches",
    }
}

const fn set_operator(op: SetOp) -> &'static str {
    match op {
        SetOp::AnyOf => "any of",
        SetOp::NoneOf => "none of",
        SetOp::AllOf => "all of",
    }
}

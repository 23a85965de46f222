//! Parses JSON into typed conditions and reports every error.

use std::fmt;

use serde_json::Value;

use super::{Column, ColumnKind, Condition, Filter, Order, SetOp, Test, TextOp, find};
use crate::time::Timestamp;

/// The error of one condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", self.path())]
pub struct FilterError {
    /// Index of the condition, from 0.
    pub index: usize,
    /// The invalid member.
    pub field: ConditionField,
    /// The column of the condition, if it has one.
    pub column: Option<String>,
    /// Human-readable message.
    pub message: String,
    /// The invalid values.
    pub invalid_values: Vec<String>,
    /// The allowed values; empty without a closed list.
    pub allowed_values: Vec<&'static str>,
}

impl FilterError {
    /// The path, such as `filter[0].column`.
    #[must_use]
    pub fn path(&self) -> String {
        match self.field {
            ConditionField::Whole => format!("filter[{}]", self.index),
            field => format!("filter[{}].{field}", self.index),
        }
    }
}

/// Member of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionField {
    /// The condition itself.
    Whole,
    /// `type`
    Type,
    /// `column`
    Column,
    /// `operator`
    Operator,
    /// `key`
    Key,
    /// `value`
    Value,
}

impl fmt::Display for ConditionField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "",
            Self::Type => "type",
            Self::Column => "column",
            Self::Operator => "operator",
            Self::Key => "key",
            Self::Value => "value",
        })
    }
}

const TYPES: &[&str] = &[
    "datetime",
    "string",
    "number",
    "stringOptions",
    "categoryOptions",
    "arrayOptions",
    "stringObject",
    "numberObject",
    "boolean",
    "booleanObject",
    "null",
];
const ORDERS: &[&str] = &["=", "!=", ">", "<", ">=", "<="];
const TEXT_OPS: &[&str] = &["=", "contains", "does not contain", "starts with", "ends with"];
const SEARCH_OPS: &[&str] =
    &["=", "contains", "does not contain", "starts with", "ends with", "matches"];
const MEMBER_OPS: &[&str] =
    &["=", "contains", "does not contain", "starts with", "ends with", "is set", "is not set"];
const OPTION_OPS: &[&str] = &["any of", "none of"];
const LIST_OPS: &[&str] = &["any of", "none of", "all of"];
const BOOL_OPS: &[&str] = &["=", "<>"];
const NULL_OPS: &[&str] = &["is null", "is not null"];

impl Filter {
    /// Checks conditions against the columns of a kind of row.
    ///
    /// # Errors
    /// The first fault of every condition that has one.
    pub fn parse(raw: &[Value], columns: &'static [Column]) -> Result<Self, Vec<FilterError>> {
        let mut conditions = Vec::with_capacity(raw.len());
        let mut errors = Vec::new();
        for (index, value) in raw.iter().enumerate() {
            match (Reader { index, value }).condition(columns) {
                Ok(condition) => conditions.push(condition),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(Self { conditions }) } else { Err(errors) }
    }

    /// Reads a filter that was checked when it was stored and may have become invalid since: an
    /// unknown column reads as null, a type that does not fit its column finds no value of its kind,
    /// and what cannot be read at all holds for no row.
    #[must_use]
    pub fn parse_stored(raw: &[Value], columns: &'static [Column]) -> (Self, Vec<FilterError>) {
        let mut errors = Vec::new();
        let conditions = raw.iter().enumerate().map(|(index, value)| {
            let reader = Reader { index, value };
            reader.condition(columns).unwrap_or_else(|error| {
                errors.push(error);
                let column = reader.text(ConditionField::Column).ok();
                Condition {
                    column: column.and_then(|name| find(columns, name)),
                    test: reader.test(None).unwrap_or(Test::Never),
                }
            })
        });
        let conditions = conditions.collect();
        (Self { conditions }, errors)
    }
}

struct Reader<'a> {
    index: usize,
    value: &'a Value,
}

impl<'a> Reader<'a> {
    fn error(&self, field: ConditionField, message: impl Into<String>) -> FilterError {
        FilterError {
            index: self.index,
            field,
            column: self.member("column").and_then(Value::as_str).map(str::to_owned),
            message: message.into(),
            invalid_values: Vec::new(),
            allowed_values: Vec::new(),
        }
    }

    fn refused(&self, field: ConditionField, value: &str, allowed: &[&'static str]) -> FilterError {
        FilterError {
            invalid_values: vec![value.to_owned()],
            allowed_values: allowed.to_vec(),
            ..self.error(
                field,
                format!("`{value}` is not allowed here; allowed: {}", allowed.join(", ")),
            )
        }
    }

    fn member(&self, name: &str) -> Option<&'a Value> {
        self.value.as_object()?.get(name)
    }

    fn text(&self, field: ConditionField) -> Result<&'a str, FilterError> {
        self.member(&field.to_string())
            .and_then(Value::as_str)
            .ok_or_else(|| self.error(field, "is missing or no text"))
    }

    fn condition(&self, columns: &'static [Column]) -> Result<Condition, FilterError> {
        if !self.value.is_object() {
            return Err(self.error(ConditionField::Whole, "a condition is an object"));
        }
        let name = self.text(ConditionField::Column)?;
        let Some(column) = find(columns, name) else {
            let ids: Vec<_> = columns.iter().map(|column| column.id).collect();
            return Err(self.refused(ConditionField::Column, name, &ids));
        };
        let kind = self.text(ConditionField::Type)?;
        if !TYPES.contains(&kind) {
            return Err(self.refused(ConditionField::Type, kind, TYPES));
        }
        let fitting = column.kind.types();
        if kind != "null" && !fitting.contains(&kind) {
            let allowed: Vec<_> = fitting.iter().copied().chain(["null"]).collect();
            return Err(self.refused(ConditionField::Type, kind, &allowed));
        }
        let test = self.test(Some(column))?;
        self.check_values(column, &test)?;
        Ok(Condition { column: Some(column), test })
    }

    /// Values outside a closed list, and lists that must not be empty.
    fn check_values(&self, column: &Column, test: &Test) -> Result<(), FilterError> {
        let listed: &[String] = match test {
            Test::AnyOf(values) | Test::NoneOf(values) | Test::List(SetOp::AnyOf, values) => {
                if values.is_empty() {
                    return Err(self.error(ConditionField::Value, "a non-empty list is needed"));
                }
                values
            }
            Test::Text(TextOp::Equal, value) => std::slice::from_ref(value),
            _ => return Ok(()),
        };
        let unknown: Vec<String> = listed
            .iter()
            .filter(|value| !column.values.contains(&value.as_str()))
            .cloned()
            .collect();
        if column.values.is_empty() || unknown.is_empty() {
            return Ok(());
        }
        Err(FilterError {
            message: format!(
                "`{}` must be one of `{}`; got `{}`",
                column.id,
                column.values.join("`, `"),
                unknown.join("`, `")
            ),
            invalid_values: unknown,
            allowed_values: column.values.to_vec(),
            ..self.error(ConditionField::Value, "")
        })
    }

    fn test(&self, column: Option<&Column>) -> Result<Test, FilterError> {
        let op = self.text(ConditionField::Operator)?;
        let kind = self.text(ConditionField::Type)?;
        let test = match kind {
            "datetime" => Test::Time(self.order(op)?, self.time()?),
            "number" => Test::Number(self.order(op)?, self.number()?),
            "string" => Test::Text(self.text_op(op, column)?, self.text_value()?),
            "stringOptions" => match op {
                "any of" => Test::AnyOf(self.list()?),
                "none of" => Test::NoneOf(self.list()?),
                _ => return Err(self.refused(ConditionField::Operator, op, OPTION_OPS)),
            },
            "arrayOptions" => Test::List(self.set_op(op)?, self.list()?),
            "categoryOptions" => match op {
                "any of" => Test::CategoryAnyOf(self.key()?, self.list()?),
                "none of" => Test::CategoryNoneOf(self.key()?, self.list()?),
                _ => return Err(self.refused(ConditionField::Operator, op, OPTION_OPS)),
            },
            "stringObject" => self.member_test(op)?,
            "numberObject" => Test::MemberNumber(self.key()?, self.order(op)?, self.number()?),
            "boolean" => match op {
                "=" => Test::Is(self.truth()?),
                "<>" => Test::IsNot(self.truth()?),
                _ => return Err(self.refused(ConditionField::Operator, op, BOOL_OPS)),
            },
            "booleanObject" => match op {
                "=" => Test::MemberIs(self.key()?, self.truth()?),
                "<>" => Test::MemberIsNot(self.key()?, self.truth()?),
                _ => return Err(self.refused(ConditionField::Operator, op, BOOL_OPS)),
            },
            "null" => match op {
                "is null" => Test::IsNull,
                "is not null" => Test::IsNotNull,
                _ => return Err(self.refused(ConditionField::Operator, op, NULL_OPS)),
            },
            "positionInTrace" => Test::Position,
            other => return Err(self.refused(ConditionField::Type, other, TYPES)),
        };
        Ok(test)
    }

    fn member_test(&self, op: &str) -> Result<Test, FilterError> {
        let key = self.key()?;
        let op = match op {
            "is set" => return Ok(Test::MemberIsSet(key)),
            "is not set" => return Ok(Test::MemberIsNotSet(key)),
            // Members are searched case-sensitively.
            "matches" => TextOp::Contains,
            _ => {
                text_op(op).ok_or_else(|| self.refused(ConditionField::Operator, op, MEMBER_OPS))?
            }
        };
        Ok(Test::MemberText(key, op, self.text_value()?))
    }

    fn text_op(&self, op: &str, column: Option<&Column>) -> Result<TextOp, FilterError> {
        let searched = column.is_none_or(|column| column.kind == ColumnKind::FullText);
        match op {
            "matches" if searched => Ok(TextOp::MatchesAnyCase),
            _ => text_op(op).ok_or_else(|| {
                let allowed = if searched { SEARCH_OPS } else { TEXT_OPS };
                self.refused(ConditionField::Operator, op, allowed)
            }),
        }
    }

    fn order(&self, op: &str) -> Result<Order, FilterError> {
        match op {
            "=" => Ok(Order::Equal),
            "!=" => Ok(Order::NotEqual),
            ">" => Ok(Order::Greater),
            "<" => Ok(Order::Less),
            ">=" => Ok(Order::AtLeast),
            "<=" => Ok(Order::AtMost),
            _ => Err(self.refused(ConditionField::Operator, op, ORDERS)),
        }
    }

    fn set_op(&self, op: &str) -> Result<SetOp, FilterError> {
        match op {
            "any of" => Ok(SetOp::AnyOf),
            "none of" => Ok(SetOp::NoneOf),
            "all of" => Ok(SetOp::AllOf),
            _ => Err(self.refused(ConditionField::Operator, op, LIST_OPS)),
        }
    }

    fn key(&self) -> Result<String, FilterError> {
        let key = self.text(ConditionField::Key)?;
        if key.is_empty() {
            return Err(self.error(ConditionField::Key, "must not be empty"));
        }
        Ok(key.to_owned())
    }

    fn given(&self) -> Result<&'a Value, FilterError> {
        self.member("value").ok_or_else(|| self.error(ConditionField::Value, "is missing"))
    }

    fn text_value(&self) -> Result<String, FilterError> {
        let text = self.given()?.as_str();
        text.map(str::to_owned).ok_or_else(|| self.error(ConditionField::Value, "must be text"))
    }

    fn number(&self) -> Result<f64, FilterError> {
        self.given()?.as_f64().ok_or_else(|| self.error(ConditionField::Value, "must be a number"))
    }

    fn truth(&self) -> Result<bool, FilterError> {
        self.given()?
            .as_bool()
            .ok_or_else(|| self.error(ConditionField::Value, "must be true or false"))
    }

    fn time(&self) -> Result<Timestamp, FilterError> {
        let text = self.given()?.as_str().unwrap_or_default();
        Timestamp::parse(text)
            .map_err(|error| self.error(ConditionField::Value, format!("is {error}")))
    }

    fn list(&self) -> Result<Vec<String>, FilterError> {
        let texts = self.given()?.as_array().and_then(|list| {
            let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        texts.ok_or_else(|| self.error(ConditionField::Value, "must be a list of texts"))
    }
}

fn text_op(op: &str) -> Option<TextOp> {
    match op {
        "=" => Some(TextOp::Equal),
        "contains" => Some(TextOp::Contains),
        "does not contain" => Some(TextOp::DoesNotContain),
        "starts with" => Some(TextOp::StartsWith),
        "ends with" => Some(TextOp::EndsWith),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RULE_OBSERVATION, TRACES};
    use super::*;
    use serde_json::json;

    fn fault(condition: Value) -> FilterError {
        Filter::parse(&[condition], RULE_OBSERVATION).unwrap_err().remove(0)
    }

    #[test]
    fn an_unknown_column_is_named_with_the_allowed_ones() {
        let error =
            fault(json!({"type": "string", "column": "nmae", "operator": "=", "value": "x"}));
        assert_eq!(error.path(), "filter[0].column");
        assert_eq!(error.column.as_deref(), Some("nmae"));
        assert_eq!(error.invalid_values, ["nmae"]);
        assert!(error.allowed_values.contains(&"traceName"));
    }

    #[test]
    fn types_must_fit_their_column_and_values_their_list() {
        let wrong_type = json!({"type": "number", "column": "name", "operator": "=", "value": 1});
        assert_eq!(fault(wrong_type).path(), "filter[0].type");
        let value = json!({"type": "stringOptions", "column": "level", "operator": "any of", "value": ["BAD"]});
        let error = fault(value);
        assert_eq!(error.path(), "filter[0].value");
        assert_eq!(error.allowed_values, ["DEBUG", "DEFAULT", "WARNING", "ERROR"]);
        let empty =
            json!({"type": "stringOptions", "column": "name", "operator": "any of", "value": []});
        assert_eq!(fault(empty).path(), "filter[0].value");
        let keyless =
            json!({"type": "stringObject", "column": "metadata", "operator": "=", "value": "x"});
        assert_eq!(fault(keyless).path(), "filter[0].key");
        assert_eq!(fault(json!(7)).path(), "filter[0]");
    }

    #[test]
    fn null_fits_every_column_and_needs_no_value() {
        for column in RULE_OBSERVATION.iter().chain(TRACES) {
            let raw = json!({"type": "null", "column": column.id, "operator": "is null"});
            let columns = if find(TRACES, column.id).is_some() { TRACES } else { RULE_OBSERVATION };
            assert!(Filter::parse(&[raw], columns).is_ok(), "{}", column.id);
        }
    }

    #[test]
    fn columns_are_found_by_their_aliases() {
        let raw = json!({"type": "number", "column": "tokens", "operator": ">", "value": 5});
        let filter = Filter::parse(&[raw], TRACES).unwrap();
        assert_eq!(filter.conditions[0].column.unwrap().id, "totalTokens");
    }

    #[test]
    fn an_unreadable_stored_condition_matches_nothing() {
        let raw =
            [json!({"type": "string", "column": "name", "operator": "resembles", "value": "x"})];
        let (filter, errors) = Filter::parse_stored(&raw, RULE_OBSERVATION);
        assert_eq!(filter.conditions[0].test, Test::Never);
        assert_eq!(errors.len(), 1);
    }
}

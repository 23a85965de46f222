//! Simple query parameters and the `filter` parameter as one list of conditions.

use perpend_domain::filter::{Column, Filter, FilterError, find};
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::Params;
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::Problem;
use serde_json::{Value, json};

/// Conditions from simple parameters. A condition of `filter` on the same column takes precedence.
pub(super) struct Conditions {
    columns: &'static [Column],
    explicit: Vec<Value>,
    simple: Vec<Value>,
}

impl Conditions {
    /// Starts with the `filter` parameter.
    pub(super) fn new(params: &Params, columns: &'static [Column]) -> Result<Self, Problem> {
        Ok(Self { columns, explicit: params.filter()?, simple: Vec::new() })
    }

    fn put(&mut self, column: &str, kind: &str, operator: &str, value: Value) {
        let is_same = |condition: &Value| {
            let named = condition["column"].as_str().and_then(|name| find(self.columns, name));
            named.is_some_and(|named| named.id == column)
        };
        if !self.explicit.iter().any(is_same) {
            let condition =
                json!({ "type": kind, "column": column, "operator": operator, "value": value });
            self.simple.push(condition);
        }
    }

    /// The column equals this text.
    pub(super) fn equals(&mut self, column: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        let types = find(self.columns, column).map_or(&["string"][..], |found| found.kind.types());
        if types.contains(&"string") {
            self.put(column, "string", "=", value.into());
        } else {
            self.put(column, "stringOptions", "any of", json!([value]));
        }
    }

    /// The column is one of these.
    pub(super) fn any_of(&mut self, column: &str, values: &[String]) {
        if !values.is_empty() {
            self.put(column, "stringOptions", "any of", json!(values));
        }
    }

    /// The list column has all of these.
    pub(super) fn has_all(&mut self, column: &str, values: &[String]) {
        if !values.is_empty() {
            self.put(column, "arrayOptions", "all of", json!(values));
        }
    }

    /// The column is this boolean.
    pub(super) fn is(&mut self, column: &str, value: Option<bool>) {
        if let Some(value) = value {
            self.put(column, "boolean", "=", value.into());
        }
    }

    /// From (inclusive) and to (exclusive).
    pub(super) fn between(&mut self, column: &str, from: Option<Timestamp>, to: Option<Timestamp>) {
        for (operator, at) in [(">=", from), ("<", to)] {
            if let Some(at) = at {
                self.put(column, "datetime", operator, at.to_iso_micros().into());
            }
        }
    }

    /// Validates all conditions.
    pub(super) fn finish(self) -> Result<Filter, Problem> {
        let n_explicit = self.explicit.len();
        let all = [self.explicit, self.simple].concat();
        Filter::parse(&all, self.columns).map_err(|errors| {
            let parameter = |error: &FilterError| {
                let condition = all.get(error.index).filter(|_| n_explicit <= error.index)?;
                Some(Problem::query(condition["column"].as_str()?, &error.message))
            };
            // The error of a simple parameter names the parameter, not the condition made from it.
            let of_parameters = errors.iter().filter_map(parameter).collect();
            Problem::all(of_parameters).unwrap_or_else(|| filter_problem(errors))
        })
    }
}

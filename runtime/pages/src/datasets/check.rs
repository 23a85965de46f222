//! Checks of items against schemas, by operations of the API.

use std::collections::HashMap;

use axum::http::Method;
use perpend_http_kit::problem::{MAX_LISTED, Problem};
use perpend_views::{Text, ValiditySummary, plural};
use serde_json::{Value, json};

use super::context::DatasetContext;
use crate::request::operations::call;
use crate::state::App;

/// Active items of a dataset that do not match schemas.
pub(super) struct SchemaImpact {
    n_checked: u64,
    pub(super) n_failing: u64,
    /// The first violations, by item.
    pub(super) violations: Vec<Value>,
}

impl SchemaImpact {
    /// Checks the active items. `schemas` has the members of the dataset; an absent one is the current schema.
    pub(super) async fn of(
        app: &App,
        context: &DatasetContext,
        schemas: &Value,
    ) -> Result<Self, Problem> {
        let path = context.operation("/schema-impact");
        let found = call(app, &context.viewer, (Method::POST, &path), schemas).await?;
        Ok(Self {
            n_checked: found["checkedCount"].as_u64().unwrap_or_default(),
            n_failing: found["failingCount"].as_u64().unwrap_or_default(),
            violations: found["violations"].as_array().cloned().unwrap_or_default(),
        })
    }

    /// Such as `12 of 340 active items do not match the schemas.`
    pub(super) fn summary(&self) -> String {
        let all = plural(self.n_checked, "active item");
        match self.n_failing {
            0 => format!("All {all} match the schemas."),
            1 => format!("1 of {all} does not match the schemas."),
            n => format!("{n} of {all} do not match the schemas."),
        }
    }

    pub(super) fn validity(&self) -> ValiditySummary {
        ValiditySummary { text: Text::from(self.summary()), is_good: self.n_failing == 0 }
    }

    /// Numbers of violations by item; `None` if not all violations are listed.
    pub(super) fn by_item(&self) -> Option<HashMap<&str, usize>> {
        if MAX_LISTED <= self.violations.len() {
            return None;
        }
        let mut counts = HashMap::new();
        for violation in &self.violations {
            *counts.entry(violation["itemId"].as_str().unwrap_or_default()).or_default() += 1;
        }
        Some(counts)
    }
}

/// The schemas that the newest items match, as members of a dataset, and the number of these items.
pub(super) async fn inferred(app: &App, context: &DatasetContext) -> Result<(Value, u64), Problem> {
    let path = context.operation("/infer-schema");
    let found = call(app, &context.viewer, (Method::GET, &path), &json!({})).await?;
    let n_items = found["itemCount"].as_u64().unwrap_or_default();
    Ok((found, n_items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_counted_by_item_unless_some_are_omitted() {
        let of = |item: &str| json!({ "itemId": item });
        let impact = SchemaImpact {
            n_checked: 340,
            n_failing: 2,
            violations: vec![of("a"), of("a"), of("b")],
        };
        assert_eq!(impact.summary(), "2 of 340 active items do not match the schemas.");
        let counts = impact.by_item().unwrap();
        assert_eq!((counts["a"], counts["b"]), (2, 1));
        let violations = vec![of("a"); MAX_LISTED];
        assert!(SchemaImpact { violations, ..impact }.by_item().is_none());
    }
}

//! The list of rules, the page of a rule, and its editor.
//!
//! Invariant: **a form has the effect of the API operation.** Every change is a call of an operation (`request::operations`).

pub(super) mod chosen;
pub(super) mod definition;
pub(super) mod editor;
pub(super) mod explain;
pub(super) mod fields;
mod funnel;
pub(super) mod links;
pub(super) mod list;
mod preview;
pub(super) mod rule;
mod schedule;
pub(super) mod switch;

use perpend_domain::evaluation::Rule;
use perpend_domain::ids::RuleId;
use perpend_http_kit::problem::Problem;
use perpend_views::{decode_segment, encode};
use serde::Deserialize;

use crate::request::viewer::Viewer;
use crate::state::App;

/// The path of a rule.
#[derive(Debug, Deserialize)]
pub(super) struct RulePath {
    rule: String,
}

/// The rule of a path.
async fn stored_rule(app: &App, viewer: &Viewer, path: &RulePath) -> Result<Rule, Problem> {
    let missing = || Problem::not_found("rule");
    let id = RuleId::new(decode_segment(&path.rule)).map_err(|_| missing())?;
    app.store.catalog.rule(&viewer.project, &id).await?.ok_or_else(missing)
}

/// Path of the operations on a rule.
fn operation(rule: &Rule) -> String {
    format!("/api/public/v2/evaluation-rules/{}", encode(rule.id.as_str()))
}

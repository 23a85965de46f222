//! Pages of backfills.

pub(crate) mod list;
pub(crate) mod one;

use perpend_domain::backfill::{Backfill, BackfillReason, BackfillState};
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{BackfillLine, Moment, Text, count, dollars, encode, percent};
use serde_json::{Map, Value, json};

/// The operation behind the forms.
const OPERATION: &str = "/api/v1/backfills";

/// URL of the page of a backfill.
fn backfill_href(base: &str, id: &str) -> String {
    format!("{base}/backfills/{}", encode(id))
}

/// The members `from`, `to`, `maxItems` and `maxUsd` of the body of an operation.
pub(crate) fn range_and_limits(
    fields: &Params,
    now: Timestamp,
) -> Result<Map<String, Value>, Problem> {
    let mut body = Map::new();
    for name in ["from", "to"] {
        let text = fields.text(name).map(str::trim).filter(|text| !text.is_empty());
        let Some(text) = text else {
            continue;
        };
        let Some(moment) = Moment::parse(text) else {
            let message = format!(
                "must be a time like 2026-11-01 12:00 (UTC) or a span before now like -7d, got `{text}`"
            );
            return Err(Problem::body(name, message));
        };
        body.insert(name.to_owned(), json!(moment.at(now)));
    }
    if !body.contains_key("from") {
        return Err(Problem::body("from", "is required"));
    }
    if let Some(text) = fields.text("max_items") {
        let number = text.trim().parse::<u64>();
        let number = number.map_err(|_| {
            Problem::body("maxItems", format!("must be a positive integer, got `{text}`"))
        });
        body.insert("maxItems".to_owned(), json!(number?));
    }
    if let Some(text) = fields.text("max_usd") {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number
            .ok_or_else(|| Problem::body("maxUsd", format!("must be a number, got `{text}`")));
        body.insert("maxUsd".to_owned(), json!(number?));
    }
    Ok(body)
}

const fn reason_text(reason: BackfillReason) -> &'static str {
    match reason {
        BackfillReason::RuleDisabled => "Waits: the rule is disabled.",
        BackfillReason::RulePaused => "Waits: the rule or its evaluators are paused.",
        BackfillReason::RuleDeleted => "The rule was deleted.",
        BackfillReason::RuleChanged => "The rule scores another kind of target now.",
        BackfillReason::MaxItems => "The limit of targets is reached.",
        BackfillReason::MaxUsd => "The limit of the cost is reached.",
    }
}

const fn tone(state: BackfillState) -> &'static str {
    match state {
        BackfillState::Running | BackfillState::Paused => "waiting",
        BackfillState::Completed => "good",
        BackfillState::Failed => "bad",
        BackfillState::Cancelled => "",
    }
}

fn line(base: &str, found: &Backfill) -> BackfillLine {
    let counts = &found.counts;
    BackfillLine {
        href: backfill_href(base, &found.id),
        rule: Text::from(found.plan.rule_name.as_str()),
        mode: found.plan.mode.as_str(),
        state: found.state.as_str(),
        tone: tone(found.state),
        reason: found.reason.map(reason_text),
        from: found.plan.from,
        to: found.plan.to,
        examined: found.examined_share().map_or_else(String::new, percent),
        items: count(counts.n_items),
        failed: (0 < counts.n_failed).then(|| format!("{} failed", count(counts.n_failed))),
        cost: dollars(counts.cost_usd),
        created_at: found.created_at,
    }
}

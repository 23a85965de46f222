//! Pages of backfills.

pub(crate) mod list;
pub(crate) mod one;

use perpend_domain::backfill::{Backfill, BackfillReason};
use perpend_views::{BackfillLine, Text, count, dollars, encode, percent};

use crate::jobs::tone;

/// The operation behind the forms.
const OPERATION: &str = "/api/v1/backfills";

/// URL of the page of a backfill.
fn backfill_href(base: &str, id: &str) -> String {
    format!("{base}/backfills/{}", encode(id))
}

const fn reason_text(reason: BackfillReason) -> &'static str {
    match reason {
        BackfillReason::RuleDisabled => "Waits: the rule is disabled.",
        BackfillReason::RulePaused => "Waits: the rule or its evaluators are paused.",
        BackfillReason::RuleDeleted => "The rule was deleted.",
        BackfillReason::RuleChanged => "The kind of target of the rule was changed.",
        BackfillReason::MaxItems => "The maximum number of targets is reached.",
        BackfillReason::MaxUsd => "The maximum cost is reached.",
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

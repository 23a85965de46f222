//! Pages of backtests.

pub(crate) mod flips;
pub(crate) mod list;
pub(crate) mod one;
mod results;

use perpend_domain::backtest::{Backtest, BacktestReason};
use perpend_views::{BacktestLine, Text, count, dollars, encode, percent};
use serde::Deserialize;

use crate::jobs::tone;

/// The operation behind the forms.
const OPERATION: &str = "/api/v1/backtests";

/// The path of a backtest.
#[derive(Debug, Deserialize)]
pub(crate) struct BacktestPath {
    backtest: String,
}

impl BacktestPath {
    fn id(&self) -> &str {
        &self.backtest
    }
}

/// URL of the page of a backtest.
fn backtest_href(base: &str, id: &str) -> String {
    format!("{base}/backtests/{}", encode(id))
}

const fn reason_text(reason: BacktestReason) -> &'static str {
    match reason {
        BacktestReason::MaxItems => "The maximum number of targets is reached.",
        BacktestReason::MaxUsd => "The maximum cost is reached.",
        BacktestReason::EvaluatorDeleted => "The evaluator was deleted.",
    }
}

fn line(base: &str, found: &Backtest) -> BacktestLine {
    let (plan, counts) = (&found.plan, &found.counts);
    BacktestLine {
        href: backtest_href(base, &found.id),
        evaluator: Text::from(plan.evaluator_name.as_str()),
        tested: match plan.is_draft() {
            true => "draft".to_owned(),
            false => format!("version {}", plan.version.number),
        },
        state: found.state.as_str(),
        tone: tone(found.state),
        reason: found.reason.map(reason_text),
        from: plan.from,
        to: plan.to,
        examined: found.examined_share().map_or_else(String::new, percent),
        items: count(counts.n_items),
        failed: (0 < counts.n_failed).then(|| format!("{} failed", count(counts.n_failed))),
        cost: dollars(counts.cost_usd),
        created_at: found.created_at,
    }
}

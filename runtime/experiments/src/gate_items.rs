//! The items of a gate with the metrics of its requirements.

use std::collections::{BTreeSet, HashSet};

use perpend_domain::ids::TraceId;
use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, ItemComparison, ItemRun, MetricComparison};
use crate::gate_config::GateConfig;
use crate::gate_status::{CheckStatus, holds};
use crate::names;
use crate::number::{distinct, number};

/// An item with a metric of the requirements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GateItemCheck {
    /// The item.
    pub item_id: String,
    /// The metric.
    pub metric: String,
    /// `failed` if the value breaks `min_at_least` or `max_at_most`, `undecided` without a value: the limits decide about
    /// those.
    pub status: CheckStatus,
    /// The value of the run; `null` if absent.
    pub value: Option<f64>,
    /// The value of the baseline; `null` if absent.
    pub baseline: Option<f64>,
    /// The trace of the first result of the run; `null` without a result.
    pub trace_id: Option<TraceId>,
    /// A sentence with the numbers.
    pub message: String,
}

/// Each item of the run, or expected there, with each metric of the requirements.
pub(crate) fn item_checks(
    config: &GateConfig,
    comparison: &Comparison,
    expected: &[String],
) -> Vec<GateItemCheck> {
    let mut items: Vec<&ItemComparison> = comparison.items.iter().collect();
    items.sort_unstable_by(|left, right| left.item_id.cmp(&right.item_id));
    let known: HashSet<&str> = items.iter().map(|item| item.item_id.as_str()).collect();
    let absent: BTreeSet<&str> =
        expected.iter().map(String::as_str).filter(|id| !known.contains(id)).collect();
    let mut checks = Vec::new();
    for (place, metric) in comparison.metrics.iter().enumerate() {
        checks.extend(items.iter().map(|item| item_check(config, item, (place, metric))));
        checks.extend(absent.iter().map(|id| without_result(id, metric)));
    }
    checks
}

fn without_result(item: &str, metric: &MetricComparison) -> GateItemCheck {
    GateItemCheck {
        item_id: item.to_owned(),
        metric: metric.name.clone(),
        status: CheckStatus::Undecided,
        value: None,
        baseline: None,
        trace_id: None,
        message: "no result".to_owned(),
    }
}

/// `place` is the position of the metric.
fn item_check(
    config: &GateConfig,
    item: &ItemComparison,
    (place, metric): (usize, &MetricComparison),
) -> GateItemCheck {
    let mut check = without_result(&item.item_id, metric);
    let value_of = |run: &ItemRun| run.values.get(place).copied().flatten();
    if let [Some(baseline), _] = item.runs.as_slice() {
        check.baseline = value_of(baseline);
    }
    let Some(Some(run)) = item.runs.last() else { return check };
    check.trace_id = Some(run.trace_id.clone());
    check.value = value_of(run).filter(|_| metric.obstacle.is_none());
    let Some(value) = check.value else {
        check.message = match (&metric.obstacle, run.n_errors) {
            (Some(obstacle), _) => obstacle.clone(),
            (None, 0) => "no value".to_owned(),
            (None, _) => "no value: the result failed".to_owned(),
        };
        return check;
    };
    check.message = match check.baseline {
        Some(baseline) => format!("{}, baseline {}", number(value), number(baseline)),
        None => number(value),
    };
    check.status = CheckStatus::Passed;
    for requirement in &config.require {
        if names::metric(&requirement.metric) != metric.name.as_str() {
            continue;
        }
        let least = requirement.min_at_least.map(|threshold| (threshold, true));
        let most = requirement.max_at_most.map(|threshold| (threshold, false));
        for (threshold, is_least) in least.into_iter().chain(most) {
            if !holds(value, threshold, is_least) {
                let relation = if is_least { "at least" } else { "at most" };
                let (shown, required) = distinct(value, threshold);
                check.status = CheckStatus::Failed;
                check.message = format!("{shown}, {relation} {required} required");
            }
        }
    }
    check
}

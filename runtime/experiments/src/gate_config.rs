//! The file of a gate.

use std::borrow::Cow;
use std::collections::BTreeMap;

use perpend_domain::score_config::ScoreDirection;
use serde::{Deserialize, Serialize};

use crate::names;
use crate::options::ALPHA;

/// Requirements on a run. As TOML, a file `gate.toml`; unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GateConfig {
    /// Requirements on metrics; at least one.
    pub require: Vec<Requirement>,
    /// Requirements on the run as a whole.
    #[serde(default)]
    pub limits: GateLimits,
    /// How values are compared.
    #[serde(default)]
    pub stats: GateStats,
    /// Directions of scores by the names of their metrics, which replace those of score configs and evaluators.
    #[serde(default)]
    pub directions: BTreeMap<String, ScoreDirection>,
}

/// Requirements on a metric. At least one condition is required; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requirement {
    /// `errors`, `latency_ms`, `cost_usd`, `tokens`, or the name of a score; `score:NAME` is always the score.
    pub metric: String,
    /// The lowest allowed mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_at_least: Option<f64>,
    /// The highest allowed mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_at_most: Option<f64>,
    /// The lowest allowed value of an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_at_least: Option<f64>,
    /// The highest allowed value of an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_at_most: Option<f64>,
    /// The highest allowed quantile 0.95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_at_most: Option<f64>,
    /// Fails if the run is worse than the baseline by at least this margin: in the unit of the score, and as a share of the
    /// mean of the baseline for latency, cost and tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_worse_than_baseline: Option<f64>,
    /// Fails unless the run is better than the baseline by at least this margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_than_baseline: Option<f64>,
}

/// Requirements on the run as a whole. A limit that is absent has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GateLimits {
    /// The smallest number of items; with fewer the gate is undecided. 1 by default.
    pub min_items: u64,
    /// The largest number of items with a failed result. 0 by default.
    pub max_failed_items: u64,
    /// The largest number of items of the dataset without a result. 0 by default.
    pub max_missing_items: u64,
    /// The largest number of items with more results than the others. 0 by default.
    pub max_duplicate_items: u64,
    /// The largest share of items without a value of a required metric, 0 to 1. 0 by default.
    pub max_missing_scores: f64,
    /// The highest cost of the run in US dollars; unlimited by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            min_items: 1,
            max_failed_items: 0,
            max_missing_items: 0,
            max_duplicate_items: 0,
            max_missing_scores: 0.0,
            max_usd: None,
        }
    }
}

/// How values are compared. A setting that is absent has its default.
// Each field names its default instead of the struct, because the schema would repeat it next to the reference to an
// enumeration, and models that are generated from that do not pass a type checker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GateStats {
    /// The probability of a false verdict over all metrics of the gate. 0.05 by default.
    #[serde(default = "default_alpha")]
    #[cfg_attr(feature = "schema", schema(default = 0.05))]
    pub alpha: f64,
    /// The adjustment of p-values. `holm` by default.
    #[serde(default)]
    pub correction: GateCorrection,
    /// `item`, or the metadata key of items that depend on one another. `item` by default.
    #[serde(default = "default_cluster")]
    #[cfg_attr(feature = "schema", schema(default = "item"))]
    pub cluster_by: String,
    /// The number that thresholds of means are compared with. `mean` by default.
    #[serde(default)]
    pub confidence: Confidence,
    /// The effect of a comparison that is inconclusive. `pass` by default.
    #[serde(default = "Effect::pass")]
    pub on_inconclusive: Effect,
    /// The effect of a missing baseline on requirements that need one. `fail` by default.
    #[serde(default = "Effect::fail")]
    pub on_missing_baseline: Effect,
}

impl Default for GateStats {
    fn default() -> Self {
        Self {
            alpha: default_alpha(),
            correction: GateCorrection::default(),
            cluster_by: default_cluster(),
            confidence: Confidence::default(),
            on_inconclusive: Effect::pass(),
            on_missing_baseline: Effect::fail(),
        }
    }
}

const fn default_alpha() -> f64 {
    ALPHA
}

fn default_cluster() -> String {
    "item".to_owned()
}

/// The adjustment of p-values for the number of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum GateCorrection {
    /// Holm: the probability of any false verdict.
    #[default]
    Holm,
    /// Benjamini and Hochberg: the share of false verdicts.
    Bh,
    /// Bonferroni.
    Bonferroni,
}

/// The number that a threshold of a mean is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Confidence {
    /// The mean.
    #[default]
    Mean,
    /// The end of its interval that is harder to accept.
    LowerBound,
}

/// The effect of a requirement without a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Effect {
    /// The requirement passes.
    Pass,
    /// The gate is undecided.
    Fail,
}

impl Effect {
    const fn pass() -> Self {
        Self::Pass
    }

    const fn fail() -> Self {
        Self::Fail
    }
}

/// A wrong file of a gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GateConfigError(String);

impl GateConfig {
    /// Reads TOML.
    ///
    /// # Errors
    /// With the key, what is expected, and the line.
    pub fn from_toml(text: &str) -> Result<Self, GateConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| GateConfigError(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// The configuration as TOML.
    ///
    /// # Errors
    /// If it cannot be written, which does not happen for a configuration that was read.
    pub fn to_toml(&self) -> Result<String, GateConfigError> {
        toml::to_string(self).map_err(|error| GateConfigError(error.to_string()))
    }

    /// Checks values that the types do not.
    ///
    /// # Errors
    /// With the key, what is expected and what was found.
    pub fn check(&self) -> Result<(), GateConfigError> {
        let wrong = |message: String| Err(GateConfigError(message));
        if self.require.is_empty() {
            return wrong("`require` must have at least one entry".to_owned());
        }
        for (at, requirement) in self.require.iter().enumerate() {
            if requirement.metric.is_empty() {
                return wrong(format!("`require[{at}].metric` must not be empty"));
            }
            let conditions = requirement.conditions();
            if conditions.is_empty() {
                return wrong(format!(
                    "`require[{at}]` must have a condition, such as `mean_at_least`"
                ));
            }
            for (name, value) in conditions {
                let is_margin = name.ends_with("baseline");
                if !value.is_finite() || (is_margin && value < 0.0) {
                    let least = if is_margin { "at least 0 and " } else { "" };
                    return wrong(format!(
                        "`require[{at}].{name}` must be {least}finite, got {value}"
                    ));
                }
            }
        }
        self.check_margins()?;
        for metric in self.directions.keys() {
            if names::score_of_metric(metric).is_none() {
                return wrong(format!("`directions.{metric}` {}", names::not_a_score(metric)));
            }
        }
        let share = self.limits.max_missing_scores;
        if !(0.0..=1.0).contains(&share) {
            return wrong(format!(
                "`limits.max_missing_scores` must be between 0 and 1, got {share}"
            ));
        }
        if let Some(usd) = self.limits.max_usd.filter(|usd| usd.is_nan() || *usd < 0.0) {
            return wrong(format!("`limits.max_usd` must be at least 0, got {usd}"));
        }
        let alpha = self.stats.alpha;
        if !(0.0 < alpha && alpha < 1.0) {
            return wrong(format!(
                "`stats.alpha` must be greater than 0 and less than 1, got {alpha}"
            ));
        }
        Ok(())
    }

    /// A metric is compared with the baseline once, by one margin.
    fn check_margins(&self) -> Result<(), GateConfigError> {
        let mut margins: BTreeMap<Cow<'_, str>, f64> = BTreeMap::new();
        for (at, requirement) in self.require.iter().enumerate() {
            for (name, margin) in requirement.conditions() {
                if !name.ends_with("baseline") {
                    continue;
                }
                let metric = names::metric(&requirement.metric);
                let known = *margins.entry(metric.clone()).or_insert(margin);
                if known != margin {
                    return Err(GateConfigError(format!(
                        "`require[{at}].{name}` must be the margin of the other requirement on `{metric}`, {known}; got {margin}"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Requirement {
    /// The conditions with their thresholds, in the order of the members.
    #[must_use]
    pub fn conditions(&self) -> Vec<(&'static str, f64)> {
        let conditions = [
            ("mean_at_least", self.mean_at_least),
            ("mean_at_most", self.mean_at_most),
            ("min_at_least", self.min_at_least),
            ("max_at_most", self.max_at_most),
            ("p95_at_most", self.p95_at_most),
            ("not_worse_than_baseline", self.not_worse_than_baseline),
            ("better_than_baseline", self.better_than_baseline),
        ];
        conditions.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The margin of its comparison with the baseline, if it has one.
    pub(crate) fn margin(&self) -> Option<f64> {
        let margins = [self.not_worse_than_baseline, self.better_than_baseline];
        margins.into_iter().flatten().reduce(f64::min)
    }
}

//! Project-specific models with prices: the matching names and the price per unit.
//!
//! Invariant: a [`ModelDefinition`] without [`ModelDefinition::faults`] can price: its pattern compiles, one
//! tier is the default, and all tiers price the same kinds of usage.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::issue::Issue;
use crate::named::named_enum;
use crate::time::Timestamp;

const MAX_PATTERN_CHARS: usize = 200;
const MAX_TIER_NAME_CHARS: usize = 100;
const MAX_PRIORITY: i64 = 999;
/// A compiled pattern, bytes.
pub(crate) const MAX_PATTERN_SIZE: usize = 64 << 10;

named_enum!(
    /// Comparison operators in conditions of tiers.
    TierOperator {
        Gt = "gt",
        Gte = "gte",
        Lt = "lt",
        Lte = "lte",
        Eq = "eq",
        Neq = "neq",
    }
);

impl TierOperator {
    /// Whether the comparison holds for `left` and `right`.
    #[must_use]
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Gt => left > right,
            Self::Gte => left >= right,
            Self::Lt => left < right,
            Self::Lte => left <= right,
            Self::Eq => left.total_cmp(&right).is_eq(),
            Self::Neq => !left.total_cmp(&right).is_eq(),
        }
    }
}

named_enum!(
    /// The part of an observation that has the attribute of a condition.
    AttributeSource {
        ModelParameters = "model_parameters",
        Metadata = "metadata",
    }
);

/// When a tier applies.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TierCondition {
    /// The buckets of usage whose names match add up to a number that compares so.
    // Not `rename_all_fields`, which the OpenAPI schema ignores.
    #[serde(rename_all = "camelCase")]
    Usage {
        /// A regular expression over names of buckets.
        usage_detail_pattern: String,
        /// The comparison operator.
        operator: TierOperator,
        /// The number to compare with.
        value: f64,
        /// Whether case counts in names.
        #[serde(default)]
        case_sensitive: bool,
    },
    /// A model parameter or a member of the metadata has one of these values.
    Attribute {
        /// The part of the observation that has it.
        source: AttributeSource,
        /// Its name.
        key: String,
        /// Always `in`.
        operator: String,
        /// The values.
        values: Vec<String>,
    },
}

/// Prices under some conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PricingTier {
    /// Its name, unique within the model.
    pub name: String,
    /// It applies where no other does.
    pub is_default: bool,
    /// Tiers with lower priority numbers are tested first; 0 is the default tier.
    pub priority: i64,
    /// All of them have to hold.
    pub conditions: Vec<TierCondition>,
    /// US dollars for one unit, by bucket of usage.
    pub prices: BTreeMap<String, f64>,
}

/// A model with prices.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDefinition {
    /// Its id, which costs name as what they come from.
    pub id: String,
    /// Its name, unique within the project together with the start date.
    pub name: String,
    /// A regular expression over the names that senders use.
    pub pattern: String,
    /// Prices hold for observations from then on.
    pub start_date: Option<Timestamp>,
    /// The counted unit.
    pub unit: Option<String>,
    /// `openai`, `claude` or none.
    pub tokenizer_id: Option<String>,
    /// For the tokenizer.
    pub tokenizer_config: Option<Value>,
    /// Prices: one default tier, and others.
    pub tiers: Vec<PricingTier>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

fn compiles(pattern: &str) -> Result<(), String> {
    let built = regex::RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).build();
    built
        .map(drop)
        .map_err(|error| format!("must be a regular expression without look-around: {error}"))
}

impl ModelDefinition {
    /// Everything that is wrong with it.
    #[must_use]
    pub fn faults(&self) -> Vec<Issue> {
        const UNITS: [&str; 6] =
            ["TOKENS", "CHARACTERS", "MILLISECONDS", "SECONDS", "IMAGES", "REQUESTS"];
        let mut faults = Vec::new();
        if self.name.trim().is_empty() {
            faults.push(Issue::new("modelName", "is empty"));
        }
        if let Err(message) = compiles(&self.pattern) {
            faults.push(Issue::new("matchPattern", message));
        }
        if self.unit.as_ref().is_some_and(|u| !UNITS.contains(&u.as_str())) {
            faults.push(Issue::new("unit", format!("must be one of {}", UNITS.join(", "))));
        }
        if self.tokenizer_id.as_ref().is_some_and(|id| !["openai", "claude"].contains(&id.as_str()))
        {
            faults.push(Issue::new("tokenizerId", "must be one of `openai`, `claude`"));
        }
        self.tier_faults(&mut faults);
        faults
    }

    fn tier_faults(&self, faults: &mut Vec<Issue>) {
        let mut put = |message: String| faults.push(Issue::new("pricingTiers", message));
        let n_default = self.tiers.iter().filter(|tier| tier.is_default).count();
        if n_default != 1 {
            put(format!("{n_default} of the tiers are the default; exactly one has to be"));
        }
        let names: BTreeSet<&str> = self.tiers.iter().map(|tier| tier.name.as_str()).collect();
        let priorities: BTreeSet<i64> = self.tiers.iter().map(|tier| tier.priority).collect();
        if names.len() < self.tiers.len() {
            put("two tiers have the same name".to_owned());
        }
        if priorities.len() < self.tiers.len() {
            put("two tiers have the same priority".to_owned());
        }
        let buckets = |tier: &PricingTier| tier.prices.keys().cloned().collect::<Vec<_>>();
        let first = self.tiers.first().map(buckets);
        for tier in &self.tiers {
            if Some(buckets(tier)) != first {
                put(format!("{:?} prices other kinds of usage than the first tier", tier.name));
            }
            for message in tier.faults() {
                put(format!("{:?}: {message}", tier.name));
            }
        }
    }

    /// The default tier.
    #[must_use]
    pub fn default_tier(&self) -> Option<&PricingTier> {
        self.tiers.iter().find(|tier| tier.is_default)
    }
}

impl PricingTier {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let n_chars = self.name.chars().count();
        if n_chars == 0 || n_chars > MAX_TIER_NAME_CHARS {
            faults.push("the name has 1 to 100 characters".to_owned());
        }
        if self.is_default && (self.priority != 0 || !self.conditions.is_empty()) {
            faults.push("the default tier has priority 0 and no conditions".to_owned());
        }
        if !self.is_default {
            if !(1..=MAX_PRIORITY).contains(&self.priority) {
                faults.push("the priority is 1 to 999".to_owned());
            }
            if self.conditions.is_empty() {
                faults.push("at least one condition is expected".to_owned());
            }
        }
        if self.prices.is_empty() {
            faults.push("at least one price is expected".to_owned());
        }
        if self.prices.values().any(|price| !price.is_finite() || *price < 0.0) {
            faults.push("a price is a number from 0 on".to_owned());
        }
        for condition in &self.conditions {
            match condition {
                TierCondition::Usage { usage_detail_pattern: pattern, value, .. } => {
                    if pattern.chars().count() > MAX_PATTERN_CHARS {
                        faults.push("a pattern of usage has at most 200 characters".to_owned());
                    } else if let Err(message) = compiles(pattern) {
                        faults.push(format!("usageDetailPattern {message}"));
                    }
                    if !value.is_finite() {
                        faults.push("a condition compares with a finite number".to_owned());
                    }
                }
                TierCondition::Attribute { operator, .. } if operator != "in" => {
                    faults.push("the operator of an attribute is in".to_owned());
                }
                TierCondition::Attribute { .. } => {}
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(tiers: Value) -> ModelDefinition {
        ModelDefinition {
            id: "m".to_owned(),
            name: "my-model".to_owned(),
            pattern: "(?i)^my-model$".to_owned(),
            start_date: None,
            unit: Some("TOKENS".to_owned()),
            tokenizer_id: None,
            tokenizer_config: None,
            tiers: serde_json::from_value(tiers).unwrap(),
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        }
    }

    fn fields(model: &ModelDefinition) -> Vec<String> {
        model.faults().iter().map(Issue::field).collect()
    }

    fn standard() -> Value {
        json!({ "name": "Standard", "isDefault": true, "priority": 0, "conditions": [], "prices": { "input": 1.0 } })
    }

    #[test]
    fn patterns_units_and_tokenizers_are_checked() {
        let mut one = model(json!([standard()]));
        assert_eq!(fields(&one), [""; 0]);
        one.pattern = "(?=x)".to_owned();
        one.unit = Some("LITRES".to_owned());
        one.tokenizer_id = Some("other".to_owned());
        assert_eq!(fields(&one), ["matchPattern", "unit", "tokenizerId"]);
    }

    #[test]
    fn tiers_have_one_default_unique_names_and_priorities_and_the_same_kinds_of_usage() {
        let condition = json!({ "usageDetailPattern": "^input", "operator": "gt", "value": 10 });
        let large = |name: &str, priority: i64, bucket: &str| {
            json!({ "name": name, "isDefault": false, "priority": priority,
                    "conditions": [condition], "prices": { bucket: 2.0 } })
        };
        let good = model(json!([standard(), large("Large", 1, "input")]));
        assert_eq!(good.faults(), []);
        assert_eq!(good.default_tier().map(|tier| tier.name.as_str()), Some("Standard"));
        for wrong in [
            json!([]),
            json!([standard(), standard()]),
            json!([large("Large", 1, "input")]),
            json!([standard(), large("Standard", 1, "input")]),
            json!([standard(), large("Large", 0, "input")]),
            json!([standard(), large("Large", 1000, "input")]),
            json!([standard(), large("Large", 1, "output")]),
        ] {
            let faults = model(wrong.clone()).faults();
            assert!(!faults.is_empty(), "{wrong}");
            assert!(faults.iter().all(|fault| fault.field() == "pricingTiers"));
        }
        let mut bare = standard();
        bare["prices"] = json!({});
        assert!(!model(json!([bare])).faults().is_empty());
    }
}

//! Price entries of the models of a project, and views of price entries.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::entry::{Condition, Pattern, PriceEntry, Prices, STANDARD, Tier};
use crate::model::{ModelDefinition, PricingTier, TierCondition};
use crate::time::Timestamp;

/// Dollars as a decimal; the shortest text of the number is what its writer meant.
fn decimal(price: f64) -> Decimal {
    let text = price.to_string();
    text.parse().or_else(|_| Decimal::from_scientific(&text)).unwrap_or_default()
}

impl Condition {
    fn of_tier(condition: &TierCondition) -> Self {
        match condition {
            TierCondition::Usage { usage_detail_pattern, operator, value, case_sensitive } => {
                let prefix = if *case_sensitive { "" } else { "(?i)" };
                Self::Tokens {
                    buckets: Pattern::new(format!("{prefix}{usage_detail_pattern}")),
                    operator: *operator,
                    value: *value,
                }
            }
            TierCondition::Attribute { source, key, values, .. } => {
                Self::Attribute { source: *source, key: key.clone(), values: values.clone() }
            }
        }
    }
}

/// A view of an entry of the built-in table.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceView<'t> {
    /// Id of the entry.
    pub id: &'t str,
    /// The model's name.
    pub model: &'t str,
    /// The pattern, where it is not the name itself.
    pub pattern: Option<&'t str>,
    /// Prices hold from then on.
    pub start: Option<Timestamp>,
    /// US dollars for one token by bucket, without the conditional tiers.
    pub prices: BTreeMap<&'t str, f64>,
}

impl PriceEntry {
    /// The entry of a model that a project defined.
    #[must_use]
    pub fn of_model(model: &ModelDefinition) -> Self {
        let prices = |tier: &PricingTier| -> Prices {
            let priced = tier.prices.iter();
            priced.map(|(bucket, price)| (bucket.clone(), decimal(*price))).collect()
        };
        let mut others: Vec<&PricingTier> =
            model.tiers.iter().filter(|tier| !tier.is_default).collect();
        others.sort_by_key(|tier| tier.priority);
        let tier = |tier: &&PricingTier| Tier {
            name: tier.name.clone().into(),
            conditions: tier.conditions.iter().map(Condition::of_tier).collect(),
            prices: prices(tier),
        };
        Self {
            id: model.id.clone(),
            model: model.name.clone(),
            listing: None,
            pattern: Some(Pattern::new(model.pattern.clone())),
            start: model.start_date,
            tiers: others.iter().map(tier).collect(),
            tier: model.default_tier().map_or(STANDARD.into(), |tier| tier.name.clone().into()),
            prices: model.default_tier().map(prices).unwrap_or_default(),
        }
    }

    /// The view of the entry.
    #[must_use]
    pub fn view(&self) -> PriceView<'_> {
        let prices = self.prices.iter();
        PriceView {
            id: &self.id,
            model: &self.model,
            pattern: self.pattern.as_ref().map(|pattern| pattern.text.as_str()),
            start: self.start,
            prices: prices
                .filter_map(|(bucket, dollars)| Some((bucket.as_str(), dollars.to_f64()?)))
                .collect(),
        }
    }
}

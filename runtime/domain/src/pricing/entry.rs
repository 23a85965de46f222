//! One entry of a price table: its tiers, their conditions and prices.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rust_decimal::Decimal;

use super::patterns::is_match;
use crate::model::{AttributeSource, TierOperator};
use crate::observation::{Observation, Usage};
use crate::quantity::Quantity;
use crate::time::Timestamp;
use crate::usage::{Side, side_of};

/// The name of prices that no tier was made for.
pub const STANDARD: &str = "Standard";
/// The model parameter or metadata key with the service tier of a request.
const SERVICE: &str = "service_tier";

/// The table is not what the loader reads.
#[derive(Debug, thiserror::Error)]
#[error("price table: {0}")]
pub struct InvalidPrices(pub(super) String);

/// Dollars per token by bucket.
pub(super) type Prices = BTreeMap<String, Decimal>;

/// One condition of a tier.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// The buckets of the input add up to more than this many tokens.
    InputAbove(u64),
    /// The buckets whose name matches, `total` left out, add up to a number that compares so.
    Tokens { buckets: Pattern, operator: TierOperator, value: f64 },
    /// A member of the model parameters or of the metadata has one of these values.
    Attribute { source: AttributeSource, key: String, values: Vec<String> },
    /// `service_tier`, a model parameter or a metadata key, has this value.
    Service(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tier {
    pub(super) name: Cow<'static, str>,
    pub(super) conditions: Vec<Condition>,
    pub(super) prices: Prices,
}

/// The source of a price entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The seller with this price.
    pub seller: String,
    /// Whether the seller is the model's own vendor, whose price holds where a span names no reseller.
    pub is_own: bool,
    /// The list it was read from, with its version.
    pub source: Arc<str>,
}

/// Prices of one model from some day on.
#[derive(Clone, Debug)]
pub struct PriceEntry {
    /// Recorded with every cost it gives.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// Of the built-in table: who sells at this price.
    pub listing: Option<Listing>,
    pub(super) pattern: Option<Pattern>,
    pub(super) start: Option<Timestamp>,
    /// Conditional tiers in order.
    pub(super) tiers: Vec<Tier>,
    /// The name of `prices`, which hold where no tier does.
    pub(super) tier: Cow<'static, str>,
    pub(super) prices: Prices,
}

/// A regular expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) text: String,
}

impl Pattern {
    pub(super) const fn new(text: String) -> Self {
        Self { text }
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        is_match(&self.text, text)
    }
}

impl PriceEntry {
    pub(super) fn pattern_length(&self) -> usize {
        self.pattern.as_ref().map_or(self.model.len(), |pattern| pattern.text.len())
    }

    /// The tier that holds for an observation: its name and prices.
    pub(super) fn tier_for(&self, observation: &Observation) -> (&str, &Prices) {
        self.tiers
            .iter()
            .find(|tier| tier.conditions.iter().all(|c| c.holds(observation)))
            .map_or((&self.tier, &self.prices), |tier| (&tier.name, &tier.prices))
    }

    /// The prices for a number of tokens, in the absence of other data.
    pub(super) fn prices_for_usage(&self, usage: &Usage) -> &Prices {
        let holds = |tier: &&Tier| tier.conditions.iter().all(|c| c.holds_for(usage) == Some(true));
        let tier = self.tiers.iter().find(holds);
        tier.map_or(&self.prices, |tier| &tier.prices)
    }

    pub(super) fn all_tiers(&self) -> impl Iterator<Item = (&str, &Prices)> {
        let conditional = self.tiers.iter();
        let conditional = conditional.map(|tier| (tier.name.as_ref(), &tier.prices));
        conditional.chain(std::iter::once((self.tier.as_ref(), &self.prices)))
    }
}

impl Condition {
    /// The default name of a tier with this condition.
    pub(super) fn name(&self) -> String {
        match self {
            Self::InputAbove(above) => format!("Over {above} tokens"),
            Self::Service(service) => service.clone(),
            Self::Tokens { .. } | Self::Attribute { .. } => STANDARD.to_owned(),
        }
    }

    /// Whether it holds by tokens alone; `None` if it depends on other data.
    fn holds_for(&self, usage: &Usage) -> Option<bool> {
        match self {
            Self::InputAbove(above) => {
                let is_input = |name: &str| side_of(name) == Some(Side::Input);
                Some(Quantity::from(*above) < tokens_of(usage, is_input))
            }
            Self::Tokens { buckets, operator, value } => {
                let sum = tokens_of(usage, |bucket| buckets.is_match(bucket));
                Some(operator.holds(sum.to_f64(), *value))
            }
            Self::Attribute { .. } | Self::Service(_) => None,
        }
    }

    pub(super) fn holds(&self, observation: &Observation) -> bool {
        match self {
            Self::InputAbove(_) | Self::Tokens { .. } => {
                self.holds_for(&observation.usage) == Some(true)
            }
            Self::Attribute { source, key, values } => {
                let members = match source {
                    AttributeSource::ModelParameters => &observation.model_parameters,
                    AttributeSource::Metadata => &observation.content.metadata,
                };
                let text = members.get(key).map(|value| match value {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                text.is_some_and(|text| values.contains(&text))
            }
            Self::Service(service) => {
                let metadata = &observation.content.metadata;
                let parameters = &observation.model_parameters;
                let tier = parameters.get(SERVICE).or_else(|| metadata.get(SERVICE));
                let tier = tier.and_then(serde_json::Value::as_str);
                let tier = tier.map(str::to_ascii_lowercase);
                // Some senders use `batches`.
                tier.is_some_and(|tier| {
                    tier == *service || tier.strip_suffix("es") == Some(service)
                })
            }
        }
    }
}

/// The tokens in the buckets that fit, `total` left out.
pub(super) fn tokens_of(usage: &Usage, fits: impl Fn(&str) -> bool) -> Quantity {
    let counted = usage.iter().filter(|(bucket, _)| *bucket != "total" && fits(bucket));
    counted.map(|(_, tokens)| *tokens).sum()
}

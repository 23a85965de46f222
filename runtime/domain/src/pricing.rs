//! Prices of tokens: price entries, their selection, and the cost of one observation (otlp.md 4.7, 4.8).
//!
//! A project's own models are regular expressions, compiled together when first tried. They go before the entries of the
//! built-in table, which are found by seller and name (`sellers`).

mod entry;
mod listed;
mod models;
mod names;
mod patterns;
mod sellers;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::model::ModelDefinition;
use crate::observation::{Cost, Observation, Usage};
use crate::time::Timestamp;
use crate::usage::{self, Side, canonical_bucket};

use entry::Prices;
use names::candidate_names;
use patterns::Patterns;
use sellers::Sellers;

pub use entry::{InvalidPrices, Listing, PriceEntry, STANDARD};
pub use models::PriceView;
pub use names::strip_date;
pub use patterns::fits_any_table;

/// Distinct names remembered per table before the memory is cleared: names come from clients.
const MAX_REMEMBERED: usize = 10_000;
/// Entries that all these names match, together.
const MAX_REMEMBERED_MATCHES: usize = 500_000;
/// Largest relative difference of two costs of the same tokens at the same prices: a stored cost went through text.
const ROUNDING: f64 = 1e-9;

/// The prices that a cost was computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedPrices<'t> {
    /// The name of the tier.
    pub tier: &'t str,
    prices: &'t Prices,
}

impl AppliedPrices<'_> {
    /// US dollars for one token of a bucket.
    #[must_use]
    pub fn price(&self, bucket: &str) -> Option<f64> {
        self.prices.get(bucket)?.to_f64()
    }
}

/// Entries that match one way to write a model's name, in the order of [`candidate_names`].
type Matching = Arc<[Vec<usize>]>;
/// Matching entries by model and provider.
#[derive(Debug, Default)]
struct MatchCache {
    by_name: HashMap<(String, Option<String>), Matching>,
    n_matches: usize,
}

/// The outcome of pricing an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    /// The cost was reported, or usage or model is missing.
    NotNeeded,
    /// The cost was computed.
    Priced,
    /// No entry for this model: belongs on the list of unpriced models.
    Unpriced,
}

/// Price entries, a project's own before those of the base table.
#[derive(Debug, Default)]
pub struct PriceTable {
    entries: Vec<PriceEntry>,
    sellers: Sellers,
    patterns: Patterns,
    ids: HashMap<String, usize>,
    base: Option<Arc<Self>>,
    remembered: RwLock<MatchCache>,
}

/// The table shipped with the server, parsed on first use.
static BUILT_IN: LazyLock<Arc<PriceTable>> = LazyLock::new(|| {
    // A table that does not load would be a broken build, which a test below notices.
    Arc::new(PriceTable::parse(include_str!("../data/prices.tsv")).unwrap_or_default())
});

impl PriceTable {
    /// The table shipped with the server.
    #[must_use]
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Reads the format of `data/prices.tsv`.
    ///
    /// # Errors
    /// [`InvalidPrices`] naming the line when the text is not such a table.
    pub fn parse(text: &str) -> Result<Self, InvalidPrices> {
        Ok(Self::new(listed::parse(text)?, None))
    }

    /// The table of a project: its own models before those of `base`.
    #[must_use]
    pub fn of_models(models: &[ModelDefinition], base: Arc<Self>) -> Self {
        Self::new(models.iter().map(PriceEntry::of_model).collect(), Some(base))
    }

    /// The entries, without those of the base.
    #[must_use]
    pub fn entries(&self) -> &[PriceEntry] {
        &self.entries
    }

    fn new(entries: Vec<PriceEntry>, base: Option<Arc<Self>>) -> Self {
        let numbered = entries.iter().enumerate();
        let ids = numbered.clone().map(|(at, entry)| (entry.id.clone(), at)).collect();
        let patterns = numbered
            .filter_map(|(at, entry)| Some((at, entry.pattern.as_ref()?.text.clone())))
            .collect();
        Self {
            sellers: Sellers::new(&entries),
            patterns: Patterns::new(patterns),
            ids,
            base,
            entries,
            remembered: RwLock::default(),
        }
    }

    /// Whether every pattern is in use: together they may be too large to be compiled, and then large ones are left out.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.patterns.are_complete()
    }

    /// Number of entries, without those of the base.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Computes the cost of an observation that has usage and a model but no given cost.
    pub fn apply(&self, observation: &mut Observation) -> Pricing {
        observation.computed_cost.clear();
        observation.price_id = None;
        observation.aggregate_computed_cost = self.aggregate_cost(observation);
        if observation.usage.is_empty() || !observation.cost.is_empty() {
            return Pricing::NotNeeded;
        }
        let Some(model) = &observation.model else {
            return Pricing::NotNeeded;
        };
        let provider = observation.provider.as_deref();
        let Some(entry) = self.find(model, provider, observation.start) else {
            return Pricing::Unpriced;
        };
        let cost = cost_of(&observation.usage, entry.tier_for(observation).1);
        if cost.is_empty() {
            return Pricing::Unpriced;
        }
        observation.price_id = Some(entry.id.clone());
        observation.computed_cost = cost;
        Pricing::Priced
    }

    /// The cost of usage that repeats that of descendants: it counts in their absence (otlp.md 4.4). The sum of
    /// several calls does not imply the length of one, so prices for long contexts never apply.
    fn aggregate_cost(&self, observation: &Observation) -> Cost {
        if !observation.aggregate_cost.is_empty() || observation.aggregate_usage.is_empty() {
            return Cost::new();
        }
        let model = observation.aggregate_model.as_deref();
        let provider = observation.provider.as_deref();
        let entry = model.and_then(|model| self.find(model, provider, observation.start));
        entry.map_or_else(Cost::new, |entry| {
            cost_of(&observation.aggregate_usage, entry.tier_for(observation).1)
        })
    }

    /// The cost of one model call, in US dollars; `None` without a price.
    #[must_use]
    pub fn cost_of_call(&self, model: &str, usage: &Usage, at: Timestamp) -> Option<f64> {
        let entry = self.find(model, None, at)?;
        cost_of(usage, entry.prices_for_usage(usage)).get("total").copied()
    }

    /// The prices that the cost of an observation was computed with. None where its cost was given, and where
    /// its model has gone or has other prices now.
    #[must_use]
    pub fn applied(&self, observation: &Observation) -> Option<AppliedPrices<'_>> {
        let entry = self.entry(observation.price_id.as_deref()?)?;
        let gave_the_cost = |(_, prices): &(&str, &Prices)| {
            is_about(&cost_of(&observation.usage, prices), &observation.computed_cost)
        };
        // Conditions may need fields that were not read; then the tier is derived from the cost.
        let chosen = std::iter::once(entry.tier_for(observation));
        let mut candidates = chosen.chain(entry.all_tiers()).filter(gave_the_cost);
        let (tier, prices) = candidates.next()?;
        Some(AppliedPrices { tier, prices })
    }

    fn entry(&self, id: &str) -> Option<&PriceEntry> {
        match self.ids.get(id) {
            Some(at) => self.entries.get(*at),
            None => self.base.as_ref()?.entry(id),
        }
    }

    /// The entry for a model at a time.
    #[must_use]
    pub fn find(&self, model: &str, provider: Option<&str>, at: Timestamp) -> Option<&PriceEntry> {
        let own = self.matching(model, provider);
        // The first way to write the name that has an entry by then.
        let best = own.iter().find_map(|same_name| {
            let entries = same_name.iter();
            entries
                .filter_map(|index| Some((*index, self.entries.get(*index)?)))
                .filter(|(_, entry)| entry.start.is_none_or(|start| start <= at))
                .max_by_key(|(index, entry)| (entry.start, entry.pattern_length(), *index))
        });
        match (best, &self.base) {
            (Some((_, entry)), _) => Some(entry),
            (None, Some(base)) => base.find(model, provider, at),
            (None, None) => None,
        }
    }

    /// Entries whose name or pattern fits, at any time. MatchCache, misses too.
    fn matching(&self, model: &str, provider: Option<&str>) -> Matching {
        let key = (model.to_owned(), provider.map(str::to_owned));
        if let Ok(remembered) = self.remembered.read()
            && let Some(found) = remembered.by_name.get(&key)
        {
            return Arc::clone(found);
        }
        let patterns = candidate_names(model).into_iter();
        let patterns = patterns.map(|name| self.patterns.matching(name));
        let found: Matching = patterns
            .filter(|found| !found.is_empty())
            .chain(self.sellers.find(model, provider).map(|at| vec![at]))
            .collect();
        if let Ok(mut remembered) = self.remembered.write() {
            let n_matches: usize = found.iter().map(Vec::len).sum();
            if remembered.by_name.len() >= MAX_REMEMBERED
                || remembered.n_matches + n_matches > MAX_REMEMBERED_MATCHES
            {
                *remembered = MatchCache::default();
            }
            remembered.n_matches += n_matches;
            remembered.by_name.insert(key, Arc::clone(&found));
        }
        found
    }
}

/// Cost by bucket with `total`; empty when no bucket has a price.
fn cost_of(usage: &Usage, prices: &Prices) -> Cost {
    let only_total = prices.len() == 1 && prices.contains_key("total");
    let mut cost = Cost::new();
    let mut total = Decimal::ZERO;
    for (bucket, tokens) in usage {
        if (bucket == "total") != only_total {
            continue;
        }
        let Some(price) = price_of(bucket, prices) else {
            continue;
        };
        let amount = tokens.to_decimal().checked_mul(price).unwrap_or(Decimal::MAX);
        total = total.saturating_add(amount);
        cost.insert(bucket.clone(), amount.to_f64().unwrap_or(0.0));
    }
    if !cost.is_empty() {
        cost.insert("total".to_owned(), total.to_f64().unwrap_or(0.0));
    }
    cost
}

/// Whether two costs are the same but for rounding.
fn is_about(one: &Cost, other: &Cost) -> bool {
    let is_close = |a: f64, b: f64| (a - b).abs() <= ROUNDING * a.abs().max(b.abs());
    one.len() == other.len()
        && one.iter().all(|(bucket, a)| other.get(bucket).is_some_and(|b| is_close(*a, *b)))
}

fn price_of(bucket: &str, prices: &Prices) -> Option<Decimal> {
    let alias = canonical_bucket(bucket);
    let side = || {
        let side = usage::side_of(bucket)?;
        prices.get(match side {
            Side::Input => "input",
            Side::Output => "output",
        })
    };
    prices
        .get(bucket)
        .or_else(|| prices.get(alias))
        .or_else(|| {
            let mut others = prices.iter();
            Some(others.find(|(name, _)| canonical_bucket(name) == alias)?.1)
        })
        .or_else(side)
        .copied()
}

#[cfg(test)]
mod tests;

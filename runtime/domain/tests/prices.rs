//! The built-in price table against public price lists (`tests/corpus/prices`), and the rule by which a price is
//! chosen (`docs/prices.md`) against any names.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use perpend_domain::model::ModelDefinition;
use perpend_domain::pricing::{Listing, PriceEntry, PriceTable};
use perpend_domain::time::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

const CORPUS: &str = include_str!("../../../tests/corpus/prices/names.tsv");

struct Fact {
    name: &'static str,
    provider: Option<&'static str>,
    /// Input, output, cached input; None where it is unknown.
    prices: Option<Vec<&'static str>>,
}

fn facts() -> Vec<Fact> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let fact = |line: &'static str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, provider, prices, _source] = columns[..] else {
            panic!("not four columns: {line}");
        };
        Fact {
            name,
            provider: (provider != "-").then_some(provider),
            prices: (prices != "unknown").then(|| prices.split(',').collect()),
        }
    };
    lines.map(fact).collect()
}

fn find<'t>(table: &'t PriceTable, name: &str, provider: Option<&str>) -> Option<&'t PriceEntry> {
    table.find(name, provider, Timestamp::default())
}

fn listing(entry: &PriceEntry) -> &Listing {
    entry.listing.as_ref().unwrap()
}

/// Dollars per million tokens, as price lists write them.
fn per_million(entry: &PriceEntry, bucket: &str) -> Option<String> {
    let dollars = entry.view().prices.get(bucket).copied()?;
    let million = (dollars * 1e6 * 1e6).round() / 1e6;
    Some(million.to_string())
}

#[test]
fn current_models_have_the_published_prices() {
    let (table, facts) = (PriceTable::built_in(), facts());
    assert!(facts.len() >= 150, "{}", facts.len());
    let mut faults = Vec::new();
    for fact in facts {
        let found = find(&table, fact.name, fact.provider);
        let (name, provider) = (fact.name, fact.provider.unwrap_or("-"));
        let shown = found.map_or("nothing", |entry| entry.id.as_str());
        match (&fact.prices, found) {
            (None, None) => {}
            (Some(prices), Some(entry)) => {
                let buckets = ["input", "output", "input_cached_tokens"];
                for (bucket, price) in buckets.into_iter().zip(prices) {
                    let actual = per_million(entry, bucket).filter(|price| price != "0");
                    if actual.as_deref().unwrap_or("-") != *price {
                        faults.push(format!(
                            "{name} of {provider}: {bucket} {actual:?}, not {price} ({shown})"
                        ));
                    }
                }
            }
            _ => faults.push(format!("{name} of {provider}: found {shown}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_entry_is_found_by_seller_and_name_and_has_a_source() {
    let table = PriceTable::built_in();
    for entry in table.entries() {
        let listing = listing(entry);
        let found = find(&table, &entry.model, Some(&listing.seller));
        let found = found.unwrap_or_else(|| panic!("{} is not found", entry.model));
        let same = self::listing(found);
        // The same model under two spellings of one seller has the price of the first one.
        assert_eq!(same.seller, listing.seller, "{} gives {}", entry.model, found.id);
        assert!(!listing.source.is_empty());
    }
}

#[test]
fn no_vendors_own_price_is_free_and_each_of_the_ten_vendors_has_some() {
    let table = PriceTable::built_in();
    let mut by_seller: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in table.entries().iter().filter(|entry| listing(entry).is_own) {
        let prices = entry.view().prices;
        assert!(prices.values().any(|price| *price > 0.0), "{}", entry.id);
        *by_seller.entry(&listing(entry).seller).or_default() += 1;
    }
    for seller in [
        "alibaba",
        "anthropic",
        "bedrock",
        "cohere",
        "deepseek",
        "google",
        "meta",
        "mistral",
        "openai",
        "xai",
    ] {
        assert!(by_seller.get(seller).is_some_and(|n| *n >= 5), "{seller}");
    }
}

#[test]
fn only_local_runners_and_free_variants_cost_nothing() {
    let table = PriceTable::built_in();
    let is_zero = |entry: &&PriceEntry| entry.view().prices.values().all(|price| *price == 0.0);
    for entry in table.entries().iter().filter(is_zero) {
        let (model, seller) = (&entry.model, listing(entry).seller.as_str());
        // Ollama's `-cloud` models do not run locally.
        let is_local = ["lemonade", "ollama"].contains(&seller) && !model.ends_with("-cloud");
        let says_free = model.ends_with("-free") || model.ends_with(":free");
        assert!(is_local || says_free, "{}", entry.id);
    }
}

/// Names of models as their vendors or makers write them, without any seller.
fn bare_names() -> Vec<String> {
    let table = PriceTable::built_in();
    let names = table.entries().iter().filter_map(|entry| {
        let last = entry.model.rsplit('/').next()?;
        // Bedrock's spelling names Bedrock.
        let is_dotted = last
            .split('.')
            .next()
            .is_some_and(|first| first == "ai21" || first.chars().all(|c| !c.is_ascii_digit()));
        (!(last.contains('.') && is_dotted)).then(|| last.to_owned())
    });
    names.collect()
}

fn ending() -> impl Strategy<Value = &'static str> {
    select(vec!["", "-latest", "-20250929", "@20250929", "-2025-04-14", "-v1:0", "@default"])
}

fn in_any_case(name: &str, upper: &[bool]) -> String {
    let flags = upper.iter().copied().cycle();
    let cased = name.chars().zip(flags);
    cased.map(|(c, up)| if up { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect()
}

/// A table of one vendor and two resellers with any part of three models.
fn any_table() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let all: Vec<(&str, &str)> = ["vendor", "reseller", "other"]
        .into_iter()
        .flat_map(|seller| ["model-a", "model-a-20250101", "model-b"].map(|model| (seller, model)))
        .collect();
    prop::sample::subsequence(all, 0..9)
}

fn table_of(entries: &[(&str, &str)]) -> PriceTable {
    let line = |(seller, model): &(&str, &str)| match *seller {
        "vendor" => format!("{model}\tvendor\town\t0\t1,2\n"),
        seller => format!("{seller}/{model}\t{seller}\t-\t0\t3,4\n"),
    };
    let lines: String = entries.iter().map(line).collect();
    // All three are sellers, whatever they sell.
    let sellers = ["vendor", "reseller", "other"]
        .map(|seller| format!("{seller}/none\t{seller}\t-\t0\t9,9\n"));
    PriceTable::parse(&format!("# source 0: a test\n{lines}{}", sellers.concat())).unwrap()
}

proptest! {
    #[test]
    fn a_name_that_names_no_reseller_never_has_a_resellers_price(
        name in select(bare_names()),
        ending in ending(),
        provider in select(vec![None, Some("litellm"), Some("acme"), Some("my.gateway")]),
        prefix in select(vec!["", "acme/", "models/", "team/a/"]),
    ) {
        let table = PriceTable::built_in();
        if let Some(entry) = find(&table, &format!("{prefix}{name}{ending}"), provider) {
            prop_assert!(listing(entry).is_own, "{}", entry.id);
        }
    }

    #[test]
    fn versions_and_dates_never_lead_to_another_seller(
        name in select(bare_names()),
        ending in ending(),
        seller in select(vec![None, Some("aws.bedrock"), Some("azure"), Some("gcp.vertex_ai"), Some("groq"), Some("openai")]),
    ) {
        // A name that is listed with its ending is a separate model.
        let is_one_model = ending.is_empty() || !bare_names().contains(&format!("{name}{ending}"));
        prop_assume!(is_one_model);
        let table = PriceTable::built_in();
        let exact = find(&table, &name, seller);
        let with_ending = find(&table, &format!("{name}{ending}"), seller);
        if let (Some(exact), Some(with_ending)) = (exact, with_ending) {
            prop_assert_eq!(&listing(exact).seller, &listing(with_ending).seller);
        }
    }

    #[test]
    fn case_does_not_matter(fact in 0..facts().len(), upper in prop::collection::vec(any::<bool>(), 1..12)) {
        let (table, fact) = (PriceTable::built_in(), facts().swap_remove(fact));
        let id = |name: &str, provider: Option<&str>| find(&table, name, provider).map(|entry| entry.id.clone());
        let provider = fact.provider.map(|provider| in_any_case(provider, &upper));
        prop_assert_eq!(
            id(&in_any_case(fact.name, &upper), provider.as_deref()),
            id(fact.name, fact.provider)
        );
    }

    #[test]
    fn the_reseller_that_is_named_then_the_vendor_then_nothing(
        entries in any_table(),
        model in select(vec!["model-a", "model-a-20250101", "model-b"]),
        ending in select(vec!["", "-latest"]),
        prefix in select(vec!["", "reseller/", "acme/", "vendor/"]),
        provider in select(vec![None, Some("reseller"), Some("vendor"), Some("acme")]),
    ) {
        let table = table_of(&entries);
        let found = find(&table, &format!("{prefix}{model}{ending}"), provider);
        let found = found.map(|entry| listing(entry).seller.as_str());
        let is_sold = |seller: &str| {
            let mut own = entries.iter().filter(|(by, _)| *by == seller);
            // Without its date a name leads to any date of the model; with it, to that day or the undated entry.
            own.any(|(_, sold)| *sold == model || (model != "model-b" && sold.starts_with("model-a")))
        };
        let is_named = prefix == "reseller/" || provider == Some("reseller");
        let expected = match () {
            () if is_named && is_sold("reseller") => Some("reseller"),
            () if is_sold("vendor") => Some("vendor"),
            () => None,
        };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_projects_own_model_goes_before_any_entry(fact in 0..facts().len()) {
        let fact = facts().swap_remove(fact);
        let own = ModelDefinition {
            id: "own".to_owned(),
            name: "own".to_owned(),
            pattern: "(?i)^.*$".to_owned(),
            start_date: None,
            unit: None,
            tokenizer_id: None,
            tokenizer_config: None,
            tiers: Vec::new(),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        let table = PriceTable::of_models(&[own], PriceTable::built_in());
        let found = find(&table, fact.name, fact.provider);
        prop_assert_eq!(found.map(|entry| entry.id.as_str()), Some("own"));
        let none = PriceTable::of_models(&[], PriceTable::built_in());
        let base: Arc<PriceTable> = PriceTable::built_in();
        let id = |table: &PriceTable| find(table, fact.name, fact.provider).map(|entry| entry.id.clone());
        prop_assert_eq!(id(&none), id(&base));
    }
}

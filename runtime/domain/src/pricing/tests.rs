//! What prices are found, and what they come to.

use serde_json::json;

use super::*;
use crate::ids::{ObservationId, TraceId};
use crate::patch::{About, Patch, merge};

fn table(json: serde_json::Value) -> PriceTable {
    PriceTable::from_json(&json.to_string()).unwrap()
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn usage(list: &[(&str, u64)]) -> Usage {
    list.iter()
        .map(|(key, n)| ((*key).to_owned(), *n))
        .collect()
}

fn find<'t>(table: &'t PriceTable, model: &str, provider: Option<&str>) -> Option<&'t str> {
    let found = table.find(model, provider, at("2026-06-01T00:00:00Z"));
    found.map(|entry| entry.id.as_str())
}

#[test]
fn the_shipped_table_loads_and_knows_the_models_of_the_corpus() {
    let shipped = PriceTable::built_in();
    assert!(shipped.len() > 3_000);
    let expected = [
        ("gpt-4o-mini-2024-07-18", "input", "0.15"),
        ("gpt-4o-mini", "output", "0.60"),
        ("gpt-4o", "input_cached_tokens", "1.25"),
        ("gpt-4.1-mini", "input_cached_tokens", "0.10"),
        ("claude-sonnet-4-5-20250929", "input_cache_creation_1h", "6"),
        ("claude-sonnet-4-5", "input_cache_creation", "3.75"),
        ("text-embedding-3-small", "input", "0.02"),
        ("gemini-2.5-flash", "output", "2.50"),
    ];
    for (model, bucket, million) in expected {
        let entry = shipped.find(model, None, Timestamp::default()).unwrap();
        let wanted: Decimal = million.parse().unwrap();
        assert_eq!(
            entry.prices[bucket] * Decimal::from(1_000_000),
            wanted,
            "{model}"
        );
    }
    assert!(
        shipped
            .find("no such model", None, Timestamp::default())
            .is_none()
    );
}

#[test]
fn names_are_tried_without_provider_and_date() {
    let table = table(json!({ "entries": [
        { "model": "gpt-x", "prices": { "input": "1" } },
        { "model": "azure/gpt-y", "prices": { "input": "1" } },
        { "model": "groq/both", "prices": { "input": "1" } },
        { "model": "xai/both", "prices": { "input": "2" } },
    ] }));
    for model in [
        "gpt-x",
        "GPT-X",
        "openai/gpt-x",
        "a/b/gpt-x-2025-04-14",
        "gpt-x-20250929",
        "gpt-x@20250929",
        "gpt-x-20250929-v1:0",
    ] {
        assert_eq!(find(&table, model, None), Some("built-in:gpt-x"), "{model}");
    }
    assert_eq!(find(&table, "gpt-y", None), Some("built-in:azure/gpt-y"));
    assert_eq!(find(&table, "both", None), None);
    assert_eq!(find(&table, "both", Some("xai")), Some("built-in:xai/both"));
    assert_eq!(find(&table, "gpt-xl", None), None);
    // Remembered, misses too.
    assert_eq!(find(&table, "gpt-xl", None), None);
}

#[test]
fn a_model_of_another_provider_or_without_a_known_price_is_not_priced_by_its_last_word() {
    let table = table(json!({ "entries": [
        { "model": "copilot/chat", "prices": { "input": "0", "output": "0" } },
        { "model": "groq/meta/llama-x", "prices": { "input": "1" } },
    ] }));
    for model in ["acme/chat", "chat", "chat-2025-04-14", "acme/llama-x"] {
        assert_eq!(find(&table, model, None), None, "{model}");
        assert_eq!(find(&table, model, Some("acme")), None, "{model}");
    }
    for model in ["meta/llama-x", "llama-x"] {
        let found = find(&table, model, Some("groq"));
        assert_eq!(found, Some("built-in:groq/meta/llama-x"), "{model}");
    }
    let found = find(&table, "chat", Some("copilot"));
    assert_eq!(found, Some("built-in:copilot/chat"));
    let shipped = PriceTable::built_in();
    assert_eq!(find(&shipped, "acme/chat", None), None);
}

#[test]
fn a_model_whose_own_name_has_slashes_is_priced_as_its_provider_spells_it() {
    let table = table(json!({ "entries": [
        { "model": "fireworks_ai/accounts/fireworks/models/deep-x", "prices": { "input": "1" } },
        { "model": "together_ai/Qwen/Qwen-x", "prices": { "input": "2" } },
        { "model": "vertex_ai/deepseek-ai/deep-maas", "prices": { "input": "3" } },
        { "model": "novita/deepseek-ai/deep-maas", "prices": { "input": "4" } },
    ] }));
    let fireworks = Some("built-in:fireworks_ai/accounts/fireworks/models/deep-x");
    for provider in [None, Some("openai"), Some("fireworks")] {
        let found = find(&table, "accounts/fireworks/models/deep-x", provider);
        assert_eq!(found, fireworks, "{provider:?}");
    }
    for provider in ["together", "togetherai", "together_ai"] {
        let found = find(&table, "Qwen/Qwen-x", Some(provider));
        assert_eq!(
            found,
            Some("built-in:together_ai/Qwen/Qwen-x"),
            "{provider}"
        );
    }
    let vertex = find(&table, "deepseek-ai/deep-maas", Some("gcp.vertex_ai"));
    assert_eq!(vertex, Some("built-in:vertex_ai/deepseek-ai/deep-maas"));
    assert_eq!(
        find(&table, "deepseek-ai/deep-maas", None),
        None,
        "two have it"
    );
}

#[test]
fn project_entries_then_start_then_pattern_length_then_the_newest_decide() {
    let base = Arc::new(table(
        json!({ "entries": [{ "model": "m", "prices": { "input": "1" } }] }),
    ));
    let own = |entries: serde_json::Value| {
        PriceTable::layered(table(json!({ "entries": entries })), Arc::clone(&base))
    };
    let entry = |id: &str, pattern: &str, start: Option<&str>| json!({ "id": id, "model": "x", "pattern": pattern, "start": start, "prices": { "input": "1" } });
    assert_eq!(find(&own(json!([])), "m", None), Some("built-in:m"));
    assert_eq!(
        find(&own(json!([entry("own", "(?i)M", None)])), "m", None),
        Some("own")
    );
    let by_start = own(json!([
        entry("undated", "m", None),
        entry("past", "m", Some("2026-01-01T00:00:00Z")),
        entry("future", "m", Some("2027-01-01T00:00:00Z")),
    ]));
    assert_eq!(find(&by_start, "m", None), Some("past"));
    assert_eq!(
        find(
            &own(json!([
                entry("long", "(m|n)", None),
                entry("short", "m", None)
            ])),
            "m",
            None
        ),
        Some("long")
    );
    assert_eq!(
        find(
            &own(json!([
                entry("first", "m", None),
                entry("second", "m", None)
            ])),
            "m",
            None
        ),
        Some("second")
    );
    assert_eq!(
        find(&own(json!([entry("broken", "(", None)])), "m", None),
        Some("built-in:m")
    );
}

#[test]
fn buckets_go_by_name_alias_and_prefix() {
    let prices = |list: &[(&str, &str)]| -> Prices {
        list.iter()
            .map(|(key, text)| ((*key).to_owned(), text.parse().unwrap()))
            .collect()
    };
    let priced = prices(&[
        ("input", "1"),
        ("output", "10"),
        ("input_cached_tokens", "0.5"),
    ]);
    let cost = cost_of(
        &usage(&[
            ("input", 1),
            ("cache_read_input_tokens", 2),
            ("input_image_tokens", 3),
            ("output_reasoning_tokens", 4),
            ("custom", 9),
            ("total", 99),
        ]),
        &priced,
    );
    let wanted = [
        ("input", 1.0),
        ("cache_read_input_tokens", 1.0),
        ("input_image_tokens", 3.0),
        ("output_reasoning_tokens", 40.0),
        ("total", 45.0),
    ];
    assert_eq!(
        cost,
        wanted
            .iter()
            .map(|(key, n)| ((*key).to_owned(), *n))
            .collect()
    );
    let only_total = cost_of(
        &usage(&[("input", 1), ("total", 5)]),
        &prices(&[("total", "2")]),
    );
    assert_eq!(only_total["total"], 10.0);
    // The other way round: a price under the other name of the bucket.
    let by_alias = prices(&[("input", "1"), ("cache_read_input_tokens", "0.5")]);
    let cached = cost_of(&usage(&[("input_cached_tokens", 2)]), &by_alias);
    assert_eq!(cached["total"], 1.0);
    assert_eq!(
        cost_of(&usage(&[("custom", 1), ("total", 1)]), &priced),
        Cost::new()
    );
}

#[test]
fn decimal_arithmetic_gives_the_example_of_the_specification() {
    let million = Decimal::from(1_000_000);
    let price = |text: &str| text.parse::<Decimal>().unwrap() / million;
    let prices: Prices = [
        ("input", "0.15"),
        ("input_cached_tokens", "0.075"),
        ("output", "0.60"),
    ]
    .into_iter()
    .map(|(key, text)| (key.to_owned(), price(text)))
    .collect();
    let tokens = usage(&[
        ("input", 56),
        ("input_cached_tokens", 64),
        ("output", 24),
        ("output_reasoning_tokens", 16),
        ("total", 160),
    ]);
    assert_eq!(cost_of(&tokens, &prices)["total"], 0.0000372);
}

#[test]
fn the_tier_of_a_computed_cost_is_known_while_its_prices_stand() {
    let table = |input: &str| {
        let tiers = json!([
            { "when": [{ "key": "service_tier", "in": ["batch"] }], "prices": { "input": "1" } },
            { "when": [{ "buckets": "^input", "above": 100 }], "prices": { "input": "6" } },
        ]);
        let prices = json!({ "input": input, "output": "4" });
        table(json!({ "entries": [{ "model": "m", "prices": prices, "tiers": tiers }] }))
    };
    let own = Arc::new(table("2"));
    let layered = PriceTable::of_models(&[], Arc::clone(&own));
    let about = About::Observation(ObservationId::new("o").unwrap());
    let mut patch = Patch::new(String::new(), Timestamp::default(), false, about);
    patch.trace_id = Some(TraceId::new("t").unwrap());
    patch.model = Some("m".to_owned());
    patch.usage = usage(&[("input", 100), ("output", 1)]);
    let mut observation = merge([&patch]).unwrap();
    let applied = |table: &PriceTable, observation: &Observation| {
        let applied = table.applied(observation)?;
        Some((
            applied.tier.to_owned(),
            applied.price("input")?,
            applied.price("total"),
        ))
    };
    let known = |tier: &str, input| Some((tier.to_owned(), input, None));
    assert_eq!(
        applied(&layered, &observation),
        None,
        "nothing was computed"
    );
    layered.apply(&mut observation);
    assert_eq!(applied(&layered, &observation), known(STANDARD, 2e-6));
    assert_eq!(applied(&table("3"), &observation), None, "other prices now");
    assert_eq!(applied(&PriceTable::default(), &observation), None, "gone");

    observation.usage = usage(&[("input", 101)]);
    own.apply(&mut observation);
    assert_eq!(applied(&own, &observation), known("Over 100 tokens", 6e-6));
    let tier = json!("batch");
    let content = &mut observation.content.metadata;
    content.insert("service_tier".to_owned(), tier);
    own.apply(&mut observation);
    observation.content = crate::observation::Content::default();
    let told = applied(&own, &observation);
    assert_eq!(
        told,
        known("batch", 1e-6),
        "metadata are not read with every list"
    );
}

#[test]
fn a_bad_table_names_the_place() {
    let error =
        PriceTable::from_json(r#"{"entries":[{"model":"m","prices":{"input":"x"}}]}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "price table: m: price of `input` is not a number"
    );
    assert!(PriceTable::from_json("{}").is_err());
}

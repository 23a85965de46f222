//! Selection of prices, and computed costs.

use serde_json::json;

use super::*;
use crate::ids::{ObservationId, TraceId};
use crate::patch::{Patch, PatchSubject, merge};

/// Entries as in the built-in table, with blanks for its tabs and without the source.
fn table(lines: &[&str]) -> PriceTable {
    let entries = lines.iter().map(|line| {
        let columns: Vec<&str> = line.split(' ').collect();
        let (listing, prices) = columns.split_at(3);
        format!("{}\t0\t{}\n", listing.join("\t"), prices.join("\t"))
    });
    let entries: String = entries.collect();
    PriceTable::parse(&format!("# source 0: a test\n{entries}")).unwrap()
}

fn own(id: &str, pattern: &str, start: Option<&str>) -> ModelDefinition {
    ModelDefinition {
        id: id.to_owned(),
        name: id.to_owned(),
        pattern: pattern.to_owned(),
        start_date: start.map(at),
        unit: None,
        tokenizer_id: None,
        tokenizer_config: None,
        tiers: Vec::new(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn usage(list: &[(&str, u64)]) -> Usage {
    list.iter().map(|(key, n)| ((*key).to_owned(), (*n).into())).collect()
}

fn find<'t>(table: &'t PriceTable, model: &str, provider: Option<&str>) -> Option<&'t str> {
    let found = table.find(model, provider, at("2026-06-01T00:00:00Z"));
    found.map(|entry| entry.id.as_str())
}

#[test]
fn the_built_in_table_has_the_models_of_the_corpus() {
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
        assert_eq!(entry.prices[bucket] * Decimal::from(1_000_000), wanted, "{model}");
    }
    assert!(shipped.find("no such model", None, Timestamp::default()).is_none());
}

#[test]
fn names_are_tried_without_provider_version_and_date() {
    let table = table(&[
        "gpt-x openai own 1",
        "azure/gpt-y azure - 1",
        "claude-y-20250101 anthropic own 1",
        "claude-y-20250202 anthropic own 2",
        "gemini/gemini-z-002 google own 1",
    ]);
    for model in [
        "gpt-x",
        "GPT-X",
        "openai/gpt-x",
        "a/b/gpt-x-2025-04-14",
        "gpt-x-20250929",
        "gpt-x@20250929",
        "gpt-x-20250929-v1:0",
        "gpt-x-latest",
    ] {
        assert_eq!(find(&table, model, None), Some("built-in:gpt-x"), "{model}");
    }
    for model in ["claude-y", "claude-y-latest", "claude-y-20250303"] {
        let newest = Some("built-in:claude-y-20250202");
        assert_eq!(find(&table, model, None), newest, "{model}");
    }
    let dated = find(&table, "claude-y@20250101", None);
    assert_eq!(dated, Some("built-in:claude-y-20250101"));
    let gemini = find(&table, "models/gemini-z-001", None);
    assert_eq!(gemini, Some("built-in:gemini/gemini-z-002"));
    for model in ["gpt-xl", "gpt", "gpt-y", "claude-y-0404"] {
        assert_eq!(find(&table, model, None), None, "{model}");
        assert_eq!(find(&table, model, None), None, "remembered: {model}");
    }
}

#[test]
fn a_reseller_has_its_price_where_the_span_names_it_and_nowhere_else() {
    let table = table(&[
        "claude-x-20250101 anthropic own 1",
        "anthropic.claude-x-20250101-v1:0 bedrock - 2",
        "us.anthropic.claude-x-20250101-v1:0 bedrock - 3",
        "vertex_ai/claude-x@20250101 vertex_ai - 4",
        "groq/meta/llama-x groq - 5",
        "fireworks_ai/accounts/fireworks/models/deep-x fireworks_ai - 6",
        "copilot/chat copilot - 0,0",
    ]);
    let (own, bedrock) = ("claude-x-20250101", "anthropic.claude-x-20250101-v1:0");
    let regional = "us.anthropic.claude-x-20250101-v1:0";
    let vertex = "vertex_ai/claude-x@20250101";
    let fireworks = "fireworks_ai/accounts/fireworks/models/deep-x";
    let arn = "arn:aws:bedrock:eu-west-1:1:inference-profile/us.anthropic.claude-x-20250101-v1:0";
    for (model, provider, expected) in [
        ("claude-x", None, own),
        ("claude-x@20250101", None, own),
        ("anthropic/claude-x", Some("anthropic"), own),
        ("claude-x", Some("acme"), own),
        ("claude-x", Some("groq"), own),
        ("groq/claude-x", None, own),
        ("anthropic.claude-x-20250101-v1:0", None, bedrock),
        ("claude-x-20250101", Some("aws.bedrock"), bedrock),
        ("claude-x", Some("amazon-bedrock"), bedrock),
        ("bedrock/claude-x", Some("anthropic"), bedrock),
        ("eu.anthropic.claude-x-20250101-v1:0", None, bedrock),
        (regional, Some("anthropic"), regional),
        ("us.anthropic.claude-x", None, regional),
        (arn, None, regional),
        ("claude-x-20250101", Some("gcp.vertex_ai"), vertex),
        ("claude-x", Some("google.vertex.anthropic"), vertex),
        ("publishers/anthropic/models/claude-x", None, vertex),
        ("meta/llama-x", Some("groq.chat"), "groq/meta/llama-x"),
        ("GROQ/Llama-X", Some("openai"), "groq/meta/llama-x"),
        ("accounts/fireworks/models/deep-x", Some("openai"), fireworks),
        ("deep-x", Some("Fireworks"), fireworks),
        ("chat", Some("copilot"), "copilot/chat"),
    ] {
        let expected = format!("built-in:{expected}");
        let found = find(&table, model, provider);
        assert_eq!(found, Some(expected.as_str()), "{model} of {provider:?}");
    }
    for model in ["chat", "acme/chat", "chat-2025-04-14", "llama-x", "acme/llama-x"] {
        assert_eq!(find(&table, model, None), None, "{model}");
        assert_eq!(find(&table, model, Some("acme")), None, "{model}");
    }
}

#[test]
fn project_entries_then_start_then_pattern_length_then_the_newest_decide() {
    let base = Arc::new(table(&["m openai own 1", "azure/m azure - 1"]));
    let project = |models: &[ModelDefinition]| PriceTable::of_models(models, Arc::clone(&base));
    assert_eq!(find(&project(&[]), "m", None), Some("built-in:m"));
    let (past, future) = ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
    for (models, expected) in [
        (vec![own("own", "(?i)^M$", None)], "own"),
        (
            vec![
                own("undated", "^m$", None),
                own("past", "^m$", Some(past)),
                own("future", "^m$", Some(future)),
            ],
            "past",
        ),
        (vec![own("long", "^(m|n)$", None), own("short", "^m$", None)], "long"),
        (vec![own("first", "^m$", None), own("second", "^m$", None)], "second"),
        (vec![own("future", "^m$", Some(future))], "built-in:m"),
        (vec![own("broken", "(", None)], "built-in:m"),
    ] {
        assert_eq!(find(&project(&models), "m", None), Some(expected));
    }
    let dated = project(&[
        own("begins later", "^m-2025-01-01$", Some(future)),
        own("undated name", "^m$", None),
    ]);
    assert_eq!(find(&dated, "m-2025-01-01", None), Some("undated name"));
    let own_first = project(&[own("own", "^m$", None)]);
    for model in ["m", "azure/m", "azure/m-2025-01-01"] {
        assert_eq!(find(&own_first, model, Some("azure")), Some("own"), "{model}");
    }
}

#[test]
fn buckets_go_by_name_alias_and_prefix() {
    let prices = |list: &[(&str, &str)]| -> Prices {
        list.iter().map(|(key, text)| ((*key).to_owned(), text.parse().unwrap())).collect()
    };
    let priced = prices(&[("input", "1"), ("output", "10"), ("input_cached_tokens", "0.5")]);
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
    assert_eq!(cost, wanted.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect());
    let only_total = cost_of(&usage(&[("input", 1), ("total", 5)]), &prices(&[("total", "2")]));
    assert_eq!(only_total["total"], 10.0);
    // The other way round: a price under the other name of the bucket.
    let by_alias = prices(&[("input", "1"), ("cache_read_input_tokens", "0.5")]);
    let cached = cost_of(&usage(&[("input_cached_tokens", 2)]), &by_alias);
    assert_eq!(cached["total"], 1.0);
    assert_eq!(cost_of(&usage(&[("custom", 1), ("total", 1)]), &priced), Cost::new());
}

#[test]
fn decimal_arithmetic_gives_the_example_of_the_specification() {
    let million = Decimal::from(1_000_000);
    let price = |text: &str| text.parse::<Decimal>().unwrap() / million;
    let prices: Prices = [("input", "0.15"), ("input_cached_tokens", "0.075"), ("output", "0.60")]
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
fn the_tier_of_a_computed_cost_is_found_while_its_prices_are_valid() {
    let table = |input: &str| {
        let line = format!("m openai own {input},4 batch:1 >100:6");
        table(&[line.as_str()])
    };
    let own = Arc::new(table("2"));
    let layered = PriceTable::of_models(&[], Arc::clone(&own));
    let about = PatchSubject::Observation(ObservationId::new("o").unwrap());
    let mut patch = Patch::new(String::new(), Timestamp::default(), false, about);
    patch.trace_id = Some(TraceId::new("t").unwrap());
    patch.model = Some("m".to_owned());
    patch.usage = usage(&[("input", 100), ("output", 1)]);
    let mut observation = merge([&patch]).unwrap();
    let applied = |table: &PriceTable, observation: &Observation| {
        let applied = table.applied(observation)?;
        Some((applied.tier.to_owned(), applied.price("input")?, applied.price("total")))
    };
    let known = |tier: &str, input| Some((tier.to_owned(), input, None));
    assert_eq!(applied(&layered, &observation), None, "nothing was computed");
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
    let by_cost = applied(&own, &observation);
    assert_eq!(by_cost, known("batch", 1e-6), "metadata are not read with every list");
}

#[test]
fn usage_that_repeats_the_steps_below_is_priced_apart_and_never_as_one_long_call() {
    let table = table(&["m openai own 2,4 >100:6"]);
    let about = PatchSubject::Observation(ObservationId::new("o").unwrap());
    let mut patch = Patch::new(String::new(), Timestamp::default(), false, about);
    patch.trace_id = Some(TraceId::new("t").unwrap());
    let mut agent = merge([&patch]).unwrap();
    agent.aggregate_usage = usage(&[("input", 1_000), ("output", 500), ("total", 1_500)]);
    agent.aggregate_model = Some("m".to_owned());
    for _ in 0..2 {
        table.apply(&mut agent);
        assert_eq!(agent.effective_aggregate_cost()["total"], 0.004);
        assert!(agent.effective_cost().is_empty());
    }
    agent.aggregate_cost.insert("total".to_owned(), 1.0);
    table.apply(&mut agent);
    assert_eq!(agent.effective_aggregate_cost()["total"], 1.0);
    assert!(agent.aggregate_computed_cost.is_empty());
    agent.aggregate_cost.clear();
    agent.aggregate_model = None;
    table.apply(&mut agent);
    assert!(agent.effective_aggregate_cost().is_empty());
}

#[test]
fn a_tier_holds_under_all_its_conditions_and_prices_what_it_names() {
    let table = table(&["m openai own 2,8,1 batch>100:,5,3 >100:4,9 batch:,4"]);
    let about = PatchSubject::Observation(ObservationId::new("o").unwrap());
    let mut patch = Patch::new(String::new(), Timestamp::default(), false, about);
    patch.trace_id = Some(TraceId::new("t").unwrap());
    patch.model = Some("m".to_owned());
    let mut observation = merge([&patch]).unwrap();
    for (service, cached, total) in [
        (None, 50, 50.0 * 2.0 + 8.0 + 50.0),
        (None, 51, 50.0 * 4.0 + 9.0 + 51.0),
        (Some("batches"), 50, 50.0 * 2.0 + 4.0 + 50.0),
        (Some("Batch"), 51, 50.0 * 2.0 + 5.0 + 51.0 * 3.0),
        (Some("default"), 50, 50.0 * 2.0 + 8.0 + 50.0),
    ] {
        observation.usage = usage(&[("input", 50), ("input_cached_tokens", cached), ("output", 1)]);
        let parameters = &mut observation.model_parameters;
        parameters.remove("service_tier");
        parameters.extend(service.map(|service| ("service_tier".to_owned(), json!(service))));
        table.apply(&mut observation);
        let computed = observation.computed_cost["total"] * 1e6;
        assert!((computed - total).abs() < 1e-6, "{service:?} {cached}: {computed}");
    }
}

#[test]
fn a_bad_table_names_the_line() {
    for (line, fault) in [
        ("m\topenai\town\t0\tx", "price of `input` is not a number"),
        ("m\topenai\town\t0\t-1", "price of `input` is negative"),
        ("m\topenai\town\t1\t1", "source `1` is not declared"),
        ("m\topenai\tyes\t0\t1", "`yes` is neither `own` nor `-`"),
        ("m\topenai\town\t0", "no prices"),
        ("m\topenai\town\t0\t1\t:1", "tier `:1` has no condition"),
    ] {
        let text = format!("# source 0: a test\n{line}\n");
        let error = PriceTable::parse(&text).unwrap_err().to_string();
        assert_eq!(error, format!("price table: line 2: {fault}"));
    }
}

#[test]
fn patterns_of_many_models_are_bounded_together_and_match_as_they_do_alone() {
    let models: Vec<ModelDefinition> = (0..1_500)
        .map(|n| own(&format!("m{n}"), &format!("(?i)^(vendor/)?(model-{n}-turbo)$"), None))
        .collect();
    let many = PriceTable::of_models(&models, PriceTable::built_in());
    assert!(many.is_complete());
    assert_eq!(find(&many, "Vendor/Model-1499-TURBO", None), Some("m1499"));
    assert_eq!(find(&many, "model-1499-turb", None), None);
    let large: Vec<ModelDefinition> = (0..300)
        .map(|n| own(&format!("m{n}"), &format!("^[a-z]{n}[^\\x00]{{400}}x$"), None))
        .chain([own("small", "^small$", None)])
        .collect();
    let large = PriceTable::of_models(&large, PriceTable::built_in());
    assert!(!large.is_complete());
    assert_eq!(find(&large, "small", None), Some("small"));
}

#[test]
fn a_path_keeps_the_region_and_the_mark_of_a_variant_is_no_part_of_the_name() {
    let table = table(&[
        "claude-x-20250101 anthropic own 1",
        "anthropic.claude-x-20250101-v1:0 bedrock - 2",
        "us.anthropic.claude-x-20250101-v1:0 bedrock - 3",
    ]);
    let regional = "us.anthropic.claude-x-20250101-v1:0";
    let profile = format!("arn:aws:bedrock:us-east-1:123456789012:inference-profile/{regional}");
    for (model, provider) in [
        (regional.to_owned(), None),
        (regional.to_owned(), Some("aws.bedrock")),
        (profile.clone(), None),
        (profile, Some("aws.bedrock")),
        (format!("bedrock/{regional}"), None),
        (format!("bedrock/converse/{regional}"), None),
        (format!("bedrock/converse/{regional}"), Some("amazon-bedrock")),
    ] {
        let found = find(&table, &model, provider);
        assert_eq!(
            found,
            Some("built-in:us.anthropic.claude-x-20250101-v1:0"),
            "{model} {provider:?}"
        );
    }
    for (model, provider) in [
        ("claude-x-20250101[1m]", None),
        ("claude-x[1m]", Some("anthropic")),
        ("anthropic/claude-x[1m]", None),
    ] {
        let found = find(&table, model, provider);
        assert_eq!(found, Some("built-in:claude-x-20250101"), "{model}");
    }
    let own = PriceTable::of_models(&[own("mine", "^claude-x$", None)], table.into());
    assert_eq!(find(&own, "claude-x[1m]", None), Some("mine"));
}

#[test]
fn only_buckets_of_known_meaning_have_the_price_of_their_side() {
    let prices = Prices::from([
        ("input".to_owned(), Decimal::ONE),
        ("output".to_owned(), Decimal::TWO),
        ("seconds".to_owned(), Decimal::TEN),
    ]);
    let fraction = crate::quantity::Quantity::from_f64(2.5).unwrap();
    let mut used = usage(&[
        ("cacheReadInputTokens", 1),
        ("input_new_tokens", 10),
        ("output_reasoning", 100),
        ("output_tokens_per_second", 33),
        ("images", 7),
        ("total", 1_000),
    ]);
    used.insert("seconds".to_owned(), fraction);
    let cost = cost_of(&used, &prices);
    assert_eq!(cost["total"], 1.0 + 10.0 + 200.0 + 25.0);
}

//! `perpend/javascript`: source text as configuration, by the contract of code evaluators.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScore, PluginScoreValue as Value};
use perpend_tests_guests::{Guest, Test, Tested, apart, item, output, tests};
use serde_json::{Value as Json, json};

fn plugin() -> Result<&'static Guest, perpend_tests_guests::Missing> {
    apart("perpend/javascript")
}

fn config(language: &str, source: &str) -> Json {
    json!({ "language": language, "source": source })
}

/// An expression of what `evaluate` returns, as a source.
fn returning(expression: &str) -> Json {
    let source = format!("export function evaluate(ctx) {{ return {expression}; }}");
    config("javascript", &source)
}

fn one(guest: &Guest, config: &Json, item: &Item) -> PluginScore {
    let scores = guest.scores("code", config, item);
    assert_eq!(scores.len(), 1, "{config}");
    scores[0].clone()
}

fn ctx_holds_the_observation_and_the_experiment() -> Tested {
    let guest = plugin()?;
    let full = Item {
        input: Some(Payload::Json(r#"{"q":[1,2]}"#.into())),
        expected_output: Some(Payload::Text("yes".into())),
        metadata: Some(
            r#"{"k":1,"perpend.tool_calls":[{"name":"search"}],"perpend.item_metadata":{"level":3}}"#
                .into(),
        ),
        ..output("Yes.")
    };
    let shown =
        returning(r#"{ scores: [{ name: "ctx", value: 1, comment: JSON.stringify(ctx) }] }"#);
    let seen = |item: &Item| -> Json {
        serde_json::from_str(&one(guest, &shown, item).comment.unwrap()).unwrap()
    };
    let expected = json!({
        "observation": {
            "input": { "q": [1, 2] },
            "output": "Yes.",
            "metadata": { "k": 1 },
            "toolCalls": [{ "name": "search" }],
        },
        "experiment": { "itemExpectedOutput": "yes", "itemMetadata": { "level": 3 } },
    });
    assert_eq!(seen(&full), expected);
    let bare = json!({ "observation": { "output": "x", "metadata": {}, "toolCalls": [] } });
    assert_eq!(seen(&output("x")), bare, "outside an experiment there is none");
    Ok(())
}

fn every_form_of_a_result_is_normalised() -> Tested {
    let guest = plugin()?;
    let numeric = Value::Numeric;
    let category = |text: &str| Value::Categorical(text.into());
    let forms = [
        ("value: 0.5", numeric(0.5)),
        ("value: 3, dataType: \"NUMERIC\"", numeric(3.0)),
        ("value: \"good\"", category("good")),
        ("value: \"good\", dataType: \"CATEGORICAL\"", category("good")),
        ("value: true", Value::Boolean(true)),
        ("value: false, dataType: \"BOOLEAN\"", Value::Boolean(false)),
        ("value: 1, dataType: \"BOOLEAN\"", Value::Boolean(true)),
        ("value: \"0\", dataType: \"BOOLEAN\"", Value::Boolean(false)),
        ("value: \"TrUe\", dataType: \"BOOLEAN\"", Value::Boolean(true)),
        ("value: \"a note\", dataType: \"TEXT\"", category("a note")),
    ];
    for (form, expected) in forms {
        let config = returning(&format!("{{ scores: [{{ name: \"s\", {form} }}] }}"));
        assert_eq!(one(guest, &config, &output("x")).value, expected, "{form}");
    }
    let config = returning(
        r#"{ scores: [{ name: "s", value: 1, comment: "why", configId: "c-1", metadata: { a: 1 } }] }"#,
    );
    let score = one(guest, &config, &output("x"));
    assert_eq!(score.comment.as_deref(), Some("why"));
    let metadata: Json = serde_json::from_str(&score.metadata.unwrap()).unwrap();
    assert_eq!(metadata, json!({ "a": 1, "configId": "c-1" }));
    let several = r#"{ scores: [{ name: "a", value: 1 }, { name: "b", value: "x" }] }"#;
    assert_eq!(guest.scores("code", &returning(several), &output("x")).len(), 2);
    assert!(guest.scores("code", &returning("{ scores: [] }"), &output("x")).is_empty());
    Ok(())
}

fn sources_may_be_written_in_many_ways() -> Tested {
    let guest = plugin()?;
    let sources = [
        "function evaluate(ctx) { return { scores: [{ name: 's', value: 1 }] }; }",
        "export const evaluate = (ctx) => ({ scores: [{ name: 's', value: 1 }] });",
        "export default function (ctx) { return { scores: [{ name: 's', value: 1 }] }; }",
        "const score = () => ({ scores: [{ name: 's', value: 1 }] });\nexport { score as evaluate };",
        "const text = `\nexport function evaluate() {}\n`;\nexport function evaluate() { return { scores: [{ name: 's', value: text.length > 9 ? 1 : 0 }] }; }",
        "export async function evaluate(ctx) { return { scores: [{ name: 's', value: await Promise.resolve(1) }] }; }",
        "const twice = async x => await x * 2;\nclass A { async half() { return (await twice(this.k)) / 2; } constructor() { this.k = 1; } }\n\
         export const evaluate = async () => ({ scores: [{ name: 's', value: await (await new A()).half() }] });",
        "class A { static async one() { return 1; } two = async (x = async () => 2) => (await x()); async async() { return arguments.length; } }\n\
         const o = { async: async () => 1, two: async function () { return 3; }, async async2() { return 2; } };\n\
         export async function evaluate() { const a = new A(); const n = await A.one() + await a.two() + await a.async(1, 2);\n\
         const m = await o.async() + await o.two() + (await o.async2()); return { scores: [{ name: 's', value: m - n }] }; }",
        "export function evaluate() { return new Promise((done) => done({ scores: [{ name: 's', value: 1 }] })); }",
        "export async function evaluate() { let n = 0; for (const p of [1, 2]) { try { await Promise.reject(p); } catch (e) { n += e; } finally { n -= 1; } }\n\
         const all = await Promise.all([n, twice(n)].map(async (x) => x)); return { scores: [{ name: 's', value: all[1] - all[0] }] };\n\
         async function twice(x) { return 2 * x; } }",
    ];
    for source in sources {
        for language in ["javascript", "typescript"] {
            let score = one(guest, &config(language, source), &output("x"));
            assert_eq!(score.value, Value::Numeric(1.0), "{language}: {source}");
        }
    }
    Ok(())
}

fn types_are_taken_out_of_typescript() -> Tested {
    let guest = plugin()?;
    let source = r#"
        type Scores = { scores: { name: string; value: number }[] };
        interface Ctx { observation: { output: unknown } }
        enum Weight { Low = 1, High = 2 }
        const pick = <T,>(list: T[], n: number): T => list[n]!;
        export async function evaluate({ observation }: Ctx): Promise<Scores> {
          const words = new Map<string, number>([["a", Weight.High]]);
          const n = (observation.output as string).length satisfies number;
          return { scores: [{ name: `s`, value: pick<number>([n, words.get("a")!], 1) }] };
        }"#;
    let score = one(guest, &config("typescript", source), &output("x"));
    assert_eq!(score.value, Value::Numeric(2.0));
    let failure = guest.failure("code", &config("javascript", source), &output("x"));
    assert_eq!(failure.class, FailureClass::InvalidConfig, "it is no JavaScript");
    Ok(())
}

fn errors_have_a_code_a_type_and_a_line() -> Tested {
    let guest = plugin()?;
    let cases: [(&str, FailureClass, &[&str]); 9] = [
        (
            "export function evaluate(ctx) {\n  const = 1;\n}",
            FailureClass::InvalidConfig,
            &["INVALID_SOURCE", "SyntaxError", "line 2"],
        ),
        (
            "export async function evaluate(ctx) {\n\n  await = 1;\n}",
            FailureClass::InvalidConfig,
            &["INVALID_SOURCE", "SyntaxError", "line 3"],
        ),
        ("export const other = 1;", FailureClass::InvalidConfig, &["INVALID_SOURCE", "evaluate"]),
        (
            "import fs from \"fs\";\nexport function evaluate() {}",
            FailureClass::InvalidConfig,
            &["INVALID_SOURCE", "\"fs\""],
        ),
        (
            "export function evaluate(ctx) {\n  return ctx.nothing.x;\n}",
            FailureClass::PluginError,
            &["USER_CODE_ERROR", "TypeError", "line 2"],
        ),
        (
            "export async function evaluate(ctx) {\n\n\n  throw new RangeError('no');\n}",
            FailureClass::PluginError,
            &["USER_CODE_ERROR", "RangeError: no", "line 4"],
        ),
        (
            "\nthrow new Error('at once');",
            FailureClass::PluginError,
            &["USER_CODE_ERROR", "at once", "line 2"],
        ),
        (
            "export function evaluate() { throw 'text'; }",
            FailureClass::PluginError,
            &["USER_CODE_ERROR", "text"],
        ),
        (
            "export function evaluate() { return new Promise(() => {}); }",
            FailureClass::PluginError,
            &["never settles"],
        ),
    ];
    for (source, class, parts) in cases {
        let failure = guest.failure("code", &config("javascript", source), &output("x"));
        assert_eq!(failure.class, class, "{source}: {}", failure.message);
        for part in parts {
            assert!(failure.message.contains(part), "{source}: {}", failure.message);
        }
    }
    Ok(())
}

fn invalid_results_name_the_score_and_the_problem() -> Tested {
    let guest = plugin()?;
    let cases = [
        ("1", "must return { scores: [...] }"),
        ("undefined", "must return { scores: [...] }"),
        ("{ scores: { name: 's', value: 1 } }", "must return { scores: [...] }"),
        ("{ scores: [1] }", "scores[0]"),
        ("{ scores: [{ value: 1 }] }", "scores[0].name"),
        ("{ scores: [{ name: 's' }] }", "scores[0].value"),
        ("{ scores: [{ name: 's', value: 1 }, { name: 't', value: {} }] }", "scores[1].value"),
        ("{ scores: [{ name: 's', value: NaN }] }", "finite"),
        ("{ scores: [{ name: 's', value: 1 / 0 }] }", "finite"),
        ("{ scores: [{ name: 's', value: '1', dataType: 'NUMERIC' }] }", "NUMERIC"),
        ("{ scores: [{ name: 's', value: 2, dataType: 'BOOLEAN' }] }", "BOOLEAN"),
        ("{ scores: [{ name: 's', value: '', dataType: 'TEXT' }] }", "TEXT"),
        ("{ scores: [{ name: 's', value: 1, dataType: 'NUMBER' }] }", "scores[0].dataType"),
        ("{ scores: [{ name: 's', value: 1, comment: 5 }] }", "scores[0].comment"),
        ("{ scores: [{ name: 's', value: 1, metadata: [] }] }", "scores[0].metadata"),
        ("{ scores: [], self: 1n }", "not JSON"),
    ];
    for (expression, part) in cases {
        let failure = guest.failure("code", &returning(expression), &output("x"));
        assert_eq!(failure.class, FailureClass::PluginError, "{expression}");
        let message = failure.message;
        assert!(
            message.starts_with("INVALID_RESULT: ") && message.contains(part),
            "{expression}: {message}"
        );
    }
    let large =
        returning("{ scores: [{ name: 's', value: 1, metadata: { x: 'x'.repeat(262144) } }] }");
    let failure = guest.failure("code", &large, &output("x"));
    assert!(failure.message.starts_with("RESULT_TOO_LARGE"), "{}", failure.message);
    Ok(())
}

fn sizes_are_limited() -> Tested {
    let guest = plugin()?;
    let long = format!("{}\n// {}", "function evaluate() {}", "é".repeat(131_072));
    let failure = guest.failure("code", &config("javascript", &long), &output("x"));
    assert_eq!(failure.class, FailureClass::InvalidConfig);
    assert!(failure.message.starts_with("SOURCE_TOO_LARGE"), "{}", failure.message);
    let large = output(&"x".repeat(5_500_001));
    let failure = guest.failure("code", &returning("{ scores: [] }"), &large);
    assert_eq!(failure.class, FailureClass::InvalidInput);
    assert!(failure.message.starts_with("PAYLOAD_TOO_LARGE"), "{}", failure.message);
    Ok(())
}

fn a_bad_source_is_refused_when_it_is_saved() -> Tested {
    let guest = plugin()?;
    let good = guest.check_config("code", &returning("{ scores: [] }"));
    assert_eq!(good.outcome.unwrap(), Vec::new());
    let bad = guest.check_config("code", &config("typescript", "export function evaluate( {"));
    let failure = bad.outcome.unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidConfig);
    for part in ["/source", "INVALID_SOURCE", "line 1"] {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
    Ok(())
}

fn hostile_sources_are_stopped_without_effect_on_others() -> Tested {
    let guest = plugin()?;
    let mut limited = guest.through(std::sync::Arc::new(perpend_sandbox::DenyAllPort));
    limited.limits.cpu_ms = 200;
    let stopped = |source: &str, classes: &[FailureClass]| {
        let result = limited.result("code", &config("javascript", source), &output("x"));
        let failure = result.outcome.unwrap_err();
        assert!(classes.contains(&failure.class), "{source}: {failure:?}");
        result.cpu_us
    };
    let loops = [
        "export function evaluate() { for (;;) {} }",
        "for (;;) {}",
        "export async function evaluate() { for (;;) await null; }",
        "export function evaluate() { return /^(a+)+$/.test('a'.repeat(40) + 'b'); }",
    ];
    for source in loops {
        let cpu_us = stopped(source, &[FailureClass::FuelExhausted]);
        assert!(cpu_us < 2_000_000, "{source} had {cpu_us} µs");
    }
    limited.limits.cpu_ms = 5_000;
    let stopped = |source: &str, classes: &[FailureClass]| {
        let failure = limited.failure("code", &config("javascript", source), &output("x"));
        assert!(classes.contains(&failure.class), "{source}: {failure:?}");
    };
    stopped(
        "export function evaluate() { const all = []; for (;;) all.push(new Uint8Array(1 << 20)); }",
        &[FailureClass::MemoryLimit, FailureClass::PluginError, FailureClass::PluginTrap],
    );
    stopped(
        "export function evaluate() { return evaluate(); }",
        &[FailureClass::PluginError, FailureClass::PluginTrap],
    );
    // What one call does to the language is gone in the next: it starts from a fresh instance.
    let tampering = "Array.prototype.map = () => []; Object.prototype.polluted = 1; JSON.stringify = () => '{}';\n\
                     globalThis.kept = 1; export function evaluate() { return { scores: [{ name: 's', value: 1 }] }; }";
    let _ = limited.result("code", &config("javascript", tampering), &output("x"));
    let looking = returning(
        "{ scores: [{ name: 's', value: globalThis.kept === undefined && ({}).polluted === undefined && [1].map((x) => x)[0] === 1 }] }",
    );
    assert_eq!(one(guest, &looking, &output("x")).value, Value::Boolean(true));
    Ok(())
}

fn equal_calls_give_equal_bytes_and_nothing_of_the_machine_shows() -> Tested {
    let guest = plugin()?;
    let source = returning(
        "{ scores: [{ name: 's', value: Math.random(), comment: [Date.now(), new Date().getTimezoneOffset(), typeof process].join() }] }",
    );
    let first = one(guest, &source, &output("x"));
    for _ in 0..20 {
        assert_eq!(one(guest, &source, &output("x")), first);
    }
    assert_eq!(first.comment.as_deref(), Some("1700000000000,0,undefined"));
    Ok(())
}

fn an_item_without_parts_is_not_an_error() -> Tested {
    let config =
        returning("{ scores: [{ name: 's', value: ctx.observation.output === undefined }] }");
    assert_eq!(one(plugin()?, &config, &item("1")).value, Value::Boolean(true));
    Ok(())
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        ctx_holds_the_observation_and_the_experiment,
        every_form_of_a_result_is_normalised,
        sources_may_be_written_in_many_ways,
        types_are_taken_out_of_typescript,
        errors_have_a_code_a_type_and_a_line,
        invalid_results_name_the_score_and_the_problem,
        sizes_are_limited,
        a_bad_source_is_refused_when_it_is_saved,
        hostile_sources_are_stopped_without_effect_on_others,
        equal_calls_give_equal_bytes_and_nothing_of_the_machine_shows,
        an_item_without_parts_is_not_an_error,
    ]
}

//! The inert WASI: random numbers are derived from the seed, and there are no directories, environment or arguments.

use std::sync::Arc;

use perpend_domain::plugin::{Limits, PluginScoreValue};
use perpend_sandbox::{DenyAllPort, Plugin};

use crate::Bench;
use crate::guest::{Guest, SCORE};
use crate::neighbours::call;

async fn random_number(bench: &Bench, plugin: &Plugin, seed: u64) -> f64 {
    let mut call = call(Limits::default());
    call.seed = seed;
    let result = bench.host.evaluate(plugin, call, Arc::new(DenyAllPort)).await;
    match result.outcome.unwrap()[0].value {
        PluginScoreValue::Numeric(number) => number,
        ref other => unreachable!("{other:?}"),
    }
}

#[tokio::test]
async fn random_numbers_are_derived_from_the_seed() {
    for (interface, function) in
        [("random", "get-random-u64"), ("insecure", "get-insecure-random-u64")]
    {
        let imports = format!(
            r#"(import "wasi:random/{interface}@0.2.0" (instance $random
                 (export "{function}" (func (result u64)))))
               (core func $random (canon lower (func $random "{function}")))"#
        );
        // The value of the score: a number from 0 to 1 from the upper 53 bits.
        let evaluate = format!(
            "(f64.store (i32.const {}) (f64.div
               (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 11)))
               (f64.const 9007199254740992)))",
            SCORE + 16
        );
        let guest = Guest {
            imports: &imports,
            with: r#"(with "host" (instance (export "random" (func $random))))"#,
            core_imports: r#"(import "host" "random" (func $random (result i64)))"#,
            evaluate: &evaluate,
            ..Guest::default()
        };
        let bench = Bench::new();
        let plugin = bench.plugin(guest.bytes()).await;
        let first = random_number(&bench, &plugin, 7).await;
        assert_eq!(random_number(&bench, &plugin, 7).await.to_bits(), first.to_bits());
        assert_ne!(random_number(&bench, &plugin, 8).await.to_bits(), first.to_bits());
    }
}

/// Runs a guest that traps unless `function` returns an empty list.
async fn assert_empty_list(types: &str, interface: &str, function: &str, list: &str) {
    let imports = format!(
        r#"{types}
        (import "{interface}" (instance $world {list}))
        (core module $memory (memory (export "memory") 1)
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x100))
          (func (export "count") (result i32) (i32.load (i32.const 36))))
        (core instance $memory (instantiate $memory))
        (core func $list (canon lower (func $world "{function}")
          (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
        (alias core export $memory "count" (core func $count))"#
    );
    let guest = Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "list" (func $list)) (export "count" (func $count))))"#,
        core_imports: r#"(import "host" "list" (func $list (param i32)))
            (import "host" "count" (func $count (result i32)))"#,
        evaluate: "(call $list (i32.const 32)) (if (call $count) (then unreachable))",
        ..Guest::default()
    };
    let bench = Bench::new();
    let plugin = bench.plugin(guest.bytes()).await;
    let result = bench.evaluate(&plugin, Limits::default()).await;
    assert!(result.outcome.is_ok(), "{interface}: {:?}", result.outcome);
}

#[tokio::test]
async fn no_directories_are_provided() {
    assert_empty_list(
        r#"(import "wasi:filesystem/types@0.2.0" (instance $files
             (export "descriptor" (type (sub resource)))))
           (alias export $files "descriptor" (type $descriptor))"#,
        "wasi:filesystem/preopens@0.2.0",
        "get-directories",
        r#"(alias outer 1 $descriptor (type $outside))
           (export "descriptor" (type $one (eq $outside)))
           (export "get-directories" (func (result (list (tuple (own $one) string)))))"#,
    )
    .await;
}

#[tokio::test]
async fn no_environment_and_no_arguments_are_provided() {
    let environment = "wasi:cli/environment@0.2.0";
    assert_empty_list(
        "",
        environment,
        "get-environment",
        r#"(export "get-environment" (func (result (list (tuple string string)))))"#,
    )
    .await;
    assert_empty_list(
        "",
        environment,
        "get-arguments",
        r#"(export "get-arguments" (func (result (list string))))"#,
    )
    .await;
}

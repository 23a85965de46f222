//! A guest can access nothing of this process, its files or its network, and its result is reproducible.

use std::sync::Arc;

use perpend_domain::plugin::{CallResult, Limits};
use perpend_sandbox::{DenyAllPort, Host, Settings};

use crate::guest::{Guest, RESULT, SCORE};
use crate::neighbours::{call, plugin};

const SECRET: &str = "perpend-canary-5f0c2f";

fn run(guest: &Guest<'_>, seed: u64) -> CallResult {
    let folder = tempfile::tempdir().unwrap();
    // A secret in the folder of the host.
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let host = Host::new(&Settings::default(), folder.path()).unwrap();
    let plugin = plugin(&host, folder.path(), &guest.bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut call = call(Limits::default());
    call.seed = seed;
    runtime.block_on(host.evaluate(&plugin, call, Arc::new(DenyAllPort)))
}

/// Reads environment, arguments and working directory, as a language runtime does.
const PROBE: &str = r#"
    (import "wasi:cli/environment@0.2.0" (instance $environment
      (export "get-environment" (func (result (list (tuple string string)))))
      (export "get-arguments" (func (result (list string))))
      (export "initial-cwd" (func (result (option string))))))
    (core module $side (memory (export "memory") 4)
      (global $next (mut i32) (i32.const 0x1000))
      (global $total (mut i32) (i32.const 0))
      (func (export "realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -8)))
        (global.set $next (i32.add (local.get $at) (local.get 3)))
        (global.set $total (i32.add (global.get $total) (local.get 3)))
        (local.get $at))
      (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
      ;; Number of bytes that were passed.
      (func (export "used") (result i32) (global.get $total)))
    (core instance $side (instantiate $side))
    (alias core export $side "load" (core func $load))
    (alias core export $side "used" (core func $used))
    (core func $env (canon lower (func $environment "get-environment")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))
    (core func $args (canon lower (func $environment "get-arguments")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))
    (core func $cwd (canon lower (func $environment "initial-cwd")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#;

#[test]
fn environment_arguments_and_working_directory_are_empty() {
    // Cargo sets variables in the environment of this process.
    assert!(std::env::vars_os().next().is_some());
    let guest = Guest {
        imports: PROBE,
        with: r#"(with "host" (instance (export "env" (func $env)) (export "args" (func $args))
            (export "cwd" (func $cwd)) (export "load" (func $load)) (export "used" (func $used))))"#,
        core_imports: r#"(import "host" "env" (func $env (param i32)))
            (import "host" "args" (func $args (param i32)))
            (import "host" "cwd" (func $cwd (param i32)))
            (import "host" "load" (func $load (param i32) (result i32)))
            (import "host" "used" (func $used (result i32)))"#,
        // Traps when any of the three is not empty, or when a byte was passed.
        evaluate:
            "(call $env (i32.const 16)) (call $args (i32.const 32)) (call $cwd (i32.const 48))
            (if (call $load (i32.const 20)) (then unreachable))
            (if (call $load (i32.const 36)) (then unreachable))
            (if (i32.and (call $load (i32.const 48)) (i32.const 0xff)) (then unreachable))
            (if (call $used) (then unreachable))",
        ..Guest::default()
    };
    let result = run(&guest, 7);
    assert!(result.outcome.is_ok(), "{:?}", result.outcome);
    assert!(!format!("{result:?}").contains(SECRET));
}

/// Memory that was used by another guest contains nothing of it.
#[test]
fn reused_memory_is_zeroed() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { max_live: 16, ..Settings::default() };
    let host = Host::new(&settings, folder.path()).unwrap();
    // Grows its memory and fills it with a pattern.
    let writer = Guest {
        evaluate: "(drop (memory.grow (i32.const 64)))
            (memory.fill (i32.const 0x10000) (i32.const 0x5a) (i32.const 0x400000))",
        ..Guest::default()
    };
    // Traps at the first byte that is not zero.
    let reader = Guest {
        evaluate: "(local $at i32)
            (drop (memory.grow (i32.const 64)))
            (local.set $at (i32.const 0x10000))
            (loop $l
              (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
              (local.set $at (i32.add (local.get $at) (i32.const 8)))
              (br_if $l (i32.lt_u (local.get $at) (i32.const 0x410000))))",
        ..Guest::default()
    };
    let [writer, reader] =
        [writer, reader].map(|guest| plugin(&host, folder.path(), &guest.bytes()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = Limits { cpu_ms: 20_000, ..Limits::default() };
    for _ in 0..20 {
        for plugin in [&writer, &reader] {
            let result = host.evaluate(plugin, call(limits), Arc::new(DenyAllPort));
            let result = runtime.block_on(result);
            assert!(result.outcome.is_ok(), "{:?}", result.outcome);
        }
    }
}

#[test]
fn name_lookups_and_connections_are_denied() {
    let guest = Guest {
        imports: r#"
          (import "wasi:sockets/network@0.2.0" (instance $network
            (export "network" (type (sub resource)))
            (type $code' (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory"
              "timeout" "concurrency-conflict" "not-in-progress" "would-block" "invalid-state"
              "new-socket-limit" "address-not-bindable" "address-in-use" "remote-unreachable"
              "connection-refused" "connection-reset" "connection-aborted" "datagram-too-large"
              "name-unresolvable" "temporary-resolver-failure" "permanent-resolver-failure"))
            (export "error-code" (type (eq $code')))))
          (alias export $network "network" (type $net))
          (alias export $network "error-code" (type $code))
          (import "wasi:sockets/instance-network@0.2.0" (instance $instance
            (alias outer 1 $net (type $outer)) (export "network" (type $n (eq $outer)))
            (export "instance-network" (func (result (own $n))))))
          (import "wasi:sockets/ip-name-lookup@0.2.0" (instance $lookup
            (alias outer 1 $net (type $outer)) (export "network" (type $n (eq $outer)))
            (alias outer 1 $code (type $outer-code)) (export "error-code" (type $c (eq $outer-code)))
            (export "resolve-address-stream" (type $stream (sub resource)))
            (export "resolve-addresses" (func (param "network" (borrow $n)) (param "name" string)
              (result (result (own $stream) (error $c)))))))
          (core module $side (memory (export "memory") 1)
            (data (i32.const 64) "localhost")
            (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0))))
          (core instance $side (instantiate $side))
          (alias core export $side "load" (core func $load))
          (core func $network (canon lower (func $instance "instance-network")))
          (core func $resolve (canon lower (func $lookup "resolve-addresses")
            (memory (core memory $side "memory"))))"#,
        with: r#"(with "host" (instance (export "network" (func $network))
            (export "resolve" (func $resolve)) (export "load" (func $load))))"#,
        core_imports: r#"(import "host" "network" (func $network (result i32)))
            (import "host" "resolve" (func $resolve (param i32 i32 i32 i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        // An error (1), and access denied (1) or a name without an address (18 to 20).
        evaluate: "(call $resolve (call $network) (i32.const 64) (i32.const 9) (i32.const 0))
            (if (i32.ne (call $load (i32.const 0)) (i32.const 1)) (then unreachable))
            (if (i32.eqz (i32.or (i32.eq (call $load (i32.const 4)) (i32.const 1))
                                 (i32.ge_u (call $load (i32.const 4)) (i32.const 18))))
              (then unreachable))",
        ..Guest::default()
    };
    let result = run(&guest, 7);
    assert!(result.outcome.is_ok(), "{:?}", result.outcome);
}

/// Processors produce different bit patterns of NaN; guests get the canonical one.
#[test]
fn nan_is_canonical() {
    let guest = Guest {
        // 0/0, and the sum of two NaN with other payloads: both must be canonical.
        evaluate: "(local $x f64)
            (local.set $x (f64.div (f64.load (i32.const 0x900)) (f64.load (i32.const 0x900))))
            (if (i64.ne (i64.reinterpret_f64 (local.get $x)) (i64.const 0x7ff8000000000000)) (then unreachable))
            (local.set $x (f64.add (f64.reinterpret_i64 (i64.const 0x7ff8000000000123))
                                   (f64.reinterpret_i64 (i64.const 0xfff8000000000456))))
            (if (i64.ne (i64.reinterpret_f64 (local.get $x)) (i64.const 0x7ff8000000000000)) (then unreachable))",
        ..Guest::default()
    };
    let result = run(&guest, 7);
    assert!(result.outcome.is_ok(), "{:?}", result.outcome);
}

/// A score from random numbers, clocks and arithmetic.
#[test]
fn equal_calls_return_equal_bytes_in_each_host() {
    let evaluate = format!(
        "(local $n i32) (local $x f64)
         (local.set $x (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 11))))
         (loop $l
           (local.set $x (f64.sqrt (f64.add (local.get $x) (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 40))))))
           (local.set $n (i32.add (local.get $n) (i32.const 1)))
           (br_if $l (i32.lt_u (local.get $n) (i32.const 1000))))
         (local.set $x (f64.sub (local.get $x) (f64.floor (local.get $x))))
         (f64.store (i32.const {}) (local.get $x))
         (drop (i32.const {RESULT}))",
        SCORE + 16
    );
    let guest = Guest {
        imports: r#"(import "wasi:random/random@0.2.0" (instance $random
             (export "get-random-u64" (func (result u64)))))
           (core func $random (canon lower (func $random "get-random-u64")))"#,
        with: r#"(with "host" (instance (export "random" (func $random))))"#,
        core_imports: r#"(import "host" "random" (func $random (result i64)))"#,
        evaluate: &evaluate,
        ..Guest::default()
    };
    let bytes = |seed| format!("{:?}", run(&guest, seed).outcome);
    assert_eq!(bytes(7), bytes(7));
    assert_ne!(bytes(7), bytes(8));
}

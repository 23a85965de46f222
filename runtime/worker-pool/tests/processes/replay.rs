//! A repeated call returns the same bytes in each process.

use std::sync::Arc;

use perpend_domain::plugin::{Digest, EvaluationCall, Limits};
use perpend_sandbox::{DenyAllPort, Host, Settings};
use perpend_worker_pool::NoHostCalls;
use perpend_worker_protocol::Grants;

use crate::guest::{Guest, SCORE};
use crate::{block_on, call, start};

const N_SEEDS: u64 = 300;

/// Runs `test` with a guest that uses random numbers and arithmetic.
fn with_guest<T>(test: impl FnOnce(&Guest<'_>) -> T) -> T {
    let evaluate = format!(
        "(local $n i32) (local $x f64)
         (loop $l
           (local.set $x (f64.sqrt (f64.add (local.get $x)
             (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 40))))))
           (local.set $n (i32.add (local.get $n) (i32.const 1)))
           (br_if $l (i32.lt_u (local.get $n) (i32.const 100))))
         (local.set $x (f64.sub (local.get $x) (f64.floor (local.get $x))))
         ;; One of eight seeds ends in a trap, which must be the same too.
         (if (i64.eqz (i64.and (call $random) (i64.const 7))) (then unreachable))
         (f64.store (i32.const {}) (local.get $x))",
        SCORE + 16
    );
    test(&Guest {
        imports: r#"(import "wasi:random/random@0.2.0" (instance $random
             (export "get-random-u64" (func (result u64)))))
           (core func $random (canon lower (func $random "get-random-u64")))"#,
        with: r#"(with "host" (instance (export "random" (func $random))))"#,
        core_imports: r#"(import "host" "random" (func $random (result i64)))"#,
        evaluate: &evaluate,
        ..Guest::default()
    })
}

fn calls(guest: &Guest<'_>) -> Vec<EvaluationCall> {
    let first = call(guest);
    let seeded = |seed| EvaluationCall { seed, limits: Limits::default(), ..first.clone() };
    (0..N_SEEDS).map(seeded).collect()
}

pub(crate) fn a_worker_returns_the_same_bytes_as_a_host_in_process() {
    with_guest(|guest| {
        let folder = tempfile::tempdir().unwrap();
        let bytes = guest.bytes();
        perpend_sandbox::compile(&bytes, folder.path(), Grants::ALL).unwrap();
        let host = Host::new(&Settings::default(), folder.path()).unwrap();
        let plugin = host.load(Digest::of(&bytes)).unwrap();
        let expected: Vec<Vec<u8>> = block_on(async {
            let mut answers = Vec::new();
            for call in calls(guest) {
                let result = host.evaluate(&plugin, call, Arc::new(DenyAllPort)).await;
                answers.push(result.replayable());
            }
            answers
        });
        assert!(expected.iter().any(|result| *result != expected[0]));
        block_on(async {
            // Twice, so that the second round reuses places of instances.
            let bench = start(&[guest], |_| (), Arc::new(NoHostCalls));
            for _ in 0..2 {
                let results = bench.workers.evaluate(calls(guest)).await;
                let actual: Vec<Vec<u8>> = results.iter().map(|r| r.replayable()).collect();
                assert_eq!(actual, expected);
            }
            bench.workers.shutdown().await;
        });
    });
}

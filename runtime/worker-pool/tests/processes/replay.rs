//! The same call, made again anywhere, gives the same bytes.

use std::sync::Arc;

use perpend_domain::plugin::{Digest, EvaluationCall, Limits};
use perpend_sandbox::{DenyAllPort, Host, Settings};
use perpend_worker_pool::NoHostCalls;
use perpend_worker_protocol::Grants;

use crate::guest::{Guest, SCORE};
use crate::{block_on, call, start};

const N_SEEDS: u64 = 300;

/// Chance, arithmetic and printing in one guest: everything that could differ between two runs.
fn with_guest<T>(test: impl FnOnce(&Guest<'_>) -> T) -> T {
    let evaluate = format!(
        "(local $n i32) (local $x f64)
         (loop $l
           (local.set $x (f64.sqrt (f64.add (local.get $x)
             (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 40))))))
           (local.set $n (i32.add (local.get $n) (i32.const 1)))
           (br_if $l (i32.lt_u (local.get $n) (i32.const 100))))
         (local.set $x (f64.sub (local.get $x) (f64.floor (local.get $x))))
         ;; One of eight seeds ends in a trap, which has to be the same as well.
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

pub(crate) fn a_worker_answers_byte_for_byte_as_the_server_itself_would() {
    with_guest(|guest| {
        let folder = tempfile::tempdir().unwrap();
        let bytes = guest.bytes();
        perpend_sandbox::compile(&bytes, folder.path(), Grants::ALL).unwrap();
        let host = Host::new(&Settings::default(), folder.path()).unwrap();
        let plugin = host.load(Digest::of(&bytes)).unwrap();
        let here: Vec<Vec<u8>> = block_on(async {
            let mut answers = Vec::new();
            for call in calls(guest) {
                let result = host.evaluate(&plugin, call, Arc::new(DenyAllPort)).await;
                answers.push(result.replayable());
            }
            answers
        });
        assert!(here.iter().any(|answer| *answer != here[0]));
        block_on(async {
            // Twice, so that the second round meets instances whose places were used before.
            let bench = start(&[guest], |_| (), Arc::new(NoHostCalls));
            for _ in 0..2 {
                let results = bench.workers.evaluate(calls(guest)).await;
                let there: Vec<Vec<u8>> = results.iter().map(|r| r.replayable()).collect();
                assert_eq!(here, there);
            }
            bench.workers.shutdown().await;
        });
    });
}

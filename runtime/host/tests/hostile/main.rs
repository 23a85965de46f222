//! Guests that misbehave: each ends in its own class, in bounded time, and nobody else notices.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guest;
mod inert;
mod registration;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_domain::payload::Payload;
use assay_domain::plugin::{
    Call, CallResult, Digest, FailureClass, Item, Limits, PluginScoreValue, Purpose,
};
use assay_domain::protocol::Grants;
use assay_host::{Host, NothingGranted, Plugin, Settings};
use tempfile::TempDir;

use guest::{Guest, RESULT, SCORE};

/// A host with a folder of its own, and the components compiled into it.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    host: Host,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            max_live: 16,
            ..Settings::default()
        };
        let host = Host::new(&settings, folder.path()).unwrap();
        Self { folder, host }
    }

    async fn plugin(&self, bytes: Vec<u8>) -> Plugin {
        let digest = Digest::of(&bytes);
        let folder = self.folder.path().to_owned();
        // The compiler has a runtime of its own inside.
        let compiling =
            tokio::task::spawn_blocking(move || assay_host::compile(&bytes, &folder, Grants::ALL));
        compiling.await.unwrap().unwrap();
        self.host.load(digest).unwrap()
    }

    async fn evaluate(&self, plugin: &Plugin, limits: Limits) -> CallResult {
        self.host
            .evaluate(plugin, call(limits), Arc::new(NothingGranted))
            .await
    }
}

fn call(limits: Limits) -> Call {
    Call {
        plugin: Digest::of(b""),
        evaluator_id: "one".into(),
        config: "{}".into(),
        item: Item {
            id: "item".into(),
            output: Some(Payload::Text("hello".into())),
            ..Item::default()
        },
        seed: 7,
        run_time_ms: 1_000,
        limits,
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

/// Class and message of the failure, which has to come within two seconds.
async fn fails(guest: Guest<'_>) -> (FailureClass, String) {
    let limits = Limits {
        cpu_ms: 200,
        memory_bytes: 16 << 20,
        ..Limits::default()
    };
    let bench = Bench::new();
    let plugin = bench.plugin(guest.bytes()).await;
    let began = Instant::now();
    let failure = bench.evaluate(&plugin, limits).await.outcome.unwrap_err();
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    (failure.class, failure.message)
}

/// Stores a word before the answer is given.
fn store(at: u32, word: u32) -> String {
    format!("(i32.store (i32.const {at}) (i32.const {word}))")
}

async fn fails_with(evaluate: &str) -> (FailureClass, String) {
    fails(Guest {
        evaluate,
        ..Guest::default()
    })
    .await
}

#[tokio::test]
async fn a_well_behaved_guest_gives_its_score() {
    let bench = Bench::new();
    let plugin = bench.plugin(Guest::default().bytes()).await;
    assert_eq!(plugin.info().name, "acme/guest");
    let result = bench.evaluate(&plugin, Limits::default()).await;
    assert_eq!(
        result.outcome.unwrap()[0].value,
        PluginScoreValue::Numeric(1.0)
    );
}

#[tokio::test]
async fn no_state_survives_a_call() {
    // Answers 1.0 in the first call of an instance and traps in a second one.
    let evaluate = "(if (i32.load (i32.const 0x900)) (then unreachable))
        (i32.store (i32.const 0x900) (i32.const 1))";
    let bench = Bench::new();
    let plugin = bench
        .plugin(
            Guest {
                evaluate,
                ..Guest::default()
            }
            .bytes(),
        )
        .await;
    for _ in 0..50 {
        bench
            .evaluate(&plugin, Limits::default())
            .await
            .outcome
            .unwrap();
    }
}

#[tokio::test]
async fn an_endless_loop_ends_at_the_cpu_limit() {
    let (class, message) = fails_with("(loop $forever (br $forever))").await;
    assert_eq!(class, FailureClass::FuelExhausted);
    assert!(message.contains("200 ms of CPU time"), "{message}");
}

#[tokio::test]
async fn a_memory_bomb_ends_at_the_memory_limit() {
    let evaluate = "(loop $more
        (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
        (br $more))";
    let (class, message) = fails_with(evaluate).await;
    assert_eq!(class, FailureClass::MemoryLimit);
    assert!(message.contains("16 MiB"), "{message}");
}

#[tokio::test]
async fn a_trap_names_the_innermost_functions() {
    let fields = "(func $inner unreachable) (func $outer (call $inner))";
    let guest = Guest {
        fields,
        evaluate: "(call $outer)",
        ..Guest::default()
    };
    let (class, message) = fails(guest).await;
    assert_eq!(class, FailureClass::PluginTrap);
    assert!(message.contains("unreachable"), "{message}");
    assert!(message.contains("in inner, called by outer"), "{message}");
}

#[tokio::test]
async fn deep_recursion_traps() {
    let fields = "(func $deep (param i64) (call $deep (local.get 0)) (call $deep (local.get 0)))";
    let guest = Guest {
        fields,
        evaluate: "(call $deep (i64.const 1))",
        ..Guest::default()
    };
    let (class, message) = fails(guest).await;
    assert_eq!(class, FailureClass::PluginTrap);
    assert!(message.contains("stack"), "{message}");
}

#[tokio::test]
async fn a_list_that_lies_about_its_length_is_no_answer() {
    let (class, _) = fails_with(&store(RESULT + 8, 0x0fff_ffff)).await;
    assert_eq!(class, FailureClass::InvalidResult);
}

#[tokio::test]
async fn a_pointer_outside_of_memory_is_no_answer() {
    let (class, _) = fails_with(&store(RESULT + 4, 0xffff_fff0)).await;
    assert_eq!(class, FailureClass::InvalidResult);
}

#[tokio::test]
async fn one_string_given_a_thousand_times_ends_at_the_data_limit() {
    // 200 scores whose comments are all the same 112 KiB: 22 MiB out of 256 KiB.
    let evaluate = format!(
        "(local $n i32)
        (loop $more
          (memory.copy (i32.add (i32.const 0x20000) (i32.mul (local.get $n) (i32.const 64)))
                       (i32.const {SCORE}) (i32.const 64))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $more (i32.lt_u (local.get $n) (i32.const 200))))
        {} {}",
        store(RESULT + 4, 0x20000),
        store(RESULT + 8, 200),
    );
    let evaluate = evaluate.replacen(
        "(loop $more",
        &format!(
            "{} {} {} (loop $more",
            store(SCORE + 36, 1),
            store(SCORE + 40, 0x24000),
            store(SCORE + 44, 0x1c000)
        ),
        1,
    );
    let (class, message) = fails_with(&evaluate).await;
    assert_eq!(class, FailureClass::OutputLimit, "{message}");
}

#[tokio::test]
async fn a_score_that_is_not_a_number_is_refused() {
    let evaluate = "(f64.store (i32.const 0x610) (f64.const nan))";
    let (class, message) = fails_with(evaluate).await;
    assert_eq!(class, FailureClass::InvalidResult);
    assert!(message.contains("finite"), "{message}");
}

#[tokio::test]
async fn a_score_outside_its_range_is_refused() {
    let (class, message) = fails_with("(f64.store (i32.const 0x610) (f64.const 1.5))").await;
    assert_eq!(class, FailureClass::InvalidResult);
    assert!(message.contains("1.5 is outside 0 to 1"), "{message}");
}

#[tokio::test]
async fn an_undeclared_name_is_refused() {
    // The name of the evaluator instead of that of its score.
    let evaluate = format!("{} {}", store(SCORE, 0x160), store(SCORE + 4, 3));
    let (class, message) = fails_with(&evaluate).await;
    assert_eq!(class, FailureClass::InvalidResult);
    assert!(
        message.contains("\"one\"") && message.contains("not declared"),
        "{message}"
    );
}

#[tokio::test]
async fn metadata_that_is_no_object_is_refused() {
    // `one` is not even JSON.
    let evaluate = [
        store(SCORE + 48, 1),
        store(SCORE + 52, 0x160),
        store(SCORE + 56, 3),
    ]
    .concat();
    let (class, message) = fails_with(&evaluate).await;
    assert_eq!(class, FailureClass::InvalidResult);
    assert!(message.contains("metadata"), "{message}");
}

#[tokio::test]
async fn a_long_comment_is_cut_and_marked() {
    let evaluate = [
        store(SCORE + 36, 1),
        store(SCORE + 40, 0x20000),
        store(SCORE + 44, 0x18000),
    ]
    .concat();
    let bench = Bench::new();
    let plugin = bench
        .plugin(
            Guest {
                evaluate: &evaluate,
                ..Guest::default()
            }
            .bytes(),
        )
        .await;
    let scores = bench
        .evaluate(&plugin, Limits::default())
        .await
        .outcome
        .unwrap();
    let comment = scores[0].comment.as_deref().unwrap();
    assert!(
        comment.len() <= 64 << 10 && comment.ends_with("[cut]"),
        "{}",
        comment.len()
    );
}

#[tokio::test]
async fn an_exit_is_a_trap_with_its_code() {
    let guest = Guest {
        imports: r#"(import "wasi:cli/exit@0.2.3" (instance $exit
            (export "exit" (func (param "status" (result))))))
            (core func $exit (canon lower (func $exit "exit")))"#,
        with: r#"(with "wasi" (instance (export "exit" (func $exit))))"#,
        core_imports: r#"(import "wasi" "exit" (func $exit (param i32)))"#,
        evaluate: "(call $exit (i32.const 1))",
        ..Guest::default()
    };
    let (class, message) = fails(guest).await;
    assert_eq!(class, FailureClass::PluginTrap);
    assert!(message.contains("exit code 1"), "{message}");
}

#[tokio::test]
async fn clocks_stand_still_at_a_value_that_is_not_zero() {
    let guest = Guest {
        imports: r#"(import "wasi:clocks/monotonic-clock@0.2.3" (instance $clock
            (export "now" (func (result u64)))))
            (core func $now (canon lower (func $clock "now")))"#,
        with: r#"(with "wasi" (instance (export "now" (func $now))))"#,
        core_imports: r#"(import "wasi" "now" (func $now (result i64)))"#,
        // Traps at zero, and when two looks at the clock differ.
        evaluate: "(if (i64.eqz (call $now)) (then unreachable))
            (if (i64.ne (call $now) (call $now)) (then unreachable))",
        ..Guest::default()
    };
    let bench = Bench::new();
    let plugin = bench.plugin(guest.bytes()).await;
    bench
        .evaluate(&plugin, Limits::default())
        .await
        .outcome
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_of_endless_loops_are_answered() {
    let bench = Arc::new(Bench::new());
    let spin = Guest {
        evaluate: "(loop $forever (br $forever))",
        ..Guest::default()
    };
    let spin = Arc::new(bench.plugin(spin.bytes()).await);
    let good = bench.plugin(Guest::default().bytes()).await;
    let limits = Limits {
        cpu_ms: 400,
        ..Limits::default()
    };
    let loops: Vec<_> = (0..4)
        .map(|_| {
            let (bench, spin) = (Arc::clone(&bench), Arc::clone(&spin));
            tokio::spawn(async move { bench.evaluate(&spin, limits).await })
        })
        .collect();
    let mut n_answered = 0;
    while !loops.iter().all(tokio::task::JoinHandle::is_finished) {
        bench
            .evaluate(&good, Limits::default())
            .await
            .outcome
            .unwrap();
        n_answered += 1;
        tokio::task::yield_now().await;
    }
    // One turn in each round of ticks would already be more than this.
    assert!(10 < n_answered, "{n_answered}");
    for ended in loops {
        let failure = ended.await.unwrap().outcome.unwrap_err();
        assert_eq!(failure.class, FailureClass::FuelExhausted);
    }
}

//! Guests that exceed the limits of a call, for the tests and the example `limits`.

use std::sync::LazyLock;

use perpend_domain::plugin::{FailureClass, Limits};

use crate::guest::{Guest, RESULT, SCORE};

/// A guest and its expected result.
pub(crate) struct Case {
    /// What the guest does.
    pub(crate) name: &'static str,
    /// The limit that it reaches.
    pub(crate) limit: &'static str,
    pub(crate) guest: Guest<'static>,
    pub(crate) limits: Limits,
    /// The expected failure class; `None` when the call succeeds with truncated results.
    pub(crate) class: Option<FailureClass>,
    /// Part of the expected message.
    pub(crate) message: &'static str,
}

impl Case {
    fn new(name: &'static str, limit: &'static str, evaluate: &'static str) -> Self {
        Self {
            name,
            limit,
            guest: Guest { evaluate, ..Guest::default() },
            limits: Limits { cpu_ms: 200, memory_bytes: 16 << 20, ..Limits::default() },
            class: None,
            message: "",
        }
    }

    fn ends(mut self, class: FailureClass, message: &'static str) -> Self {
        (self.class, self.message) = (Some(class), message);
        self
    }

    fn fields(mut self, fields: &'static str) -> Self {
        self.guest.fields = fields;
        self
    }

    fn pages(mut self, pages: u32) -> Self {
        self.guest.pages = pages;
        self
    }

    fn wall(mut self, wall_ms: u32) -> Self {
        self.limits.wall_ms = wall_ms;
        self
    }

    fn importing(
        mut self,
        imports: &'static str,
        with: &'static str,
        core_imports: &'static str,
    ) -> Self {
        (self.guest.imports, self.guest.with, self.guest.core_imports) =
            (imports, with, core_imports);
        self
    }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Stores `value` at `at`, as text.
pub(crate) fn put(at: u32, value: u32) -> String {
    format!("(i32.store (i32.const {at}) (i32.const {value}))")
}

/// Sets the comment of the score to `n_bytes` bytes from `at`.
fn comment(at: u32, length: u32) -> String {
    [put(SCORE + 36, 1), put(SCORE + 40, at), put(SCORE + 44, length)].concat()
}

fn metadata(at: u32, length: usize) -> String {
    [put(SCORE + 48, 1), put(SCORE + 52, at), put(SCORE + 56, u32::try_from(length).unwrap())]
        .concat()
}

/// So many copies of the score, as the answer.
fn copies(n: u32) -> String {
    format!(
        "(local $n i32)
        (loop $more
          (memory.copy (i32.add (i32.const 0x20000) (i32.mul (local.get $n) (i32.const 64)))
                       (i32.const {SCORE}) (i32.const 64))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $more (i32.lt_u (local.get $n) (i32.const {n}))))
        {} {}",
        put(RESULT + 4, 0x20000),
        put(RESULT + 8, n),
    )
}

/// A memory for the lowered functions, which have to be there before the guest is.
pub(crate) const SIDE: &str = r#"
    (core module $side (memory (export "memory") 4)
      (global $next (mut i32) (i32.const 0x10000))
      (func (export "realloc") (param i32 i32 i32 i32) (result i32)
        (global.set $next (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const 0x1fff8)))
        (global.get $next)
        (global.set $next (i32.add (global.get $next) (i32.and (local.get 3) (i32.const 0xfff)))))
      (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
      (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1))))
    (core instance $side (instantiate $side))
    (alias core export $side "load" (core func $load))
    (alias core export $side "store" (core func $store))"#;

const LOG: &str = r#"(import "perpend:evaluator/log@1.0.0" (instance $log
      (type $level' (enum "debug" "info" "warn" "error"))
      (export "level" (type $level (eq $level')))
      (export "log" (func (param "level" $level) (param "message" string) (param "fields" (option string))))))
    (core func $log (canon lower (func $log "log") (memory (core memory $side "memory"))))"#;

/// Standard output, as a stream.
const STDOUT: &str = r#"
    (import "wasi:io/error@0.2.0" (instance $io-error (export "error" (type (sub resource)))))
    (alias export $io-error "error" (type $error))
    (import "wasi:io/streams@0.2.0" (instance $streams
      (export "output-stream" (type $out (sub resource)))
      (alias outer 1 $error (type $outer-error))
      (export "error" (type $e (eq $outer-error)))
      (type $stream-error' (variant (case "last-operation-failed" (own $e)) (case "closed")))
      (export "stream-error" (type $stream-error (eq $stream-error')))
      (export "[method]output-stream.blocking-write-and-flush"
        (func (param "self" (borrow $out)) (param "contents" (list u8))
          (result (result (error $stream-error)))))))
    (alias export $streams "output-stream" (type $output-stream))
    (import "wasi:cli/stdout@0.2.0" (instance $stdout
      (alias outer 1 $output-stream (type $outer-out))
      (export "output-stream" (type $o (eq $outer-out)))
      (export "get-stdout" (func (result (own $o))))))
    (core func $get-stdout (canon lower (func $stdout "get-stdout")))
    (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
      (memory (core memory $side "memory"))))"#;

/// `subscribe-duration` of the clock, and waiting for it.
pub(crate) const SLEEP: &str = r#"
    (import "wasi:io/poll@0.2.0" (instance $poll
      (export "pollable" (type $p (sub resource)))
      (export "[method]pollable.block" (func (param "self" (borrow $p))))))
    (alias export $poll "pollable" (type $pollable))
    (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
      (alias outer 1 $pollable (type $outer))
      (export "pollable" (type $q (eq $outer)))
      (export "subscribe-duration" (func (param "when" u64) (result (own $q))))))
    (core func $subscribe (canon lower (func $clock "subscribe-duration")))
    (core func $block (canon lower (func $poll "[method]pollable.block")))"#;

/// Requests without messages, and `model.complete` with the answer at 256: the discriminant of the answer there, that of
/// the error at 260.
pub(crate) const MODEL: &str = r#"
    (import "perpend:evaluator/model@1.0.0" (instance $model
      (type $role' (enum "system" "user" "assistant" "tool")) (export "role" (type $role (eq $role')))
      (type $tool-call' (record (field "id" string) (field "name" string) (field "arguments" string)))
      (export "tool-call" (type $tool-call (eq $tool-call')))
      (type $tool-result' (record (field "call-id" string) (field "content" string) (field "is-error" bool)))
      (export "tool-result" (type $tool-result (eq $tool-result')))
      (type $part' (variant (case "text" string) (case "image" string) (case "audio" string)
        (case "file" string) (case "tool-call" $tool-call) (case "tool-result" $tool-result)))
      (export "part" (type $part (eq $part')))
      (type $message' (record (field "role" $role) (field "parts" (list $part))))
      (export "message" (type $message (eq $message')))
      (export "request" (type $request (sub resource)))
      (export "completion" (type $completion (sub resource)))
      (type $error' (variant (case "not-granted" string) (case "invalid-request" string)
        (case "budget-exhausted" string) (case "timeout" string) (case "rate-limited" string)
        (case "refused" string) (case "invalid-response" string) (case "unavailable" string)
        (case "cancelled")))
      (export "model-error" (type $error (eq $error')))
      (export "[constructor]request" (func (param "messages" (list $message)) (result (own $request))))
      (export "complete" (func (param "request" (own $request))
        (result (result (own $completion) (error $error)))))))
    (core func $request (canon lower (func $model "[constructor]request")
      (memory (core memory $side "memory"))))
    (core func $complete (canon lower (func $model "complete")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#;

static IMPORTS: LazyLock<[&str; 4]> =
    LazyLock::new(|| [LOG, STDOUT, SLEEP, MODEL].map(|import| leak([SIDE, import].concat())));

/// A case per limit of the contract.
pub(crate) fn cases() -> Vec<Case> {
    [time_and_space(), traps(), answers(), scores(), imports()].into_iter().flatten().collect()
}

fn time_and_space() -> Vec<Case> {
    vec![
        Case::new("an endless loop", "CPU time", "(loop $l (br $l))")
            .ends(FailureClass::FuelExhausted, "200 ms of CPU time"),
        Case::new("a sleep of an hour", "wall-clock time", "(call $block (call $subscribe (i64.const 3600000000000)))")
            .importing(
                IMPORTS[2],
                r#"(with "wasi" (instance (export "subscribe" (func $subscribe)) (export "block" (func $block))))"#,
                r#"(import "wasi" "subscribe" (func $subscribe (param i64) (result i32)))
                   (import "wasi" "block" (func $block (param i32)))"#,
            )
            .wall(300)
            .ends(FailureClass::WallTimeout, "300 ms"),
        Case::new(
            "memory that grows indefinitely",
            "linear memory",
            "(loop $l (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable)) (br $l))",
        )
        .ends(FailureClass::MemoryLimit, "16 MiB"),
        Case::new(
            "memory requested at once",
            "linear memory",
            "(if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable))",
        )
        .ends(FailureClass::MemoryLimit, "16 MiB"),
        Case::new(
            "a table that grows indefinitely",
            "table elements",
            "(loop $l (if (i32.eq (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)) (then unreachable)) (br $l))",
        )
        .fields("(table $t 1 funcref)")
        .ends(FailureClass::MemoryLimit, "table elements"),
        Case::new("deep recursion", "wasm stack", "(call $deep (i64.const 1))")
            .fields("(func $deep (param i64) (call $deep (local.get 0)) (call $deep (local.get 0)))")
            .ends(FailureClass::PluginTrap, "stack"),
    ]
}

fn traps() -> Vec<Case> {
    let trap = |name, evaluate, message| {
        Case::new(name, "-", evaluate).ends(FailureClass::PluginTrap, message)
    };
    vec![
        trap("`unreachable`", "unreachable", "unreachable"),
        trap(
            "a division by zero",
            "(drop (i32.div_u (i32.const 1) (i32.load (i32.const 0x900))))",
            "divide by zero",
        ),
        trap(
            "a load outside of memory",
            "(drop (i32.load (i32.const -4)))",
            "out of bounds memory",
        ),
        trap(
            "a call through an empty table",
            "(call_indirect $t (i32.const 0))",
            "uninitialized element",
        )
        .fields("(table $t 1 funcref)"),
    ]
}

fn answers() -> Vec<Case> {
    let text = |text: String| -> &'static str { leak(text) };
    vec![
        Case::new("a comment of 9 MiB", "data of one call", text(comment(0, 9 << 20)))
            .pages(160)
            .ends(FailureClass::OutputLimit, "8388608 bytes"),
        Case::new(
            "200 scores that share one comment of 112 KiB",
            "data of one call",
            text(copies(200).replacen(
                "(loop $more",
                &format!("{} (loop $more", comment(0x24000, 0x1c000)),
                1,
            )),
        )
        .ends(FailureClass::OutputLimit, "8388608 bytes"),
        Case::new("257 scores", "scores per item", text(copies(257)))
            .pages(5)
            .ends(FailureClass::InvalidResult, "257 scores, the limit is 256"),
        Case::new("a list of 268 million missing scores", "-", text(put(RESULT + 8, 0x0fff_ffff)))
            .ends(FailureClass::InvalidResult, "cannot be read"),
        Case::new("a list outside of memory", "-", text(put(RESULT + 4, 0xffff_fff0)))
            .ends(FailureClass::InvalidResult, "cannot be read"),
        Case::new("an invalid result variant", "-", text(put(RESULT, 7)))
            .ends(FailureClass::InvalidResult, "cannot be read"),
        Case::new(
            "a comment that is not UTF-8",
            "-",
            text([put(0x20000, 0xfffe_fdfc), comment(0x20000, 4)].concat()),
        )
        .ends(FailureClass::InvalidResult, "utf-8"),
        Case::new("a comment of 96 KiB", "comment", text(comment(0x20000, 0x18000))),
    ]
}

fn scores() -> Vec<Case> {
    let wrong = |name, evaluate, message| {
        Case::new(name, "-", evaluate).ends(FailureClass::InvalidResult, message)
    };
    let deep = leak(format!(
        "(data (i32.const 0x20000) \"{}{}\")",
        "{\\22a\\22:".repeat(65),
        "1".to_owned() + &"}".repeat(65)
    ));
    let deep_length = 65 * 5 + 1 + 65;
    vec![
        wrong("a score that is NaN", "(f64.store (i32.const 0x610) (f64.const nan))", "finite"),
        wrong(
            "a score that is infinite",
            "(f64.store (i32.const 0x610) (f64.const inf))",
            "finite",
        ),
        wrong(
            "a score that is minus infinite",
            "(f64.store (i32.const 0x610) (f64.const -inf))",
            "finite",
        ),
        wrong(
            "a score outside its range",
            "(f64.store (i32.const 0x610) (f64.const 1.5))",
            "1.5 is outside 0 to 1",
        ),
        wrong("a score of another kind", leak(put(SCORE + 8, 1)), "declared numeric"),
        wrong(
            "a name that is not declared",
            leak([put(SCORE, 0x160), put(SCORE + 4, 3)].concat()),
            "not declared",
        ),
        wrong(
            "a name of 257 bytes",
            leak([put(SCORE, 0x20000), put(SCORE + 4, 257)].concat()),
            "1 to 256 bytes",
        ),
        wrong("metadata that is not an object", leak(metadata(0x160, 3)), "metadata"),
        wrong(
            "metadata nested 65 deep",
            leak(metadata(0x20000, deep_length)),
            "nested deeper than 64",
        )
        .fields(deep),
        wrong("metadata of 300 KiB", leak(metadata(0x20000, 300 << 10)), "256 KiB").pages(16),
    ]
}

fn imports() -> Vec<Case> {
    vec![
        Case::new(
            "100,000 log lines of 16 KiB",
            "log lines",
            "(local $n i32)
             (loop $l
               (call $log (i32.const 1) (i32.const 0) (i32.const 16384) (i32.const 0) (i32.const 0) (i32.const 0))
               (local.set $n (i32.add (local.get $n) (i32.const 1)))
               (br_if $l (i32.lt_u (local.get $n) (i32.const 100000))))",
        )
        .importing(
            IMPORTS[0],
            r#"(with "host" (instance (export "log" (func $log))))"#,
            r#"(import "host" "log" (func $log (param i32 i32 i32 i32 i32 i32)))"#,
        )
        .cpu(2_000),
        Case::new(
            "400 KiB written to standard output",
            "WASI output streams",
            "(local $n i32) (local $out i32)
             (local.set $out (call $get-stdout))
             (loop $l
               (call $write (local.get $out) (i32.const 0) (i32.const 4096) (i32.const 0x8000))
               (local.set $n (i32.add (local.get $n) (i32.const 1)))
               (br_if $l (i32.lt_u (local.get $n) (i32.const 100))))",
        )
        .importing(
            IMPORTS[1],
            r#"(with "wasi" (instance (export "get-stdout" (func $get-stdout)) (export "write" (func $write))))"#,
            r#"(import "wasi" "get-stdout" (func $get-stdout (result i32)))
               (import "wasi" "write" (func $write (param i32 i32 i32 i32)))"#,
        ),
        Case::new(
            "unlimited handles",
            "handles alive",
            "(loop $l (drop (call $get-stdout)) (br $l))",
        )
        .importing(
            IMPORTS[1],
            r#"(with "wasi" (instance (export "get-stdout" (func $get-stdout)) (export "write" (func $write))))"#,
            r#"(import "wasi" "get-stdout" (func $get-stdout (result i32)))
               (import "wasi" "write" (func $write (param i32 i32 i32 i32)))"#,
        )
        .ends(FailureClass::OutputLimit, "1000 host resources"),
        Case::new(
            "unlimited model calls",
            "model calls",
            "(loop $l
               (call $complete (call $request (i32.const 0) (i32.const 0)) (i32.const 256))
               ;; The third case of the error: the budget is exhausted.
               (br_if $l (i32.ne (i32.and (call $load (i32.const 260)) (i32.const 0xff)) (i32.const 2))))
             unreachable",
        )
        .importing(
            IMPORTS[3],
            r#"(with "host" (instance (export "complete" (func $complete)) (export "request" (func $request))
              (export "load" (func $load))))"#,
            r#"(import "host" "complete" (func $complete (param i32 i32)))
               (import "host" "request" (func $request (param i32 i32) (result i32)))
               (import "host" "load" (func $load (param i32) (result i32)))"#,
        )
        .ends(FailureClass::PluginTrap, "unreachable"),
        Case::new(
            "unlimited requests",
            "handles of requests",
            "(loop $l
               (drop (call $request (i32.const 0) (i32.const 0)))
               (br $l))
             unreachable",
        )
        .importing(
            IMPORTS[3],
            r#"(with "host" (instance (export "request" (func $request))))"#,
            r#"(import "host" "request" (func $request (param i32 i32) (result i32)))"#,
        )
        .ends(FailureClass::PluginTrap, "more than 500 requests"),
    ]
}

impl Case {
    fn cpu(mut self, cpu_ms: u32) -> Self {
        self.limits.cpu_ms = cpu_ms;
        self
    }
}

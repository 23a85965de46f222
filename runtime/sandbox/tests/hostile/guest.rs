//! Guests as component text. Each test replaces `evaluate` of a valid component.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;

/// Addresses in the memory of the guest. `evaluate` returns a pointer to `RESULT`.
pub(crate) const RESULT: u32 = 0x500;
pub(crate) const SCORE: u32 = 0x600;
const NAME: (u32, u32) = (0x120, 5);

/// A component with the name `acme/guest`, the evaluator `one` and the score `score` from 0 to 1.
pub(crate) struct Guest<'a> {
    /// Text of the component before the core module: imports and lowered functions.
    pub(crate) imports: &'a str,
    /// The `(with ..)` of the core instance.
    pub(crate) with: &'a str,
    /// Imports of the core module.
    pub(crate) core_imports: &'a str,
    /// Further fields of the core module.
    pub(crate) fields: &'a str,
    /// Instructions before the result 1.0 is returned.
    pub(crate) evaluate: &'a str,
    /// Instructions before the description is returned.
    pub(crate) describe: &'a str,
    /// Initial number of memory pages.
    pub(crate) pages: u32,
    /// Number of further core instances.
    pub(crate) n_more_instances: usize,
}

impl Default for Guest<'_> {
    fn default() -> Self {
        Self {
            imports: "",
            with: "",
            core_imports: "",
            fields: "",
            evaluate: "",
            describe: "",
            pages: 4,
            n_more_instances: 0,
        }
    }
}

impl Guest<'_> {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let text = self.text();
        wat::parse_str(&text).unwrap()
    }

    fn text(&self) -> String {
        let more = "(core instance (instantiate $empty))".repeat(self.n_more_instances);
        format!(
            r#"(component
  {TYPES}
  {imports}
  (core module $empty)
  {more}
  (core module $m
    {core_imports}
    (memory (export "memory") {pages})
    (global $next (mut i32) (i32.const 0x1000))
    {fields}
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at))
    (func $describe (export "describe") (result i32) {describe} (i32.const 0x200))
    (func $evaluate (export "evaluate") (param i32) (result i32) {evaluate} (i32.const 0x500))
    {data})
  (core instance $i (instantiate $m {with}))
  (func $describe (result $plugin-info)
    (canon lift (core func $i "describe") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
  (func $evaluate (param "evaluator-id" string) (param "item" $item) (param "config" string)
    (result (result (list $score) (error $eval-error)))
    (canon lift (core func $i "evaluate") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
  (instance $e (export "describe" (func $describe)) (export "evaluate" (func $evaluate)))
  (export "perpend:evaluator/evaluator@1.0.0" (instance $e)))"#,
            imports = self.imports,
            core_imports = self.core_imports,
            fields = self.fields,
            evaluate = self.evaluate,
            describe = self.describe,
            with = self.with,
            pages = self.pages,
            data = data(),
        )
    }
}

fn data() -> String {
    let mut text = String::new();
    let mut put = |at: u32, bytes: &[u8]| {
        let escaped = bytes.iter().fold(String::new(), |mut escaped, byte| {
            let _ = write!(escaped, "\\{byte:02x}");
            escaped
        });
        let _ = writeln!(text, "(data (i32.const {at}) \"{escaped}\")");
    };
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    put(0x100, b"acme/guest");
    put(0x110, b"1.0.0");
    put(NAME.0, b"score");
    put(0x130, br#"{"type":"object"}"#);
    put(0x160, b"one");
    put(0x200, &words(&[0x100, 10, 0x110, 5, 0x100, 0, 0x300, 1]));
    put(0x300, &words(&[0x160, 3, 0x160, 3, 0x160, 0, 0x130, 17, 3, 0x400, 0, 0x400, 1, 0x0100]));
    put(0x400, &words(&[NAME.0, NAME.1, NAME.0, 0, 0]));
    put(0x418, &words(&[1, 0]));
    put(0x420, &0.0_f64.to_le_bytes());
    put(0x428, &words(&[1, 0]));
    put(0x430, &1.0_f64.to_le_bytes());
    put(0x438, &[1]);
    put(RESULT, &words(&[0, SCORE, 1]));
    put(SCORE, &words(&[NAME.0, NAME.1, 0]));
    put(SCORE + 16, &1.0_f64.to_le_bytes());
    text
}

const TYPES: &str = r#"
  (import "perpend:evaluator/types@1.0.0" (instance $types
    (type $payload' (variant (case "text" string) (case "json" string)))
    (export "payload" (type $payload (eq $payload')))
    (type $trace-ref' (record (field "trace-id" string) (field "observation-id" (option string))))
    (export "trace-ref" (type $trace-ref (eq $trace-ref')))
    (type $item' (record (field "id" string) (field "input" (option $payload))
      (field "output" (option $payload)) (field "expected-output" (option $payload))
      (field "metadata" (option string)) (field "trace" (option $trace-ref))
      (field "session" (option string)) (field "run" (option string))))
    (export "item" (type $item (eq $item')))
    (type $score-value' (variant (case "numeric" f64) (case "boolean" bool) (case "categorical" string)))
    (export "score-value" (type $score-value (eq $score-value')))
    (type $score' (record (field "name" string) (field "value" $score-value)
      (field "observation-id" (option string)) (field "comment" (option string))
      (field "metadata" (option string))))
    (export "score" (type $score (eq $score')))
    (type $eval-error' (variant (case "invalid-config" string) (case "invalid-input" string)
      (case "not-applicable" string) (case "upstream" string) (case "transient" string)
      (case "internal" string)))
    (export "eval-error" (type $eval-error (eq $eval-error')))
    (type $item-parts' (flags "input" "output" "expected-output" "metadata" "trace"))
    (export "item-parts" (type $item-parts (eq $item-parts')))
    (type $numeric-range' (record (field "min" (option f64)) (field "max" (option f64))
      (field "higher-is-better" bool)))
    (export "numeric-range" (type $numeric-range (eq $numeric-range')))
    (type $score-domain' (variant (case "numeric" $numeric-range) (case "boolean")
      (case "categorical" (list string))))
    (export "score-domain" (type $score-domain (eq $score-domain')))
    (type $score-spec' (record (field "name" string) (field "description" string)
      (field "domain" $score-domain)))
    (export "score-spec" (type $score-spec (eq $score-spec')))
    (type $slot-kind' (enum "chat" "embedding"))
    (export "slot-kind" (type $slot-kind (eq $slot-kind')))
    (type $model-slot' (record (field "name" string) (field "description" string)
      (field "kind" $slot-kind) (field "required" bool)))
    (export "model-slot" (type $model-slot (eq $model-slot')))
    (type $evaluator-info' (record (field "id" string) (field "title" string)
      (field "description" string) (field "config-schema" string) (field "needs" $item-parts)
      (field "slots" (list $model-slot)) (field "scores" (list $score-spec))
      (field "dynamic-scores" bool) (field "deterministic" bool)))
    (export "evaluator-info" (type $evaluator-info (eq $evaluator-info')))
    (type $plugin-info' (record (field "name" string) (field "version" string)
      (field "description" string) (field "evaluators" (list $evaluator-info))))
    (export "plugin-info" (type $plugin-info (eq $plugin-info')))))
  (alias export $types "item" (type $item))
  (alias export $types "score" (type $score))
  (alias export $types "eval-error" (type $eval-error))
  (alias export $types "plugin-info" (type $plugin-info))"#;

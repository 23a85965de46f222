//! What is refused before a plug-in ever runs, and compiled files that cannot be trusted.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;

use perpend_domain::plugin::Digest;
use perpend_sandbox::{ArtifactError, Host, Settings};
use perpend_worker_protocol::{ComponentProblem, Grants};

use crate::guest::Guest;

fn problems(bytes: &[u8]) -> Vec<ComponentProblem> {
    let folder = tempfile::tempdir().unwrap();
    perpend_sandbox::compile(bytes, folder.path(), Grants::default()).unwrap_err()
}

fn only_problem(bytes: &[u8]) -> String {
    let problems = problems(bytes);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[test]
fn files_that_are_no_components_are_named() {
    assert!(only_problem(b"(component)").contains("text format"));
    assert!(only_problem(&component("(module)")).contains("core module"));
    assert!(only_problem(b"\x7fELF....").contains("precompiled"));
    assert!(only_problem(b"hello").contains("not a WebAssembly component"));
    assert!(only_problem(&[0, b'a', b's', b'm', 0x0d, 0, 1, 0, 0xff]).starts_with("compile:"));
}

#[test]
fn a_component_of_another_world_is_rejected_with_the_missing_export() {
    let problem = only_problem(&component("(component)"));
    assert!(problem.contains("export perpend:evaluator/evaluator@1.0.0: missing"), "{problem}");
}

#[test]
fn an_export_of_the_wrong_type_is_rejected() {
    let text = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $e (export "describe" (func $f)) (export "evaluate" (func $f)))
        (export "perpend:evaluator/evaluator@1.0.0" (instance $e)))"#;
    let problem = only_problem(&component(text));
    assert!(problem.contains("describe"), "{problem}");
}

#[test]
fn each_import_that_is_not_granted_is_reported_with_its_capability() {
    let text = r#"(component
        (import "perpend:evaluator/model@1.0.0" (instance))
        (import "perpend:evaluator/trace-reader@1.0.0" (instance))
        (import "perpend:evaluator/context@2.0.0" (instance))
        (import "wasi:http/outgoing-handler@0.2.3" (instance))
        (import "evil:host/shell" (instance)))"#;
    let problems: Vec<String> =
        problems(&component(text)).iter().map(ToString::to_string).collect();
    let has = |import: &str, what: &str| {
        let found =
            problems.iter().any(|problem| problem.contains(import) && problem.contains(what));
        assert!(found, "{import}: {what}: {problems:#?}");
    };
    has("perpend:evaluator/model@1.0.0", "capability `model`");
    has("perpend:evaluator/trace-reader@1.0.0", "capability `trace`");
    has("perpend:evaluator/context@2.0.0", "this server provides 1.0.0");
    has("wasi:http/outgoing-handler@0.2.3", "capability `http`");
    has("evil:host/shell", "unknown");
}

#[test]
fn a_component_of_hundreds_of_instances_is_rejected() {
    let guest = Guest { n_more_instances: 500, ..Guest::default() };
    let problem = only_problem(&guest.bytes());
    assert!(problem.contains("instance"), "{problem}");
}

#[test]
fn an_endless_description_is_stopped() {
    let guest = Guest { describe: "(loop $forever (br $forever))", ..Guest::default() };
    let problem = only_problem(&guest.bytes());
    assert!(problem.contains("fuel_exhausted"), "{problem}");
}

#[test]
fn all_problems_of_a_description_are_reported() {
    // A name without a vendor, and no version.
    let describe = "(i32.store (i32.const 0x204) (i32.const 4))
        (i32.store (i32.const 0x20c) (i32.const 0))
        (i32.store (i32.const 0x304) (i32.const 0))";
    let problems = problems(&Guest { describe, ..Guest::default() }.bytes());
    let places: Vec<&str> = problems.iter().map(|problem| problem.at.as_str()).collect();
    assert_eq!(places, ["name", "version", "evaluators[\"\"].id"]);
}

#[test]
fn host_calls_are_denied_while_describing() {
    let guest = Guest {
        imports: r#"(import "perpend:evaluator/context@1.0.0" (instance $context
            (export "seed" (func (result u64)))))
            (core func $seed (canon lower (func $context "seed")))"#,
        with: r#"(with "host" (instance (export "seed" (func $seed))))"#,
        core_imports: r#"(import "host" "seed" (func $seed (result i64)))"#,
        describe: "(drop (call $seed))",
        ..Guest::default()
    };
    let problem = only_problem(&guest.bytes());
    assert!(problem.contains("host calls are denied"), "{problem}");
}

#[test]
fn a_damaged_artifact_is_detected_and_can_be_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = Guest::default().bytes();
    let digest = Digest::of(&bytes);
    let host = Host::new(&Settings { max_live: 16, ..Settings::default() }, folder.path()).unwrap();
    assert!(matches!(host.load(digest), Err(ArtifactError::Missing)));
    perpend_sandbox::compile(&bytes, folder.path(), Grants::default()).unwrap();
    host.load(digest).unwrap();

    let path = host.artifacts().path(digest);
    let length = fs::metadata(&path).unwrap().len();
    for at in [0, length / 2, length - 60, length - 20] {
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[0xaa; 8]).unwrap();
        drop(file);
        assert!(matches!(host.load(digest), Err(ArtifactError::IntegrityError(_))), "at {at}");
        perpend_sandbox::compile(&bytes, folder.path(), Grants::default()).unwrap();
        host.load(digest).unwrap();
    }
    for length in [0, 10, length - 1] {
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        assert!(
            matches!(host.load(digest), Err(ArtifactError::IntegrityError(_))),
            "{length} bytes"
        );
    }
}

#[test]
fn concurrent_compilations_of_a_component_produce_a_valid_artifact() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = Guest::default().bytes();
    let host = Host::new(&Settings::default(), folder.path()).unwrap();
    let compile = || perpend_sandbox::compile(&bytes, folder.path(), Grants::default());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(compile)).collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
            host.load(Digest::of(&bytes)).unwrap();
        }
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_cache_folder_that_others_can_write_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let error = Host::new(&Settings::default(), folder.path()).err().unwrap().to_string();
    assert!(error.contains("can be written by others"), "{error}");
}

/// WebAssembly features that the engine does not support. Builds without `gc` and `threads` aborted on some.
const NOT_BUILT_IN: &[&str] = &[
    "(memory 1 1 shared)",
    "(memory 1 1 shared) (func (drop (memory.grow (i32.const 1))))",
    "(import \"a\" \"m\" (memory 1 2 shared))",
    "(memory (export \"m\") 1 4 shared) (func (drop (i32.atomic.load (i32.const 0))))",
    "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))",
    "(memory 1) (func (drop (i64.atomic.rmw.cmpxchg (i32.const 0) (i64.const 0) (i64.const 1))))",
    "(memory 1) (func (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1))))",
    "(memory 1) (func (drop (memory.atomic.wait64 (i32.const 0) (i64.const 0) (i64.const -1))))",
    "(memory 1) (func (drop (memory.atomic.notify (i32.const 0) (i32.const 1))))",
    "(func (atomic.fence))",
    "(type (struct (field i32)))",
    "(type $s (struct (field i32))) (func (drop (struct.new $s (i32.const 1))))",
    "(type $a (array (mut i8))) (func (drop (array.new $a (i32.const 0) (i32.const 1000000))))",
    "(type $a (array i8)) (data $d \"x\") (func (drop (array.new_data $a $d (i32.const 0) (i32.const 1))))",
    "(func (drop (ref.i31 (i32.const 1))))",
    "(func (drop (ref.null any)))",
    "(func (drop (ref.null extern)))",
    "(func (param externref) (drop (any.convert_extern (local.get 0))))",
    "(table 1 externref)",
    "(table 1 anyref)",
    "(global (mut externref) (ref.null extern))",
    "(func (param externref) (result externref) (local.get 0))",
    "(table $t 1 externref) (func (drop (table.grow $t (ref.null extern) (i32.const 1))))",
    "(elem externref (ref.null extern))",
    "(tag $e (param i32)) (func (throw $e (i32.const 1)))",
    "(tag $e) (func (block (try_table (catch_all 0) (throw $e))))",
    "(func (param exnref) (throw_ref (local.get 0)))",
    "(table 1 exnref)",
    "(rec (type $a (struct)) (type $b (struct (field (ref null $a)))))",
    "(type $f (func)) (type $c (cont $f)) (func (param (ref $f)) (drop (cont.new $c (local.get 0))))",
];

#[test]
fn unsupported_features_are_rejected() {
    for module in NOT_BUILT_IN {
        let bytes = component(&format!("(component (core module {module}))"));
        let text = only_problem(&bytes);
        assert!(text.starts_with("compile:"), "{module}: {text}");
        assert!(!text.contains("panic"), "{module}: {text}");
    }
}

//! Schemas that are expensive to check. The check process has limits of CPU time, memory and stack, so that the tests do not
//! depend on the load of the machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use perpend_domain::ids::ProjectId;
use perpend_worker_pool::{NoHostCalls, Options, Workers};
use perpend_worker_protocol::{
    CheckError, Mismatch, SchemaAnswer, SchemaCheck, SchemaKind, ValueReport,
};
use serde_json::{Map, Value, json};

use crate::{PATIENCE, block_on, start, wait_until};

fn check(kind: SchemaKind, schema: &Value, values: &[Value]) -> SchemaCheck {
    SchemaCheck {
        schema: schema.to_string(),
        kind,
        values: values.iter().map(ToString::to_string).collect(),
    }
}

async fn check_schema(workers: &Workers, check: &SchemaCheck) -> Result<SchemaAnswer, CheckError> {
    workers.check_schema(&ProjectId::new("p").unwrap(), check).await
}

/// `n` definitions, each with a reference to the next, and the definition `last`.
fn chain(n: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
    let next = |at: usize| json!({ "$ref": format!("#/$defs/{}", at + 1) });
    let links = (0..n).map(|at| (at.to_string(), link(next(at))));
    let defs: Map<String, Value> = links.chain([(n.to_string(), last)]).collect();
    json!({ "$defs": defs, "$ref": "#/$defs/0" })
}

fn bombs() -> Vec<(&'static str, SchemaCheck)> {
    let any = |schema: Value, value: Value| check(SchemaKind::Any, &schema, &[value]);
    let config = |schema: Value| check(SchemaKind::Config, &schema, &[json!({})]);
    let names: Vec<String> = (0..10_000).map(|n| format!("a{n}")).collect();
    let grows: Map<String, Value> =
        ('a'..='j').map(|name| (name.to_string(), json!({ "$ref": "#", "default": {} }))).collect();
    vec![
        (
            "all of two, 60 levels deep",
            any(chain(60, |next| json!({ "allOf": [next, next] }), json!({})), json!(1)),
        ),
        (
            "any of two that both fail, 60 levels deep",
            any(
                chain(60, |next| json!({ "anyOf": [next, next] }), json!({ "type": "string" })),
                json!(1),
            ),
        ),
        (
            "a chain of references",
            any(
                chain(
                    200_000,
                    |next| json!({ "not": { "not": next } }),
                    json!({ "type": "string" }),
                ),
                json!(1),
            ),
        ),
        (
            "10,000 names that 10,000 members lack",
            any(json!({ "items": { "required": names } }), json!(vec![json!({}); 10_000])),
        ),
        (
            "a pattern that is matched repeatedly against a long text",
            any(
                chain(20, |next| json!({ "allOf": [next, next] }), json!({ "pattern": "^[^c]*$" })),
                json!("a".repeat(1_000_000)),
            ),
        ),
        (
            "ten recursive references",
            config(json!({ "type": "object", "allOf": vec![json!({ "$ref": "#" }); 10] })),
        ),
        ("recursive defaults", config(json!({ "type": "object", "properties": grows }))),
    ]
}

pub(crate) fn schema_checks_are_bounded_in_time() {
    block_on(async {
        let change = |options: &mut Options| options.compile_limit = PATIENCE;
        let bench = start(&[], change, Arc::new(NoHostCalls));
        for (name, bomb) in bombs() {
            let answer = check_schema(&bench.workers, &bomb).await;
            assert_eq!(answer, Err(CheckError::TooMuchWork), "{name}");
        }
        let good = check(SchemaKind::Any, &json!({ "type": "integer" }), &[json!(1)]);
        let answer = check_schema(&bench.workers, &good).await.unwrap();
        assert_eq!(answer, Ok(vec![ValueReport::default()]));
        bench.workers.shutdown().await;
    });
}

pub(crate) fn reports_keep_the_order_of_their_values() {
    block_on(async {
        let bench = start(&[], |_| (), Arc::new(NoHostCalls));
        let with_default = json!({
            "type": "object",
            "properties": { "n": { "type": "integer", "default": 3 } },
        });
        let checks = [
            check(
                SchemaKind::Any,
                &json!({ "properties": { "q": { "type": "string" } } }),
                &[json!({ "q": 1 }), json!({ "q": "a" })],
            ),
            check(SchemaKind::Any, &json!({ "$ref": "file:///etc/passwd" }), &[]),
            check(SchemaKind::Any, &json!({ "type": "objekt" }), &[json!(1)]),
            check(SchemaKind::Config, &with_default, &[json!({}), json!({ "n": "x" }), json!([])]),
        ];
        let mut answers = Vec::new();
        for check in &checks {
            answers.push(check_schema(&bench.workers, check).await.unwrap());
        }
        let pointers = |report: &ValueReport| -> Vec<String> {
            let pointers = report.mismatches.iter().map(|mismatch| mismatch.pointer.clone());
            pointers.collect()
        };
        let [values, file, invalid_schema, configs] = answers.as_slice() else {
            unreachable!("{answers:?}")
        };
        let values = values.as_ref().unwrap();
        assert_eq!((pointers(&values[0]), pointers(&values[1])), (vec!["/q".to_owned()], vec![]));
        assert!(file.is_err(), "{file:?}");
        let Err(Mismatch { pointer, message }) = invalid_schema else {
            unreachable!("{invalid_schema:?}")
        };
        assert_eq!(pointer, "/type");
        assert!(message.contains("not a JSON Schema"), "{message}");
        let configs = configs.as_ref().unwrap();
        assert_eq!(configs[0].with_defaults.as_deref(), Some(r#"{"n":3}"#));
        assert_eq!(pointers(&configs[1]), ["/n"]);
        assert!(!configs[2].mismatches.is_empty() && configs[2].with_defaults.is_none());
        bench.workers.shutdown().await;
    });
}

pub(crate) fn a_check_process_that_exits_at_once_is_a_failure() {
    block_on(async {
        let change = |options: &mut Options| options.check_args = vec!["end-at-once".into()];
        let bench = start(&[], change, Arc::new(NoHostCalls));
        let one = check(SchemaKind::Any, &json!({}), &[json!(1)]);
        let answer = check_schema(&bench.workers, &one).await;
        assert!(matches!(answer, Err(CheckError::Failed(_))), "{answer:?}");
        bench.workers.shutdown().await;
    });
}

/// Replaces the checker by a program that answers with its process id.
fn answer_with_process_id(options: &mut Options) {
    options.check_args = vec!["answer-check-with-process-id".into()];
}

pub(crate) fn checked_values_are_cached_and_others_get_separate_processes() {
    block_on(async {
        let bench = start(&[], answer_with_process_id, Arc::new(NoHostCalls));
        let process_ids = async |project: &str, schema: &Value, values: &[Value]| {
            let check = check(SchemaKind::Any, schema, values);
            let project = ProjectId::new(project).unwrap();
            let reports = bench.workers.check_schema(&project, &check).await.unwrap().unwrap();
            let ids = reports.into_iter().map(|report| report.mismatches[0].message.clone());
            ids.collect::<Vec<_>>()
        };
        let (one, two) = (json!({ "title": "one" }), json!({ "title": "two" }));
        let mut all = Vec::new();
        for (project, schema, value) in
            [("a", &one, 1), ("a", &one, 2), ("a", &two, 1), ("b", &one, 1), ("b", &one, 3)]
        {
            all.extend(process_ids(project, schema, &[json!(value)]).await);
        }
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert_eq!(process_ids("a", &one, &[json!(2), json!(1)]).await, [&*all[1], &*all[0]]);
        assert_eq!(process_ids("b", &one, &[json!(1)]).await, [&*all[3]]);
        bench.workers.shutdown().await;
    });
}

/// The running children of this process with this argument.
#[cfg(target_os = "linux")]
fn children(argument: &str) -> Vec<rustix::process::Pid> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let is_child = |pid: &str| {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let status = read("status").unwrap_or_default();
        let arguments = read("cmdline").unwrap_or_default();
        status.contains(&own)
            && !status.contains("State:\tZ")
            && arguments.split('\0').any(|each| each == argument)
    };
    let all = std::fs::read_dir("/proc").unwrap();
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids =
        names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && is_child(name));
    pids.filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Whether this child is running. An ending process has no arguments any more.
#[cfg(target_os = "linux")]
fn is_running(child: rustix::process::Pid) -> bool {
    let status = format!("/proc/{}/status", child.as_raw_pid());
    std::fs::read_to_string(status).is_ok_and(|status| !status.contains("State:\tZ"))
}

#[cfg(target_os = "linux")]
pub(crate) fn idle_check_processes_that_ended_are_replaced() {
    block_on(async {
        let mark = "idle-processes-of-this-test";
        let change = |options: &mut Options| options.check_args = vec!["check".into(), mark.into()];
        let bench = start(&[], change, Arc::new(NoHostCalls));
        for n in 0..3 {
            let one = check(SchemaKind::Any, &json!({}), &[json!(n)]);
            let answer = check_schema(&bench.workers, &one).await;
            assert_eq!(answer, Ok(Ok(vec![ValueReport::default()])));
            let idle_processes = children(mark);
            assert!(!idle_processes.is_empty());
            for &pid in &idle_processes {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            wait_until(|| !idle_processes.iter().any(|&pid| is_running(pid))).await;
        }
        bench.workers.shutdown().await;
    });
}

pub(crate) fn many_checks_of_a_project_do_not_delay_others() {
    block_on(async {
        let change = |options: &mut Options| options.compile_limit = PATIENCE;
        let bench = start(&[], change, Arc::new(NoHostCalls));
        let (greedy, other) = (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap());
        let (_, endless) = bombs().remove(1);
        let endless: Vec<_> = (0..=64)
            .map(|n| SchemaCheck { values: vec![n.to_string()], ..endless.clone() })
            .collect();
        let (rejected, endless) = endless.split_last().unwrap();
        let checks = endless.iter().map(|each| bench.workers.check_schema(&greedy, each));
        let mut checks: FuturesUnordered<_> = checks.collect();
        // Each poll starts some of them.
        for _ in 0..64 {
            assert!(checks.next().now_or_never().is_none());
        }
        let rejected = bench.workers.check_schema(&greedy, rejected).await;
        assert_eq!(rejected, Err(CheckError::Busy));
        let good = check(SchemaKind::Any, &json!({}), &[json!(1)]);
        let mut good = Box::pin(bench.workers.check_schema(&other, &good));
        let mut n_ended = 0;
        let answer = loop {
            tokio::select! {
                answer = &mut good => break answer,
                Some(_) = checks.next() => n_ended += 1,
            }
        };
        assert_eq!(answer, Ok(Ok(vec![ValueReport::default()])));
        assert!(n_ended < 2, "it waited for {n_ended} checks of the other project");
        drop(checks);
        bench.workers.shutdown().await;
    });
}

//! The sandbox layers of worker processes, observed from outside and tested from inside.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;

use perpend_worker_pool::NoHostCalls;
use perpend_worker_protocol::{CheckHead, CompileRequest, Grants, ToWorker, WorkerSettings};
use serde::Serialize;

use crate::guest::Guest;
use crate::{block_on, call, faults, start, wait_until};

const CANARY: &str = "PERPEND_CANARY_SECRET";

/// Restarts the tests with a secret in the environment, like that of a server.
pub(crate) fn restart_with_secret() -> Option<ExitCode> {
    if std::env::var_os(CANARY).is_some() {
        return None;
    }
    let error = Command::new(std::env::current_exe().unwrap())
        .args(std::env::args_os().skip(1))
        .env(CANARY, "sk-canary-6d1f0c")
        .exec();
    drop(writeln!(std::io::stderr(), "{error}"));
    Some(ExitCode::FAILURE)
}

fn field<'t>(status: &'t str, name: &str) -> &'t str {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    assert!(line.is_some(), "no {name} in {status}");
    line.unwrap_or_default().trim()
}

#[cfg(target_os = "linux")]
pub(crate) fn a_worker_has_no_environment_no_files_and_no_rights() {
    let good = Guest::default();
    assert!(std::env::var_os(CANARY).is_some());
    // An open descriptor that all children inherit.
    let stray = File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&stray, rustix::io::FdFlags::empty()).unwrap();
    block_on(async {
        let bench = start(&[&good], |_| (), Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        let pid = bench.workers.pids()[0];
        // Readable by root only.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        assert!(environment.is_empty(), "{environment:?}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert_eq!(field(&status, "NoNewPrivs:"), "1");
        assert_eq!(field(&status, "Seccomp:"), "2");
        assert_eq!(field(&status, "CapEff:"), "0000000000000000");
        assert_eq!(field(&status, "CapPrm:"), "0000000000000000");
        let users: Vec<&str> = field(&status, "Uid:").split_whitespace().collect();
        if rustix::process::geteuid().is_root() {
            assert!(users.iter().all(|user| *user != "0"), "{users:?}");
            assert_eq!(field(&status, "Groups:"), "");
        }
        if let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) {
            for descriptor in open {
                let target = std::fs::read_link(descriptor.unwrap().path()).unwrap();
                let target = target.to_string_lossy().into_owned();
                let is_known = ["socket:", "pipe:", "anon_inode:", "/memfd:perpend-artifact"]
                    .iter()
                    .any(|start| target.starts_with(start))
                    || target == "/dev/null"
                    || target == format!("/proc/{pid}/pagemap")
                    || target == format!("/proc/{pid}/statm");
                assert!(is_known, "{target}");
            }
        }
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let limit = |name: &str| field(&limits, name).split_whitespace().next().unwrap().to_owned();
        assert_eq!(limit("Max core file size"), "0");
        assert_eq!(limit("Max file size"), "0");
        assert_eq!(limit("Max locked memory"), "0");
    });
}

#[cfg(target_os = "linux")]
pub(crate) fn compiler_and_checker_are_confined_before_they_read_untrusted_input() {
    let compile = CompileRequest { grants: Grants::default(), require_all_layers: false };
    let limits = [
        "Max cpu time 60 61 seconds",
        "Max address space 2147483648 68719476736 bytes",
        "Max data size 2147483648 2147483648 bytes",
    ];
    let output = confined("compile", &compile, &limits);
    assert!(output.status.success());
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.contains("not a WebAssembly component"), "{answer}");
    let check = CheckHead { require_all_layers: false };
    let limits = ["Max cpu time 5 6 seconds", "Max address space 1073741824 1073741824 bytes"];
    confined("check", &check, &limits);
}

/// Checks the confinement of a child after its first message, and waits for its output.
#[cfg(target_os = "linux")]
fn confined(role: &str, head: &impl Serialize, limits: &[&str]) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(role)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut frame = Vec::new();
    perpend_worker_protocol::write_frame(head, &mut frame).unwrap();
    child.stdin.as_mut().unwrap().write_all(&frame).unwrap();
    let status = || std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    block_on(wait_until(|| field(&status(), "Seccomp:") == "2"));
    let status = status();
    assert_eq!(field(&status, "NoNewPrivs:"), "1");
    assert_eq!(field(&status, "CapPrm:"), "0000000000000000");
    if rustix::process::geteuid().is_root() {
        assert!(!field(&status, "Uid:").split_whitespace().any(|user| user == "0"));
    }
    let all = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for limit in limits {
        assert!(all.lines().any(|line| words(line) == *limit), "{role}: {all}");
    }
    child.wait_with_output().unwrap()
}

pub(crate) fn a_worker_cannot_access_anything_outside() {
    // Outside, the attempts succeed.
    let outside = faults::successes();
    for possible in ["open", "write", "udp", "connect", "start a program", "exists"] {
        assert!(outside.iter().any(|name| name == possible), "{possible}: {outside:?}");
    }
    let good = Guest::default();
    block_on(async {
        let bench = start(&[&good], |_| (), Arc::new(NoHostCalls));
        let mut attempts = call(&good);
        Arc::make_mut(&mut attempts.item).id = "attempts".into();
        let answers = bench.workers.evaluate(vec![attempts]).await;
        let possible = &answers[0].outcome.as_ref().unwrap_err().message;
        assert_eq!(possible, "", "possible in a worker");
    });
}

pub(crate) fn a_worker_reports_its_sandbox_layers() {
    block_on(async {
        let bench = start(&[], |_| (), Arc::new(NoHostCalls));
        let layers = bench.workers.sandbox_layers().await.unwrap();
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        let expected = [
            "empty environment",
            "closed descriptors",
            "limits",
            "other user",
            "no capabilities",
            "no new privileges",
            "landlock",
            "seccomp",
        ];
        assert_eq!(names, expected);
        for layer in &layers {
            // Older kernels have no Landlock. All other layers exist since Linux 3.17.
            assert!(layer.status.is_ok() || layer.name == "landlock", "{layer:?}");
        }
        // When all layers are required, a worker with a gap does not start.
        let gaps: Vec<_> = layers.iter().filter_map(|layer| layer.gap()).collect();
        let require =
            |options: &mut perpend_worker_pool::Options| options.require_all_layers = true;
        let bench = start(&[], require, Arc::new(NoHostCalls));
        match bench.workers.sandbox_layers().await {
            Ok(_) => assert!(gaps.is_empty(), "{gaps:?}"),
            Err(error) => {
                let stderr = error.to_string();
                assert!(
                    !gaps.is_empty() && gaps.iter().all(|gap| stderr.contains(gap)),
                    "{stderr}"
                );
            }
        }
    });
}

pub(crate) fn a_program_that_is_not_a_worker_reports_no_sandbox_layers() {
    block_on(async {
        let change =
            |options: &mut perpend_worker_pool::Options| options.args = vec!["end-at-once".into()];
        let bench = start(&[], change, Arc::new(NoHostCalls));
        assert!(bench.workers.sandbox_layers().await.is_err());
    });
}

/// Runs a worker that inherits an environment. Returns its standard error.
fn worker_with_environment(require_all_layers: bool) -> String {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .arg("worker")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let settings = WorkerSettings {
        n_threads: 1,
        max_live: 16,
        max_resident_bytes: 1 << 30,
        stuck_ms: 1_000,
        require_all_layers,
    };
    let mut frame = Vec::new();
    for message in [ToWorker::Start(settings), ToWorker::Shutdown] {
        perpend_worker_protocol::write_frame(&message, &mut frame).unwrap();
    }
    ours.write_all(&frame).unwrap();
    drop(ours.read_to_end(&mut Vec::new()));
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

pub(crate) fn a_worker_that_lacks_a_required_sandbox_layer_ends() {
    let stderr = worker_with_environment(true);
    assert!(stderr.contains("confinement is required"), "{stderr}");
    assert!(stderr.contains("inherited variables"), "{stderr}");
    assert!(!stderr.contains("canary-6d1f0c"), "{stderr}");
    assert_eq!(worker_with_environment(false), "");
}

//! Guests that exceed each limit of the contract, while a neighbour must not be affected.

use std::sync::Arc;

use perpend_sandbox::{Host, Settings};

use crate::cases::{Case, cases};
use crate::guest::Guest;
use crate::neighbours::{Outcome, plugin, run_with_neighbour};

/// Maximum CPU time after a limit was reached. Usually it is a few milliseconds, but ticks may be delayed on a busy machine.
const GRACE_US: u64 = 2_000_000;

fn check(case: &Case, outcome: &Outcome) -> Result<(), String> {
    match (&outcome.result.outcome, case.class) {
        (Ok(_), None) => Ok(()),
        (Err(failure), Some(class)) if failure.class == class => {
            match failure.message.contains(case.message) {
                true => Ok(()),
                false => Err(format!("its message is {:?}", failure.message)),
            }
        }
        (outcome, class) => Err(format!("{outcome:?} and not {class:?}")),
    }?;
    if outcome.n_neighbour_calls == 0 {
        return Err("no call of the neighbour completed".to_owned());
    }
    let allowed = u64::from(case.limits.cpu_ms) * 1_000 + GRACE_US;
    if allowed < outcome.result.cpu_us {
        let cpu_us = outcome.result.cpu_us;
        let (elapsed, slowest) = (outcome.elapsed, outcome.slowest_neighbour_call);
        return Err(format!(
            "it used {cpu_us} µs of CPU time in {elapsed:?}; the slowest call of the neighbour took {slowest:?}"
        ));
    }
    Ok(())
}

#[test]
fn each_limit_ends_its_guest_with_its_class_and_does_not_affect_a_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failures = Vec::new();
    for case in cases() {
        let hostile = plugin(&host, folder.path(), &case.guest.bytes());
        let outcome = runtime.block_on(run_with_neighbour(&host, &good, hostile, &case));
        if let Err(error) = check(&case, &outcome) {
            failures.push(format!("{}: {error}", case.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Excessive logs and output are truncated, and the call succeeds.
#[test]
fn excessive_text_is_truncated_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let log = |limit: &str| {
        let case = cases().into_iter().find(|case| case.limit == limit).unwrap();
        let hostile = plugin(&host, folder.path(), &case.guest.bytes());
        let outcome = runtime.block_on(run_with_neighbour(&host, &good, hostile, &case));
        outcome.result.outcome.unwrap();
        outcome.result.log
    };
    let lines = log("log lines");
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| line.message.len() <= 8 << 10));
    let last = &lines[199].message;
    assert!(last.contains("99800 log lines") || last.contains("99801 log lines"), "{last}");

    let printed = log("WASI output streams");
    let n_bytes: usize = printed.iter().map(|line| line.message.len()).sum();
    assert!((1..=17 << 10).contains(&n_bytes), "{n_bytes}");
    assert!(printed[0].message.starts_with("stdout: "));

    let comment = cases().into_iter().find(|case| case.limit == "comment").unwrap();
    let hostile = plugin(&host, folder.path(), &comment.guest.bytes());
    let outcome = runtime.block_on(run_with_neighbour(&host, &good, hostile, &comment));
    let scores = outcome.result.outcome.unwrap();
    let comment = scores[0].comment.as_deref().unwrap();
    assert!(comment.len() <= 64 << 10 && comment.ends_with("[cut]"));
}

//! Every limit of the contract, with a guest that goes over it and a neighbour that must not notice.

use std::sync::Arc;

use perpend_sandbox::{Host, Settings};

use crate::cases::{Case, cases};
use crate::guest::Guest;
use crate::neighbours::{Seen, beside_a_neighbour, plugin};

/// What a guest may go on for where it met a limit, in CPU time: on a machine that is busy with other things the
/// time on the wall says nothing. The example prints a few milliseconds; here the tick may be late.
const GRACE_US: u64 = 2_000_000;

fn check(case: &Case, seen: &Seen) -> Result<(), String> {
    match (&seen.result.outcome, case.class) {
        (Ok(_), None) => Ok(()),
        (Err(failure), Some(class)) if failure.class == class => {
            match failure.message.contains(case.says) {
                true => Ok(()),
                false => Err(format!("its message is {:?}", failure.message)),
            }
        }
        (outcome, class) => Err(format!("{outcome:?} and not {class:?}")),
    }?;
    if seen.n_neighbours == 0 {
        return Err("no neighbour was answered".to_owned());
    }
    let allowed = u64::from(case.limits.cpu_ms) * 1_000 + GRACE_US;
    if allowed < seen.result.cpu_us {
        let cost = seen.result.cpu_us;
        let (took, slowest) = (seen.took, seen.slowest_neighbour);
        return Err(format!(
            "it had {cost} µs of CPU time in {took:?}, and a neighbour took {slowest:?}"
        ));
    }
    Ok(())
}

#[test]
fn each_limit_ends_its_guest_in_its_class_and_no_neighbour_notices() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut wrong = Vec::new();
    for case in cases() {
        let hostile = plugin(&host, folder.path(), &case.guest.bytes());
        let seen = runtime.block_on(beside_a_neighbour(&host, &good, hostile, &case));
        if let Err(why) = check(&case, &seen) {
            wrong.push(format!("{}: {why}", case.does));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a guest logs and prints in excess is cut, and its answer stands.
#[test]
fn floods_of_text_are_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let log = |limit: &str| {
        let case = cases().into_iter().find(|case| case.limit == limit).unwrap();
        let hostile = plugin(&host, folder.path(), &case.guest.bytes());
        let seen = runtime.block_on(beside_a_neighbour(&host, &good, hostile, &case));
        seen.result.outcome.unwrap();
        seen.result.log
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
    let seen = runtime.block_on(beside_a_neighbour(&host, &good, hostile, &comment));
    let scores = seen.result.outcome.unwrap();
    let comment = scores[0].comment.as_deref().unwrap();
    assert!(comment.len() <= 64 << 10 && comment.ends_with("[cut]"));
}

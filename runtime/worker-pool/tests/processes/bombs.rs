//! Components that are expensive to compile. The CPU time of the compile process is limited, so that the tests do not depend on
//! the load of the machine.

use std::fmt::Write as _;
use std::sync::Arc;

use perpend_worker_pool::{NoHostCalls, Options};

use crate::guest::Guest;
use crate::{PATIENCE, block_on, start};

/// The expected result: a description, or a problem with this text.
type Expected = Option<&'static str>;

fn bombs() -> Vec<(&'static str, String, Expected)> {
    let functions = "(func (param i64) (result i64) (local.get 0))".repeat(10_000);
    let functions = format!("(core module $many {functions}) (core instance (instantiate $many))");
    let instances =
        format!("(core module $e) {}", "(core instance (instantiate $e))".repeat(5_000));
    let mut nested = "(type $n0 (list u8))".to_owned();
    for n in 1..2_000 {
        let _ = write!(nested, "(type $n{n} (list $n{}))", n - 1);
    }
    let blocks = format!(
        "(core module $b (func (param i32) {} {} {})) (core instance (instantiate $b))",
        "(block".repeat(1_000),
        "(br_table 0 1 2 3 4 5 6 7 8 9 (local.get 0))".repeat(1_000),
        ")".repeat(1_000)
    );
    vec![
        ("10,000 functions", functions, None),
        ("5,000 instances", instances, Some("instances")),
        ("types nested 2,000 deep", nested, Some("nesting")),
        ("1,000 blocks with 1,000 branch tables", blocks, None),
    ]
}

pub(crate) fn compilation_is_bounded_in_time() {
    block_on(async {
        let change = |options: &mut Options| options.compile_limit = PATIENCE;
        let bench = start(&[], change, Arc::new(NoHostCalls));
        for (name, imports, expected) in bombs() {
            let guest = Guest { imports: &imports, ..Guest::default() };
            let answer = bench.workers.inspect(&guest.bytes()).await;
            match (answer, expected) {
                (Ok(_), None) => {}
                (Err(problems), Some(text)) => {
                    let all = format!("{problems:?}");
                    assert!(all.contains(text), "{name}: {all}");
                }
                (answer, _) => unreachable!("{name}: {answer:?}"),
            }
        }
        let good = bench.workers.inspect(&Guest::default().bytes()).await;
        assert!(good.is_ok(), "{good:?}");
        bench.workers.shutdown().await;
    });
}

pub(crate) fn a_killed_compile_process_is_a_failure_of_the_host() {
    block_on(async {
        let change = |options: &mut Options| options.compile_args = vec!["kill-itself".into()];
        let bench = start(&[], change, Arc::new(NoHostCalls));
        let problems = bench.workers.inspect(&Guest::default().bytes()).await;
        let problems = problems.unwrap_err();
        // The server returns 503 for these, so that the upload can be repeated.
        assert!(problems.iter().all(|problem| problem.at == "host"), "{problems:?}");
        bench.workers.shutdown().await;
    });
}

//! Components that are made to be hard to compile: the process that compiles ends in bounded time, and the
//! server is asked again without waiting for anything. The bound is the CPU time that the process may have, so
//! that a crowded machine changes nothing: one that needs more is ended, and says so instead of what is expected.

use std::fmt::Write as _;
use std::sync::Arc;

use perpend_worker_pool::{NoHostCalls, Options};

use crate::guest::Guest;
use crate::{PATIENCE, block_on, start};

/// What has to come of it: a description, or a problem that says this.
type Ends = Option<&'static str>;

fn bombs() -> Vec<(&'static str, String, Ends)> {
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

pub(crate) fn components_that_are_hard_to_compile_end_in_bounded_time() {
    block_on(async {
        let change = |options: &mut Options| options.compile_limit = PATIENCE;
        let bench = start(&[], change, Arc::new(NoHostCalls));
        for (what, imports, ends) in bombs() {
            let guest = Guest { imports: &imports, ..Guest::default() };
            let answer = bench.workers.inspect(&guest.bytes()).await;
            match (answer, ends) {
                (Ok(_), None) => {}
                (Err(problems), Some(text)) => {
                    let all = format!("{problems:?}");
                    assert!(all.contains(text), "{what}: {all}");
                }
                (answer, _) => unreachable!("{what}: {answer:?}"),
            }
        }
        let good = bench.workers.inspect(&Guest::default().bytes()).await;
        assert!(good.is_ok(), "{good:?}");
        bench.workers.shutdown().await;
    });
}

pub(crate) fn a_compile_process_that_is_killed_says_nothing_about_its_component() {
    block_on(async {
        let change = |options: &mut Options| options.compile_args = vec!["is-killed".into()];
        let bench = start(&[], change, Arc::new(NoHostCalls));
        let problems = bench.workers.inspect(&Guest::default().bytes()).await;
        let problems = problems.unwrap_err();
        // The server answers 503 to these: the same component may be sent again.
        assert!(problems.iter().all(|problem| problem.at == "host"), "{problems:?}");
        bench.workers.shutdown().await;
    });
}

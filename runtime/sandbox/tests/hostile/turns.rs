//! Scheduling of guests of several projects.

use std::sync::{Arc, Mutex};

use perpend_domain::plugin::{FailureClass, Limits};
use perpend_sandbox::{DenyAllPort, Host, Settings};

use crate::guest::Guest;
use crate::neighbours::{call, plugin};

const N_ENDLESS: usize = 60;

#[test]
fn a_call_precedes_the_endless_loops_of_another_project() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Host::new(&Settings::default(), folder.path()).unwrap());
    let good = Arc::new(plugin(&host, folder.path(), &Guest::default().bytes()));
    let endless = Guest { evaluate: "(loop $l (br $l))", ..Guest::default() };
    let endless = Arc::new(plugin(&host, folder.path(), &endless.bytes()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    // Calls in the order in which they ended; `None` is the call of the other project.
    let order = Arc::new(Mutex::new(Vec::new()));
    let classes = runtime.block_on(async {
        let limits = Limits { cpu_ms: 60, ..Limits::default() };
        let start = |n: usize| {
            let (host, endless, order) =
                (Arc::clone(&host), Arc::clone(&endless), Arc::clone(&order));
            tokio::spawn(async move {
                let port = Arc::new(DenyAllPort);
                let result = host.evaluate_for(1, &endless, call(limits), port).await;
                order.lock().unwrap().push(Some(n));
                result.outcome.unwrap_err().class
            })
        };
        let running: Vec<_> = (0..N_ENDLESS).map(start).collect();
        // All loops run when the first one ended.
        while order.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let before = order.lock().unwrap().len();
        let (host, good, own) = (Arc::clone(&host), Arc::clone(&good), Arc::clone(&order));
        let port = Arc::new(DenyAllPort);
        let other = tokio::spawn(async move {
            let result = host.evaluate_for(2, &good, call(Limits::default()), port).await;
            own.lock().unwrap().push(None);
            result.outcome
        });
        other.await.unwrap().unwrap();
        let at = order.lock().unwrap().iter().position(Option::is_none);
        // A few loops may end meanwhile.
        assert!(at.unwrap() - before <= N_ENDLESS / 4, "after {at:?} and {before}");
        let mut classes = Vec::new();
        for one in running {
            classes.push(one.await.unwrap());
        }
        classes
    });
    assert!(classes.iter().all(|class| *class == FailureClass::FuelExhausted));
}

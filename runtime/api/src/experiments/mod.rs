//! Experiments, recorded by clients as spans, as links of a dataset run, or
//! both.

mod collect;
mod compare;
mod gates;
mod items;
mod list;
mod params;
mod rename;
mod report;

use perpend_domain::access::Permission::{ExperimentRead, ExperimentWrite};
use perpend_http_kit::routes::Operation;

use crate::state::Routes;

const GATES: &str = "/api/v1/experiments/{experimentId}/gates";

pub(super) fn routes(routes: &mut Routes) {
    let all = Operation::get(
        "listExperiments",
        "/api/public/experiments",
        "List experiments, latest activity first",
        ExperimentRead,
    );
    routes.add(all.query(list::LIST), list::list_experiments);
    let items = Operation::get(
        "listExperimentItems",
        "/api/public/experiment-items",
        "List items of experiments, newest first",
        ExperimentRead,
    );
    routes.add(items.query(items::LIST), items::list_items);
    let one = Operation::get(
        "getExperiment",
        "/api/v1/experiments/{experimentId}",
        "Get a run with its account, totals and scores; `~compare` is the id `compare`",
        ExperimentRead,
    );
    routes.add(one, report::get_experiment);
    let rename = Operation::patch(
        "patchExperiment",
        "/api/v1/experiments/{experimentId}",
        "Rename a run; the name with which it was created still leads to it",
        ExperimentWrite,
    );
    routes.add(rename.body::<rename::ExperimentPatch>(), rename::patch_experiment);
    let compare = Operation::get(
        "compareExperiments",
        "/api/v1/experiments/compare",
        "Compare 2 to 6 runs with a baseline: differences, verdicts, and items by change",
        ExperimentRead,
    );
    routes.add(compare.query(compare::COMPARE), compare::compare_runs);
    let results = Operation::get(
        "getExperimentResults",
        "/api/v1/experiments/{experimentId}/results",
        "Get the results of a run with their scores, as `perpend gate --result` reads them",
        ExperimentRead,
    );
    routes.add(results, compare::get_results);
    let gate = Operation::post(
        "createExperimentGate",
        GATES,
        "Check a run against requirements and a baseline, and store the outcome",
        ExperimentWrite,
    );
    routes.add(gate.body::<gates::NewGate>(), gates::create_gate);
    let gates = Operation::get(
        "listExperimentGates",
        GATES,
        "List the gates of a run, newest first",
        ExperimentRead,
    );
    routes.add(gates.query(gates::LIST), gates::list_gates);
}

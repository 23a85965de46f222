//! Experiments, recorded by clients as spans, as links of a dataset run, or
//! both.

mod collect;
mod items;
mod list;
mod params;
mod report;

use perpend_domain::access::Permission::ExperimentRead;
use perpend_http_kit::routes::Operation;

use crate::state::Routes;

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
        "Get a run with its account, totals and scores",
        ExperimentRead,
    );
    routes.add(one, report::get_experiment);
}

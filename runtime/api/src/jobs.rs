//! Background jobs and how they run.

use axum::extract::State;
use perpend_api_types::job::{JobFailure, JobState};
use perpend_api_types::list::CompleteList;
use perpend_domain::access::Permission::ProjectRead;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::routes::Operation;
use perpend_jobs::runner::{JobStatus, Jobs};

use crate::state::{App, Routes};

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listJobs",
        "/api/v1/jobs",
        "List the background jobs of the server with their last run and error",
        ProjectRead,
    );
    routes.add(list, list_jobs);
}

fn state(status: JobStatus) -> JobState {
    JobState {
        name: status.name.to_owned(),
        interval_seconds: status.interval.as_secs(),
        is_running: status.is_running,
        runs: status.n_runs,
        failures: status.n_failed,
        last_started_at: status.started_at,
        last_succeeded_at: status.succeeded_at,
        last_item_count: status.n_items,
        last_error: status.error.map(|(at, message)| JobFailure { at, message }),
    }
}

/// The states of all jobs.
pub(crate) fn states(jobs: &Jobs) -> Vec<JobState> {
    jobs.statuses().into_iter().map(state).collect()
}

async fn list_jobs(State(app): State<App>) -> Answer<CompleteList<JobState>> {
    Answer(CompleteList { data: states(&app.jobs) })
}

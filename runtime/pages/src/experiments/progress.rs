//! The progress of a run that the server executes.

use perpend_domain::server_run::RunState;
use perpend_executions::{MAX_DRIVEN_RUNS, RunProgress};
use perpend_views::{Text, count, dollars, plural};

/// Progress of a run by the server as state and details, and the changes that its state allows.
pub(super) fn progress_view(
    run: &RunProgress,
) -> ((Text, Text), Vec<(&'static str, &'static str)>) {
    let n_results = run.n_pending + run.n_in_flight + run.n_completed + run.n_failed;
    let mut details = format!(
        "{} of {} results, {} failed, {} in flight, {}",
        count(run.n_completed + run.n_failed),
        count(n_results),
        count(run.n_failed),
        count(run.n_in_flight),
        dollars(run.cost_usd),
    );
    if 0 < run.n_repeated {
        details.push_str(&format!(", {} possibly repeated", plural(run.n_repeated, "call")));
    }
    if let (RunState::Paused, Some(message)) = (run.state, &run.message) {
        details.push_str(&format!(": {message}"));
    }
    if run.is_waiting {
        let limit = format!("; waiting: at most {MAX_DRIVEN_RUNS} runs are executed at a time");
        details.push_str(&limit);
    }
    let mut changes = match run.state {
        RunState::Running => vec![("pause", "Pause"), ("cancel", "Cancel")],
        RunState::Paused => vec![("resume", "Resume"), ("cancel", "Cancel")],
        RunState::Completed | RunState::Cancelled => Vec::new(),
    };
    if 0 < run.n_failed && matches!(run.state, RunState::Completed | RunState::Paused) {
        changes.push(("retry", "Retry failed items"));
    }
    let state = format!("The server's run is {}:", run.state);
    ((Text::from(state), Text::from(details)), changes)
}

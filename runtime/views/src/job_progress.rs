//! The progress of a job over stored targets.

use askama::Template;

/// The progress of a running job; empty if it does not run.
#[derive(Clone, Debug, Template)]
#[template(path = "job_progress.html")]
pub struct JobProgressFragment {
    /// The kind of the job: `backfill` or `backtest`.
    pub noun: &'static str,
    /// URL of its page.
    pub href: String,
    /// Completed percentage, if it runs.
    pub percent: Option<u32>,
    /// Such as `120 of 400 targets examined`.
    pub progress: String,
}

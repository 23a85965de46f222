//! The page of the instance: the parts of the server, its queues and jobs.

use askama::Template;

use crate::scores::score::Tone;
use crate::{Shell, Text};

/// The page for the operator of the server.
#[derive(Clone, Debug, Template)]
#[template(path = "instance.html")]
pub struct InstancePage {
    /// Page frame.
    pub shell: Shell,
    /// Time of the last check in UTC; absent before the first.
    pub checked: Option<String>,
    /// Parts of the server as of the last check.
    pub parts: Vec<InstancePart>,
    /// States of open executions and their numbers.
    pub open: Vec<(&'static str, String)>,
    /// Queues of all projects by lane and class, the latest first.
    pub queues: Vec<InstanceQueueLine>,
    /// Background jobs.
    pub jobs: Vec<InstanceJobLine>,
    /// Backfills and backtests of the project that have not ended.
    pub progress: Vec<InstanceProgressLine>,
    /// Problems that prevent rules of the project from scoring.
    pub problems: Vec<InstanceProblemLine>,
    /// Refused requests with keys of the project.
    pub refused: Vec<RefusedLine>,
}

/// A part of the server.
#[derive(Clone, Debug)]
pub struct InstancePart {
    pub(crate) name: &'static str,
    pub(crate) state: &'static str,
    pub(crate) tone: Tone,
    pub(crate) detail: String,
}

impl InstancePart {
    const fn new(name: &'static str, state: &'static str, tone: Tone) -> Self {
        Self { name, state, tone, detail: String::new() }
    }

    /// A part that works.
    #[must_use]
    pub const fn good(name: &'static str, state: &'static str) -> Self {
        Self::new(name, state, Tone::Good)
    }

    /// A part that needs attention.
    #[must_use]
    pub const fn waiting(name: &'static str, state: &'static str) -> Self {
        Self::new(name, state, Tone::Waiting)
    }

    /// A part that does not work.
    #[must_use]
    pub const fn bad(name: &'static str, state: &'static str) -> Self {
        Self::new(name, state, Tone::Bad)
    }

    /// With figures.
    #[must_use]
    pub fn with_detail(self, detail: String) -> Self {
        Self { detail, ..self }
    }
}

/// The queues of one lane and class.
#[derive(Clone, Debug)]
pub struct InstanceQueueLine {
    /// Lane.
    pub lane: &'static str,
    /// Class.
    pub class: &'static str,
    /// Number of rules that have such a queue.
    pub n: String,
    /// How long the first execution has been due.
    pub delay: String,
    /// Whether that is long.
    pub is_late: bool,
}

/// A background job.
#[derive(Clone, Debug)]
pub struct InstanceJobLine {
    /// Name.
    pub name: Text,
    /// Time between two runs.
    pub interval: String,
    /// Whether a run is under way.
    pub is_running: bool,
    /// Number of completed runs.
    pub runs: String,
    /// Number of failed runs, if any.
    pub failures: Option<String>,
    /// End of the latest successful run in UTC.
    pub succeeded_at: Option<String>,
    /// Items of that run.
    pub n_items: String,
    /// Time and message, if the latest run failed.
    pub error: Option<(String, Text)>,
}

/// A problem that keeps a rule from scoring.
#[derive(Clone, Debug)]
pub struct InstanceProblemLine {
    /// Name of the rule.
    pub rule: Text,
    /// URL of its page.
    pub href: String,
    /// Names of the connections concerned.
    pub connections: Text,
    /// Explanation.
    pub message: Text,
    /// Start in UTC.
    pub since: String,
    /// Automatic end in UTC.
    pub until: Option<String>,
    /// Number of waiting executions.
    pub waiting: String,
}

/// A backfill or backtest that has not ended.
#[derive(Clone, Debug)]
pub struct InstanceProgressLine {
    /// `Backfill` or `Backtest`.
    pub kind: &'static str,
    /// Name of the rule or evaluator.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// The state.
    pub state: &'static str,
    /// Examined part of the range, such as `40 %`; empty if unknown.
    pub examined: String,
}

/// Refused requests with one status and reason.
#[derive(Clone, Debug)]
pub struct RefusedLine {
    /// Reason.
    pub reason: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Number since the start of the server.
    pub n: String,
    /// Time of the last one in UTC.
    pub last: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples_tests::*;

    #[test]
    fn the_page_is_inert_and_alarms_are_on_each_page() {
        let page = InstancePage {
            shell: Shell {
                alarms: vec!["The workers have stopped."],
                is_operator: true,
                ..shell()
            },
            checked: Some("2026-01-01 00:00:00".to_owned()),
            parts: vec![
                InstancePart::good("Database", "accepts writes").with_detail("1 MiB".to_owned()),
                InstancePart::waiting("Disk", "nearly full"),
                InstancePart::bad("Workers", "stopped"),
            ],
            open: vec![("pending", "3".to_owned())],
            queues: vec![InstanceQueueLine {
                lane: "code",
                class: "manual",
                n: "1".to_owned(),
                delay: "due for 2 min".to_owned(),
                is_late: true,
            }],
            jobs: vec![InstanceJobLine {
                name: text(HOSTILE),
                interval: "10 s".to_owned(),
                is_running: true,
                runs: "2".to_owned(),
                failures: Some("1".to_owned()),
                succeeded_at: None,
                n_items: "0".to_owned(),
                error: Some(("2026-01-01 00:00:00".to_owned(), text(HOSTILE))),
            }],
            progress: vec![InstanceProgressLine {
                kind: "Backfill",
                name: text(HOSTILE),
                href: "/project/p/backfills/b".to_owned(),
                state: "running",
                examined: "40 %".to_owned(),
            }],
            problems: vec![InstanceProblemLine {
                rule: text(HOSTILE),
                href: "/project/p/rules/r".to_owned(),
                connections: text(HOSTILE),
                message: text(HOSTILE),
                since: "2026-01-01 00:00:00".to_owned(),
                until: Some("2026-01-01 00:01:00".to_owned()),
                waiting: "4".to_owned(),
            }],
            refused: vec![RefusedLine {
                reason: "wrong secret",
                status: 401,
                n: "2".to_owned(),
                last: "2026-01-01 00:00:00".to_owned(),
            }],
        };
        let html = checked(&page);
        assert!(html.contains("class=\"notice bad alarm\"") && html.contains("href=\"/instance\""));
        let empty = InstancePage {
            shell: shell(),
            checked: None,
            parts: Vec::new(),
            open: Vec::new(),
            queues: Vec::new(),
            jobs: Vec::new(),
            progress: Vec::new(),
            problems: Vec::new(),
            refused: Vec::new(),
        };
        let html = checked(&empty);
        assert!(!html.contains("alarm") && !html.contains("href=\"/instance\""));
    }
}

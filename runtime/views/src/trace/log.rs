//! The log view of a trace: observations by start time.

use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::observation::{Level, Observation};
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;

use crate::format::{count, duration, kind_label};
use crate::lists::page_links::PageLinks;
use crate::trace::header::{HeadInput, RowState, TraceHeader, ViewParams};
use crate::trace::thread::facts;
use crate::values::content::display_text;
use crate::{Shell, Text};

/// Observations per page.
pub const LOG_PAGE_SIZE: usize = 100;

/// Input of [`LogPage`].
#[derive(Debug)]
pub struct LogInput {
    /// Page frame.
    pub shell: Shell,
    /// The trace without content.
    pub trace: Trace,
    /// Observations of this page, each with the beginning of its input and output.
    pub observations: Vec<(Observation, [Option<Text>; 2])>,
    /// Start of the trace.
    pub start: Timestamp,
    /// Index of the first observation of this page.
    pub at: usize,
    /// Number of observations that pass the filters.
    pub n_observations: usize,
    /// Number of observations that do not pass the filters.
    pub n_hidden: usize,
    /// View, filters and columns.
    pub view_params: ViewParams,
    /// Selection and collapsed rows of the views with rows.
    pub row_state: RowState,
    /// Input of the header.
    pub head: HeadInput,
}

/// One page of the log view.
#[derive(Debug, Template)]
#[template(path = "log.html")]
pub struct LogPage {
    shell: Shell,
    head: TraceHeader,
    entries: Vec<LogEntry>,
    shown: String,
    hidden: Option<String>,
    page_links: PageLinks,
}

#[derive(Debug)]
struct LogEntry {
    /// URL-encoded id of the observation.
    observation_id: String,
    href: String,
    /// URL of its detail pane.
    detail: String,
    at: String,
    kind: &'static str,
    name: Text,
    facts: Vec<Text>,
    mark: Option<(&'static str, &'static str)>,
    message: Option<Text>,
    input: Option<Text>,
    output: Option<Text>,
}

impl LogPage {
    /// Builds the page.
    #[must_use]
    pub fn new(input: LogInput) -> Self {
        let base = input.shell.base();
        let trace = segment(input.trace.id.as_str());
        let to_tree = input.view_params.in_tree().query();
        let entries =
            input.observations.into_iter().map(|(observation, [input_text, output_text])| {
                let id = encode(observation.id.as_str());
                LogEntry {
                    href: format!("{base}/traces/{trace}?observation={id}{to_tree}"),
                    detail: format!("{base}/_/traces/{trace}/detail?observation={id}"),
                    observation_id: id,
                    at: format!("+{}", duration(observation.start.micros_since(input.start))),
                    kind: kind_label(observation.kind),
                    name: Text::from(observation.name.as_str()),
                    facts: facts(&observation),
                    mark: match observation.level {
                        Level::Error => Some(("error", "bad")),
                        Level::Warning => Some(("warning", "waiting")),
                        Level::Debug => Some(("debug", "plain")),
                        Level::Default => None,
                    },
                    message: observation.status_message.as_deref().map(display_text),
                    input: input_text,
                    output: output_text,
                }
            });
        let entries: Vec<LogEntry> = entries.collect();
        let number = |n: usize| count(n as u64);
        let behind = input.at + entries.len();
        let shown = format!(
            "Observations {}–{} of {}",
            number(input.at + 1),
            number(behind),
            number(input.n_observations)
        );
        let address = input.row_state.address(&input.view_params);
        let way = |at: usize| format!("{address}&at={at}");
        Self {
            head: TraceHeader::new(
                &input.trace,
                base,
                &input.view_params,
                &input.row_state,
                input.head,
            ),
            shown,
            hidden: input.view_params.hidden(input.n_hidden),
            page_links: PageLinks {
                previous: (0 < input.at)
                    .then(|| ("Earlier observations", way(input.at.saturating_sub(LOG_PAGE_SIZE)))),
                next: (behind < input.n_observations).then(|| ("Later observations", way(behind))),
                ..PageLinks::default()
            },
            entries,
            shell: input.shell,
        }
    }
}

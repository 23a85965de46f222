//! An item of an experiment: a span, or a link to a trace.

use std::borrow::Cow;

use perpend_domain::dataset::{DatasetRun, DatasetRunItem};
use perpend_domain::filter::{Cell, Row};
use perpend_domain::telemetry::ExperimentSpan;
use perpend_domain::time::Timestamp;

/// An item of an experiment.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Span(Box<ExperimentSpan>),
    Link(Box<(DatasetRunItem, DatasetRun)>),
}

impl Item {
    /// Position in the list.
    pub(super) fn position(&self) -> (Timestamp, String) {
        match self {
            Self::Span(span) => (span.start, format!("{}/{}", span.trace_id, span.id)),
            Self::Link(parts) => {
                (parts.0.created_at, format!("{}/{}", parts.0.trace_id, parts.0.id))
            }
        }
    }

    pub(super) fn dataset_id(&self) -> Option<&str> {
        match self {
            Self::Span(span) => span.link.dataset_id.as_deref(),
            Self::Link(parts) => Some(&parts.1.dataset_id),
        }
    }

    pub(super) fn experiment(&self) -> (&str, &str) {
        match self {
            Self::Span(span) => {
                let id = span.link.id.as_deref().unwrap_or_default();
                (id, span.link.name.as_deref().unwrap_or(id))
            }
            Self::Link(parts) => (&parts.1.id, &parts.1.name),
        }
    }

    pub(super) fn item_id(&self) -> &str {
        match self {
            Self::Span(span) => span.link.item_id.as_deref().unwrap_or(span.id.as_str()),
            Self::Link(parts) => &parts.0.item_id,
        }
    }
}

impl Row for Item {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "experimentId" => Cell::Text(Cow::Borrowed(self.experiment().0)),
            "experimentName" => Cell::Text(Cow::Borrowed(self.experiment().1)),
            "experimentItemId" => Cell::Text(Cow::Borrowed(self.item_id())),
            "datasetId" => Cell::text(self.dataset_id()),
            _ => Cell::Null,
        }
    }
}

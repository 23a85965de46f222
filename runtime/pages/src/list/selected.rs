//! Rows that were selected in a list.

use percent_encoding::percent_decode_str;
use perpend_http_kit::extract::Params;
use perpend_views::encode;

/// The selected rows of a list.
#[derive(Debug, Default)]
pub(crate) struct SelectedRows {
    /// Ids of traces.
    pub(crate) traces: Vec<String>,
    /// Ids of the trace and of the observation.
    pub(crate) observations: Vec<(String, String)>,
    /// Ids of sessions.
    pub(crate) sessions: Vec<String>,
}

impl SelectedRows {
    /// The rows of the checkboxes `trace`, `observation` and `session`.
    pub(crate) fn of(params: &Params) -> Self {
        let decoded = |raw: &str| percent_decode_str(raw).decode_utf8_lossy().into_owned();
        let ids = |name: &str| params.all(name).iter().map(|raw| decoded(raw)).collect();
        let observations = params.all("observation");
        let observations = observations.iter().filter_map(|raw| {
            let (trace, id) = raw.split_once(':')?;
            Some((decoded(trace), decoded(id)))
        });
        Self {
            traces: ids("trace"),
            observations: observations.collect(),
            sessions: ids("session"),
        }
    }

    /// The same checkboxes as hidden fields.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let traces = self.traces.iter().map(|id| ("trace", encode(id)));
        let observations = self.observations.iter();
        let observations = observations
            .map(|(trace, id)| ("observation", format!("{}:{}", encode(trace), encode(id))));
        let sessions = self.sessions.iter().map(|id| ("session", encode(id)));
        traces.chain(observations).chain(sessions).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_rows_are_the_same_after_another_form() {
        let query = "trace=a%252Fb&observation=t%3Ao%253A1&session=s&session=&observation=none";
        let rows = SelectedRows::of(&Params::parse(query));
        assert_eq!(rows.traces, ["a/b"]);
        assert_eq!(rows.observations, [("t".to_owned(), "o:1".to_owned())]);
        assert_eq!(rows.sessions, ["s"]);
        let fields = rows.fields();
        assert_eq!(fields[1], ("observation", "t:o%3A1".to_owned()), "{fields:?}");
        assert_eq!(fields[0], ("trace", "a%2Fb".to_owned()), "{fields:?}");
    }
}

//! Selected flips of a backtest: `POST P/backtests/{backtest}/flips/dataset` opens the form that adds their targets to a
//! dataset, `POST P/backtests/{backtest}/flips/queue` adds them to the annotation queue `queue`.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use perpend_domain::evaluation::Target;
use perpend_http_kit::extract::MISSING;
use perpend_http_kit::problem::Problem;
use perpend_views::{encode, plural, with_query};
use serde_json::{Value, json};

use super::{BacktestPath, backtest_href};
use crate::list::selected::SelectedRows;
use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

/// Name and value of the field that selects a target, as in lists.
pub(super) fn choice(target: &Target) -> (&'static str, String) {
    let trace = target.trace().map(|id| encode(id.as_str()));
    match (trace, target.observation(), target.session()) {
        (Some(trace), Some(id), _) => ("observation", format!("{trace}:{}", encode(id.as_str()))),
        (Some(trace), None, _) => ("trace", trace),
        (None, _, session) => {
            ("session", session.map(|id| encode(&id.to_string())).unwrap_or_default())
        }
    }
}

/// The bodies of the items of a queue. A target may have several flips.
fn queue_items(rows: &SelectedRows) -> Vec<Value> {
    let traces = rows.traces.iter().map(|id| ("TRACE", id));
    let observations = rows.observations.iter().map(|(_, id)| ("OBSERVATION", id));
    let sessions = rows.sessions.iter().map(|id| ("SESSION", id));
    let all: BTreeSet<_> = traces.chain(observations).chain(sessions).collect();
    all.into_iter().map(|(kind, id)| json!({ "objectType": kind, "objectId": id })).collect()
}

/// `POST P/backtests/{backtest}/flips/dataset`
pub(crate) async fn add_to_dataset(
    State(app): State<App>,
    Path(path): Path<BacktestPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let rows: BTreeSet<_> = SelectedRows::of(&form.fields).fields().into_iter().collect();
        let rows: Vec<(&str, String)> =
            rows.into_iter().filter(|(name, _)| *name != "session").collect();
        if rows.is_empty() {
            let words = "Select the flips whose traces or observations become items.";
            let href = backtest_href(&viewer.base(), path.id());
            return Ok(SubmissionOutcome::new(words).at(format!("{href}#flips")));
        }
        let there = with_query(&format!("{}/dataset-items/from-traces", viewer.base()), &rows);
        Ok::<_, Problem>(SubmissionOutcome::new("Choose the dataset.").at(there))
    };
    Box::pin(form.run_once(&app, act)).await
}

/// `POST P/backtests/{backtest}/flips/queue`
pub(crate) async fn add_to_queue(
    State(app): State<App>,
    Path(path): Path<BacktestPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let items = queue_items(&SelectedRows::of(&form.fields));
        let queue = form.fields.text("queue").ok_or_else(|| Problem::body("queue", MISSING))?;
        let queue = encode(queue);
        let operation = format!("/api/public/annotation-queues/{queue}/items");
        for item in &items {
            call(&app, viewer, (Method::POST, operation.as_str()), item).await?;
        }
        let words = match items.len() as u64 {
            0 => "Select the flips to add to the queue.".to_owned(),
            n => format!("{} added to the queue.", plural(n, "target")),
        };
        let href = backtest_href(&viewer.base(), path.id());
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(format!("{href}#flips")))
    };
    Box::pin(form.run_once(&app, act)).await
}

#[cfg(test)]
mod tests {
    use perpend_http_kit::extract::Params;

    use super::*;

    #[test]
    fn a_selected_target_is_one_item_of_a_queue_whatever_its_flips() {
        let target = Target::Observation("t".parse().unwrap(), "o:1".parse().unwrap());
        let (name, value) = choice(&target);
        assert_eq!((name, value.as_str()), ("observation", "t:o%3A1"));
        let field = format!("{name}={}", encode(&value));
        let rows = SelectedRows::of(&Params::parse(&format!("{field}&{field}&session=s")));
        let expected = [
            json!({ "objectType": "OBSERVATION", "objectId": "o:1" }),
            json!({ "objectType": "SESSION", "objectId": "s" }),
        ];
        assert_eq!(queue_items(&rows), expected);
        assert_eq!(choice(&Target::Trace("t".parse().unwrap())), ("trace", "t".to_owned()));
    }
}

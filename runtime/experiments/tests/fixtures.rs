//! Runs made of values.

use perpend_domain::experiment::{ExperimentRun, ItemResult, ItemScore, RunResults};
use perpend_domain::ids::TraceId;
use perpend_domain::plugin::Digest;
use perpend_domain::score::ScoreValue;
use perpend_domain::score_config::ScoreDirection;
use perpend_domain::time::Timestamp;
use perpend_experiments::CompareOptions;
use perpend_experiments::comparison::DirectionSource;
use perpend_experiments::options::ScoreDefinition;
use serde_json::Value;

/// A run over the dataset `d` without items.
pub(crate) fn run(id: &str) -> RunResults {
    RunResults {
        run: ExperimentRun {
            id: id.to_owned(),
            name: format!("{id} name"),
            description: None,
            metadata: Value::Null,
            dataset_id: Some("d".to_owned()),
            dataset_name: Some("questions".to_owned()),
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        },
        expected_items: None,
        items: Vec::new(),
        scores: Vec::new(),
    }
}

/// A result without scores.
pub(crate) fn result(run: &str, item: &str, repetition: usize) -> ItemResult {
    ItemResult {
        item_id: item.to_owned(),
        item_version: None,
        expected_output: Some(Digest::of(item.as_bytes())),
        trace_id: TraceId::new(&format!("{run}-{item}-{repetition}")).unwrap(),
        observation_id: None,
        start: Timestamp::from_millis(0),
        has_arrived: true,
        is_error: false,
        latency_ms: None,
        cost_usd: None,
        n_tokens: None,
        scores: Vec::new(),
    }
}

pub(crate) fn score(name: &str, value: ScoreValue) -> ItemScore {
    ItemScore { name: name.to_owned(), value, comment: None, origin: None }
}

/// A run whose items `i0`, `i1`, … have one score `accuracy` each.
pub(crate) fn scored(id: &str, values: impl IntoIterator<Item = ScoreValue>) -> RunResults {
    let mut found = run(id);
    for (at, value) in values.into_iter().enumerate() {
        let mut item = result(id, &format!("i{at}"), 0);
        item.scores.push(score("accuracy", value));
        found.items.push(item);
    }
    found
}

pub(crate) fn passes(id: &str, passed: impl IntoIterator<Item = bool>) -> RunResults {
    scored(id, passed.into_iter().map(ScoreValue::Boolean))
}

pub(crate) fn numbers(id: &str, values: impl IntoIterator<Item = f64>) -> RunResults {
    scored(id, values.into_iter().map(ScoreValue::Numeric))
}

/// Options in which a higher `accuracy` is better, the only metric.
pub(crate) fn options() -> CompareOptions {
    let direction = Some((ScoreDirection::HigherIsBetter, DirectionSource::ScoreConfig));
    let definition = ScoreDefinition { direction, ..ScoreDefinition::default() };
    CompareOptions {
        scores: [("accuracy".to_owned(), definition)].into(),
        metrics: vec!["accuracy".to_owned()],
        ..CompareOptions::default()
    }
}

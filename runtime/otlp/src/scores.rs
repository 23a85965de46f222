//! Scores that evaluation events carry (otlp.md 2.16).

use perpend_domain::ids::{MAX_ID_BYTES, MAX_ID_CHARS, ObservationId, ScoreId, TraceId};
use perpend_domain::score::{NewScore, ScoreSource, ScoreValue, Subject};
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::attributes::Attributes;
use crate::limits::{cut_bytes, cut_chars};
use crate::messages::unflatten;
use crate::notes::Notes;

/// The subject and environment of a score.
#[derive(Clone, Debug)]
pub(crate) struct ScoreContext<'p> {
    pub(crate) trace_id: &'p TraceId,
    pub(crate) observation_id: &'p ObservationId,
    pub(crate) environment: &'p str,
}

/// The score of one `gen_ai.evaluation.result`; `index` distinguishes scores of the same name.
pub(crate) fn of_event(
    place: &ScoreContext<'_>,
    attributes: &Map<String, Json>,
    index: usize,
    at: Timestamp,
) -> Option<NewScore> {
    let part = |name: &str| attributes.get(name);
    score(
        place,
        [
            part("gen_ai.evaluation.name"),
            part("gen_ai.evaluation.score.value"),
            part("gen_ai.evaluation.score.label"),
            part("gen_ai.evaluation.explanation"),
        ],
        index,
        at,
    )
}

/// The scores of OpenInference `evaluations.N.evaluation.*`.
pub(crate) fn of_attributes(
    place: &ScoreContext<'_>,
    attributes: &Attributes<'_>,
    at: Timestamp,
) -> Vec<NewScore> {
    let entries = attributes.with_prefix("evaluations.");
    let Some(Json::Array(items)) =
        (!entries.is_empty()).then(|| unflatten(entries, "evaluations.")).flatten()
    else {
        return Vec::new();
    };
    let read = |(index, item): (usize, &Json)| {
        let evaluation = item.get("evaluation")?;
        let part = |name: &str| evaluation.get(name);
        let parts = [part("name"), part("score"), part("label"), part("explanation")];
        score(place, parts, index, at)
    };
    items.iter().enumerate().filter_map(read).collect()
}

/// From name, value, label and explanation. A score needs a name, and a value or a label.
fn score(
    place: &ScoreContext<'_>,
    [name, value, label, explanation]: [Option<&Json>; 4],
    index: usize,
    at: Timestamp,
) -> Option<NewScore> {
    let text = |value: Option<&Json>| {
        let text = value?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let mut name = text(name)?;
    let id = derived_id(place, &name, index)?;
    let label = text(label);
    let number = value.and_then(|value| match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    });
    let mut metadata = Map::new();
    let kept = cut_bytes(cut_chars(&name, MAX_ID_CHARS), MAX_ID_BYTES).len();
    if kept < name.len() {
        let mut notes = Notes::default();
        notes.cut("name", name.len());
        notes.write(&mut metadata);
        name.truncate(kept);
    }
    let value = match (number.filter(|number| number.is_finite()), label) {
        (Some(number), label) => {
            if let Some(label) = label {
                metadata.insert("label".to_owned(), Json::String(label));
            }
            ScoreValue::Numeric(number)
        }
        (None, Some(label)) => ScoreValue::Categorical(label),
        (None, None) => match value? {
            Json::Bool(value) => ScoreValue::Boolean(*value),
            _ => return None,
        },
    };
    Some(NewScore {
        id,
        value,
        subject: Subject::Observation(place.trace_id.clone(), place.observation_id.clone()),
        source: ScoreSource::Api,
        timestamp: at,
        environment: place.environment.to_owned(),
        comment: text(explanation),
        metadata,
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: None,
        name,
    })
}

/// The same event gives the same id, so that a retry does not double the score.
fn derived_id(place: &ScoreContext<'_>, name: &str, index: usize) -> Option<ScoreId> {
    let mut hash = Sha256::new();
    for part in [place.trace_id.as_str(), place.observation_id.as_str(), name, &index.to_string()] {
        hash.update(part);
        hash.update([0]);
    }
    let digest = hash.finalize();
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    ScoreId::new(&hex).ok()
}

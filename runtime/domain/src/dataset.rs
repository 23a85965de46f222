//! Datasets: curated inputs with what is expected of them, and the runs over them.

use std::collections::BTreeSet;
use std::fmt;

pub use crate::content::spans::media_id;
use crate::content::spans::{REFERENCE, REFERENCE_END};
use serde_json::Value;

use crate::ids::{InvalidId, MAX_ID_CHARS, ProjectId};
use crate::named::named_enum;
use crate::plugin::Digest;
use crate::time::Timestamp;

/// The longest id of an item in characters.
pub const MAX_ITEM_ID_CHARS: usize = 255;
/// The longest name in bytes: with its project it fits into a key of an index.
pub const MAX_NAME_BYTES: usize = 2_400;

named_enum!(
    /// Whether an item is part of the dataset now.
    ItemStatus {
        Active = "ACTIVE",
        Archived = "ARCHIVED",
    }
);

/// The name of a dataset or of a run over it; slashes make folders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatasetName(String);

impl DatasetName {
    /// Checks text from outside.
    ///
    /// # Errors
    /// [`InvalidId`] when it is empty, too long or has control characters.
    pub fn new(raw: &str) -> Result<Self, InvalidId> {
        let is_long = MAX_NAME_BYTES < raw.len()
            || (MAX_ID_CHARS < raw.len() && MAX_ID_CHARS < raw.chars().count());
        if raw.trim().is_empty() || is_long || raw.chars().any(char::is_control) {
            return Err(InvalidId);
        }
        Ok(Self(raw.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of a dataset at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its id.
    pub id: String,
    /// Unique name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Any JSON value; null if absent.
    pub metadata: Value,
    /// JSON Schema of the inputs.
    pub input_schema: Option<Value>,
    /// JSON Schema of the expected outputs.
    pub expected_output_schema: Option<Value>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change; changes of items do not count.
    pub updated_at: Timestamp,
}

/// A change of a dataset; absent members are unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetPatch {
    /// Description.
    pub description: Option<String>,
    /// Removes the description if `description` is absent.
    pub clear_description: bool,
    /// Any JSON value.
    pub metadata: Option<Value>,
    /// JSON Schema of the inputs; `null` removes it.
    pub input_schema: Option<Value>,
    /// JSON Schema of the expected outputs; `null` removes it.
    pub expected_output_schema: Option<Value>,
}

/// A schema after a patch: `null` removes it.
fn patched_schema(patch: Option<Value>, current: Option<Value>) -> Option<Value> {
    match patch {
        None => current,
        Some(Value::Null) => None,
        schema => schema,
    }
}

impl Dataset {
    /// The dataset with a patch applied; unchanged if the patch has no new values.
    #[must_use]
    pub fn patched(&self, patch: DatasetPatch, now: Timestamp) -> Self {
        let mut next = self.clone();
        if patch.clear_description {
            next.description = None;
        }
        next.description = patch.description.or(next.description);
        next.metadata = patch.metadata.unwrap_or(next.metadata);
        next.input_schema = patched_schema(patch.input_schema, next.input_schema);
        next.expected_output_schema =
            patched_schema(patch.expected_output_schema, next.expected_output_schema);
        if next != *self {
            next.updated_at = now;
        }
        next
    }

    /// Whether items that met `self` may fail `next`.
    #[must_use]
    pub fn changes_schema(&self, next: &Self) -> bool {
        self.input_schema != next.input_schema
            || self.expected_output_schema != next.expected_output_schema
    }
}

/// The state of a dataset item at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetItem {
    /// Its id, unique in the project.
    pub id: String,
    /// The dataset it belongs to, for good.
    pub dataset_id: String,
    /// Its name now.
    pub dataset_name: String,
    /// Whether it is part of the dataset.
    pub status: ItemStatus,
    /// Input.
    pub input: Value,
    /// Expected output.
    pub expected_output: Value,
    /// Any JSON value.
    pub metadata: Value,
    /// The trace it was made from.
    pub source_trace_id: Option<String>,
    /// The observation it was made from.
    pub source_observation_id: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// When this version became the one that holds.
    pub valid_from: Timestamp,
}

/// A change of an item; absent members are unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPatch {
    /// Whether it is part of the dataset.
    pub status: Option<ItemStatus>,
    /// Input.
    pub input: Option<Value>,
    /// Expected output.
    pub expected_output: Option<Value>,
    /// Any JSON value.
    pub metadata: Option<Value>,
    /// The trace it was made from.
    pub source_trace_id: Option<String>,
    /// The observation it was made from.
    pub source_observation_id: Option<String>,
}

impl DatasetItem {
    /// A new item of a dataset.
    #[must_use]
    pub fn new(id: String, dataset: &Dataset, patch: ItemPatch, now: Timestamp) -> Self {
        Self {
            id,
            dataset_id: dataset.id.clone(),
            dataset_name: dataset.name.clone(),
            status: patch.status.unwrap_or(ItemStatus::Active),
            input: patch.input.unwrap_or(Value::Null),
            expected_output: patch.expected_output.unwrap_or(Value::Null),
            metadata: patch.metadata.unwrap_or(Value::Null),
            source_trace_id: patch.source_trace_id,
            source_observation_id: patch.source_observation_id,
            created_at: now,
            valid_from: now,
        }
    }

    /// The next version; the same one if the patch has no new values. Versions of an item never
    /// share an instant.
    #[must_use]
    pub fn patched(&self, patch: ItemPatch, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.status = patch.status.unwrap_or(next.status);
        next.input = patch.input.unwrap_or(next.input);
        next.expected_output = patch.expected_output.unwrap_or(next.expected_output);
        next.metadata = patch.metadata.unwrap_or(next.metadata);
        next.source_trace_id = patch.source_trace_id.or(next.source_trace_id);
        next.source_observation_id = patch.source_observation_id.or(next.source_observation_id);
        if next != *self {
            next.valid_from = self.next_moment(now);
        }
        next
    }

    /// `now`, or the first instant after this version began when the clock does not show one.
    #[must_use]
    pub fn next_moment(&self, now: Timestamp) -> Timestamp {
        now.max(Timestamp::from_micros(self.valid_from.as_micros() + 1))
    }
}

/// The moment that a reader means: times of whole milliseconds, which is what answers show, mean all
/// of that millisecond.
#[must_use]
pub fn as_of(moment: Timestamp) -> Timestamp {
    match moment.as_micros() % 1_000 {
        0 => Timestamp::from_micros(moment.as_micros() + 999),
        _ => moment,
    }
}

/// A run over a dataset, also called experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetRun {
    /// Its id, from [`run_id`].
    pub id: String,
    /// Its name, unique in the dataset.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Any JSON value.
    pub metadata: Value,
    /// The dataset.
    pub dataset_id: String,
    /// Its name.
    pub dataset_name: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// One item of a run with its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetRunItem {
    /// Its id.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// Name of the run.
    pub run_name: String,
    /// The item of the dataset.
    pub item_id: String,
    /// The moment the dataset was read at, when it was not the present one.
    pub dataset_version: Option<Timestamp>,
    /// The trace that was recorded.
    pub trace_id: String,
    /// The observation of the trace that represents the item.
    pub observation_id: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl DatasetRunItem {
    /// The time as of which the item is read.
    #[must_use]
    pub fn version(&self) -> Timestamp {
        self.dataset_version.unwrap_or(self.updated_at)
    }
}

/// The id of a run. Clients compute the same one, so that spans and links of one run meet.
#[must_use]
pub fn run_id(project: &ProjectId, dataset_id: &str, run_name: &str) -> String {
    let key = serde_json::json!(["langfuse-experiment-v1", project, dataset_id, run_name]);
    let mut id = Digest::of(key.to_string().as_bytes()).to_string();
    id.truncate(16);
    id
}

/// The id of an item in a run: the same link made twice is one.
#[must_use]
pub fn run_item_id(
    run_id: &str,
    item_id: &str,
    trace_id: &str,
    observation_id: Option<&str>,
) -> String {
    let key = serde_json::json!(["run-item", run_id, item_id, trace_id, observation_id]);
    let mut id = Digest::of(key.to_string().as_bytes()).to_string();
    id.truncate(32);
    id
}

/// The ids of all media that the texts of a value refer to, anywhere in them.
#[must_use]
pub fn media_ids(value: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                for (at, _) in text.match_indices(REFERENCE) {
                    let after = at + REFERENCE.len();
                    let end = text[after..].find(REFERENCE_END);
                    let token = end.map(|end| &text[at..after + end + REFERENCE_END.len()]);
                    found.extend(token.and_then(media_id));
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(1_760_000_000_000_000 + micros)
    }

    fn dataset() -> Dataset {
        Dataset {
            id: "d".to_owned(),
            name: "a/b".to_owned(),
            description: None,
            metadata: Value::Null,
            input_schema: None,
            expected_output_schema: None,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    #[test]
    fn the_id_of_a_run_is_the_one_that_clients_compute() {
        let project = ProjectId::new("proj-1").unwrap();
        let dataset = "10355728-70f4-487c-b43f-ee9333dec391";
        assert_eq!(run_id(&project, dataset, "run1795227497"), "9a0343c2a997fa41");
        assert_ne!(
            run_id(&project, dataset, "grüße"),
            run_id(&project, dataset, "gr\\u00fc\\u00dfe")
        );
    }

    #[test]
    fn a_write_without_a_change_keeps_the_version() {
        let item = DatasetItem::new("i".to_owned(), &dataset(), ItemPatch::default(), at(0));
        assert_eq!(item.patched(ItemPatch::default(), at(5)), item);
        let input = ItemPatch { input: Some(json!({ "q": 1 })), ..ItemPatch::default() };
        let next = item.patched(input.clone(), at(0));
        assert_eq!((next.valid_from, next.created_at), (at(1), at(0)), "an instant of its own");
        assert_eq!(next.patched(input, at(9)), next);
        let same = dataset().patched(DatasetPatch::default(), at(9));
        assert_eq!(same, dataset());
        let metadata = DatasetPatch { metadata: Some(json!(1)), ..DatasetPatch::default() };
        assert_eq!(dataset().patched(metadata, at(9)).updated_at, at(9));
    }

    #[test]
    fn null_removes_a_schema_and_an_absent_member_keeps_it() {
        let with_schema = Dataset {
            description: Some("text".to_owned()),
            input_schema: Some(json!({ "type": "object" })),
            ..dataset()
        };
        assert_eq!(with_schema.patched(DatasetPatch::default(), at(9)), with_schema);
        let clear = DatasetPatch {
            clear_description: true,
            input_schema: Some(Value::Null),
            ..DatasetPatch::default()
        };
        let cleared = with_schema.patched(clear, at(9));
        assert_eq!((cleared.description, cleared.input_schema), (None, None));
    }

    #[test]
    fn a_moment_without_microseconds_means_its_whole_millisecond() {
        assert_eq!(as_of(at(1_000)), at(1_999));
        assert_eq!(as_of(at(1_001)), at(1_001));
    }
}

//! All that is wrong with a body, by the schema of the type that it is read into. The reader of bodies stops at the
//! first thing; who writes one by hand wants to mend it once.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use perpend_json_schema::{Schema, Violation, ViolationKind};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::problem::{Code, Issue, MAX_LISTED, Problem};

/// The largest body that is looked at as a whole: every fault of it is in memory before the first is shown.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The problem that the reader of a `T` found, or in its place all that its schema finds, where that is more.
pub fn all_issues<T: ToSchema + 'static>(body: &[u8], first: Problem) -> Problem {
    let is_small = body.len() <= MAX_BODY_BYTES;
    let value = is_small.then(|| serde_json::from_slice::<Value>(body).ok());
    let Some((value, schema)) = value.flatten().zip(schema::<T>()) else {
        return first;
    };
    let faults = schema.violations(&value, MAX_LISTED).into_iter();
    let issues: Vec<Issue> = faults.flat_map(issues).collect();
    match issues.len() {
        0 | 1 => first,
        _ => Problem::issues(Code::InvalidBody, issues),
    }
}

/// What checks a `T`. Made once: a list of many faulty things asks for each of them.
fn schema<T: ToSchema + 'static>() -> Option<Arc<Schema>> {
    type Kept = HashMap<TypeId, Option<Arc<Schema>>>;
    static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);
    // What is guarded is whole between any two statements, also after a panic.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let made = kept.entry(TypeId::of::<T>());
    made.or_insert_with(|| compiled::<T>().map(Arc::new)).clone()
}

fn compiled<T: ToSchema>() -> Option<Schema> {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let named: HashMap<String, Value> = named
        .into_iter()
        .map(|(name, schema)| Some((name, serde_json::to_value(schema).ok()?)))
        .collect::<Option<_>>()?;
    // References begin at the root of a document of the API.
    let schema = json!({ "allOf": [T::schema()], "components": { "schemas": named } });
    Schema::new(&schema).ok()
}

fn issues(fault: Violation) -> Vec<Issue> {
    let below = |name: &str, message: &str| Issue {
        path: fault.path.iter().cloned().chain([name.into()]).collect(),
        message: message.to_owned(),
    };
    match &fault.kind {
        ViolationKind::Missing(name) => vec![below(name, "is missing")],
        ViolationKind::Unknown(names) => {
            let names = names.iter().take(MAX_LISTED);
            names.map(|name| below(name, "unknown field")).collect()
        }
        ViolationKind::Other => vec![Issue { message: fault.message, path: fault.path }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(ToSchema)]
    #[schema(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Queue {
        name: String,
        #[schema(required)]
        score_config_ids: Vec<Id>,
    }

    #[derive(ToSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Id(String);

    fn first() -> Problem {
        Problem::body("name", "in the reader's words")
    }

    #[test]
    fn every_missing_and_wrong_field_is_named_at_once() {
        let all = all_issues::<Queue>(br#"{"scoreConfigIds":["a",1]}"#, first());
        let text = format!("{all:?}");
        for part in [r#"[String("name")]"#, r#"[String("scoreConfigIds"), Number(1)]"#] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_unknown_field_is_named_where_there_may_be_none() {
        #[derive(serde::Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its schema matters")]
        struct Strict {
            name: String,
        }
        let all = all_issues::<Strict>(br#"{"colour":"red"}"#, first());
        let text = format!("{all:?}");
        assert!(text.contains(r#"[String("colour")]"#), "{text}");
    }

    #[test]
    fn one_fault_is_told_in_the_words_of_the_reader_and_so_is_what_is_no_json() {
        for body in [r#"{"scoreConfigIds":[]}"#, "{"] {
            let said = all_issues::<Queue>(body.as_bytes(), first());
            assert_eq!(said.message(), "name: in the reader's words");
        }
    }
}

//! All issues of a body, found by validation against the schema of its type. Deserialization stops at the first one.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use perpend_json_schema::{Schema, Violation, ViolationKind};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::MISSING;
use crate::problem::{Code, Issue, MAX_LISTED, Problem};

/// The largest body that is validated: all faults are in memory at once.
const MAX_BODY_BYTES: usize = 64 << 10;

/// All issues of a body that is not a `T`, or `first`, the problem of deserialization, if validation finds no more.
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

/// The compiled schema of a `T`, cached.
fn schema<T: ToSchema + 'static>() -> Option<Arc<Schema>> {
    type Schemas = HashMap<TypeId, Option<Arc<Schema>>>;
    static CACHE: LazyLock<Mutex<Schemas>> = LazyLock::new(Mutex::default);
    // The map is consistent between any two statements, also after a panic.
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = cache.entry(TypeId::of::<T>());
    entry.or_insert_with(|| compiled::<T>().map(Arc::new)).clone()
}

fn compiled<T: ToSchema>() -> Option<Schema> {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let named: HashMap<String, Value> = named
        .into_iter()
        .map(|(name, schema)| Some((name, serde_json::to_value(schema).ok()?)))
        .collect::<Option<_>>()?;
    // References are relative to the root of an OpenAPI document.
    let schema = json!({ "allOf": [T::schema()], "components": { "schemas": named } });
    Schema::new(&schema).ok()
}

fn issues(fault: Violation) -> Vec<Issue> {
    let below = |name: &str, message: &str| Issue {
        path: fault.path.iter().cloned().chain([name.into()]).collect(),
        message: message.to_owned(),
    };
    match &fault.kind {
        ViolationKind::Missing(name) => vec![below(name, MISSING)],
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
        Problem::body("name", "the first problem")
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
    fn an_unknown_field_of_a_strict_type_is_named() {
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
    fn a_single_fault_and_malformed_json_give_the_first_problem() {
        for body in [r#"{"scoreConfigIds":[]}"#, "{"] {
            let problem = all_issues::<Queue>(body.as_bytes(), first());
            assert_eq!(problem.message(), "name: the first problem");
        }
    }
}

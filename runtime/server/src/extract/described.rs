//! All that is wrong with a body, by what the API's document says of it. The reader of bodies stops at the
//! first thing; who writes one by hand wants to mend it once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use axum::http::Method;
use perpend_schema::{Fault, Kind, Schema};
use serde_json::{Value, json};

use crate::problem::{Code, Issue, MAX_LISTED, Problem};

/// The largest body that is looked at as a whole: every fault of it is in memory before the first is shown.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The problem that the reader found, or in its place all that the document finds, where that is more.
pub(crate) fn all_issues(method: &Method, path: &str, body: &[u8], first: Problem) -> Problem {
    let is_small = body.len() <= MAX_BODY_BYTES;
    let value = is_small.then(|| serde_json::from_slice::<Value>(body).ok());
    let Some((value, schema)) = value.flatten().zip(schema(method, path)) else {
        return first;
    };
    let faults = schema.faults(&value, MAX_LISTED).into_iter();
    let issues: Vec<Issue> = faults.flat_map(issues).collect();
    match issues.len() {
        0 | 1 => first,
        _ => Problem::issues(Code::InvalidBody, issues),
    }
}

/// What checks the body of an operation, where it takes one that the document describes. Made once: a list
/// of many faulty things asks for each of them.
fn schema(method: &Method, path: &str) -> Option<Arc<Schema>> {
    type Kept = HashMap<(Method, String), Option<Arc<Schema>>>;
    static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);
    // What is guarded is whole between any two statements, also after a panic.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (method.clone(), path.to_owned());
    let made = kept.entry(key);
    made.or_insert_with(|| compiled(method, path).map(Arc::new))
        .clone()
}

fn compiled(method: &Method, path: &str) -> Option<Schema> {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document =
        DOCUMENT.get_or_init(|| serde_json::to_value(crate::api::openapi()).unwrap_or(Value::Null));
    let operation = &document["paths"][path][method.as_str().to_lowercase()];
    let content = &operation["requestBody"]["content"]["application/json"];
    let schema = content.get("schema")?;
    // References of the schema begin at the root of the document.
    let schema = json!({ "allOf": [schema], "components": document["components"] });
    Schema::new(&schema).ok()
}

fn issues(fault: Fault) -> Vec<Issue> {
    let below = |name: &str, message: &str| Issue {
        path: fault.path.iter().cloned().chain([name.into()]).collect(),
        message: message.to_owned(),
    };
    match &fault.kind {
        Kind::Missing(name) => vec![below(name, "is missing")],
        Kind::Unknown(names) => {
            let names = names.iter().take(MAX_LISTED);
            names.map(|name| below(name, "unknown field")).collect()
        }
        Kind::Other => vec![Issue {
            message: fault.message,
            path: fault.path,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_wrong_and_unknown_field_is_named_at_once() {
        let first = Problem::body("name", "is missing");
        let body = br#"{"scoreConfigIds":["a",1],"colour":"red"}"#;
        let all = all_issues(&Method::POST, "/api/public/annotation-queues", body, first);
        let text = format!("{all:?}");
        for part in [
            r#"[String("name")]"#,
            r#"[String("scoreConfigIds"), Number(1)]"#,
            r#"[String("colour")]"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn one_fault_is_told_in_the_words_of_the_reader_and_so_is_what_is_no_json() {
        let first = || Problem::body("name", "in the reader's words");
        for (path, body) in [
            ("/api/public/annotation-queues", r#"{"scoreConfigIds":[]}"#),
            ("/api/public/annotation-queues", "{"),
            ("/api/public/nothing", "{}"),
        ] {
            let said = all_issues(&Method::POST, path, body.as_bytes(), first());
            assert_eq!(said.message(), "name: in the reader's words");
        }
    }
}

//! What is sent of a schema, and where it is checked.

use futures_util::future::BoxFuture;
use serde_json::json;

use super::*;

/// Says of every value that it is wrong.
struct Stern;

impl ReplyCheck for Stern {
    fn check<'a>(
        &'a self,
        schema: &'a str,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            match schema.contains("broken") {
                true => Err("broken".to_owned()),
                false => Ok(vec![format!("{value} is wrong")]),
            }
        })
    }
}

fn wanted(schema: &Value) -> Wanted {
    let stern: Arc<dyn ReplyCheck> = Arc::new(Stern);
    Wanted::new(&schema.to_string(), &stern).unwrap()
}

fn judge() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reasoning": { "type": "string" },
            "score": { "type": "number", "description": "how good", "minimum": 0, "maximum": 1 },
        },
        "required": ["reasoning", "score"],
        "additionalProperties": false,
    })
}

#[test]
fn bounds_are_told_and_not_sent() {
    let wanted = wanted(&judge());
    assert_eq!(
        wanted.sent["properties"]["score"],
        json!({ "type": "number", "description": "how good (minimum: 0, maximum: 1)" })
    );
    assert!(wanted.is_strict && wanted.is_object());
    assert!(wanted.instruction().contains("\"maximum\":1"));
}

#[test]
fn a_property_named_like_a_keyword_stays() {
    let schema = json!({ "type": "object", "properties": { "format": { "type": "string" } } });
    assert_eq!(wanted(&schema).sent, schema);
    assert!(!wanted(&schema).is_strict);
}

#[tokio::test]
async fn the_first_text_that_matches_is_taken_and_bounds_are_checked() {
    let wanted = wanted(&judge());
    let good = r#"{"reasoning": "ok", "score": 0.5}"#;
    let found = wanted.find(None, &format!("so: {good}")).await.unwrap();
    assert_eq!(found.as_deref(), Ok(good));
    let found = wanted.find(Some("{}"), good).await.unwrap();
    assert_eq!(found.as_deref(), Ok(good));
    let found = wanted
        .find(None, r#"{"reasoning": "ok", "score": 7}"#)
        .await;
    let violations = found.unwrap().unwrap_err();
    assert!(violations[0].starts_with("/score: 7 "), "{violations:?}");
    let found = wanted
        .find(None, r#"{"reasoning": "ok", "score": "0.5"}"#)
        .await;
    assert!(found.unwrap().is_err(), "no number from text");
    let found = wanted.find(None, "I cannot say.").await.unwrap();
    assert_eq!(
        found,
        Err(vec!["the reply contains no JSON object".to_owned()])
    );
}

#[tokio::test]
async fn schemas_that_are_not_plain_are_checked_elsewhere() {
    let elsewhere = wanted(&json!({ "type": "object", "pattern": "(a+)+$" }));
    let found = elsewhere.find(None, "{}").await.unwrap();
    assert_eq!(found, Err(vec!["{} is wrong".to_owned()]));
    let broken = wanted(&json!({ "$ref": "broken" }));
    let failure = broken.find(None, "{}").await.unwrap_err();
    assert_eq!(failure.class, Class::InvalidInput);
}

#[test]
fn what_is_no_schema_is_refused() {
    let stern: Arc<dyn ReplyCheck> = Arc::new(Stern);
    for text in ["{", "true", "[]", "{\"type\": \"objekt\"}"] {
        let failure = Wanted::new(text, &stern).err().unwrap();
        assert_eq!(failure.class, Class::InvalidInput, "{text}");
    }
}

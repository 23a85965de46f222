//! States of objects before and after a change.

use perpend_domain::plugin::Digest;
use perpend_domain::text::storable_value;
use serde_json::{Map, Value, json};

/// Longest JSON of a member that is recorded as it is, in bytes.
const MAX_MEMBER_BYTES: usize = 2_048;

/// Both states without the members that did not change; long members are replaced by their digest and size.
pub(super) fn changed_members(
    before: Option<Value>,
    after: Option<Value>,
) -> (Option<Value>, Option<Value>) {
    match (before, after) {
        (Some(Value::Object(mut before)), Some(Value::Object(mut after))) => {
            let same = before.iter().filter(|(name, value)| after.get(*name) == Some(*value));
            let same: Vec<String> = same.map(|(name, _)| name.clone()).collect();
            for name in &same {
                before.shift_remove(name);
                after.shift_remove(name);
            }
            (Some(bounded(before)), Some(bounded(after)))
        }
        (before, after) => (before.map(bounded_value), after.map(bounded_value)),
    }
}

fn bounded(members: Map<String, Value>) -> Value {
    members.into_iter().map(|(name, value)| (name, bounded_value(value))).collect()
}

fn bounded_value(value: Value) -> Value {
    if let Value::Object(members) = value {
        return bounded(members);
    }
    let text = value.to_string();
    match text.len() <= MAX_MEMBER_BYTES {
        true => storable_value(&value),
        false => json!({ "sha256": Digest::of(text.as_bytes()).to_string(), "bytes": text.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_did_not_change_are_left_out() {
        let before = json!({ "name": "a", "enabled": true, "sampling": 1.0 });
        let after = json!({ "name": "a", "enabled": false, "budget": [] });
        let (before, after) = changed_members(Some(before), Some(after));
        assert_eq!(before, Some(json!({ "enabled": true, "sampling": 1.0 })));
        assert_eq!(after, Some(json!({ "enabled": false, "budget": [] })));
    }

    #[test]
    fn a_new_object_is_recorded_with_all_members() {
        let after = Some(json!({ "name": "a" }));
        assert_eq!(changed_members(None, after.clone()), (None, after));
    }

    #[test]
    fn a_long_value_is_recorded_as_digest_and_size() {
        let after = json!({ "code": "x".repeat(5_000), "nested": { "text": "y".repeat(5_000) } });
        let (_, after) = changed_members(None, Some(after));
        let after = after.unwrap();
        assert_eq!(after["code"]["bytes"], 5_002);
        assert_eq!(after["nested"]["text"]["bytes"], 5_002);
        assert!(after.to_string().len() < 300, "{after}");
    }
}

//! Limits on data that accumulates on one trace or observation from many patches. Omitted data is reported in the metadata
//! under `truncated`.

use serde_json::{Map, Value};

/// Metadata of one trace or observation, as JSON.
pub const MAX_METADATA_BYTES: usize = 1 << 20;
/// Usage buckets of one trace.
pub(crate) const MAX_BUCKETS: usize = 256;
/// The metadata key for omitted data.
const TRUNCATED: &str = "truncated";

/// Counts the bytes that are written.
struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn n_bytes(value: &Value) -> usize {
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// Approximate heap memory of a value: parsed JSON takes several times as much as its text.
#[must_use]
pub fn heap_bytes(value: &Value) -> usize {
    const MEMBER: usize = size_of::<String>() + size_of::<Value>() + 4 * size_of::<usize>();
    match value {
        Value::String(text) => text.capacity(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + heap_bytes(item)).sum(),
        Value::Object(members) => members_bytes(members, MEMBER),
        _ => 0,
    }
}

fn members_bytes(members: &Map<String, Value>, each: usize) -> usize {
    members.iter().map(|(key, value)| each + key.capacity() + heap_bytes(value)).sum()
}

/// Notes in the metadata how large something was that was cut.
pub(crate) fn note(metadata: &mut Map<String, Value>, what: &str, size: usize) {
    let noted = metadata.entry(TRUNCATED).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(noted) = noted {
        noted.insert(what.to_owned(), size.into());
    }
}

/// Leaves out the largest members until the rest has at most [`MAX_METADATA_BYTES`].
pub(crate) fn limit_metadata(metadata: &mut Map<String, Value>) {
    // Quotes, colon and comma.
    let sizes = metadata.iter();
    let sizes = sizes.map(|(key, value)| (key.len() + 4 + n_bytes(value), key.clone()));
    let mut sizes: Vec<(usize, String)> = sizes.collect();
    let total = sizes.iter().map(|(size, _)| size).sum::<usize>();
    if total <= MAX_METADATA_BYTES {
        return;
    }
    sizes.sort_unstable();
    let mut left = total;
    while let Some((size, key)) = sizes.pop()
        && MAX_METADATA_BYTES < left
    {
        metadata.remove(&key);
        left -= size;
    }
    note(metadata, "metadata", total);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_largest_members_are_dropped_and_recorded() {
        let small = json!({ "a": 1, "b": { "c": "d" } });
        let mut metadata = small.as_object().unwrap().clone();
        limit_metadata(&mut metadata);
        assert_eq!(Value::Object(metadata.clone()), small);
        for key in ["x", "y", "z"] {
            metadata.insert(key.to_owned(), key.repeat(600_000).into());
        }
        limit_metadata(&mut metadata);
        assert!(metadata.contains_key("a") && metadata.contains_key("b"));
        assert!(1_800_000 < metadata["truncated"]["metadata"].as_u64().unwrap());
        let once = metadata.clone();
        limit_metadata(&mut metadata);
        assert_eq!(metadata, once);
        assert!(n_bytes(&Value::Object(metadata)) <= MAX_METADATA_BYTES);
    }
}

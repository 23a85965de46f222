//! Limits on building one item.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::json_path::{OutOfSteps, Steps};
use crate::payload::Payload;

/// Most JSON values that are read from the sources of a mapping, and most that are selected.
const MAX_VALUES: usize = 1_000_000;
/// Values that an object and an array count as in addition to their members, for their own memory.
const N_OBJECT: usize = 4;
const N_ARRAY: usize = 1;
/// Most bytes of text in the selected values.
const MAX_BYTES: usize = 32 << 20;
/// Most steps of all JSONPaths of a mapping.
const MAX_STEPS: usize = 4_000_000;

/// The remaining limits of one item: values that are read, values and bytes that are selected, steps of JSONPaths.
#[derive(Debug)]
pub struct MappingBudget {
    read: usize,
    selected: usize,
    bytes: usize,
    pub(super) steps: Steps,
}

impl Default for MappingBudget {
    fn default() -> Self {
        Self {
            read: MAX_VALUES,
            selected: MAX_VALUES,
            bytes: MAX_BYTES,
            steps: Steps::new(MAX_STEPS),
        }
    }
}

/// The limit that a mapping exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// Of values that are read.
    #[error("it reads more than {MAX_VALUES} JSON values")]
    Read,
    /// Of values that are selected.
    #[error("it selects more than {MAX_VALUES} JSON values")]
    Selected,
    /// Of text that is selected.
    #[error("it selects more than {} MiB", MAX_BYTES >> 20)]
    Bytes,
    /// Of steps.
    #[error("its JSONPaths take more than {MAX_STEPS} steps")]
    Steps,
}

impl From<OutOfSteps> for LimitExceeded {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::Steps
    }
}

fn take(left: &mut usize, n: usize, exceeded: LimitExceeded) -> Result<(), LimitExceeded> {
    *left = left.checked_sub(n).ok_or(exceeded)?;
    Ok(())
}

impl MappingBudget {
    /// Charges a value that is read, including its members.
    pub(super) fn read(&mut self, value: &Value) -> Result<(), LimitExceeded> {
        take(&mut self.read, 1, LimitExceeded::Read)?;
        children(value).try_for_each(|child| self.read(child))
    }

    /// Charges a value that becomes part of the item, including its members.
    pub(super) fn selected(&mut self, value: &Value) -> Result<(), LimitExceeded> {
        take(&mut self.selected, 1, LimitExceeded::Selected)?;
        let n_bytes = match value {
            Value::String(text) => 2 + text.len(),
            Value::Object(members) => members.keys().map(|name| 4 + name.len()).sum(),
            _ => 2,
        };
        take(&mut self.bytes, n_bytes, LimitExceeded::Bytes)?;
        children(value).try_for_each(|child| self.selected(child))
    }

    /// The value of a payload. Invalid JSON, which only a corrupt store can contain, is text.
    pub(super) fn payload(&mut self, payload: &Payload) -> Result<Value, LimitExceeded> {
        let value = match payload {
            Payload::Text(_) => None,
            Payload::Json(json) => self.parse(json)?,
        };
        Ok(value.unwrap_or_else(|| Value::String(payload.as_str().to_owned())))
    }

    /// The value of a JSON text; `None` if it is not JSON.
    pub(super) fn parse(&mut self, text: &str) -> Result<Option<Value>, LimitExceeded> {
        let before = self.read;
        let mut is_exceeded = false;
        let reading = Reading { left: &mut self.read, is_exceeded: &mut is_exceeded };
        let mut json = serde_json::Deserializer::from_str(text);
        let value = reading.deserialize(&mut json).ok();
        let value = value.filter(|_| json.end().is_ok());
        if is_exceeded {
            return Err(LimitExceeded::Read);
        }
        if value.is_none() {
            // Text that is not JSON counts as one value.
            self.read = before;
        }
        Ok(value)
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Reads a value until the limit is reached.
struct Reading<'b> {
    left: &'b mut usize,
    is_exceeded: &'b mut bool,
}

impl Reading<'_> {
    fn take<E: serde::de::Error>(&mut self, n: usize) -> Result<(), E> {
        match self.left.checked_sub(n) {
            Some(left) => {
                *self.left = left;
                Ok(())
            }
            None => {
                *self.is_exceeded = true;
                Err(E::custom("too many values"))
            }
        }
    }

    const fn inner(&mut self) -> Reading<'_> {
        Reading { left: self.left, is_exceeded: self.is_exceeded }
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let mut own = self;
        own.take::<D::Error>(1)?;
        from.deserialize_any(own)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Value, A::Error> {
        self.take::<A::Error>(N_ARRAY)?;
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(self.inner())? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.take::<A::Error>(N_OBJECT)?;
        let mut members = Map::new();
        while let Some(name) = entries.next_key()? {
            members.insert(name, entries.next_value_seed(self.inner())?);
        }
        Ok(Value::Object(members))
    }
}

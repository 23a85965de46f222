//! Nodes that a path selects.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::{
    Comparable, Comparison, JsonPath, Logical, OutOfSteps, Query, Segment, Selector, Steps,
};

/// Bytes of text that are searched or compared in one step.
const BYTES_PER_STEP: usize = 64;

impl JsonPath {
    /// The nodes that the path selects, in order.
    ///
    /// # Errors
    /// [`OutOfSteps`], when it takes more steps than are left.
    pub fn select<'v>(
        &self,
        root: &'v Value,
        steps: &mut Steps,
    ) -> Result<Vec<&'v Value>, OutOfSteps> {
        Evaluation { root, steps }.query(&self.query, root)
    }
}

struct Evaluation<'v, 's> {
    root: &'v Value,
    steps: &'s mut Steps,
}

/// One value, or Nothing of RFC 9535.
enum NodeValue<'v> {
    Node(&'v Value),
    Number(usize),
    Nothing,
}

impl<'v> Evaluation<'v, '_> {
    fn query(&mut self, query: &Query, current: &'v Value) -> Result<Vec<&'v Value>, OutOfSteps> {
        let mut nodes = vec![if query.is_absolute { self.root } else { current }];
        for segment in &query.segments {
            let mut selected = Vec::new();
            for node in nodes {
                match segment.is_descendant {
                    true => self.descend(segment, node, &mut selected)?,
                    false => self.select(segment, node, &mut selected)?,
                }
            }
            nodes = selected;
        }
        Ok(nodes)
    }

    fn descend(
        &mut self,
        segment: &Segment,
        node: &'v Value,
        selected: &mut Vec<&'v Value>,
    ) -> Result<(), OutOfSteps> {
        self.select(segment, node, selected)?;
        match node {
            Value::Array(list) => {
                list.iter().try_for_each(|each| self.descend(segment, each, selected))
            }
            Value::Object(members) => {
                members.values().try_for_each(|each| self.descend(segment, each, selected))
            }
            _ => Ok(()),
        }
    }

    fn select(
        &mut self,
        segment: &Segment,
        node: &'v Value,
        selected: &mut Vec<&'v Value>,
    ) -> Result<(), OutOfSteps> {
        for selector in &segment.selectors {
            self.steps.take(1)?;
            match (selector, node) {
                (Selector::Name(name), Value::Object(members)) => {
                    selected.extend(members.get(name));
                }
                (Selector::Index(index), Value::Array(list)) => {
                    selected.extend(place(*index, list.len()).and_then(|at| list.get(at)));
                }
                (Selector::Wildcard, _) => {
                    let n_before = selected.len();
                    selected.extend(children(node));
                    self.steps.take(selected.len() - n_before)?;
                }
                (Selector::Slice { start, end, step }, Value::Array(list)) => {
                    let n_before = selected.len();
                    slice((*start, *end, *step), list, selected);
                    self.steps.take(selected.len() - n_before)?;
                }
                (Selector::Filter(condition), _) => {
                    for child in children(node) {
                        self.steps.take(1)?;
                        if self.holds(condition, child)? {
                            selected.push(child);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn holds(&mut self, condition: &Logical, current: &'v Value) -> Result<bool, OutOfSteps> {
        self.steps.take(1)?;
        match condition {
            Logical::Or(parts) => {
                for part in parts {
                    if self.holds(part, current)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Logical::And(parts) => {
                for part in parts {
                    if !self.holds(part, current)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Logical::Not(inner) => Ok(!self.holds(inner, current)?),
            Logical::Exists(query) => Ok(!self.query(query, current)?.is_empty()),
            Logical::Compare(left, comparison, right) => {
                let literals = (as_literal(left), as_literal(right));
                let left = self.found(left, current)?;
                let right = self.found(right, current)?;
                let (left_number, right_number) = (left.number(), right.number());
                let left = literals.0.or(left.value(left_number.as_ref()));
                let right = literals.1.or(right.value(right_number.as_ref()));
                self.compare(left, *comparison, right)
            }
            Logical::Matches { text, pattern } => {
                let literal = as_literal(text);
                let text = match self.found(text, current)? {
                    NodeValue::Node(found) => found.as_str(),
                    _ => literal.and_then(Value::as_str),
                };
                let (Some(text), Some(pattern)) = (text, pattern) else {
                    return Ok(false);
                };
                // A search may visit every byte once for each state of the pattern.
                let n_steps = pattern.steps_per_byte.saturating_mul(1 + text.len());
                self.steps.take(n_steps)?;
                Ok(pattern.regex.is_match(text))
            }
        }
    }

    /// The value of an operand; a literal is taken from the path itself and is nothing here.
    fn found(
        &mut self,
        operand: &Comparable,
        current: &'v Value,
    ) -> Result<NodeValue<'v>, OutOfSteps> {
        self.steps.take(1)?;
        Ok(match operand {
            Comparable::Literal(_) => NodeValue::Nothing,
            Comparable::Node(query) => {
                let node = self.query(query, current)?.pop();
                node.map_or(NodeValue::Nothing, NodeValue::Node)
            }
            Comparable::ValueOf(query) => match self.query(query, current)?.as_slice() {
                [one] => NodeValue::Node(one),
                _ => NodeValue::Nothing,
            },
            Comparable::Count(query) => NodeValue::Number(self.query(query, current)?.len()),
            Comparable::Length(of) => match &**of {
                Comparable::Literal(value) => self.length(value)?,
                of => match self.found(of, current)? {
                    NodeValue::Node(value) => self.length(value)?,
                    _ => NodeValue::Nothing,
                },
            },
        })
    }

    fn length<'f>(&mut self, value: &Value) -> Result<NodeValue<'f>, OutOfSteps> {
        Ok(match value {
            Value::String(text) => {
                self.steps.take(text.len() / BYTES_PER_STEP)?;
                NodeValue::Number(text.chars().count())
            }
            Value::Array(list) => NodeValue::Number(list.len()),
            Value::Object(members) => NodeValue::Number(members.len()),
            _ => NodeValue::Nothing,
        })
    }

    fn compare(
        &mut self,
        left: Option<&Value>,
        comparison: Comparison,
        right: Option<&Value>,
    ) -> Result<bool, OutOfSteps> {
        Ok(match comparison {
            Comparison::Equal => self.are_equal(left, right)?,
            Comparison::NotEqual => !self.are_equal(left, right)?,
            Comparison::Less => self.is_less(left, right)?,
            Comparison::Greater => self.is_less(right, left)?,
            Comparison::LessOrEqual => self.is_less(left, right)? || self.are_equal(left, right)?,
            Comparison::GreaterOrEqual => {
                self.is_less(right, left)? || self.are_equal(left, right)?
            }
        })
    }

    fn is_less(&mut self, left: Option<&Value>, right: Option<&Value>) -> Result<bool, OutOfSteps> {
        Ok(match (left, right) {
            (Some(Value::Number(left)), Some(Value::Number(right))) => {
                order(left, right) == Some(Ordering::Less)
            }
            (Some(Value::String(left)), Some(Value::String(right))) => {
                self.steps.take(left.len().min(right.len()) / BYTES_PER_STEP)?;
                left < right
            }
            _ => false,
        })
    }

    fn are_equal(
        &mut self,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> Result<bool, OutOfSteps> {
        self.steps.take(1)?;
        Ok(match (left, right) {
            (None, None) => true,
            (Some(Value::Number(left)), Some(Value::Number(right))) => {
                order(left, right) == Some(Ordering::Equal)
            }
            (Some(Value::String(left)), Some(Value::String(right))) => {
                self.steps.take(left.len().min(right.len()) / BYTES_PER_STEP)?;
                left == right
            }
            (Some(Value::Array(left)), Some(Value::Array(right))) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (left, right) in left.iter().zip(right) {
                    if !self.are_equal(Some(left), Some(right))? {
                        return Ok(false);
                    }
                }
                true
            }
            (Some(Value::Object(left)), Some(Value::Object(right))) => {
                self.have_equal_members(left, right)?
            }
            (Some(left), Some(right)) => left == right,
            _ => false,
        })
    }

    fn have_equal_members(
        &mut self,
        left: &Map<String, Value>,
        right: &Map<String, Value>,
    ) -> Result<bool, OutOfSteps> {
        if left.len() != right.len() {
            return Ok(false);
        }
        for (name, left) in left {
            let Some(right) = right.get(name) else {
                return Ok(false);
            };
            if !self.are_equal(Some(left), Some(right))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

const fn as_literal(operand: &Comparable) -> Option<&Value> {
    match operand {
        Comparable::Literal(value) => Some(value),
        _ => None,
    }
}

impl<'v> NodeValue<'v> {
    fn number(&self) -> Option<Value> {
        match self {
            Self::Number(number) => Some(Value::from(*number)),
            _ => None,
        }
    }

    const fn value<'a>(&self, number: Option<&'a Value>) -> Option<&'a Value>
    where
        'v: 'a,
    {
        match self {
            Self::Node(node) => Some(node),
            Self::Number(_) => number,
            Self::Nothing => None,
        }
    }
}

fn children(node: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match node {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// The position of an index; a negative index counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if index < 0 { length + index } else { index };
    usize::try_from(at).ok()
}

/// RFC 9535, 2.3.4.2.2.
fn slice<'v>(
    (start, end, step): (Option<i64>, Option<i64>, i64),
    list: &'v [Value],
    selected: &mut Vec<&'v Value>,
) {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { length + index } else { index };
    let mut take = |at: i64| {
        selected.extend(usize::try_from(at).ok().and_then(|at| list.get(at)));
    };
    match step {
        0 => {}
        1.. => {
            let mut at = from_end(start.unwrap_or(0)).clamp(0, length);
            let end = from_end(end.unwrap_or(length)).clamp(0, length);
            while at < end {
                take(at);
                at = at.saturating_add(step);
            }
        }
        _ => {
            let mut at = start.map_or(length - 1, from_end).clamp(-1, length - 1);
            let end = end.map_or(-1, |end| from_end(end).clamp(-1, length - 1));
            while end < at {
                take(at);
                at = at.saturating_add(step);
            }
        }
    }
}

/// Integers exactly, everything else as doubles.
fn order(left: &Number, right: &Number) -> Option<Ordering> {
    let integer = |number: &Number| {
        let signed = number.as_i64().map(i128::from);
        signed.or_else(|| number.as_u64().map(i128::from))
    };
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

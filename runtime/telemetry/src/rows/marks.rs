//! Tags and metadata of traces, and the types, models and prompts of their observations, as marks that
//! triggers maintain in a separate table (see the migrations `0019_narrow_lists` and `0044_marks_of_steps`):
//! rare values are found without reading other traces.

use perpend_db::Sql;
use perpend_domain::filter::{Condition, SetOp, Test, TextOp};
use serde_json::Value;

use crate::rows::row::OBSERVATION_MARKS;

/// Longer texts have no mark.
const MAX_CHARS: usize = 200;
/// Members of the metadata of a trace that come from the content of its root and not from the trace.
const OF_ROOT: [&str; 3] = ["attributes", "resourceAttributes", "scope"];

/// A condition in terms of marks.
#[derive(Debug)]
pub struct MarkCondition {
    /// How the marks of the trace compare with these.
    pub op: SetOp,
    /// Not empty.
    pub marks: Vec<String>,
}

impl MarkCondition {
    /// The condition in marks, if marks decide it.
    #[must_use]
    pub fn of(condition: &Condition) -> Option<Self> {
        let column = condition.column?.id;
        let (op, marks): (SetOp, Vec<Option<String>>) = match (of_list(column), &condition.test) {
            (Some(of), Test::List(op, values)) => (*op, of.all(values)),
            (Some(of), Test::AnyOf(values)) => (SetOp::AnyOf, of.all(values)),
            (Some(of), Test::NoneOf(values)) => (SetOp::NoneOf, of.all(values)),
            (None, test) if column == "metadata" => match test {
                Test::MemberText(key, TextOp::Equal, value) => {
                    (SetOp::AnyOf, vec![of_member(key, value)])
                }
                Test::MemberIsSet(key) => (SetOp::AnyOf, vec![of_key(key)]),
                Test::MemberIsNotSet(key) => (SetOp::NoneOf, vec![of_key(key)]),
                _ => return None,
            },
            _ => return None,
        };
        let marks: Vec<String> = marks.into_iter().collect::<Option<_>>()?;
        (!marks.is_empty() && marks.len() <= 100).then_some(Self { op, marks })
    }

    /// A mark that every matching trace has.
    #[must_use]
    pub fn lead(&self) -> Option<&str> {
        match (self.op, self.marks.as_slice()) {
            (SetOp::AnyOf, [one]) | (SetOp::AllOf, [one, ..]) => Some(one),
            _ => None,
        }
    }
}

fn is_short(text: &str) -> bool {
    // PostgreSQL text has no NUL; its replacement is another text.
    text.chars().nth(MAX_CHARS).is_none() && !text.contains('\0')
}

/// Prefix of the marks of a list.
#[derive(Clone, Copy, Debug)]
struct ListMark(char);

fn of_list(column: &str) -> Option<ListMark> {
    let [kind, model, prompt] = OBSERVATION_MARKS;
    Some(ListMark(match column {
        "tags" => 't',
        "kinds" => kind,
        "models" => model,
        "prompts" => prompt,
        _ => return None,
    }))
}

impl ListMark {
    fn all(self, values: &[String]) -> Vec<Option<String>> {
        let mark = |value: &String| is_short(value).then(|| format!("{}{value}", self.0));
        values.iter().map(mark).collect()
    }
}

/// A key with dots may denote a nested member.
fn is_plain(key: &str) -> bool {
    is_short(key) && !key.contains(['=', '.']) && !OF_ROOT.contains(&key)
}

fn of_key(key: &str) -> Option<String> {
    is_plain(key).then(|| format!("s{key}"))
}

/// Texts, booleans and integers have marks. A text that equals the text form of another type is not decided
/// by marks.
fn of_member(key: &str, value: &str) -> Option<String> {
    const WHOLE: u64 = 1_000_000_000_000_000_000;
    let has_mark = match serde_json::from_str::<Value>(value) {
        Err(_) | Ok(Value::Bool(_) | Value::String(_)) => true,
        Ok(Value::Number(number)) => number.as_i64().is_some_and(|n| n.unsigned_abs() < WHOLE),
        Ok(Value::Null | Value::Array(_) | Value::Object(_)) => false,
    };
    (has_mark && is_plain(key) && is_short(value)).then(|| format!("m{key}={value}"))
}

/// Whether the condition needs the content of the root.
#[must_use]
pub fn needs_root(condition: &Condition) -> bool {
    let is_metadata = condition.column.is_some_and(|column| column.id == "metadata");
    let head = condition.test.key().and_then(|key| key.split('.').next());
    is_metadata && head.is_none_or(|head| OF_ROOT.contains(&head))
}

/// Appends a condition that every trace with the member of the condition meets, so that fewer traces are
/// read.
pub fn push_prefilter(sql: &mut Sql, condition: &Condition, is_postgres: bool) {
    let needs_member = matches!(
        condition.test,
        Test::MemberText(..) | Test::MemberNumber(..) | Test::MemberIsSet(_)
    );
    let head = condition.test.key().and_then(|key| key.split('.').next());
    let is_metadata = condition.column.is_some_and(|column| column.id == "metadata");
    if let (true, true, false, Some(head)) =
        (needs_member, is_metadata, needs_root(condition), head)
    {
        let is_literal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if head.chars().all(is_literal) {
            let place = sql.bind_text(&format!("\"{head}"));
            let find = if is_postgres { "strpos" } else { "instr" };
            sql.push(&format!(" AND {find}(t.detail, {place}) > 0"));
        }
    }
}

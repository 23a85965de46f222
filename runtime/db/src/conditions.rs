//! Typed filter conditions as SQL, with the null rules of `perpend_domain::filter`.
//!
//! Conditions that a database cannot evaluate on a narrow column (contents are compressed, lists and objects
//! are JSON texts) are left to the evaluation of the same filter in memory: [`Sql::condition`] then returns
//! `false`, and the caller tests the rows it reads. The place of evaluation never changes the result.

use std::fmt::Write as _;

use perpend_domain::filter::{Condition, Order, Test, TextOp};
use perpend_domain::text::storable;

use crate::Arg;

/// A column as an expression over rows.
#[derive(Clone, Copy, Debug)]
pub enum Expr {
    /// Text that is never null.
    Text(&'static str),
    /// Text that may be null, which counts as empty.
    NullableText(&'static str),
    /// A number.
    Number(&'static str),
    /// Seconds, stored as whole microseconds.
    Seconds(&'static str),
    /// Microseconds.
    Time(&'static str),
    /// 0 or 1.
    Bool(&'static str),
    /// A list or an object, which is never null. Its value is not tested.
    Present,
}

/// The first microsecond whose value in seconds, with the rounding of the database and of a reader, is beyond
/// a bound. All later ones are beyond it too.
fn first_micros(is_beyond: impl Fn(f64) -> bool) -> i64 {
    let (mut low, mut high) = (i64::MIN, i64::MAX);
    while low < high {
        // Below the upper end, which does not hold for a midpoint of negative numbers.
        let middle = low.wrapping_add((high.abs_diff(low) / 2) as i64);
        match is_beyond(middle as f64 / 1e6) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

/// Longer lists are tested in memory.
const MAX_LIST: usize = 100;

/// A statement with the values of its placeholders.
#[derive(Clone, Debug, Default)]
pub struct Sql {
    pub text: String,
    pub args: Vec<Arg<'static>>,
}

impl Sql {
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// A placeholder for `arg`.
    pub fn bind(&mut self, arg: Arg<'static>) -> String {
        self.args.push(arg);
        format!("${}", self.args.len())
    }

    pub fn bind_text(&mut self, text: &str) -> String {
        // As stored: PostgreSQL accepts no NUL, not even as a search text.
        self.bind(Arg::Text(Some(storable(text).into_owned().into())))
    }

    /// Appends ` AND ...` for the condition; `false` if it has to be tested in memory.
    pub fn condition(
        &mut self,
        condition: &Condition,
        column: impl Fn(&str) -> Option<Expr>,
        is_postgres: bool,
    ) -> bool {
        let Some(expr) = condition.column.and_then(|found| column(found.id)) else {
            return false;
        };
        match self.test(expr, &condition.test, is_postgres) {
            Some(sql) => {
                // Writing to a `String` cannot fail.
                let _ = write!(self.text, " AND {sql}");
                true
            }
            None => false,
        }
    }

    /// Appends ` AND ...` for a condition on a member of a JSON object in a text column; `false` if it has to
    /// be tested in memory. Text is compared as is, any other value in its compact form.
    pub fn member(&mut self, column: &str, test: &Test, is_postgres: bool) -> bool {
        let (not, key, compared) = match test {
            Test::IsNull => {
                self.push(" AND 1 = 0");
                return true;
            }
            Test::IsNotNull => return true,
            Test::MemberIsSet(key) => ("", key, None),
            Test::MemberIsNotSet(key) => ("NOT ", key, None),
            Test::MemberText(key, op, value) => ("", key, Some((*op, value))),
            _ => return false,
        };
        let Some(member) = self.member_text(column, key, is_postgres) else {
            return false;
        };
        let test = match compared {
            Some((TextOp::MatchesAnyCase, value)) => {
                let value = self.bind_text(value);
                let find = find(is_postgres);
                Some(format!("{find}(lower(m.text), lower({value})) > 0"))
            }
            Some((op, value)) => self.compare("m.text", op, value, is_postgres),
            None => Some("m.text IS NOT NULL".to_owned()),
        };
        // Tests on a missing member are false, so that `NOT` needs no null handling.
        let test = test.unwrap_or_default();
        self.push(&format!(
            " AND {not}EXISTS (SELECT 1 FROM (SELECT {member} AS text) m WHERE {test})"
        ));
        true
    }

    /// The text of a member of a JSON object as an expression, null if it is missing. A key with dots may
    /// denote a nested member; `None` for a key with too many dots.
    pub fn member_text(&mut self, column: &str, key: &str, is_postgres: bool) -> Option<String> {
        let ways = paths(key)?;
        let mut found = Vec::new();
        for way in ways {
            found.push(match is_postgres {
                true => {
                    let steps = way.iter().map(|step| self.bind_text(step));
                    let steps = steps.collect::<Vec<_>>().join(" -> ");
                    let value = format!("{column}::json -> {steps}");
                    format!(
                        "(CASE json_typeof({value}) WHEN 'string' THEN ({value}) #>> '{{}}' \
                         ELSE ({value})::text END)"
                    )
                }
                // A path of SQLite cannot contain a quote: the member is searched by name.
                false if way.len() == 1 => {
                    let key = self.bind_text(key);
                    format!(
                        "(SELECT CASE j.type WHEN 'text' THEN j.value ELSE {column} -> j.fullkey END \
                         FROM json_each({column}) j WHERE j.key = {key})"
                    )
                }
                false if way.iter().any(|step| step.contains(['"', '\\'])) => continue,
                false => {
                    let path: String = way.iter().map(|step| format!(".\"{step}\"")).collect();
                    let path = self.bind_text(&format!("${path}"));
                    format!(
                        "(CASE json_type({column}, {path}) WHEN 'text' THEN {column} ->> {path} \
                         ELSE {column} -> {path} END)"
                    )
                }
            });
        }
        Some(match found.len() {
            1 => found.swap_remove(0),
            _ => format!("COALESCE({})", found.join(", ")),
        })
    }

    fn test(&mut self, expr: Expr, test: &Test, is_postgres: bool) -> Option<String> {
        Some(match (expr, test) {
            (_, Test::Position) => "1 = 1".to_owned(),
            (_, Test::Never) => "1 = 0".to_owned(),
            (Expr::Time(sql), Test::Time(order, value)) => {
                let value = self.bind(value.as_micros().into());
                format!("{sql} {} {value}", order.sign())
            }
            (Expr::Number(sql), Test::Number(order, value)) => {
                let value = self.bind((*value).into());
                format!("CAST({sql} AS DOUBLE PRECISION) {} {value}", order.sign())
            }
            (Expr::Seconds(sql), Test::Number(order, value)) => self.seconds(sql, *order, *value),
            (Expr::Bool(sql), Test::Is(value)) => {
                let value = self.bind((*value).into());
                format!("{sql} = {value}")
            }
            (Expr::Bool(sql), Test::IsNot(value)) => {
                let value = self.bind((*value).into());
                format!("COALESCE({sql}, -1) <> {value}")
            }
            (Expr::Present, Test::IsNull) => "1 = 0".to_owned(),
            (Expr::Present, Test::IsNotNull) => "1 = 1".to_owned(),
            (Expr::Text(_), Test::IsNull | Test::IsNotNull)
            | (Expr::NullableText(_), Test::IsNull | Test::IsNotNull) => {
                let sign = if *test == Test::IsNull { "=" } else { "<>" };
                format!("{} {sign} ''", text(expr)?)
            }
            (
                Expr::Number(sql) | Expr::Seconds(sql) | Expr::Time(sql) | Expr::Bool(sql),
                Test::IsNull | Test::IsNotNull,
            ) => {
                let not = if *test == Test::IsNull { "" } else { "NOT " };
                format!("({sql}) IS {not}NULL")
            }
            // A missing value equals no non-empty text: the bare column can use its index.
            (Expr::NullableText(sql), Test::AnyOf(values))
                if values.iter().all(|value| !value.is_empty()) =>
            {
                self.in_list(sql, "IN", "1 = 0", values)?
            }
            (Expr::NullableText(sql), Test::Text(TextOp::Equal, value)) if !value.is_empty() => {
                format!("{sql} = {}", self.bind_text(value))
            }
            // The values of lists and objects are not tested here.
            (Expr::Present, _) => return None,
            (_, Test::AnyOf(values)) => self.in_list(&text(expr)?, "IN", "1 = 0", values)?,
            (_, Test::NoneOf(values)) => self.in_list(&text(expr)?, "NOT IN", "1 = 1", values)?,
            (_, Test::Text(op, value)) => self.compare(&text(expr)?, *op, value, is_postgres)?,
            _ => return None,
        })
    }

    /// Compares the bare column, so that its index can be used.
    fn seconds(&mut self, sql: &str, order: Order, value: f64) -> String {
        let (sign, whole) = match order {
            Order::AtLeast => (">=", first_micros(|seconds| seconds >= value)),
            Order::Greater => (">=", first_micros(|seconds| seconds > value)),
            Order::AtMost => ("<", first_micros(|seconds| seconds > value)),
            Order::Less => ("<", first_micros(|seconds| seconds >= value)),
            Order::Equal | Order::NotEqual => {
                let value = self.bind(value.into());
                return format!(
                    "CAST({sql} / 1000000.0 AS DOUBLE PRECISION) {} {value}",
                    order.sign()
                );
            }
        };
        let whole = self.bind(whole.into());
        format!("{sql} {sign} {whole}")
    }

    fn in_list(
        &mut self,
        sql: &str,
        operator: &str,
        when_empty: &str,
        values: &[String],
    ) -> Option<String> {
        if values.len() > MAX_LIST {
            return None;
        }
        if values.is_empty() {
            return Some(when_empty.to_owned());
        }
        let list: Vec<String> = values.iter().map(|value| self.bind_text(value)).collect();
        Some(format!("{sql} {operator} ({})", list.join(", ")))
    }

    fn compare(&mut self, sql: &str, op: TextOp, value: &str, is_postgres: bool) -> Option<String> {
        if op == TextOp::MatchesAnyCase {
            return None;
        }
        let value = self.bind_text(value);
        let find = find(is_postgres);
        Some(match op {
            TextOp::Equal => format!("{sql} = {value}"),
            TextOp::Contains => format!("{find}({sql}, {value}) > 0"),
            TextOp::DoesNotContain => format!("{find}({sql}, {value}) = 0"),
            TextOp::StartsWith => format!("substr({sql}, 1, length({value})) = {value}"),
            _ => format!(
                "(length({sql}) >= length({value}) \
                 AND substr({sql}, length({sql}) - length({value}) + 1) = {value})"
            ),
        })
    }
}

/// The function that returns the position of one text in another.
const fn find(is_postgres: bool) -> &'static str {
    if is_postgres { "strpos" } else { "instr" }
}

/// The paths to which a key with dots may refer, in the order in which evaluation in memory tries them.
fn paths(key: &str) -> Option<Vec<Vec<&str>>> {
    const MAX_DOTS: usize = 4;
    if key.matches('.').count() > MAX_DOTS {
        return None;
    }
    let mut ways = vec![vec![key]];
    for (at, _) in key.match_indices('.') {
        for mut rest in paths(&key[at + 1..])? {
            rest.insert(0, &key[..at]);
            ways.push(rest);
        }
    }
    Some(ways)
}

fn text(expr: Expr) -> Option<String> {
    match expr {
        Expr::Text(sql) => Some(sql.to_owned()),
        Expr::NullableText(sql) => Some(format!("COALESCE({sql}, '')")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_in_seconds_is_the_same_in_microseconds() {
        for bound in [-2.5, -0.000_001, 0.0, 0.1, 0.3, 1.005, 5.0, 86_400.5] {
            let at_least = first_micros(|seconds| bound <= seconds);
            let above = first_micros(|seconds| bound < seconds);
            let seconds = |micros: i64| micros as f64 / 1e6;
            assert!(seconds(at_least - 1) < bound && bound <= seconds(at_least), "{bound}");
            assert!(seconds(above - 1) <= bound && bound < seconds(above), "{bound}");
        }
        assert_eq!(first_micros(|_| false), i64::MAX);
        assert_eq!(first_micros(|_| true), i64::MIN);
    }
}

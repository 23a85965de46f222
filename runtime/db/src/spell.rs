//! Placeholders in the form that each driver reads fastest.
//!
//! Statements are written once, with `$1, $2, ...`, and may run on either database. SQLite treats these as
//! names, and finding the name of each placeholder is linear in their number: a statement over a thousand
//! values would cost a million steps. Bare `?` have no names.
//!
//! `INSERT /*or fail*/ INTO` and `UPDATE /*or fail*/` are for statements over many rows that cannot fail
//! halfway, or whose transaction ends when they do. SQLite copies each page that another statement is about
//! to change, to be able to roll back that statement alone; changes of these are left partially applied.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// A comment to PostgreSQL.
const OR_FAIL: &str = "/*or fail*/";

/// The statement in the form for SQLite. A static text is converted once; a text that was built for one use
/// is left unchanged.
pub(crate) fn for_sqlite(sql: Cow<'static, str>) -> Cow<'static, str> {
    match sql {
        Cow::Borrowed(sql) => bare(sql).into(),
        Cow::Owned(sql) => sql.into(),
    }
}

/// The converted texts by address: a static statement is one text for the lifetime of the program.
fn bare(sql: &'static str) -> &'static str {
    static KNOWN: OnceLock<RwLock<HashMap<(usize, usize), &'static str>>> = OnceLock::new();
    let known = KNOWN.get_or_init(RwLock::default);
    let place = (sql.as_ptr().addr(), sql.len());
    if let Some(text) = known.read().unwrap_or_else(PoisonError::into_inner).get(&place) {
        return text;
    }
    let text = spelled(sql).map_or(sql, |text| &*Box::leak(text.into_boxed_str()));
    known.write().unwrap_or_else(PoisonError::into_inner).insert(place, text);
    text
}

/// The statement in the form for SQLite, if that differs.
fn spelled(sql: &str) -> Option<String> {
    match with_bare_placeholders(sql) {
        Some(bare) => Some(bare.replace(OR_FAIL, "OR FAIL")),
        None => sql.contains(OR_FAIL).then(|| sql.replace(OR_FAIL, "OR FAIL")),
    }
}

/// With `?` for each placeholder; `None` unless they occur in the order `$1, $2, ...`, each once.
fn with_bare_placeholders(sql: &str) -> Option<String> {
    let mut out = String::with_capacity(sql.len());
    let mut parts = sql.split('$');
    out.push_str(parts.next()?);
    for (at, part) in parts.enumerate() {
        let n_digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if part[..n_digits].parse() != Ok(at + 1) {
            return None;
        }
        out.push('?');
        out.push_str(&part[n_digits..]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_placeholders_in_order_lose_their_names() {
        assert_eq!(with_bare_placeholders("VALUES ($1, $2), ($3, $10)"), None, "a gap");
        assert_eq!(with_bare_placeholders("VALUES ($1, $2)").as_deref(), Some("VALUES (?, ?)"));
        assert_eq!(with_bare_placeholders("a = $1 OR b = $1"), None);
        assert_eq!(with_bare_placeholders("SELECT 1").as_deref(), Some("SELECT 1"));
    }

    #[test]
    fn sqlite_gets_the_or_fail_clause_for_marked_statements() {
        assert_eq!(
            spelled("INSERT /*or fail*/ INTO t VALUES ($1)").as_deref(),
            Some("INSERT OR FAIL INTO t VALUES (?)")
        );
        assert_eq!(
            spelled("UPDATE /*or fail*/ t SET a = $1 WHERE b = $1").as_deref(),
            Some("UPDATE OR FAIL t SET a = $1 WHERE b = $1")
        );
        assert_eq!(spelled("SELECT $1 OR $1"), None);
    }
}

//! Conditions on scores as conditions on the names of scores, by which a list finds its rows.

use perpend_domain::filter::{Condition, SCORE_COLUMNS, SCORE_NAMES, SetOp, Test};

use crate::rows::leads::is_about;

/// More names are tested in memory.
const MAX_NAMES: usize = 100;

/// Names of scores of which each matching row has at least one. `None` if a row may match without.
#[must_use]
pub fn needed(condition: &Condition) -> Vec<&str> {
    if !is_about(condition, &SCORE_COLUMNS) {
        return Vec::new();
    }
    let of_key: Vec<&str> = condition.test.key().into_iter().collect();
    match (&condition.test, named(condition)) {
        (_, Some((SetOp::AnyOf, names))) => names.iter().map(String::as_str).collect(),
        (_, Some((SetOp::AllOf, names))) => names.iter().take(1).map(String::as_str).collect(),
        (Test::MemberNumber(..) | Test::MemberIs(..), None) => of_key,
        (Test::CategoryAnyOf(_, values), None) if values.iter().all(|value| !value.is_empty()) => {
            of_key
        }
        _ => Vec::new(),
    }
}

/// How the score names of a matching row compare with these, if the condition depends on names only.
#[must_use]
pub fn named(condition: &Condition) -> Option<(SetOp, &[String])> {
    if !is_about(condition, &[SCORE_NAMES]) {
        return None;
    }
    let (op, names) = match &condition.test {
        Test::List(op, names) => (*op, names),
        Test::AnyOf(names) => (SetOp::AnyOf, names),
        Test::NoneOf(names) => (SetOp::NoneOf, names),
        _ => return None,
    };
    // The replacement of a NUL is another text.
    let is_told = !names.is_empty()
        && names.len() <= MAX_NAMES
        && names.iter().all(|name| !name.contains('\0'));
    is_told.then_some((op, names))
}

#[cfg(test)]
mod tests {
    use perpend_domain::filter::{TRACES, find};

    use super::*;

    fn of(column: &str, test: Test) -> Condition {
        Condition { column: find(TRACES, column), test }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_decide_alone_and_a_row_with_them_has_one_of_them() {
        let list = |op, all: &[&str]| of(SCORE_NAMES, Test::List(op, names(all)));
        for (condition, is_decided, has) in [
            (list(SetOp::AnyOf, &["a", "b"]), true, vec!["a", "b"]),
            (list(SetOp::AllOf, &["a", "b"]), true, vec!["a"]),
            (list(SetOp::NoneOf, &["a"]), true, vec![]),
            (list(SetOp::AllOf, &[]), false, vec![]),
            (list(SetOp::AnyOf, &["a\0"]), false, vec![]),
            (of(SCORE_NAMES, Test::IsNull), false, vec![]),
            (of("tags", Test::AnyOf(names(&["a"]))), false, vec![]),
            (of("score_booleans", Test::MemberIs("a".to_owned(), true)), false, vec!["a"]),
            (of("score_booleans", Test::MemberIsNot("a".to_owned(), true)), false, vec![]),
        ] {
            assert_eq!(named(&condition).is_some(), is_decided, "{condition:?}");
            assert_eq!(needed(&condition), has, "{condition:?}");
        }
    }
}

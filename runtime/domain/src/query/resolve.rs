//! From terms to conditions: finds the column that a term names.

use super::fault::QueryFault;
use super::nearest;
use super::reader::Reader;
use super::syntax::{NamedTerm, Op, Raw, RawTest, Word};
use super::values::{SCORE, is_number_range, number, truth};
use crate::filter::ColumnKind::FullText;
use crate::filter::{Column, Condition, SCORE_COLUMNS, SCORE_NAMES, Test, TextOp, find};

/// The column of a name, ignoring case.
#[must_use]
pub fn column(columns: &'static [Column], name: &str) -> Option<&'static Column> {
    let is_so_called = |column: &&Column| {
        let mut names = std::iter::once(&column.id).chain(column.aliases);
        names.any(|own| own.eq_ignore_ascii_case(name))
    };
    find(columns, name).or_else(|| columns.iter().find(is_so_called))
}

/// The conditions of a term.
pub(super) fn conditions(
    raw: Raw,
    columns: &'static [Column],
) -> Result<Vec<Condition>, QueryFault> {
    let named = match raw {
        Raw::Named(named) => named,
        Raw::Word(word) => {
            let column = find(columns, "text").filter(|column| column.kind == FullText);
            let Some(column) = column else {
                return Err(QueryFault::new(
                    &word.at,
                    "text without a column cannot be looked for here; write `column:value`",
                ));
            };
            return Ok(vec![Condition {
                column: Some(column),
                test: Test::Text(TextOp::MatchesAnyCase, word.text),
            }]);
        }
    };
    let column = column_of(&named, columns)?;
    let tests = Reader::new(named, column).tests()?;
    let condition = |test| Condition { column: Some(column), test };
    Ok(tests.into_iter().map(condition).collect())
}

fn column_of(named: &NamedTerm, columns: &'static [Column]) -> Result<&'static Column, QueryFault> {
    let name = named.column.text.as_str();
    let id = match name {
        SCORE if find(columns, SCORE).is_none() => score_column(&named.test),
        other => other,
    };
    if let Some(column) = column(columns, id) {
        return Ok(column);
    }
    let near = nearest::columns(name, columns);
    let mut message = format!("unknown column `{name}`");
    let mut guess = None;
    if name.is_empty() {
        "a column must precede the colon".clone_into(&mut message);
    } else if name == "position" {
        "the position in the trace cannot be tested here".clone_into(&mut message);
    } else if let Some(question) = nearest::question(&near) {
        message.push_str(&format!("; {question}"));
        guess = near.first();
    } else {
        message.push_str("; put text with a colon in quotes to look for it");
    }
    let others = columns.iter().map(|column| column.id).filter(|id| !near.contains(id));
    let allowed = near.iter().copied().chain(others);
    let fault = QueryFault::new(&named.column.at, message).allowing(allowed);
    Err(fault.guessing(guess))
}

fn score_column(test: &RawTest) -> &'static str {
    let [numbers, categories, ..] = SCORE_COLUMNS;
    match test {
        RawTest::Op(Op::Order(_), _) | RawTest::Range(..) => numbers,
        RawTest::Op(Op::Exactly, word) => score_column_of(word),
        RawTest::Values(words) => match words.as_slice() {
            [word] => score_column_of(word),
            _ => categories,
        },
        RawTest::Op(..) | RawTest::Set(..) => categories,
    }
}

fn score_column_of(word: &Word) -> &'static str {
    let [numbers, categories, booleans, _] = SCORE_COLUMNS;
    let text = word.text.as_str();
    match word.is_quoted {
        true => categories,
        false if word.is_keyword() => SCORE_NAMES,
        false if truth(text).is_some() => booleans,
        false if number(text).is_some() || is_number_range(text) => numbers,
        false => categories,
    }
}

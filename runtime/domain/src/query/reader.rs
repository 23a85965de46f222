//! From the test of one term to tests of its column.

use std::ops::Range;

use super::fault::QueryFault;
use super::nearest;
use super::syntax::{NamedTerm, OPS, Op, RawTest, Set, Word};
use super::values::{SCORE, SCORE_OPERATORS, is_number_range, number, operators, time, truth};
use crate::filter::ColumnKind::{
    Bool, BoolMembers, CategoryMembers, FullText, List, Members, NullOnly, Number, NumberMembers,
    Options, QueryMembers, Text, Time,
};
use crate::filter::{Column, Order, SCORE_COLUMNS, SetOp, Test, TextOp};
use crate::time::Timestamp;

fn sign_of(op: Op) -> &'static str {
    let found = OPS.into_iter().find(|(_, each)| *each == op);
    found.map_or("", |(sign, _)| sign)
}

fn listed(signs: &[&str]) -> String {
    let signs: Vec<String> = signs.iter().map(|sign| format!("`{sign}`")).collect();
    signs.join(", ")
}

/// A term and the column it names.
pub(super) struct Reader {
    named: NamedTerm,
    column: &'static Column,
}

impl Reader {
    pub(super) const fn new(named: NamedTerm, column: &'static Column) -> Self {
        Self { named, column }
    }

    pub(super) fn tests(&self) -> Result<Vec<Test>, QueryFault> {
        let kind = self.column.kind;
        if let Some(is_set) = self.presence() {
            return Ok(vec![self.presence_test(is_set)?]);
        }
        let key = self.key()?;
        let one = |test| Ok(vec![test]);
        match (kind, key) {
            (Text | FullText | Options, _) => one(self.text_test()?),
            (List, _) => one(self.list_test()?),
            (Time, _) => self.ordered(&Self::time, Order::Less, &Test::Time),
            (Number, _) => self.ordered(&Self::number, Order::AtMost, &Test::Number),
            (Bool, _) => one(match self.truth_test()? {
                (truth, false) => Test::Is(truth),
                (truth, true) => Test::IsNot(truth),
            }),
            (Members | QueryMembers, Some(key)) => self.member_tests(key),
            (NumberMembers, Some(key)) => self.number_tests(key),
            (BoolMembers, Some(key)) => one(match self.truth_test()? {
                (truth, false) => Test::MemberIs(key, truth),
                (truth, true) => Test::MemberIsNot(key, truth),
            }),
            (CategoryMembers, Some(key)) => one(self.category_test(key)?),
            (CategoryMembers, None) => match &self.named.test {
                RawTest::Values(words) => {
                    let values = self.texts(words)?;
                    one(match self.named.is_negated {
                        false => Test::AnyOf(values),
                        true => Test::NoneOf(values),
                    })
                }
                _ => self.needs_key(),
            },
            (Members | QueryMembers | NumberMembers | BoolMembers, None) => self.needs_key(),
            (NullOnly, _) => self.misfit(),
        }
    }

    /// Whether a value is required, if the test is `null` or `set`.
    fn presence(&self) -> Option<bool> {
        match &self.named.test {
            RawTest::Values(words) => match words.as_slice() {
                [word] if word.is_keyword() => Some((word.text == "set") != self.named.is_negated),
                _ => None,
            },
            _ => None,
        }
    }

    fn presence_test(&self, is_set: bool) -> Result<Test, QueryFault> {
        let key = self.key()?;
        Ok(match (key, self.column.kind, is_set) {
            (None, List, _) if self.is_score() => return self.needs_key(),
            (Some(name), List, true) => Test::List(SetOp::AnyOf, vec![name]),
            (Some(name), List, false) => Test::List(SetOp::NoneOf, vec![name]),
            (None, _, false) => Test::IsNull,
            (None, _, true) => Test::IsNotNull,
            (Some(key), Members | QueryMembers, false) => Test::MemberIsNotSet(key),
            (Some(key), Members | QueryMembers, true) => Test::MemberIsSet(key),
            (Some(_), ..) => return self.misfit(),
        })
    }

    /// Whether the column is written as `score`, with score names as keys.
    fn is_score(&self) -> bool {
        self.named.column.text == SCORE && SCORE_COLUMNS.contains(&self.column.id)
    }

    /// The key, where the column has members.
    fn key(&self) -> Result<Option<String>, QueryFault> {
        let Some(key) = &self.named.key else {
            return Ok(None);
        };
        let id = self.column.id;
        match self.column.kind {
            Members | QueryMembers | NumberMembers | BoolMembers | CategoryMembers => {}
            _ if self.is_score() => {}
            _ => {
                let message = format!("`{id}` has no keys; write `{id}:value`");
                return Err(QueryFault::new(&key.at, message));
            }
        }
        match key.text.as_str() {
            "" => Err(QueryFault::new(&key.at, "a key must not be empty")),
            key => Ok(Some(key.to_owned())),
        }
    }

    fn needs_key<T>(&self) -> Result<T, QueryFault> {
        let name = &self.named.column.text;
        let message = format!("`{name}` needs a key, as in `{name}.KEY:value`");
        Err(QueryFault::new(&self.named.column.at, message))
    }

    /// The operator does not fit the column.
    fn misfit<T>(&self) -> Result<T, QueryFault> {
        let at = &self.named.test_at;
        let start = |n: usize| at.start..(at.start + n).min(at.end);
        let (sign, at): (&str, Range<usize>) = match &self.named.test {
            RawTest::Op(op, _) => (sign_of(*op), start(sign_of(*op).len())),
            RawTest::Set(Set::Any, _) => ("any(", start(4)),
            RawTest::Set(Set::All, _) => ("all(", start(4)),
            RawTest::Range(..) => ("..", at.clone()),
            RawTest::Values(words) => match words.as_slice() {
                [word] if word.is_keyword() => (word.text.as_str(), at.clone()),
                [_] => ("=", at.clone()),
                _ => ("a,b", at.clone()),
            },
        };
        // `score` takes what any of its columns does.
        let fitting = match self.is_score() {
            true => SCORE_OPERATORS,
            false => operators(self.column.kind),
        };
        let minus = match self.named.is_negated {
            true => "`-` and ",
            false => "",
        };
        let message = format!(
            "`{}` cannot be tested with {minus}`{sign}`; it takes {}",
            self.named.column.text,
            listed(fitting)
        );
        Err(QueryFault::new(&at, message).allowing(fitting.iter().copied()))
    }

    fn text(&self, word: &Word) -> Result<String, QueryFault> {
        if word.is_keyword() {
            let text = &word.text;
            let message =
                format!("put the text `{text}` in quotes; without them it must stand alone");
            return Err(QueryFault::new(&word.at, message).allowing([format!("\"{text}\"")]));
        }
        Ok(word.text.clone())
    }

    fn texts(&self, words: &[Word]) -> Result<Vec<String>, QueryFault> {
        words.iter().map(|word| self.text(word)).collect()
    }

    /// Texts out of the closed list of the column, where it has one.
    fn known(&self, words: &[Word]) -> Result<Vec<String>, QueryFault> {
        let allowed = self.column.values;
        let is_unknown =
            |word: &&Word| !allowed.is_empty() && !allowed.contains(&word.text.as_str());
        let Some(word) = words.iter().find(is_unknown) else {
            return self.texts(words);
        };
        let near = nearest::values(&word.text, allowed);
        let mut message = format!("`{}` has no value `{}`", self.column.id, word.text);
        match nearest::question(&near) {
            Some(question) => message.push_str(&format!("; {question}")),
            None => message.push_str(&format!("; it has {}", listed(allowed))),
        }
        let others = allowed.iter().filter(|value| !near.contains(value));
        let allowed = near.iter().chain(others).copied();
        let fault = QueryFault::new(&word.at, message).allowing(allowed);
        Err(fault.guessing(near.first()))
    }

    fn text_test(&self) -> Result<Test, QueryFault> {
        let is_negated = self.named.is_negated;
        match &self.named.test {
            RawTest::Values(words) if is_negated => Ok(Test::NoneOf(self.known(words)?)),
            RawTest::Values(words) => Ok(Test::AnyOf(self.known(words)?)),
            RawTest::Op(Op::Exactly, word) => {
                let mut values = self.known(std::slice::from_ref(word))?;
                Ok(match is_negated {
                    true => Test::NoneOf(values),
                    false => Test::Text(TextOp::Equal, values.pop().unwrap_or_default()),
                })
            }
            RawTest::Op(op, word) => match self.text_op(*op) {
                Some(op) => Ok(Test::Text(op, self.text(word)?)),
                None => self.misfit(),
            },
            _ => self.misfit(),
        }
    }

    fn text_op(&self, op: Op) -> Option<TextOp> {
        match (op, self.named.is_negated) {
            (Op::Exactly, false) => Some(TextOp::Equal),
            (Op::Contains, false) => Some(TextOp::Contains),
            (Op::Contains, true) => Some(TextOp::DoesNotContain),
            (Op::StartsWith, false) => Some(TextOp::StartsWith),
            (Op::EndsWith, false) => Some(TextOp::EndsWith),
            (Op::Matches, false) if self.column.kind == FullText => Some(TextOp::MatchesAnyCase),
            _ => None,
        }
    }

    fn list_test(&self) -> Result<Test, QueryFault> {
        match (&self.named.test, self.named.is_negated) {
            (RawTest::Values(words), false) => Ok(Test::AnyOf(self.known(words)?)),
            (RawTest::Values(words), true) => Ok(Test::NoneOf(self.known(words)?)),
            (RawTest::Set(Set::Any, words), false) if words.is_empty() => Err(QueryFault::new(
                &self.named.test_at,
                "at least one value must stand between the parentheses",
            )),
            (RawTest::Set(Set::Any, words), false) => {
                Ok(Test::List(SetOp::AnyOf, self.known(words)?))
            }
            (RawTest::Set(Set::Any, words), true) => {
                Ok(Test::List(SetOp::NoneOf, self.texts(words)?))
            }
            (RawTest::Set(Set::All, words), false) => {
                Ok(Test::List(SetOp::AllOf, self.texts(words)?))
            }
            _ => self.misfit(),
        }
    }

    fn number(word: &Word) -> Result<f64, QueryFault> {
        number(&word.text)
            .ok_or_else(|| QueryFault::new(&word.at, format!("`{}` is not a number", word.text)))
    }

    fn time(word: &Word) -> Result<Timestamp, QueryFault> {
        time(&word.text).ok_or_else(|| {
            let message = format!(
                "`{}` is not a date such as 2026-03-01 or a time such as \"2026-03-01 10:00\", in UTC",
                word.text
            );
            QueryFault::new(&word.at, message)
        })
    }

    /// Comparisons of numbers and times. `end`: how the second value of a range is compared.
    fn ordered<T>(
        &self,
        read: &dyn Fn(&Word) -> Result<T, QueryFault>,
        end: Order,
        test: &dyn Fn(Order, T) -> Test,
    ) -> Result<Vec<Test>, QueryFault> {
        let one = |order, word| Ok(vec![test(order, read(word)?)]);
        let range = |from: &Word, to: &Word| {
            Ok(vec![test(Order::AtLeast, read(from)?), test(end, read(to)?)])
        };
        let is_negated = self.named.is_negated;
        match &self.named.test {
            RawTest::Op(Op::Exactly | Op::Order(Order::Equal), word) => match is_negated {
                true => one(Order::NotEqual, word),
                false => one(Order::Equal, word),
            },
            RawTest::Op(Op::Order(order), word) if !is_negated => one(*order, word),
            RawTest::Range(from, to) if !is_negated => range(from, to),
            RawTest::Values(words) => match words.as_slice() {
                [word] => match word.text.split_once("..").filter(|_| !word.is_quoted) {
                    Some(_) if is_negated => self.misfit(),
                    Some((from, to)) => {
                        let part = |text: &str, start: usize| Word {
                            text: text.to_owned(),
                            is_quoted: false,
                            at: start..start + text.len(),
                        };
                        let start = word.at.start;
                        let behind = start + from.len() + "..".len();
                        range(&part(from, start), &part(to, behind))
                    }
                    None if is_negated => one(Order::NotEqual, word),
                    None => one(Order::Equal, word),
                },
                _ => self.misfit(),
            },
            _ => self.misfit(),
        }
    }

    fn number_tests(&self, key: String) -> Result<Vec<Test>, QueryFault> {
        let test = |order, number| Test::MemberNumber(key.clone(), order, number);
        self.ordered(&Self::number, Order::AtMost, &test)
    }

    /// The boolean, and whether the test is negated.
    fn truth_test(&self) -> Result<(bool, bool), QueryFault> {
        let word = match &self.named.test {
            RawTest::Op(Op::Exactly, word) => word,
            RawTest::Values(words) => match words.as_slice() {
                [word] => word,
                _ => return self.misfit(),
            },
            _ => return self.misfit(),
        };
        match truth(&word.text) {
            Some(truth) => Ok((truth, self.named.is_negated)),
            None => {
                let message = format!("`{}` is neither `true` nor `false`", word.text);
                Err(QueryFault::new(&word.at, message).allowing(["true", "false"]))
            }
        }
    }

    fn category_test(&self, key: String) -> Result<Test, QueryFault> {
        let words = match &self.named.test {
            RawTest::Values(words) | RawTest::Set(Set::Any, words) => words.as_slice(),
            RawTest::Op(Op::Exactly, word) => std::slice::from_ref(word),
            _ => return self.misfit(),
        };
        let values = self.texts(words)?;
        Ok(match self.named.is_negated {
            false => Test::CategoryAnyOf(key, values),
            true => Test::CategoryNoneOf(key, values),
        })
    }

    fn member_tests(&self, key: String) -> Result<Vec<Test>, QueryFault> {
        let is_query = self.column.kind == QueryMembers;
        match &self.named.test {
            RawTest::Op(Op::Order(_), _) | RawTest::Range(..) if is_query => {
                return self.number_tests(key);
            }
            RawTest::Values(words) if !self.named.is_negated => {
                if let [word] = words.as_slice() {
                    if is_query && !word.is_quoted && is_number_range(&word.text) {
                        return self.number_tests(key);
                    }
                    let value = self.text(word)?;
                    return Ok(vec![Test::MemberText(key, TextOp::Equal, value)]);
                }
            }
            RawTest::Op(op, word) => {
                if let Some(op) = self.text_op(*op) {
                    return Ok(vec![Test::MemberText(key, op, self.text(word)?)]);
                }
            }
            _ => {}
        }
        match is_query {
            true => Ok(vec![self.category_test(key)?]),
            false => self.misfit(),
        }
    }
}

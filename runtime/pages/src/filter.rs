//! The filter form of the list of traces: its fields as conditions of the shared filter language.

use perpend_domain::filter::{Condition, Filter, Order, SetOp, TRACES, Test, TextOp, find};
use perpend_domain::observation::Level;
use perpend_domain::time::Timestamp;
use perpend_ui::TracesQuery;
use serde::Deserialize;

/// The form's fields; all of them may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListForm {
    name: String,
    environment: String,
    user: String,
    session: String,
    tag: String,
    level: String,
    from: String,
    to: String,
    latency: String,
    score: String,
    score_is: String,
    score_value: String,
    page: String,
}

impl ListForm {
    /// The number of the page asked for, from 1.
    pub(super) fn page(&self) -> u32 {
        self.page.parse().unwrap_or(1).clamp(1, 1_000_000)
    }

    /// The fields as the page shows them again.
    pub(super) fn shown(&self) -> TracesQuery {
        let form = self.clone();
        TracesQuery {
            name: form.name,
            environment: form.environment,
            user: form.user,
            session: form.session,
            tag: form.tag,
            level: form.level,
            from: form.from,
            to: form.to,
            latency: form.latency,
            score: form.score,
            score_is: form.score_is,
            score_value: form.score_value,
        }
    }

    /// The conditions, or what is wrong with a field.
    pub(super) fn filter(&self) -> Result<Filter, String> {
        let mut conditions = Vec::new();
        let mut add = |column, test| {
            conditions.push(Condition {
                column: find(TRACES, column),
                test,
            })
        };
        let texts = [
            ("name", &self.name, TextOp::Contains),
            ("environment", &self.environment, TextOp::Equal),
            ("userId", &self.user, TextOp::Equal),
            ("sessionId", &self.session, TextOp::Equal),
        ];
        for (column, value, op) in texts {
            if !value.is_empty() {
                add(column, Test::Text(op, value.clone()));
            }
        }
        if !self.tag.is_empty() {
            add("tags", Test::List(SetOp::AnyOf, vec![self.tag.clone()]));
        }
        if !self.level.is_empty() {
            let least: Level = self
                .level
                .parse()
                .map_err(|_| "Level is WARNING or ERROR.".to_owned())?;
            let levels = Level::ALL.iter().filter(|level| least <= **level);
            add(
                "level",
                Test::AnyOf(levels.map(|level| level.as_str().to_owned()).collect()),
            );
        }
        if let Some(from) = time("From", &self.from)? {
            add("timestamp", Test::Time(Order::AtLeast, from));
        }
        if let Some(to) = time("Before", &self.to)? {
            add("timestamp", Test::Time(Order::Less, to));
        }
        if !self.latency.is_empty() {
            add(
                "latency",
                Test::Number(Order::AtLeast, number("Latency", &self.latency)?),
            );
        }
        if let Some((column, test)) = self.score()? {
            add(column, test);
        }
        Ok(Filter { conditions })
    }

    /// A number is compared, a truth value or category is looked for.
    fn score(&self) -> Result<Option<(&'static str, Test)>, String> {
        let (name, value) = (self.score.trim().to_owned(), self.score_value.trim());
        match (name.is_empty(), value) {
            (true, "") => Ok(None),
            (true, _) => Err("Score: name the score whose value is meant.".to_owned()),
            (false, "") => Err("Score: give the value to compare with.".to_owned()),
            (false, "true" | "false") => Ok(Some((
                "score_booleans",
                Test::MemberIs(name, value == "true"),
            ))),
            (false, _) => match (value.parse::<f64>(), self.score_is.as_str()) {
                (Ok(number), _) if !number.is_finite() => {
                    Err("Score: the value must be finite.".to_owned())
                }
                (Ok(number), "le") => Ok(Some((
                    "scores_avg",
                    Test::MemberNumber(name, Order::AtMost, number),
                ))),
                (Ok(number), "eq") => Ok(Some((
                    "scores_avg",
                    Test::MemberNumber(name, Order::Equal, number),
                ))),
                (Ok(number), _) => Ok(Some((
                    "scores_avg",
                    Test::MemberNumber(name, Order::AtLeast, number),
                ))),
                (Err(_), _) => Ok(Some((
                    "score_categories",
                    Test::CategoryAnyOf(name, vec![value.to_owned()]),
                ))),
            },
        }
    }
}

fn number(field: &str, raw: &str) -> Result<f64, String> {
    let parsed = raw
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite());
    parsed.ok_or_else(|| format!("{field}: {raw:?} is no number."))
}

/// A date and time as browsers send it, without an offset: read as UTC.
fn time(field: &str, raw: &str) -> Result<Option<Timestamp>, String> {
    if raw.is_empty() {
        return Ok(None);
    }
    let seconds = if raw.matches(':').count() < 2 {
        ":00"
    } else {
        ""
    };
    let parsed = Timestamp::parse(raw).or_else(|_| Timestamp::parse(&format!("{raw}{seconds}Z")));
    parsed
        .map(Some)
        .map_err(|_| format!("{field}: {raw:?} is no date and time such as 2026-03-01T10:00."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_becomes_a_condition_on_a_column_there_is() {
        let form = ListForm {
            name: "a".into(),
            environment: "b".into(),
            user: "c".into(),
            session: "d".into(),
            tag: "e".into(),
            level: "WARNING".into(),
            from: "2026-03-01T10:00".into(),
            to: "2026-03-01T10:00:30".into(),
            latency: "1.5".into(),
            score: "s".into(),
            score_is: "le".into(),
            score_value: "0.5".into(),
            page: "3".into(),
        };
        let filter = form.filter().unwrap();
        assert_eq!(filter.conditions.len(), 10);
        assert!(
            filter
                .conditions
                .iter()
                .all(|condition| condition.column.is_some())
        );
        let levels = Test::AnyOf(vec!["WARNING".to_owned(), "ERROR".to_owned()]);
        assert!(
            filter
                .conditions
                .iter()
                .any(|condition| condition.test == levels)
        );
        assert_eq!(
            (
                form.page(),
                form.shown().address("/p", 2).contains("score_is=le")
            ),
            (3, true)
        );
    }

    #[test]
    fn the_value_of_a_score_decides_how_it_is_compared() {
        let test = |value: &str| {
            let form = ListForm {
                score: "s".into(),
                score_value: value.into(),
                ..ListForm::default()
            };
            form.filter().unwrap().conditions.remove(0).test
        };
        assert_eq!(test("true"), Test::MemberIs("s".into(), true));
        assert_eq!(
            test("2"),
            Test::MemberNumber("s".into(), Order::AtLeast, 2.0)
        );
        assert_eq!(
            test("good"),
            Test::CategoryAnyOf("s".into(), vec!["good".into()])
        );
    }

    #[test]
    fn a_wrong_field_is_named() {
        let wrong = |form: ListForm| form.filter().unwrap_err();
        assert!(
            wrong(ListForm {
                latency: "fast".into(),
                ..Default::default()
            })
            .starts_with("Latency")
        );
        assert!(
            wrong(ListForm {
                from: "monday".into(),
                ..Default::default()
            })
            .starts_with("From")
        );
        assert!(
            wrong(ListForm {
                score: "s".into(),
                ..Default::default()
            })
            .starts_with("Score")
        );
        assert!(
            wrong(ListForm {
                level: "loud".into(),
                ..Default::default()
            })
            .starts_with("Level")
        );
    }
}

//! Sessions and users as lines of a list, with what is scored of them.

use std::collections::HashMap;

use perpend_domain::filter::{Condition, Filter, Order, TRACES, Test, TextOp, find};
use perpend_domain::query::print;
use perpend_domain::score::ScoreDataType;
use perpend_domain::telemetry::{GroupKey, GroupQuery, TraceGroup};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::ScoreSum;
use perpend_views::{
    Focus, GroupChip, GroupLine, Sort, Text, TracesQuery, count, date, href, number,
};

use crate::read;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Traces of each session or user whose scores are read, the newest ones. Those of 100 would take longer than the rest of a
/// page.
pub(crate) const SCORED: u32 = 10;
/// Days of which the traces of users are counted.
const DAYS: usize = 30;
const DAY_US: i64 = 86_400_000_000;
/// Names of scores that have a chip.
const CHIPS: usize = 4;
/// Characters of a category that are shown.
const CATEGORY: usize = 24;

/// A line for each of these, in their order. Scores are those of the time and the environments of the question.
pub(crate) async fn group_lines(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    groups: Vec<TraceGroup>,
) -> Result<Vec<GroupLine>, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    let mut scores = telemetry.scores_of_groups(project, query, &ids, SCORED).await?;
    let first = first_day(app.web.clock.now());
    let days = match query.by {
        GroupKey::Session => HashMap::new(),
        GroupKey::User => {
            let days = telemetry.traces_by_day(project, query, &ids, (first, DAYS));
            days.await?
        }
    };
    // Bars of different lines are compared: they have one scale.
    let highest = days.values().flatten().copied().max().unwrap_or_default();
    let base = viewer.base();
    let line = |group: TraceGroup| {
        let (by, id) = (query.by, group.id.clone());
        let sums = scores.remove(&id).unwrap_or_default();
        let mut line = GroupLine::new(by, group);
        line.scores = chips((&base, &viewer.focus), (by, &id), query.of.as_deref(), sums);
        match by {
            GroupKey::Session => line,
            GroupKey::User => line.with_days(&named(first, days.get(&id)), highest),
        }
    };
    Ok(groups.into_iter().map(line).collect())
}

/// The midnight that so many days begin with, today the last of them.
fn first_day(now: Timestamp) -> Timestamp {
    let today = now.as_micros().div_euclid(DAY_US);
    Timestamp::from_micros((today + 1 - DAYS as i64) * DAY_US)
}

/// The numbers of these days with their dates; all zero where there are none.
fn named(first: Timestamp, numbers: Option<&Vec<u64>>) -> Vec<(String, u64)> {
    let day = |at: usize| {
        let start = Timestamp::from_micros(first.as_micros() + at as i64 * DAY_US);
        let n = numbers.and_then(|numbers| numbers.get(at)).copied();
        (date(start), n.unwrap_or_default())
    };
    (0..DAYS).map(day).collect()
}

/// What scores say together: the mean of numbers, how many are true, the most frequent category.
fn said(sum: &ScoreSum) -> Text {
    let n = count(sum.n);
    Text::from(match (sum.data_type, &sum.top) {
        (ScoreDataType::Boolean, _) if sum.n == 1 => (sum.total > 0.0).to_string(),
        (ScoreDataType::Boolean, _) => format!("{} of {n} true", count(sum.total as u64)),
        (ScoreDataType::Numeric, _) if sum.n == 1 => number(sum.total),
        (ScoreDataType::Numeric, _) => format!("{} (n = {n})", number(sum.total / sum.n as f64)),
        (_, Some((top, most))) => {
            let mut name: String = top.chars().take(CATEGORY).collect();
            if name.len() < top.len() {
                name.push('…');
            }
            match sum.n {
                1 => name,
                _ => format!("{name} {} of {n}", count(*most)),
            }
        }
        (_, None) => format!("n = {n}"),
    })
}

/// The first of these, those of a session itself before those of traces, each with what looks worst first; and how many more
/// names there are. With a user it is about a session, and about the traces of that user alone.
fn chips(
    (base, focus): (&str, &Focus),
    of: (GroupKey, &str),
    user: Option<&str>,
    mut sums: Vec<ScoreSum>,
) -> Vec<GroupChip> {
    // Stable: equal ones stay in the order of their names.
    sums.sort_by(|a, b| {
        let by_subject = b.is_own.cmp(&a.is_own);
        by_subject.then_with(|| worth(a).total_cmp(&worth(b)))
    });
    let first = sums.iter().take(CHIPS);
    let mut chips: Vec<_> = first.map(|sum| chip((base, focus), of, user, sum)).collect();
    if CHIPS < sums.len() {
        chips.push(GroupChip {
            name: Text::from(format!("+{}", sums.len() - CHIPS)),
            value: Text::default(),
            title: "More scores".to_owned(),
            share: None,
            href: match of.0 {
                GroupKey::Session => format!("{}#pane-scores", href(base, of.0, of.1)),
                GroupKey::User => trace_list_query(focus, vec![group_condition(of)]).first(base),
            },
        });
    }
    chips
}

/// Of truths and of numbers from 0 to 1, which are compared; other values come after them.
fn worth(sum: &ScoreSum) -> f64 {
    let mean = sum.total / sum.n as f64;
    let is_share = (0.0..=1.0).contains(&mean);
    match sum.data_type {
        ScoreDataType::Boolean | ScoreDataType::Numeric if is_share => mean,
        _ => 2.0,
    }
}

/// A chip for the scores of one name. It links to the page of the session for its own scores, else to the list of the traces.
fn chip(
    (base, focus): (&str, &Focus),
    of: (GroupKey, &str),
    user: Option<&str>,
    sum: &ScoreSum,
) -> GroupChip {
    let n = match sum.n {
        1 => "1 score".to_owned(),
        _ => format!("{} scores", count(sum.n)),
    };
    let (what, there) = match sum.is_own {
        true => {
            ("the session itself".to_owned(), format!("{}#pane-scores", href(base, of.0, of.1)))
        }
        false => (
            match user {
                Some(_) => format!("its newest {SCORED} traces of this user"),
                None => format!("its newest {SCORED} traces"),
            },
            traces(focus, of, user, sum).first(base),
        ),
    };
    GroupChip {
        name: Text::from(sum.name.as_str()),
        value: said(sum),
        title: format!("{n} of {what}"),
        share: Some(worth(sum)).filter(|worth| *worth <= 1.0).map(|worth| (worth * 100.0).round()),
        href: there,
    }
}

/// So many sessions or users of the chosen time and environments.
pub(crate) fn group_query((app, viewer): (&App, &Viewer), by: GroupKey, limit: u32) -> GroupQuery {
    GroupQuery {
        started: viewer.focus.range(read::start_of_minute(app.web.clock.now())),
        environments: viewer.focus.environments.clone(),
        ..GroupQuery::new(by, limit)
    }
}

/// Traces of a session or a user.
pub(crate) fn group_condition((by, id): (GroupKey, &str)) -> Condition {
    let column = match by {
        GroupKey::Session => "sessionId",
        GroupKey::User => "userId",
    };
    Condition { column: find(TRACES, column), test: Test::Text(TextOp::Equal, id.to_owned()) }
}

/// The list of the traces that fit, of all that sessions and users are made of: where no environment is chosen, those of
/// evaluations and experiments too, which the list leaves out unless it is asked about environments.
pub(crate) fn trace_list_query(focus: &Focus, mut conditions: Vec<Condition>) -> TracesQuery {
    if focus.environments.is_empty() {
        conditions.push(Condition { column: find(TRACES, "environment"), test: Test::IsNotNull });
    }
    TracesQuery { focus: focus.clone(), ..TracesQuery::of(print(&Filter { conditions })) }
}

/// The list of the traces that have such scores: the lowest first, or those of the most frequent category.
fn traces(focus: &Focus, of: (GroupKey, &str), user: Option<&str>, sum: &ScoreSum) -> TracesQuery {
    let mut conditions = vec![group_condition(of)];
    conditions.extend(user.map(|user| group_condition((GroupKey::User, user))));
    let mut sort = Sort::default();
    match (sum.data_type, &sum.top) {
        (ScoreDataType::Numeric | ScoreDataType::Boolean, _) => sort = lowest(&sum.name),
        (_, Some((top, _))) => conditions.push(Condition {
            column: find(TRACES, "score_categories"),
            test: Test::CategoryAnyOf(sum.name.clone(), vec![top.clone()]),
        }),
        (_, None) => {}
    }
    TracesQuery { sort, ..trace_list_query(focus, conditions) }
}

fn lowest(name: &str) -> Sort {
    let [_, (lowest, _)] = Sort::of_score(name);
    lowest
}

/// The list of the traces of a user that have a low score of this name, the lowest first.
pub(crate) fn low_score_query(
    focus: &Focus,
    user: &str,
    (name, is_truth): (&str, bool),
) -> TracesQuery {
    let (column, test) = match is_truth {
        true => ("score_booleans", Test::MemberIs(name.to_owned(), false)),
        false => ("scores_avg", Test::MemberNumber(name.to_owned(), Order::Less, 0.5)),
    };
    let scored = Condition { column: find(TRACES, column), test };
    let conditions = vec![group_condition((GroupKey::User, user)), scored];
    TracesQuery { sort: lowest(name), ..trace_list_query(focus, conditions) }
}

#[cfg(test)]
mod tests {
    use perpend_domain::query::parse;

    use super::*;

    fn sum(data_type: ScoreDataType, n: u64, total: f64, top: Option<(&str, u64)>) -> ScoreSum {
        ScoreSum {
            name: "how \"good\"".to_owned(),
            data_type,
            is_own: false,
            n,
            total,
            top: top.map(|(category, n)| (category.to_owned(), n)),
        }
    }

    #[test]
    fn a_mean_stands_with_its_n_and_one_score_as_it_is() {
        for (sum, wanted) in [
            (sum(ScoreDataType::Numeric, 1, 0.5, None), "0.5"),
            (sum(ScoreDataType::Numeric, 4, 3.0, None), "0.75 (n = 4)"),
            (sum(ScoreDataType::Boolean, 1, 1.0, None), "true"),
            (sum(ScoreDataType::Boolean, 3, 2.0, None), "2 of 3 true"),
            (sum(ScoreDataType::Categorical, 3, 0.0, Some(("kind", 2))), "kind 2 of 3"),
            (sum(ScoreDataType::Text, 3, 0.0, None), "n = 3"),
        ] {
            assert_eq!(said(&sum).raw(), wanted);
        }
    }

    #[test]
    fn those_of_the_session_come_first_then_what_looks_worst_and_further_names_are_counted() {
        let mean = |name: &str, mean, is_own| ScoreSum {
            name: name.to_owned(),
            is_own,
            ..sum(ScoreDataType::Numeric, 1, mean, None)
        };
        let all = [("a", 0.5), ("b", 40.0), ("c", 0.1), ("d", 0.2), ("e", 1.0)];
        let all = all.map(|(name, value)| mean(name, value, false));
        let all = [all.to_vec(), vec![mean("own", 0.9, true)]].concat();
        let focus = Focus::default();
        let chips = chips(("/p", &focus), (GroupKey::Session, "s"), None, all);
        let names: Vec<_> = chips.iter().map(|chip| chip.name.raw()).collect();
        assert_eq!(names, ["own", "c", "d", "a", "+2"]);
        assert_eq!(chips[0].href, "/p/sessions/s#pane-scores");
    }

    #[test]
    fn chips_lead_to_traces_by_filters_that_can_be_read() {
        let id = "a \"b\" c:d";
        let focus = Focus::default();
        let of = (GroupKey::Session, id);
        for sum in [
            sum(ScoreDataType::Numeric, 2, 1.0, None),
            sum(ScoreDataType::Categorical, 2, 0.0, Some(("x, y", 1))),
        ] {
            let query = traces(&focus, of, None, &sum);
            let read = parse(&query.q, TRACES);
            assert_eq!(read.faults().count(), 0, "{}", query.q);
            assert_eq!(read.filter.conditions[0], group_condition(of));
        }
        for is_truth in [true, false] {
            let query = low_score_query(&focus, id, ("how \"good\"", is_truth));
            let read = parse(&query.q, TRACES);
            assert_eq!(read.filter.conditions.len(), 3, "{}", query.q);
            assert!(query.sort.ascending);
        }
        // A list with a condition on environments hides none of them.
        let chosen = Focus { environments: vec!["prod".to_owned()], ..Focus::default() };
        for (focus, wanted) in [(&focus, "userId:=x environment:set"), (&chosen, "userId:=x")] {
            let query = trace_list_query(focus, vec![group_condition((GroupKey::User, "x"))]);
            assert_eq!((query.q.as_str(), &query.focus), (wanted, focus));
        }
    }

    #[test]
    fn days_end_with_today_and_have_their_dates() {
        let now = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        let days = named(first_day(now), Some(&vec![7]));
        assert_eq!(days[0], ("2026-01-31".to_owned(), 7));
        assert_eq!(days[DAYS - 1], ("2026-03-01".to_owned(), 0));
    }
}

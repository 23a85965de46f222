//! Rows of lists of sessions and users, with their scores.

use std::collections::HashMap;

use perpend_domain::filter::{Condition, Filter, Order, TRACES, Test, TextOp, find};
use perpend_domain::query::print;
use perpend_domain::score::ScoreDataType;
use perpend_domain::telemetry::{GroupKey, GroupQuery, TraceGroup};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::ScoreSum;
use perpend_views::{
    Focus, GroupChip, GroupLine, GroupRow, Sort, Text, TracesQuery, count, date, href, number,
};
use serde_json::{Value, json};

use crate::read;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Newest traces of each session or user whose scores are read. Reading more dominates the time of a page. The footnotes of the
/// lists contain this number.
pub(crate) const SCORED_TRACES: u32 = 10;
/// Days in the chart of a user's traces.
pub(crate) const DAYS: usize = 30;
const DAY_US: i64 = 86_400_000_000;
/// Score names with a chip.
const MAX_CHIPS: usize = 4;
/// Characters shown of a category.
const CATEGORY_CHARS: usize = 24;

/// One row per session or user, in the same order. Scores are limited to the time range and environments of the query.
pub(crate) async fn group_rows(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    groups: Vec<TraceGroup>,
) -> Result<Vec<GroupRow>, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    let mut scores = telemetry.scores_of_groups(project, query, &ids, SCORED_TRACES).await?;
    let first = first_day(app.web.clock.now());
    let days = match query.by {
        GroupKey::Session => HashMap::new(),
        GroupKey::User => {
            let days = telemetry.traces_by_day(project, query, &ids, (first, DAYS));
            days.await?
        }
    };
    // All rows have the same scale, so that their bars are comparable.
    let highest = days.values().flatten().copied().max().unwrap_or_default();
    let base = viewer.base();
    let row = |group: TraceGroup| {
        let (by, id) = (query.by, group.id.clone());
        let sums = scores.remove(&id).unwrap_or_default();
        let exported: Value = sums.iter().map(exported_sum).collect();
        let mut line = GroupLine::new(by, group);
        line.scores = chips((&base, &viewer.focus), (by, &id), query.of.as_deref(), sums);
        let line = match by {
            GroupKey::Session => line,
            GroupKey::User => line.with_days(&dated_counts(first, days.get(&id)), highest),
        };
        (line, exported, days.get(&id).map_or(0, |days| days.iter().sum::<u64>()))
    };
    Ok(GroupRow::all(groups.into_iter().map(row).collect()))
}

/// The scores with one name in a file.
fn exported_sum(sum: &ScoreSum) -> Value {
    let mut object = json!({
        "name": sum.name,
        "dataType": sum.data_type.as_str(),
        "isOfSession": sum.is_own,
        "count": sum.n,
    });
    match (sum.data_type, &sum.top) {
        (ScoreDataType::Numeric | ScoreDataType::Boolean, _) => {
            object["mean"] = (sum.total / sum.n as f64).into();
        }
        (_, Some((category, n))) => {
            object["mostFrequent"] = category.as_str().into();
            object["mostFrequentCount"] = (*n).into();
        }
        (_, None) => {}
    }
    object
}

/// Start of the period of `DAYS` days that ends today, UTC.
pub(crate) fn first_day(now: Timestamp) -> Timestamp {
    let today = now.as_micros().div_euclid(DAY_US);
    Timestamp::from_micros((today + 1 - DAYS as i64) * DAY_US)
}

/// Date and number of each day.
fn dated_counts(first: Timestamp, numbers: Option<&Vec<u64>>) -> Vec<(String, u64)> {
    let day = |at: usize| {
        let start = Timestamp::from_micros(first.as_micros() + at as i64 * DAY_US);
        let n = numbers.and_then(|numbers| numbers.get(at)).copied();
        (date(start), n.unwrap_or_default())
    };
    (0..DAYS).map(day).collect()
}

/// Summary of scores with one name: the mean, the share of true values or the most frequent category.
fn score_summary(sum: &ScoreSum) -> Text {
    let n = count(sum.n);
    Text::from(match (sum.data_type, &sum.top) {
        (ScoreDataType::Boolean, _) if sum.n == 1 => (sum.total > 0.0).to_string(),
        (ScoreDataType::Boolean, _) => format!("{} of {n} true", count(sum.total as u64)),
        (ScoreDataType::Numeric, _) if sum.n == 1 => number(sum.total),
        (ScoreDataType::Numeric, _) => format!("{} (n = {n})", number(sum.total / sum.n as f64)),
        (_, Some((top, most))) => {
            let mut name: String = top.chars().take(CATEGORY_CHARS).collect();
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

/// Chips of the first score names and the number of other names. Scores of the session itself precede those of its traces, and
/// low values come first. With a user, the scores are those of a session limited to the traces of that user.
fn chips(
    (base, focus): (&str, &Focus),
    of: (GroupKey, &str),
    user: Option<&str>,
    mut sums: Vec<ScoreSum>,
) -> Vec<GroupChip> {
    // Stable: equal ones stay in the order of their names.
    sums.sort_by(|a, b| {
        let by_subject = b.is_own.cmp(&a.is_own);
        by_subject.then_with(|| rank(a).total_cmp(&rank(b)))
    });
    let first = sums.iter().take(MAX_CHIPS);
    let mut chips: Vec<_> = first.map(|sum| chip((base, focus), of, user, sum)).collect();
    if MAX_CHIPS < sums.len() {
        chips.push(GroupChip {
            name: Text::from(format!("+{}", sums.len() - MAX_CHIPS)),
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

/// Sort key: the mean of booleans and of numbers from 0 to 1; other scores come last.
fn rank(sum: &ScoreSum) -> f64 {
    let mean = sum.total / sum.n as f64;
    let is_share = (0.0..=1.0).contains(&mean);
    match sum.data_type {
        ScoreDataType::Boolean | ScoreDataType::Numeric if is_share => mean,
        _ => 2.0,
    }
}

/// The chip of one score name. It links to the page of the session for the session's own scores, otherwise to the traces.
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
                Some(_) => format!("its newest {SCORED_TRACES} traces of this user"),
                None => format!("its newest {SCORED_TRACES} traces"),
            },
            traces(focus, of, user, sum).first(base),
        ),
    };
    GroupChip {
        name: Text::from(sum.name.as_str()),
        value: score_summary(sum),
        title: format!("{n} of {what}"),
        share: Some(rank(sum)).filter(|rank| *rank <= 1.0).map(|rank| (rank * 100.0).round()),
        href: there,
    }
}

/// Query for sessions or users in the selected time range and environments.
pub(crate) fn group_query((app, viewer): (&App, &Viewer), by: GroupKey, limit: u32) -> GroupQuery {
    GroupQuery {
        started: viewer.focus.range(read::start_of_minute(app.web.clock.now())),
        environments: viewer.focus.environments.clone(),
        ..GroupQuery::new(by, limit)
    }
}

/// Condition for the traces of a session or user.
pub(crate) fn group_condition((by, id): (GroupKey, &str)) -> Condition {
    let column = match by {
        GroupKey::Session => "sessionId",
        GroupKey::User => "userId",
    };
    Condition { column: find(TRACES, column), test: Test::Text(TextOp::Equal, id.to_owned()) }
}

/// The list of matching traces. Sessions and users include traces in internal environments, so without a selected environment
/// the filter includes those too.
pub(crate) fn trace_list_query(focus: &Focus, mut conditions: Vec<Condition>) -> TracesQuery {
    if focus.environments.is_empty() {
        conditions.push(Condition { column: find(TRACES, "environment"), test: Test::IsNotNull });
    }
    TracesQuery { focus: focus.clone(), ..TracesQuery::of(print(&Filter { conditions })) }
}

/// The list of traces with such scores: the lowest first, or those with the most frequent category.
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

/// The list of a user's traces with a low score of this name, the lowest first.
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
    fn a_mean_has_its_number_of_scores_and_a_single_score_its_value() {
        for (sum, wanted) in [
            (sum(ScoreDataType::Numeric, 1, 0.5, None), "0.5"),
            (sum(ScoreDataType::Numeric, 4, 3.0, None), "0.75 (n = 4)"),
            (sum(ScoreDataType::Boolean, 1, 1.0, None), "true"),
            (sum(ScoreDataType::Boolean, 3, 2.0, None), "2 of 3 true"),
            (sum(ScoreDataType::Categorical, 3, 0.0, Some(("kind", 2))), "kind 2 of 3"),
            (sum(ScoreDataType::Text, 3, 0.0, None), "n = 3"),
        ] {
            assert_eq!(score_summary(&sum).raw(), wanted);
        }
    }

    #[test]
    fn scores_of_the_session_come_first_then_low_ones_and_further_names_are_counted() {
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
    fn chips_link_to_traces_with_valid_filters() {
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
        // A list with a condition on environments hides no internal ones.
        let chosen = Focus { environments: vec!["prod".to_owned()], ..Focus::default() };
        for (focus, wanted) in [(&focus, "userId:=x environment:set"), (&chosen, "userId:=x")] {
            let query = trace_list_query(focus, vec![group_condition((GroupKey::User, "x"))]);
            assert_eq!((query.q.as_str(), &query.focus), (wanted, focus));
        }
    }

    #[test]
    fn the_period_ends_today() {
        let now = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        let days = dated_counts(first_day(now), Some(&vec![7]));
        assert_eq!(days[0], ("2026-01-31".to_owned(), 7));
        assert_eq!(days[DAYS - 1], ("2026-03-01".to_owned(), 0));
    }
}

//! Sessions and users, aggregated from their traces.

use std::collections::{BTreeMap, HashMap};

use perpend_domain::filter::GROUPS;
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::telemetry::{GroupKey, GroupQuery, TraceGroup};

use super::*;

const N_TRACES: u32 = 60;

/// Traces of seven sessions and traces without a session, some at the same time, of three users.
fn members(n: u32) -> Observation {
    let mut root = span(n, 1, None);
    root.start = at(i64::from(n * 37 % 20) * 1_000);
    root.end = Some(root.start);
    root.session_id = (!n.is_multiple_of(8)).then(|| format!("session/{} ü", n % 8));
    root.user_id = (!n.is_multiple_of(4)).then(|| format!("user {}", n % 4));
    if n.is_multiple_of(5) {
        root.level = Level::Error;
    }
    root
}

/// A group: its id, its last activity, its number of traces and of errors.
type GroupSummary = (String, i64, u64, u64);

/// The expected list: each group with its last start, number of traces and number of errors.
fn expected(by: GroupKey, of: Option<&str>) -> Vec<GroupSummary> {
    let mut groups: BTreeMap<String, (i64, u64, u64)> = BTreeMap::new();
    for n in 1..=N_TRACES {
        let root = members(n);
        let (own, other) = match by {
            GroupKey::Session => (root.session_id, root.user_id),
            GroupKey::User => (root.user_id, root.session_id),
        };
        if of.is_some() && of != other.as_deref() {
            continue;
        }
        if let Some(own) = own {
            let group = groups.entry(own).or_default();
            group.0 = group.0.max(root.start.as_micros());
            group.1 += 1;
            group.2 += u64::from(root.level == Level::Error);
        }
    }
    let mut list: Vec<_> =
        groups.into_iter().map(|(id, (last, n, n_errors))| (id, last, n, n_errors)).collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

fn summaries(page: &BidirectionalPage<TraceGroup>) -> Vec<GroupSummary> {
    let groups = page.items.iter();
    groups
        .map(|group| {
            let last = group.last.as_micros();
            (group.id.clone(), last, group.n_traces, group.n_errors)
        })
        .collect()
}

#[tokio::test]
async fn groups_are_ordered_by_their_last_trace_and_pages_repeat_and_skip_none() {
    on_each_database(|store| async move {
        let project = project("p");
        for n in 1..=N_TRACES {
            let write = store.telemetry.write_batch(&project, batch(vec![members(n)]), at(0));
            write.await.unwrap();
        }
        for (by, of) in [
            (GroupKey::Session, None),
            (GroupKey::User, None),
            (GroupKey::Session, Some("user 2")),
            (GroupKey::User, Some("session/3 ü")),
        ] {
            let wanted = expected(by, of);
            let page = async |cursor: Option<Cursor>, is_backwards: bool| {
                let query = GroupQuery {
                    of: of.map(str::to_owned),
                    position: ListPosition { cursor, is_backwards },
                    ..GroupQuery::new(by, 2)
                };
                store.telemetry.trace_groups(&project, &query).await.unwrap()
            };
            let (mut pages, mut after) = (Vec::new(), None);
            loop {
                let found = page(after, false).await;
                after = found.older.clone();
                pages.push(found);
                if after.is_none() {
                    break;
                }
            }
            let all: Vec<_> = pages.iter().flat_map(summaries).collect();
            assert_eq!(all, wanted, "{by:?} {of:?}");
            for [before, behind] in pages.array_windows() {
                let back = page(behind.newer.clone(), true).await;
                assert_eq!(summaries(&back), summaries(before), "{by:?} {of:?}");
            }
        }
        let one = store.telemetry;
        let of = GroupQuery {
            of: Some("session/1 ü".to_owned()),
            ..GroupQuery::new(GroupKey::User, 10)
        };
        let page = one.trace_groups(&project, &of).await.unwrap();
        let ids: Vec<String> = page.items.into_iter().map(|group| group.id).collect();
        assert_eq!(one.group_ids(&project, &of).await.unwrap(), ids);
        assert!(!ids.is_empty());
        let any = GroupQuery::new(GroupKey::Session, 1);
        let group = one.trace_group(&project, &any, "session/1 ü");
        let group = group.await.unwrap().unwrap();
        assert_eq!((group.n_traces, group.n_others), (8, 1));
        let none = one.trace_group(&project, &any, "none");
        assert_eq!(none.await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn tokens_that_add_up_to_more_than_a_number_holds_break_no_list() {
    on_each_database(|store| async move {
        let project = project("p");
        for n in 1..=3 {
            let mut root = span(n, 1, None);
            root.session_id = Some("s".to_owned());
            root.usage = Usage::from([("total".to_owned(), u64::MAX.into())]);
            let write = store.telemetry.write_batch(&project, batch(vec![root]), at(0));
            write.await.unwrap();
        }
        let query = GroupQuery::new(GroupKey::Session, 10);
        let page = store.telemetry.trace_groups(&project, &query).await.unwrap();
        assert_eq!(page.items[0].n_traces, 3);
        assert!(page.items[0].total_tokens > i64::MAX.unsigned_abs());
        let none = GroupQuery::new(GroupKey::User, 10);
        let none = store.telemetry.trace_groups(&project, &none).await.unwrap();
        assert_eq!(none, BidirectionalPage::default());
    })
    .await;
}

#[tokio::test]
async fn groups_are_found_by_a_walk_in_time_without_sorting_all_traces() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    for by in [GroupKey::Session, GroupKey::User] {
        let mut query = GroupQuery::new(by, 50);
        query.started = (Some(at(0)), Some(at(1)));
        let sql = crate::trace_groups::newest(1, &query, None, false);
        let steps = super::plans::plan(&store, &sql.text).await;
        assert!(steps[0].contains("traces_newest"), "{steps:?}");
        // A later trace is searched from this one on, and not from the start of the time range.
        let (_, later) = sql.text.split_once("NOT EXISTS").unwrap();
        assert!(!later.contains("n.started_at >= $"), "{later}");
        let sorts = |step: &String| step.contains("TEMP B-TREE FOR ORDER BY");
        assert!(!steps.iter().any(sorts), "{steps:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn turns_of_a_session_are_numbered_as_they_are_listed() {
    on_each_database(|store| async move {
        let p = project("p1");
        let telemetry = &store.telemetry;
        let turn = |trace: u32, start: i64, session: &str| {
            let mut own = span(trace, 1, None);
            own.session_id = Some(session.to_owned());
            own.start = at(start);
            own
        };
        let spans =
            vec![turn(1, 50, "s"), turn(2, 10, "s"), turn(3, 50, "s"), turn(4, 20, "other")];
        let write = telemetry.write_batch(&p, batch(spans), at(0));
        write.await.unwrap();
        let turns = telemetry.session_turns(&p, "s", 0, 10).await.unwrap();
        let ids = turns.iter().map(|turn| turn.trace.id.clone());
        let numbered: HashMap<TraceId, u64> = ids.zip(1..).collect();
        assert_eq!(numbered.len(), 3);
        let all = [1, 2, 3, 4, 9].map(trace_id);
        let numbers = telemetry.turn_numbers(&p, "s", &all).await.unwrap();
        assert_eq!(numbers, numbered);
        assert_eq!(numbers[&trace_id(3)], 3);
        let foreign = telemetry.turn_numbers(&project("p2"), "s", &all).await;
        assert!(foreign.unwrap().is_empty());
    })
    .await;
}

fn filter(conditions: &[Value]) -> Filter {
    Filter::parse(conditions, GROUPS).unwrap()
}

fn number(column: &str, operator: &str, value: f64) -> Value {
    json!({ "type": "number", "column": column, "operator": operator, "value": value })
}

fn texts(column: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "type": "stringOptions", "column": column, "operator": operator, "value": values })
}

/// Filters of sessions and of users, with the matching groups.
fn fitting() -> Vec<(GroupKey, Filter, Vec<GroupSummary>)> {
    let named = |by, names: &[&str]| {
        let all = expected(by, None).into_iter();
        all.filter(|(id, ..)| names.contains(&id.as_str())).collect::<Vec<_>>()
    };
    let session = GroupKey::Session;
    vec![
        (
            session,
            filter(&[number("errorCount", ">", 1.0)]),
            expected(session, None)
                .into_iter()
                .filter(|(_, _, _, n_errors)| 1 < *n_errors)
                .collect::<Vec<_>>(),
        ),
        (
            session,
            filter(&[texts("userId", "any of", &["user 1", "user 3"])]),
            named(session, &["session/1 ü", "session/3 ü", "session/5 ü", "session/7 ü"]),
        ),
        (
            session,
            filter(&[
                texts("userId", "none of", &["user 1"]),
                texts("environment", "any of", &["default"]),
                number("traceCount", ">=", 1.0),
            ]),
            named(
                session,
                &["session/2 ü", "session/3 ü", "session/4 ü", "session/6 ü", "session/7 ü"],
            ),
        ),
        (
            session,
            filter(&[
                json!({ "type": "null", "column": "userId", "operator": "is null", "value": "" }),
            ]),
            named(session, &["session/4 ü"]),
        ),
        (
            session,
            filter(&[
                json!({ "type": "string", "column": "id", "operator": "contains", "value": "/6" }),
            ]),
            named(session, &["session/6 ü"]),
        ),
        (
            GroupKey::User,
            filter(&[texts("id", "any of", &["user 2", "nobody"])]),
            named(GroupKey::User, &["user 2"]),
        ),
    ]
}

#[tokio::test]
async fn matching_groups_keep_the_order_and_pages_repeat_and_skip_none() {
    on_each_database(|store| async move {
        let project = project("p");
        let all = (1..=N_TRACES).map(members).collect();
        let write = store.telemetry.write_batch(&project, batch(all), at(0));
        write.await.unwrap();
        let fit = async |by, filter: &Filter, cursor: Option<Cursor>, is_backwards| {
            let position = ListPosition { cursor, is_backwards };
            let query = GroupQuery { position, ..GroupQuery::new(by, 2) };
            let found = store.telemetry.search_groups(&project, &query, filter);
            let found = found.await.unwrap();
            assert_eq!(found.stopped, None);
            found
        };
        for (by, filter, wanted) in fitting() {
            let (mut pages, mut after) = (Vec::new(), None);
            loop {
                let found = fit(by, &filter, after, false).await;
                after = found.older.clone();
                pages.push(found);
                if after.is_none() {
                    break;
                }
            }
            let all: Vec<_> = pages.iter().flat_map(summaries).collect();
            assert_eq!(all, wanted, "{by:?} {filter:?}");
            for [before, behind] in pages.array_windows() {
                let back = fit(by, &filter, behind.newer.clone(), true).await;
                assert_eq!(summaries(&back), summaries(before), "{by:?} {filter:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_search_for_groups_stops_and_continues_in_either_direction() {
    const N: u32 = 2_450;
    on_each_database(|store| async move {
        let project = project("p");
        let turn = |n: u32, session: u32| {
            let mut root = span(n, 1, None);
            // Ten at a time.
            root.start = at(i64::from(session / 10));
            root.end = Some(root.start);
            root.session_id = Some(format!("s{session}"));
            root
        };
        // The oldest one alone has two traces.
        let mut spans: Vec<_> = (1..=N).map(|n| turn(n, n)).collect();
        spans.push(turn(N + 1, 1));
        let write = store.telemetry.write_batch(&project, batch(spans), at(0));
        write.await.unwrap();
        let filter = filter(&[number("traceCount", ">", 1.0)]);
        let page = async |cursor: Option<Cursor>, is_backwards| {
            let position = ListPosition { cursor, is_backwards };
            let query = GroupQuery { position, ..GroupQuery::new(GroupKey::Session, 50) };
            let found = store.telemetry.search_groups(&project, &query, &filter);
            found.await.unwrap()
        };
        let first = page(None, false).await;
        assert_eq!((first.n_tested, first.items.len()), (Some(2_050), 0));
        let second = page(first.stopped.clone(), false).await;
        assert!(first.stopped.is_some());
        assert_eq!(second.n_tested, Some(400));
        assert_eq!(second.stopped, None);
        let ids: Vec<_> = second.items.iter().map(|one| &one.id).collect();
        assert_eq!(ids, ["s1"]);
        let back = page(second.newer.clone(), true).await;
        assert_eq!((back.n_tested, back.items.len()), (Some(2_050), 0));
        let last = page(back.stopped.clone(), true).await;
        assert!(back.stopped.is_some());
        assert_eq!((last.items.len(), last.stopped), (0, None));
    })
    .await;
}

#[tokio::test]
async fn scores_of_groups_are_ordered_by_name_with_those_of_the_session_first() {
    on_each_database(|store| async move {
        let p = project("p");
        let telemetry = &store.telemetry;
        let turn = |n: u32| {
            let mut root = span(n, 1, None);
            root.start = at(i64::from(n) * 1_000);
            root.session_id = Some("s".to_owned());
            root.user_id = Some("ada".to_owned());
            root
        };
        let write = telemetry.write_batch(&p, batch((1..=4).map(turn).collect()), at(0));
        write.await.unwrap();
        let of = |n: u32| Subject::Trace(trace_id(n));
        let step = Subject::Observation(trace_id(4), span_id(1));
        let kind = |id: &str, n: u32, kind: &str| NewScore {
            value: ScoreValue::Categorical(kind.to_owned()),
            ..score(id, of(n), "kind", 0.0)
        };
        let scores = [
            score("a", Subject::Session("s".to_owned()), "tone", 0.25),
            score("b", of(4), "tone", 1.0),
            score("c", of(3), "tone", 0.5),
            score("d", of(1), "tone", 0.0),
            score("e", step, "tone", 0.0),
            kind("f", 2, "y"),
            kind("g", 3, "x"),
            kind("h", 4, "x"),
            score("i", of(2), "length", 0.25),
            score("j", of(3), "length", 40.0),
            NewScore { value: ScoreValue::Boolean(false), ..score("k", of(2), "safe", 0.0) },
        ];
        telemetry.put_scores(&p, &scores, at(0)).await.unwrap();
        let query = GroupQuery::new(GroupKey::Session, 10);
        let found = telemetry.scores_of_groups(&p, &query, &["s", "none"], 3);
        let found = found.await.unwrap();
        let summaries = found["s"].iter().map(|sum| {
            let top = sum.top.as_ref().map(|(category, n)| format!("{category} {n}"));
            (sum.is_own, sum.name.as_str(), sum.n, sum.total, top)
        });
        assert_eq!(
            summaries.collect::<Vec<_>>(),
            [
                (true, "tone", 1, 0.25, None),
                (false, "kind", 3, 0.0, Some("x 2".to_owned())),
                (false, "length", 2, 40.25, None),
                (false, "safe", 1, 0.0, None),
                (false, "tone", 2, 1.5, None),
            ]
        );
        assert_eq!(found.len(), 1);
        let query = GroupQuery::new(GroupKey::User, 10);
        let days = telemetry.traces_by_day(&p, &query, &["ada"], (at(2_000), 2));
        assert_eq!(days.await.unwrap()["ada"], [3, 0]);
        // Lengths are no fractions, and an observation is not its trace.
        let query = GroupQuery::new(GroupKey::User, 10);
        let low = telemetry.low_scores(&p, &query, "ada").await.unwrap();
        let low = low.iter().map(|one| (one.trace.clone(), one.name.as_str(), one.is_truth));
        assert_eq!(
            low.collect::<Vec<_>>(),
            [(trace_id(2), "safe", true), (trace_id(1), "tone", false)]
        );
        let elsewhere = GroupQuery { environments: vec!["elsewhere".to_owned()], ..query };
        let low = telemetry.low_scores(&p, &elsewhere, "ada").await.unwrap();
        assert!(low.is_empty(), "{low:?}");
    })
    .await;
}

#[tokio::test]
async fn totals_of_a_user_by_interval_add_up_to_the_totals_of_the_range() {
    on_each_database(|store| async move {
        let p = project("p");
        let telemetry = &store.telemetry;
        let all = (1..=N_TRACES).map(members).collect();
        telemetry.write_batch(&p, batch(all), at(0)).await.unwrap();
        let query = GroupQuery {
            started: (Some(at(3_000)), Some(at(15_000))),
            ..GroupQuery::new(GroupKey::User, 1)
        };
        let user = "user 1";
        let sums = telemetry.trace_group(&p, &query, user).await;
        let sums = sums.unwrap().unwrap();
        let length = at(5_000).micros_since(at(0));
        let parts = telemetry.user_interval_totals(&p, &query, user, (at(0), length));
        let parts = parts.await.unwrap();
        let of = |n: u32| members(n).user_id.as_deref() == Some(user);
        let wanted = [(0, 3_000..5_000), (5_000, 5_000..10_000), (10_000, 10_000..15_000)];
        let wanted = wanted.map(|(begins, time)| {
            let began = |n: &u32| of(*n) && time.contains(&(i64::from(n * 37 % 20) * 1_000));
            let n = (1..=N_TRACES).filter(began).count() as u64;
            let failed = (1..=N_TRACES).filter(began);
            let n_failed = failed.filter(|n| n.is_multiple_of(5)).count() as u64;
            (at(begins), n, n_failed)
        });
        let wanted: Vec<_> = wanted.into_iter().filter(|(_, n, _)| 0 < *n).collect();
        let summaries = parts.iter().map(|part| (part.at, part.n_traces, part.n_failed));
        assert_eq!(summaries.collect::<Vec<_>>(), wanted);
        let n: u64 = parts.iter().map(|part| part.n_traces).sum();
        let n_failed: u64 = parts.iter().map(|part| part.n_failed).sum();
        assert_eq!((n, n_failed), (sums.n_traces, sums.n_errors));
        let none = GroupQuery { started: (Some(at(30_000)), None), ..query };
        let none = telemetry.trace_group(&p, &none, user).await;
        assert_eq!(none.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_filter_does_not_take_unknown_costs_for_zero() {
    on_each_database(|store| async move {
        let p = project("p");
        let telemetry = &store.telemetry;
        let free = |n| Observation {
            kind: ObservationKind::Span,
            model: None,
            usage: Usage::new(),
            computed_cost: Cost::new(),
            ..members(n)
        };
        let all = (1..=N_TRACES).map(free).collect();
        telemetry.write_batch(&p, batch(all), at(0)).await.unwrap();
        let query = GroupQuery::new(GroupKey::User, 10);
        for (filter, n) in [
            (filter(&[number("totalCost", "=", 0.0)]), 0),
            (filter(&[json!({ "type": "null", "column": "totalCost", "operator": "is null", "value": "" })]), 3),
        ] {
            let found = telemetry.search_groups(&p, &query, &filter).await.unwrap();
            assert_eq!(found.items.len(), n, "{filter:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn scores_and_days_of_groups_are_found_by_indexes() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let query = GroupQuery {
        environments: vec!["production".to_owned()],
        ..GroupQuery::new(GroupKey::Session, 50)
    };
    let sql = crate::group_scores::scores(&project("p"), 1, &query, &["a", "b"], (100, false));
    let steps = super::plans::plan(&store, &sql.text).await;
    let all = steps.join("\n");
    for index in ["scores_by_session", "traces_by_session", "scores_by_trace"] {
        assert!(all.contains(index), "{index}: {all}");
    }
    assert!(
        !["SCAN t", "SCAN s\n", "traces_by_environment"].iter().any(|bad| all.contains(bad)),
        "{all}"
    );
    let among = ["a".to_owned()];
    let sql = crate::trace_groups::newest(1, &query, Some(&among), false);
    let steps = super::plans::plan(&store, &sql.text).await;
    assert!(steps[0].contains("traces_by_session"), "{steps:?}");
    for (by, index) in
        [(GroupKey::Session, "traces_by_user"), (GroupKey::User, "traces_by_session")]
    {
        let sql = crate::group_filter::named_with(1, by, &among);
        let steps = super::plans::plan(&store, &sql.text).await;
        assert!(steps[0].contains(index), "{by:?}: {steps:?}");
    }
    store.close().await;
}

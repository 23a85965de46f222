//! Sessions and users, put together of their traces.

use std::collections::{BTreeMap, HashMap};

use perpend_domain::list::Cursor;
use perpend_domain::telemetry::{GroupPage, GroupQuery, GroupedBy};

use super::*;

const N_TRACES: u32 = 60;

/// Traces of seven sessions and of traces without one, some at the same time, of three users.
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

/// What the list has to say: for each group its last start, how many traces, how many errors.
fn expected(by: GroupedBy, of: Option<&str>) -> Vec<(String, i64, u64, u64)> {
    let mut groups: BTreeMap<String, (i64, u64, u64)> = BTreeMap::new();
    for n in 1..=N_TRACES {
        let root = members(n);
        let (own, other) = match by {
            GroupedBy::Session => (root.session_id, root.user_id),
            GroupedBy::User => (root.user_id, root.session_id),
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
    let mut list: Vec<_> = groups
        .into_iter()
        .map(|(id, (last, n, n_errors))| (id, last, n, n_errors))
        .collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

fn said(page: &GroupPage) -> Vec<(String, i64, u64, u64)> {
    let groups = page.items.iter();
    groups
        .map(|group| {
            let last = group.last.as_micros();
            (group.id.clone(), last, group.n_traces, group.n_errors)
        })
        .collect()
}

#[tokio::test]
async fn groups_come_by_their_last_trace_and_pages_repeat_and_lose_none_in_either_direction() {
    on_each_database(|store| async move {
        let project = project("p");
        for n in 1..=N_TRACES {
            let write = store
                .telemetry
                .write_batch(&project, batch(vec![members(n)]), at(0));
            write.await.unwrap();
        }
        for (by, of) in [
            (GroupedBy::Session, None),
            (GroupedBy::User, None),
            (GroupedBy::Session, Some("user 2")),
            (GroupedBy::User, Some("session/3 ü")),
        ] {
            let wanted = expected(by, of);
            let page = async |after: Option<Cursor>, is_backwards: bool| {
                let query = GroupQuery {
                    of: of.map(str::to_owned),
                    after,
                    is_backwards,
                    ..GroupQuery::new(by, 2)
                };
                store
                    .telemetry
                    .trace_groups(&project, &query)
                    .await
                    .unwrap()
            };
            let (mut pages, mut after) = (Vec::new(), None);
            loop {
                let found = page(after, false).await;
                after = found.last.clone();
                let has_more = found.has_more;
                pages.push(found);
                if !has_more {
                    break;
                }
            }
            let all: Vec<_> = pages.iter().flat_map(said).collect();
            assert_eq!(all, wanted, "{by:?} {of:?}");
            for [before, behind] in pages.array_windows() {
                let back = page(behind.first.clone(), true).await;
                assert_eq!(said(&back), said(before), "{by:?} {of:?}");
            }
        }
        let one = store.telemetry;
        let group = one.trace_group(&project, GroupedBy::Session, "session/1 ü");
        let group = group.await.unwrap().unwrap();
        assert_eq!((group.n_traces, group.n_others), (8, 1));
        let none = one.trace_group(&project, GroupedBy::Session, "none");
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
            root.usage = Usage::from([("total".to_owned(), u64::MAX)]);
            let write = store
                .telemetry
                .write_batch(&project, batch(vec![root]), at(0));
            write.await.unwrap();
        }
        let query = GroupQuery::new(GroupedBy::Session, 10);
        let page = store
            .telemetry
            .trace_groups(&project, &query)
            .await
            .unwrap();
        assert_eq!(page.items[0].n_traces, 3);
        assert!(page.items[0].total_tokens > i64::MAX.unsigned_abs());
        let none = GroupQuery::new(GroupedBy::User, 10);
        let none = store.telemetry.trace_groups(&project, &none).await.unwrap();
        assert_eq!(none, GroupPage::default());
    })
    .await;
}

#[tokio::test]
async fn groups_are_found_by_a_walk_in_time_without_sorting_all_traces() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    for by in [GroupedBy::Session, GroupedBy::User] {
        let mut query = GroupQuery::new(by, 50);
        query.started = (Some(at(0)), Some(at(1)));
        let sql = crate::trace_groups::newest(1, &query, None, false);
        let steps = super::plans::plan(&store, &sql.text).await;
        assert!(steps[0].contains("traces_newest"), "{steps:?}");
        // A later trace is looked for from this one on, and not from the begin of the time.
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
        let spans = vec![
            turn(1, 50, "s"),
            turn(2, 10, "s"),
            turn(3, 50, "s"),
            turn(4, 20, "other"),
        ];
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

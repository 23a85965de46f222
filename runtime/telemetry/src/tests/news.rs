//! Counts of new traces.

use perpend_domain::telemetry::{GroupKey, GroupQuery};

use super::*;
use crate::{EnvironmentFilter, NewTraceFilter};

#[tokio::test]
async fn new_traces_are_counted_by_time_and_environment() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=6).map(|n| Observation {
            environment: match n % 2 {
                0 => "even".to_owned(),
                _ => "odd".to_owned(),
            },
            ..span(n, n, None)
        });
        let steps = steps.collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let (even, both) = (["even".to_owned()], ["odd".to_owned(), "even".to_owned()]);
        for (since, until, among, limit, expected) in [
            (2, None, EnvironmentFilter::Without(&[]), 9, (4, false)),
            (2, None, EnvironmentFilter::Without(&["odd"]), 9, (2, false)),
            (2, None, EnvironmentFilter::Only(&even), 9, (2, false)),
            (2, Some(6), EnvironmentFilter::Only(&even), 9, (1, false)),
            (2, Some(6), EnvironmentFilter::Only(&both), 9, (3, false)),
            (2, Some(1), EnvironmentFilter::Only(&both), 9, (0, false)),
            (2, None, EnvironmentFilter::Only(&even), 2, (1, true)),
            (6, None, EnvironmentFilter::Without(&[]), 9, (0, false)),
        ] {
            let since = NewTraceFilter {
                started: at(since),
                received: None,
                within: (None, until.map(at)),
                among,
            };
            let counted = store.telemetry.traces_since(&p, since, limit);
            assert_eq!(counted.await.unwrap(), expected, "{since:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_late_trace_with_an_old_start_is_new_and_counted_once() {
    on_each_database(|store| async move {
        let p = project("p");
        // A trace with a start in the future must not hide later ones.
        for (n, start, received) in
            [(1, 900, 10), (2, 20, 10), (3, 15, 30), (4, 950, 30), (5, 5, 30)]
        {
            let mut root = span(n, n, None);
            root.start = at(start);
            root.end = Some(at(start + 1));
            let write = store.telemetry.write_batch(&p, batch(vec![root]), at(received));
            write.await.unwrap();
        }
        for (started, received, from, limit, expected) in [
            (900, None, None, 9, (1, false)),
            (900, Some(10), None, 9, (3, false)),
            (900, Some(30), None, 9, (1, false)),
            (960, Some(10), Some(10), 9, (2, false)),
            (960, Some(10), None, 2, (2, true)),
        ] {
            let since = NewTraceFilter {
                started: at(started),
                received: received.map(at),
                within: (from.map(at), None),
                among: EnvironmentFilter::Without(&[]),
            };
            let counted = store.telemetry.traces_since(&p, since, limit);
            assert_eq!(counted.await.unwrap(), expected, "{since:?}");
        }
        if !store.pool.is_postgres() {
            let since = NewTraceFilter {
                started: at(0),
                received: Some(at(0)),
                within: (None, None),
                among: EnvironmentFilter::Without(&[]),
            };
            let sql = crate::new_counts::news(1, since, 9, false);
            let steps = super::plans::plan(&store, &sql.text).await.join("\n");
            assert!(steps.contains("traces_newest") && steps.contains("traces_changed"), "{steps}");
        }
    })
    .await;
}

#[tokio::test]
async fn sessions_with_new_traces_are_counted_once() {
    on_each_database(|store| async move {
        let p = project("p");
        for (n, session, received) in
            [(1, "a", 10), (2, "a", 30), (3, "a", 30), (4, "b", 30), (5, "", 30)]
        {
            let mut root = span(n, n, None);
            root.session_id = (!session.is_empty()).then(|| session.to_owned());
            let write = store.telemetry.write_batch(&p, batch(vec![root]), at(received));
            write.await.unwrap();
        }
        let all = GroupQuery::new(GroupKey::Session, 9);
        let other = GroupQuery { environments: vec!["elsewhere".to_owned()], ..all.clone() };
        for (query, only, received, limit, expected) in [
            (&all, None, 10, 9, (2, false)),
            (&all, Some("a"), 10, 9, (2, false)),
            (&all, Some("a"), 5, 9, (3, false)),
            (&all, None, 30, 9, (0, false)),
            (&other, None, 10, 9, (0, false)),
            (&all, Some("c"), 10, 4, (0, true)),
        ] {
            let since = (at(received), limit);
            let counted = store.telemetry.groups_since(&p, query, only, since);
            assert_eq!(counted.await.unwrap(), expected, "{query:?} {only:?}");
        }
    })
    .await;
}

//! Bookmarks and tags set by users.

use perpend_domain::filter::{Condition, Filter, TRACES, Test, find};
use perpend_domain::marks::TraceMarks;
use perpend_domain::trace_list::TraceQuery;

use super::*;
use crate::testing::Store;

async fn mark(store: &Store, project: &ProjectId, marks: &TraceMarks, event: &str, now: i64) {
    let change = (event.to_owned(), at(now));
    let trace = trace_id(1);
    let marked = store.telemetry.mark_trace(project, &trace, marks, change);
    marked.await.unwrap();
}

async fn trace(store: &Store, project: &ProjectId) -> perpend_domain::trace::Trace {
    let found = store.telemetry.trace(project, &trace_id(1), false).await;
    found.unwrap().unwrap().trace
}

/// Ids of the traces that are bookmarked, or that are not.
async fn bookmarked(store: &Store, project: &ProjectId, is: bool) -> Vec<String> {
    let condition = Condition { column: find(TRACES, "bookmarked"), test: Test::Is(is) };
    let query = TraceQuery {
        filter: Filter { conditions: vec![condition] },
        limit: 10,
        ..TraceQuery::default()
    };
    let found = store.telemetry.traces(project, &query).await.unwrap();
    found.items.iter().map(|one| one.trace.id.to_string()).collect()
}

#[tokio::test]
async fn a_person_bookmarks_a_trace_and_removes_a_tag_that_its_spans_have() {
    on_each_database(|store| async move {
        let p = project("p");
        let mut root = span(1, 1, None);
        root.tags = vec!["sent".to_owned()];
        // No data of a sender is taken for a bookmark.
        root.trace = Some(Box::new(perpend_domain::observation::TraceFacts {
            metadata: serde_json::json!({ "{\"bookmarked\":true": true, "bookmarked": true })
                .as_object()
                .unwrap()
                .clone(),
            ..Default::default()
        }));
        store.telemetry.write_batch(&p, batch(vec![root]), at(1)).await.unwrap();
        assert_eq!(bookmarked(&store, &p, true).await, [""; 0]);
        let before = trace(&store, &p).await;
        let marks = TraceMarks {
            bookmarked: Some(true),
            add_tags: vec!["kept".to_owned()],
            remove_tags: vec!["sent".to_owned()],
        };
        mark(&store, &p, &marks, "1", 10).await;
        let after = trace(&store, &p).await;
        assert_eq!((after.bookmarked, after.tags.clone()), (true, vec!["kept".to_owned()]));
        let same =
            perpend_domain::trace::Trace { bookmarked: false, tags: before.tags.clone(), ..after };
        assert_eq!(same, before, "nothing else changed");
        assert_eq!(bookmarked(&store, &p, true).await, [trace_id(1).to_string()]);
        assert_eq!(bookmarked(&store, &p, false).await, [""; 0]);
        let undone = TraceMarks {
            bookmarked: Some(false),
            add_tags: vec!["sent".to_owned()],
            remove_tags: vec!["kept".to_owned()],
        };
        mark(&store, &p, &undone, "2", 20).await;
        assert_eq!(trace(&store, &p).await, before);
        let foreign = project("q");
        let change = ("3".to_owned(), at(30));
        let id = trace_id(1);
        let refused = store.telemetry.mark_trace(&foreign, &id, &marks, change);
        assert!(matches!(refused.await, Err(Error::NotFound)));
    })
    .await;
}

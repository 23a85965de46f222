//! Lists that filter by environments only are counted by maintained sums, and lists with a mark by the table
//! of marks.

use super::*;
use crate::testing::Store;
use crate::trace_shape::{AccessPath, ListShape};

/// Conditions of a list.
fn filter(of: &[(&str, &str)]) -> Filter {
    let condition = |(column, value): &(&str, &str)| {
        let kind = match *column {
            "tags" => "arrayOptions",
            _ => "stringOptions",
        };
        json!({"type": kind, "column": column, "operator": "any of", "value": [value]})
    };
    let conditions: Vec<Value> = of.iter().map(condition).collect();
    Filter::parse(&conditions, TRACES).unwrap()
}

/// The total of the list, compared with its number of traces.
async fn n_traces(store: &Store, project: &ProjectId, of: &[(&str, &str)]) -> u64 {
    let query = TraceQuery { filter: filter(of), limit: 1_000, ..TraceQuery::default() };
    let found = store.telemetry.traces(project, &query).await.unwrap();
    assert_eq!(found.n_total, found.items.len() as u64, "{of:?}");
    found.n_total
}

async fn n_each(store: &Store, project: &ProjectId) -> [u64; 5] {
    [
        n_traces(store, project, &[]).await,
        n_traces(store, project, &[("environment", "one")]).await,
        n_traces(store, project, &[("environment", "two")]).await,
        n_traces(store, project, &[("tags", "t"), ("environment", "one")]).await,
        n_traces(store, project, &[("tags", "t"), ("environment", "two")]).await,
    ]
}

fn of(environment: &str, mut span: Observation) -> Observation {
    span.environment = environment.to_owned();
    span.tags = vec!["t".to_owned()];
    span
}

#[tokio::test]
async fn the_count_of_a_list_follows_new_moved_and_deleted_traces() {
    on_each_database(|store| async move {
        let (project, other) = (project("p1"), project("p2"));
        let write = async |project: &ProjectId, spans: Vec<Observation>| {
            let written = store.telemetry.write_batch(project, batch(spans), at(0)).await;
            written.unwrap();
        };
        let steps = (0..30).map(|n| of("one", span(n, n, Some(1_000 + n))));
        write(&project, steps.collect()).await;
        write(&other, vec![of("one", span(0, 0, None))]).await;
        assert_eq!(n_each(&store, &project).await, [30, 30, 0, 30, 0]);
        // The environment of a trace is that of its root.
        let roots = (0..10).map(|n| of("two", span(n, 1_000 + n, None)));
        write(&project, roots.collect()).await;
        assert_eq!(n_each(&store, &project).await, [30, 20, 10, 20, 10]);
        let gone: Vec<TraceId> = (5..15).map(trace_id).collect();
        store.telemetry.delete_traces(&project, &gone).await.unwrap();
        assert_eq!(n_each(&store, &project).await, [20, 15, 5, 15, 5]);
        write(&project, vec![of("one", span(5, 5, None))]).await;
        assert_eq!(n_each(&store, &project).await, [21, 16, 5, 16, 5]);
        assert_eq!(n_each(&store, &other).await, [1, 1, 0, 1, 0]);
    })
    .await;
}

#[tokio::test]
async fn traces_that_are_written_at_once_are_all_counted() {
    on_each_database(|store| async move {
        let project = project("p1");
        let write = async |first: u32| {
            for n in first..first + 10 {
                let environments = ["one", "two"];
                // In either order: a deadlock would never end.
                let at_first = (first / 10 % 2) as usize;
                let spans = [at_first, 1 - at_first]
                    .map(|nth| of(environments[nth], span(10 * n + nth as u32, n, None)));
                let spans = batch(spans.to_vec());
                let written = store.telemetry.write_batch(&project, spans, at(0)).await;
                written.unwrap();
            }
        };
        futures_util::future::join_all((0..8).map(|first| write(10 * first))).await;
        assert_eq!(n_each(&store, &project).await, [160, 80, 80, 80, 80]);
    })
    .await;
}

#[tokio::test]
async fn a_list_with_a_mark_is_counted_without_a_look_at_the_traces() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let query = TraceQuery {
        filter: filter(&[("tags", "t"), ("environment", "one")]),
        ..TraceQuery::default()
    };
    let shape = ListShape::new(&project("p1"), 1, &query, false, AccessPath::Any);
    let steps = plans::plan(&store, &format!("SELECT COUNT(*){}", shape.from)).await;
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(steps[0].contains("SEARCH d USING PRIMARY KEY"), "{steps:?}");
    store.close().await;
}

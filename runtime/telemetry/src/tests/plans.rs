//! Lists must not read a whole project for a few rows.

use super::*;
use crate::testing::Store;
use crate::trace_order::OrderedList;
use crate::trace_shape::{AccessPath, ListShape};
use crate::{observation_list, plugin_reads, refresh};
use perpend_db::query;
use perpend_domain::trace_list::TraceOrder;

/// The query plan of SQLite, one line per step.
pub(super) async fn plan(store: &Store, sql: &str) -> Vec<String> {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let plan_lines: Vec<(i64, i64, i64, String)> = query(sql).fetch_all(&store.pool).await.unwrap();
    plan_lines.into_iter().map(|(_, _, _, step)| step).collect()
}

#[tokio::test]
async fn stale_traces_are_found_by_their_own_index() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let plan_lines = plan(&store, refresh::STALE_OF_TENANT).await;
    assert!(plan_lines[0].contains("traces_stale"), "{plan_lines:?}");
    store.close().await;
}

#[tokio::test]
async fn adjacent_observations_are_read_in_storage_order() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    for (is_together, way) in [
        (true, "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (false, "USING INDEX observations_by_trace"),
    ] {
        let plan_lines = plan(&store, &plugin_reads::packed_observations(false, is_together)).await;
        assert!(plan_lines[0].contains(way), "{plan_lines:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn observations_of_a_trace_are_found_by_the_trace_and_lists_by_their_time() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let of_trace =
        vec![json!({"type": "string", "column": "traceId", "operator": "=", "value": "t1"})];
    for (filter, first, second) in [
        (of_trace, "traces_by_id", "observations_by_trace"),
        (Vec::new(), "observations_newest", "INTEGER PRIMARY KEY"),
    ] {
        let filter = Filter::parse(&filter, OBSERVATIONS).unwrap();
        let (sql, _) = observation_list::observations_from(1, &filter, false);
        for order in [observation_list::OBSERVATION_ORDER, observation_list::REVERSE_ORDER] {
            let sql = format!("SELECT o.detail{}{order} LIMIT 50", sql.text);
            let plan_lines = plan(&store, &sql).await;
            assert!(
                plan_lines[0].contains(first) && plan_lines[1].contains(second),
                "{plan_lines:?}"
            );
        }
    }
    store.close().await;
}

#[tokio::test]
async fn traces_of_a_model_are_found_by_its_mark_unless_something_leaves_fewer() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let one = |column, value| json!({"type": "arrayOptions", "column": column, "operator": "any of", "value": [value]});
    let name = json!({"type": "string", "column": "name", "operator": "=", "value": "chat"});
    for (conditions, first) in [
        (vec![one("models", "small")], "d USING PRIMARY KEY (tenant=? AND mark=?"),
        (
            vec![one("kinds", "TOOL"), one("prompts", "greet")],
            "d USING PRIMARY KEY (tenant=? AND mark=?",
        ),
        (vec![one("models", "small"), name], "t USING INDEX traces_by_name"),
    ] {
        let query = TraceQuery {
            filter: Filter::parse(&conditions, TRACES).unwrap(),
            ..TraceQuery::default()
        };
        let statements = crate::trace_list::ordered(&project("p"), &query, None);
        let plan_lines = plan(&store, &statements[0]).await;
        assert!(plan_lines[0].contains(first), "{conditions:?}: {plan_lines:?}");
        let sorts = |step: &String| step.contains("TEMP B-TREE") && !step.contains("LAST");
        assert!(!plan_lines.iter().any(sorts), "{plan_lines:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn traces_of_a_common_kind_are_read_in_the_order_of_a_figure_and_not_sorted() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let kind = json!({"type": "arrayOptions", "column": "kinds", "operator": "any of", "value": ["GENERATION"]});
    let query = TraceQuery {
        filter: Filter::parse(&[kind], TRACES).unwrap(),
        order: TraceOrder::Latency,
        ..TraceQuery::default()
    };
    let shape = ListShape::new(&project("p"), 1, &query, false, AccessPath::InOrder);
    let list = OrderedList::new(&shape, &project("p"), &query, false);
    let plan_lines = plan(&store, &list.first_rows(None)[0]).await;
    assert!(plan_lines[0].contains("traces_by_latency"), "{plan_lines:?}");
    let sorts = |step: &String| step.contains("TEMP B-TREE") && !step.contains("LAST");
    assert!(!plan_lines.iter().any(sorts), "{plan_lines:?}");
    store.close().await;
}

#[tokio::test]
async fn conditions_on_score_names_use_an_index_of_scores() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    for (operator, way, index) in [
        ("any of", AccessPath::Any, "scores_by_name"),
        ("any of", AccessPath::InTime, "scores_by_trace"),
        ("none of", AccessPath::Any, "scores_by_trace"),
        ("none of", AccessPath::InTime, "scores_by_trace"),
    ] {
        let has = json!({"type": "arrayOptions", "column": "score_names", "operator": operator, "value": ["quality"]});
        let query =
            TraceQuery { filter: Filter::parse(&[has], TRACES).unwrap(), ..TraceQuery::default() };
        let shape = ListShape::new(&project("p"), 1, &query, false, way);
        assert!(shape.is_decided_by_columns(), "{operator}");
        let list = OrderedList::new(&shape, &project("p"), &query, false);
        let plan_lines = plan(&store, &list.first_rows(None)[0]).await;
        assert!(plan_lines.iter().any(|step| step.contains(index)), "{plan_lines:?}");
        assert!(!plan_lines.iter().any(|step| step.starts_with("SCAN")), "{plan_lines:?}");
    }
    store.close().await;
}

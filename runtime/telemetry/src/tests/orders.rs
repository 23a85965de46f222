//! Lists of traces ordered by their figures.

use perpend_domain::list::{Cursor, ListPosition, OrderValue};
use perpend_domain::trace_list::TraceOrder;

use super::*;
use crate::Bounds;

const BOUNDS: Bounds = Bounds { max_tested: 1_000, max_counted: None };
/// A list with this limit is read block by block if traces are tested in memory.
const FEW_COUNTED: Bounds = Bounds { max_counted: Some(3), ..BOUNDS };

const FIGURES: [TraceOrder; 4] =
    [TraceOrder::Latency, TraceOrder::TotalCost, TraceOrder::TotalTokens, TraceOrder::ErrorCount];

/// An observation with these tokens; every third one is an error.
fn with_figures(n: u32, tokens: Option<u64>) -> Observation {
    let mut step = span(n, n, None);
    step.usage =
        tokens.map_or_else(Usage::new, |tokens| Usage::from([("total".to_owned(), tokens.into())]));
    if n.is_multiple_of(3) {
        step.level = Level::Error;
    }
    step
}

async fn ids(store: &Store, p: &ProjectId, query: &TraceQuery) -> Vec<TraceId> {
    let page = store.telemetry.traces(p, query).await.unwrap();
    let traces = page.items.into_iter().map(|stored| stored.trace.id);
    traces.collect()
}

#[tokio::test]
async fn traces_are_listed_by_tokens_and_errors_and_equal_ones_by_time() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = [(1, Some(5)), (2, None), (3, Some(7)), (4, Some(5)), (5, None), (6, Some(0))];
        let steps = steps.map(|(n, tokens)| with_figures(n, tokens)).to_vec();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let cases = [
            (TraceOrder::TotalTokens, false, [3, 4, 1, 6, 5, 2]),
            (TraceOrder::TotalTokens, true, [2, 5, 6, 1, 4, 3]),
            (TraceOrder::ErrorCount, false, [6, 3, 5, 4, 2, 1]),
            (TraceOrder::ErrorCount, true, [1, 2, 4, 5, 3, 6]),
            // All have the same duration.
            (TraceOrder::Latency, false, [6, 5, 4, 3, 2, 1]),
        ];
        for (order, ascending, expected) in cases {
            let query = TraceQuery { order: order.clone(), ascending, ..TraceQuery::default() };
            let expected = expected.map(trace_id);
            assert_eq!(ids(&store, &p, &query).await, expected, "{order:?} {ascending}");
            // Page by page it is the same list, read from either end.
            let mut by_page = Vec::new();
            for page in 1..=3 {
                let page = TraceQuery { page, limit: 2, ..query.clone() };
                by_page.extend(ids(&store, &p, &page).await);
            }
            assert_eq!(by_page, expected, "{order:?} {ascending}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_by_a_figure_or_a_score_is_read_from_an_index_at_any_position() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let by_score = TraceOrder::Score("quality".to_owned());
    for order in FIGURES.into_iter().chain([by_score, TraceOrder::Timestamp]) {
        for ascending in [false, true] {
            let query = TraceQuery { order: order.clone(), ascending, ..TraceQuery::default() };
            let value = match order {
                TraceOrder::Timestamp => None,
                TraceOrder::TotalCost | TraceOrder::Score(_) => Some(OrderValue::Real(0.5)),
                _ => Some(OrderValue::Whole(5)),
            };
            let place = Cursor { value, ..Cursor::new(at(0), "5") };
            for from in [None, Some(&place)] {
                let statements = crate::trace_list::ordered(&project("p"), &query, from);
                let steps = super::plans::plan(&store, &statements[0]).await;
                let first = &steps[0];
                let index = match order {
                    TraceOrder::Timestamp => "traces_newest",
                    TraceOrder::Score(_) => "scores_by_number",
                    _ => "traces_by_",
                };
                assert!(first.contains(index), "{order:?} {from:?}: {steps:?}");
                let is_narrowed = from.is_none() || first.contains(['<', '>']);
                assert!(is_narrowed, "{order:?} {from:?}: {steps:?}");
                let sorts = |step: &String| step.contains("TEMP B-TREE") && !step.contains("LAST");
                assert!(!steps.iter().any(sorts), "{order:?} {from:?}: {steps:?}");
            }
        }
    }
    store.close().await;
}

fn filter(raw: Value) -> Filter {
    Filter::parse(raw.as_array().unwrap(), TRACES).unwrap()
}

/// All pages of a list, forwards by the cursors of each page, and backwards.
async fn walked(
    store: &Store,
    p: &ProjectId,
    query: &TraceQuery,
    bounds: Bounds,
) -> (Vec<TraceId>, Vec<TraceId>) {
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    let page = TraceQuery { limit: 2, ..query.clone() };
    let mut from = ListPosition::default();
    loop {
        let found = store.telemetry.traces_from(p, &page, &from, bounds).await.unwrap();
        if let Some(n_before) = found.n_before {
            assert_eq!(n_before, forth.len() as u64, "{from:?}");
        }
        forth.extend(found.items.into_iter().map(|stored| stored.trace.id));
        match found.older {
            Some(last) => from = ListPosition::after(last),
            None => break,
        }
    }
    loop {
        let found = store.telemetry.traces_from(p, &page, &from, bounds).await.unwrap();
        let ids = found.items.into_iter().map(|stored| stored.trace.id);
        back.splice(..0, ids);
        match found.newer {
            Some(first) => from = ListPosition::before(first),
            None => break,
        }
    }
    (forth, back)
}

/// The neighbours of each trace are those in the list.
async fn assert_neighbors(store: &Store, p: &ProjectId, query: &TraceQuery, all: &[TraceId]) {
    for (at, id) in all.iter().enumerate() {
        let found = store.telemetry.neighboring_traces(p, query, id, 1_000).await;
        let before = at.checked_sub(1).map(|before| all[before].clone());
        let expected = [before, all.get(at + 1).cloned()];
        assert_eq!(found.unwrap(), expected, "{id} {query:?}");
    }
}

#[tokio::test]
async fn traces_are_ordered_by_their_best_score_and_those_without_one_come_last() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=7).map(|n| with_figures(n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let scores = [
            score("a", Subject::Trace(trace_id(1)), "quality", 0.25),
            score("b", Subject::Trace(trace_id(3)), "quality", 0.75),
            // Of the two scores of one trace, the first in the order counts.
            score("c", Subject::Trace(trace_id(5)), "quality", 0.5),
            score("d", Subject::Trace(trace_id(5)), "quality", 0.9),
            // Neither is a number of this name on a trace itself.
            score("e", Subject::Observation(trace_id(2), span_id(2)), "quality", 1.0),
            score("f", Subject::Trace(trace_id(4)), "other", 1.0),
        ];
        store.telemetry.put_scores(&p, &scores, at(0)).await.unwrap();
        for (ascending, expected) in [
            (false, [5, 3, 1, 7, 6, 4, 2]),
            (true, [1, 5, 3, 7, 6, 4, 2]),
        ] {
            let query = TraceQuery {
                order: TraceOrder::Score("quality".to_owned()),
                ascending,
                ..TraceQuery::default()
            };
            let expected = expected.map(trace_id).to_vec();
            assert_eq!(ids(&store, &p, &query).await, expected, "{ascending}");
            for bounds in [BOUNDS, FEW_COUNTED] {
                let (forth, back) = walked(&store, &p, &query, bounds).await;
                assert_eq!((&forth, &back), (&expected, &expected), "{ascending}");
            }
            assert_neighbors(&store, &p, &query, &expected).await;
            // A condition applies to both halves.
            let narrowed = TraceQuery {
                filter: filter(json!([{"type": "number", "column": "errorCount", "operator": ">", "value": 0}])),
                ..query
            };
            let narrowed = ids(&store, &p, &narrowed).await;
            assert_eq!(narrowed, [3, 6].map(trace_id), "{ascending}");
        }
    })
    .await;
}

#[tokio::test]
async fn pages_continue_from_a_position_while_rows_arrive() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=9).map(|n| with_figures(n, Some(u64::from(n % 3)))).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let tested =
            json!([{"type": "string", "column": "text", "operator": "matches", "value": "STEP"}]);
        for order in [TraceOrder::Timestamp].into_iter().chain(FIGURES) {
            for (ascending, raw) in [(false, json!([])), (true, json!([])), (false, tested.clone())]
            {
                let query = TraceQuery {
                    order: order.clone(),
                    ascending,
                    filter: filter(raw.clone()),
                    ..TraceQuery::default()
                };
                let all = ids(&store, &p, &query).await;
                for bounds in [BOUNDS, FEW_COUNTED] {
                    let (forth, back) = walked(&store, &p, &query, bounds).await;
                    assert_eq!((&forth, &back), (&all, &all), "{order:?} {ascending} {raw}");
                }
                assert_neighbors(&store, &p, &query, &all).await;
            }
        }
        let first = TraceQuery { limit: 3, ..TraceQuery::default() };
        let page = async |from: ListPosition| {
            let found = store.telemetry.traces_from(&p, &first, &from, BOUNDS).await.unwrap();
            let ids = found.items.iter().map(|stored| stored.trace.id.clone());
            (ids.collect::<Vec<_>>(), found)
        };
        let (_, places) = page(ListPosition::default()).await;
        let late = (10..=15).map(|n| with_figures(n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(late), at(1));
        write.await.unwrap();
        let (second, places) = page(ListPosition::after(places.older.unwrap())).await;
        assert_eq!(second, [6, 5, 4].map(trace_id));
        assert_eq!(places.n_before, Some(9), "six came before the first three");
        let (again, places) = page(ListPosition::before(places.newer.unwrap())).await;
        assert_eq!(again, [9, 8, 7].map(trace_id));
        assert_eq!(places.n_before, Some(6));
        // If fewer traces than a page precede a cursor, the page is the full first page.
        for raw in [json!([]), tested] {
            let filtered_query = TraceQuery { filter: filter(raw), ..first.clone() };
            let before = ListPosition::before(Cursor::new(at(14), trace_id(14).to_string()));
            let found = store.telemetry.traces_from(&p, &filtered_query, &before, BOUNDS);
            let found = found.await.unwrap();
            let ids = found.items.into_iter().map(|stored| stored.trace.id);
            assert_eq!(ids.collect::<Vec<_>>(), [15, 14, 13].map(trace_id));
            assert_eq!((found.n_before, found.newer), (Some(0), None));
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_is_counted_and_read_up_to_its_bounds_and_reports_them() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=9).map(|n| span(n, n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let tested = json!([{"type": "string", "column": "text", "operator": "matches", "value": "STEP"}]);
        let page = async |raw: Value, bounds: Bounds, from: ListPosition| {
            let query = TraceQuery {
                filter: filter(raw),
                limit: 2,
                ..TraceQuery::default()
            };
            let found = store.telemetry.traces_from(&p, &query, &from, bounds);
            let found = found.await.unwrap();
            let total = found.total.map(|total| (total.n, total.is_more));
            let ids: Vec<_> = found.items.into_iter().map(|stored| stored.trace.id).collect();
            (ids, total, found.n_left, found.older.is_some())
        };
        let start = ListPosition::default;
        let first = [9, 8].map(trace_id).to_vec();
        let last = [2, 1].map(trace_id).to_vec();
        assert_eq!(page(json!([]), BOUNDS, start()).await, (first.clone(), Some((9, false)), 0, true));
        // Queries by environment are counted by sums, others row by row.
        assert_eq!(page(json!([]), FEW_COUNTED, start()).await, (first.clone(), Some((9, false)), 0, true));
        let ever = json!([{"type": "datetime", "column": "timestamp", "operator": ">", "value": "2020-01-01T00:00:00Z"}]);
        assert_eq!(page(ever, FEW_COUNTED, start()).await, (first.clone(), Some((3, true)), 0, true));
        assert_eq!(page(tested.clone(), BOUNDS, start()).await, (first.clone(), Some((9, false)), 0, true));
        assert_eq!(page(tested.clone(), FEW_COUNTED, start()).await, (first, None, 0, true));
        for bounds in [BOUNDS, FEW_COUNTED] {
            let (ids, .., has_behind) = page(json!([]), bounds, ListPosition::end()).await;
            assert_eq!((&ids, has_behind), (&last, false));
        }
        let few = Bounds { max_tested: 4, ..FEW_COUNTED };
        let any = json!([{"type": "string", "column": "text", "operator": "matches", "value": "no observation has this"}]);
        let (ids, total, n_left, _) = page(any, few, start()).await;
        assert_eq!((ids.len(), total, n_left), (0, Some((0, true)), 5));
    })
    .await;
}

#[tokio::test]
async fn a_search_that_stops_continues_after_the_last_tested_trace() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=9).map(|n| span(n, n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let few = Bounds {
            max_tested: 4,
            ..FEW_COUNTED
        };
        let walk = async |value: &str| {
            let text = json!([{"type": "string", "column": "text", "operator": "matches", "value": value}]);
            let query = TraceQuery {
                filter: filter(text),
                limit: 2,
                ..TraceQuery::default()
            };
            let (mut found, mut tested) = (Vec::new(), Vec::new());
            let mut from = ListPosition::default();
            loop {
                let page = store.telemetry.traces_from(&p, &query, &from, few);
                let page = page.await.unwrap();
                found.extend(page.items.into_iter().map(|stored| stored.trace.id));
                tested.push((page.n_tested.unwrap(), page.n_left));
                match page.stopped {
                    Some(next) if tested.len() < 5 => from = ListPosition::after(next),
                    _ => return (found, tested),
                }
            }
        };
        let two = vec![trace_id(2)];
        let (found, tested) = walk("step 2").await;
        assert_eq!((found, tested), (two, vec![(4, 5), (4, 1), (1, 0)]));
        // From the end to the start the same, one page at a time.
        let query = TraceQuery {
            filter: filter(json!([{"type": "string", "column": "text", "operator": "matches", "value": "step 2"}])),
            limit: 2,
            ..TraceQuery::default()
        };
        let end = ListPosition::end();
        let end = store.telemetry.traces_from(&p, &query, &end, few).await.unwrap();
        assert_eq!(end.items.len(), 1);
        let cursor = end.stopped.unwrap();
        assert_eq!(cursor.at, at(4));
        let before = ListPosition::before(cursor);
        let before = store.telemetry.traces_from(&p, &query, &before, few);
        let before = before.await.unwrap();
        assert_eq!((before.items.len(), before.n_left), (0, 1), "not the first page");
        // A full page has a next one, and no search stopped.
        let (found, tested) = walk("step").await;
        assert_eq!((found, tested.len()), ([9, 8].map(trace_id).to_vec(), 1));
    })
    .await;
}

#[tokio::test]
async fn a_filter_on_a_score_holds_for_the_mean_of_its_numbers_as_memory_adds_them() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=4).map(|n| span(n, n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let mut scores = vec![
            score("a", Subject::Trace(trace_id(1)), "q", 0.0),
            score("b", Subject::Trace(trace_id(1)), "q", 1.0),
            score("c", Subject::Trace(trace_id(2)), "q", 0.25),
            score("d", Subject::Observation(trace_id(4), span_id(4)), "q", 0.0),
        ];
        // Ten times 0.1 is a little less than 1.
        scores.extend((0..10).map(|n| score(&format!("t{n}"), Subject::Trace(trace_id(3)), "q", 0.1)));
        store.telemetry.put_scores(&p, &scores, at(0)).await.unwrap();
        for (operator, value, expected) in [
            ("<", 0.5, vec![3, 2]),
            ("<=", 0.5, vec![3, 2, 1]),
            (">", 0.3, vec![1]),
            ("<", 0.1, vec![3]),
            (">=", 0.1, vec![2, 1]),
            ("=", 0.25, vec![2]),
        ] {
            let query = TraceQuery {
                filter: filter(json!([{"type": "numberObject", "column": "scores_avg", "key": "q", "operator": operator, "value": value}])),
                ..TraceQuery::default()
            };
            let expected: Vec<_> = expected.into_iter().map(trace_id).collect();
            assert_eq!(ids(&store, &p, &query).await, expected, "{operator} {value}");
        }
    })
    .await;
}

/// A page may be filled with traces near its start, or need distant ones: the list is the same.
#[tokio::test]
async fn a_list_of_traces_with_a_score_is_complete_for_any_positions() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=24).map(|n| with_figures(n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        // Newest first: four adjacent ones, a long gap, one, a gap, and two at the end.
        let with_score = [24, 23, 22, 21, 9, 2, 1];
        let scores: Vec<NewScore> = with_score
            .iter()
            .map(|n| score(&format!("s{n}"), Subject::Trace(trace_id(*n)), "quality", 0.25))
            // Not low, and not on the trace.
            .chain([
                score("high", Subject::Trace(trace_id(20)), "quality", 0.75),
                score("step", Subject::Observation(trace_id(19), span_id(19)), "quality", 0.0),
            ])
            .collect();
        store.telemetry.put_scores(&p, &scores, at(0)).await.unwrap();
        for ascending in [false, true] {
            let low = json!([{"type": "numberObject", "column": "scores_avg", "key": "quality", "operator": "<", "value": 0.5}]);
            let query = TraceQuery {
                filter: filter(low),
                ascending,
                ..TraceQuery::default()
            };
            let mut expected = with_score.map(trace_id).to_vec();
            if ascending {
                expected.reverse();
            }
            for bounds in [BOUNDS, FEW_COUNTED] {
                let (forth, back) = walked(&store, &p, &query, bounds).await;
                assert_eq!((&forth, &back), (&expected, &expected), "{ascending}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn conditions_on_score_names_hold_for_any_value() {
    on_each_database(|store| async move {
        let p = project("p");
        let steps = (1..=4).map(|n| with_figures(n, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let named = |id: &str, trace, name: &str, value| NewScore {
            value,
            ..score(id, Subject::Trace(trace_id(trace)), name, 0.0)
        };
        let scores = [
            named("a", 1, "tone", ScoreValue::Categorical("kind".to_owned())),
            named("b", 2, "tone", ScoreValue::Boolean(false)),
            named("c", 2, "quality", ScoreValue::Numeric(1.0)),
            // Not on the trace.
            score("d", Subject::Observation(trace_id(3), span_id(3)), "tone", 1.0),
        ];
        store.telemetry.put_scores(&p, &scores, at(0)).await.unwrap();
        for (operator, names, expected) in [
            ("any of", vec!["tone"], vec![2, 1]),
            ("none of", vec!["tone"], vec![4, 3]),
            ("any of", vec!["quality", "other"], vec![2]),
            ("all of", vec!["quality", "tone"], vec![2]),
            ("none of", vec!["other"], vec![4, 3, 2, 1]),
        ] {
            let query = TraceQuery {
                filter: filter(json!([{"type": "arrayOptions", "column": "score_names", "operator": operator, "value": names}])),
                ..TraceQuery::default()
            };
            let expected: Vec<_> = expected.into_iter().map(trace_id).collect();
            assert_eq!(ids(&store, &p, &query).await, expected, "{operator} {names:?}");
        }
    })
    .await;
}

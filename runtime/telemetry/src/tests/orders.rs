//! Lists of traces by their figures.

use perpend_domain::telemetry::TraceOrder;

use super::*;

const FIGURES: [TraceOrder; 4] = [
    TraceOrder::Latency,
    TraceOrder::TotalCost,
    TraceOrder::TotalTokens,
    TraceOrder::ErrorCount,
];

/// A step with these tokens; the third and each third behind it is an error.
fn with_figures(n: u32, tokens: Option<u64>) -> Observation {
    let mut step = span(n, n, None);
    step.usage = tokens.map_or_else(Usage::new, |tokens| {
        Usage::from([("total".to_owned(), tokens)])
    });
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
        let steps = [
            (1, Some(5)),
            (2, None),
            (3, Some(7)),
            (4, Some(5)),
            (5, None),
            (6, Some(0)),
        ];
        let steps = steps.map(|(n, tokens)| with_figures(n, tokens)).to_vec();
        let write = store.telemetry.write_batch(&p, batch(steps), at(0));
        write.await.unwrap();
        let cases = [
            (TraceOrder::TotalTokens, false, [3, 4, 1, 6, 5, 2]),
            (TraceOrder::TotalTokens, true, [2, 5, 6, 1, 4, 3]),
            (TraceOrder::ErrorCount, false, [6, 3, 5, 4, 2, 1]),
            (TraceOrder::ErrorCount, true, [1, 2, 4, 5, 3, 6]),
            // All take as long.
            (TraceOrder::Latency, false, [6, 5, 4, 3, 2, 1]),
        ];
        for (order, ascending, expected) in cases {
            let query = TraceQuery {
                order,
                ascending,
                ..TraceQuery::default()
            };
            let expected = expected.map(trace_id);
            assert_eq!(
                ids(&store, &p, &query).await,
                expected,
                "{order:?} {ascending}"
            );
            // Page by page it is the same list, read from either end.
            let mut by_page = Vec::new();
            for page in 1..=3 {
                let page = TraceQuery {
                    page,
                    limit: 2,
                    ..query.clone()
                };
                by_page.extend(ids(&store, &p, &page).await);
            }
            assert_eq!(by_page, expected, "{order:?} {ascending}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_by_a_figure_comes_out_of_an_index_without_sorting() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    for order in FIGURES {
        for ascending in [false, true] {
            let query = TraceQuery {
                order,
                ascending,
                ..TraceQuery::default()
            };
            let sql = crate::trace_list::ordered(&project("p"), 1, &query);
            let steps = super::plans::plan(&store, &sql).await;
            assert!(
                steps.len() == 1 && steps[0].contains("USING INDEX traces_by_")
                    || steps[0].contains("USING COVERING INDEX traces_by_"),
                "{order:?}: {steps:?}"
            );
        }
    }
    store.close().await;
}

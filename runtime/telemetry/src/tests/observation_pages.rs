//! Pages of the list of observations.

use perpend_domain::list::{BidirectionalPage, ListPosition};

use super::*;

fn ids(page: &BidirectionalPage<StoredObservation>) -> Vec<String> {
    page.items.iter().map(|stored| stored.observation.id.to_string()).collect()
}

fn filter(raw: &[Value]) -> Filter {
    Filter::parse(raw, OBSERVATIONS).unwrap()
}

#[tokio::test]
async fn pages_in_both_directions_are_parts_of_the_same_list() {
    on_each_database(|store| async move {
        let p = project("p");
        let mut spans: Vec<Observation> = (0..25).map(|n| span(n % 3, n, None)).collect();
        for span in &mut spans {
            span.start = at(span.start.as_millis() % 4);
        }
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let metadata = json!({
            "type": "stringObject", "column": "metadata", "operator": "=", "key": "topic",
            "value": "weather",
        });
        let latency =
            json!({ "type": "number", "column": "latency", "operator": ">=", "value": 0 });
        for raw in [vec![], vec![metadata], vec![latency]] {
            let filter = filter(&raw);
            let read = async |position: &ListPosition, limit| {
                let page = store.telemetry.observations_from(&p, &filter, position, (limit, 1_000));
                page.await.unwrap()
            };
            let whole = ids(&read(&ListPosition::default(), 100).await);
            assert_eq!(whole.len(), 25, "{raw:?}");
            let (mut forth, mut position) = (Vec::new(), ListPosition::default());
            loop {
                let page = read(&position, 4).await;
                assert_eq!(page.newer.is_some(), position.is_later());
                forth.extend(ids(&page));
                match page.older {
                    Some(older) => position = ListPosition::after(older),
                    None => break,
                }
            }
            assert_eq!(forth, whole, "{raw:?}");
            let (mut back, mut position) = (Vec::new(), ListPosition::end());
            loop {
                let page = read(&position, 4).await;
                assert_eq!(page.older.is_some(), position.cursor.is_some());
                back.splice(0..0, ids(&page));
                match page.newer {
                    Some(newer) => {
                        position = ListPosition { cursor: Some(newer), is_backwards: true };
                    }
                    None => break,
                }
            }
            assert_eq!(back, whole, "{raw:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_tests_a_bounded_number_of_rows_and_continues_after_them() {
    on_each_database(|store| async move {
        let p = project("p");
        let mut spans: Vec<Observation> = (1..=20).map(|id| span(1, id, None)).collect();
        for at in [4, 15] {
            spans[at].status_message = Some("cut off".to_owned());
        }
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let filter = filter(&[json!({
            "type": "string", "column": "statusMessage", "operator": "contains", "value": "cut",
        })]);
        for is_backwards in [false, true] {
            let mut position = ListPosition { cursor: None, is_backwards };
            let (mut found, mut n_pages) = (Vec::new(), 0);
            loop {
                let page = store.telemetry.observations_from(&p, &filter, &position, (10, 7));
                let page = page.await.unwrap();
                assert!(page.items.len() < 10);
                found.extend(ids(&page));
                n_pages += 1;
                match page.stopped {
                    Some(stopped) => position.cursor = Some(stopped),
                    None => break,
                }
            }
            let mut expected = vec![span_id(16).to_string(), span_id(5).to_string()];
            if is_backwards {
                expected.reverse();
            }
            assert_eq!(found, expected);
            assert!((3..6).contains(&n_pages), "{n_pages}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_first_page_has_the_number_of_matches() {
    on_each_database(|store| async move {
        let p = project("p");
        let spans = (1..=20).map(|id| span(1, id, None)).collect();
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let total = async |filter: &Filter, max_tested| {
            let first = ListPosition::default();
            let page = store.telemetry.observations_from(&p, filter, &first, (3, max_tested));
            page.await.unwrap().total.map(|total| (total.n, total.is_more))
        };
        assert_eq!(total(&Filter::default(), 5).await, Some((20, false)), "sums have it");
        let latency = filter(&[
            json!({ "type": "number", "column": "latency", "operator": ">=", "value": 0 }),
        ]);
        assert_eq!(total(&latency, 1_000).await, Some((20, false)));
        assert_eq!(total(&latency, 5).await, Some((5, true)));
    })
    .await;
}

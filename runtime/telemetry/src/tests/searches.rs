//! Searches in what no database tests: they may be given up, and go on where they ended.

use super::*;

#[tokio::test]
async fn a_search_that_is_given_up_goes_on_behind_what_it_tested() {
    on_each_database(|store| async move {
        let p = project("p");
        let mut spans: Vec<Observation> = (1..=20).map(|id| span(1, id, None)).collect();
        for at in [4, 15] {
            let rare = Value::from("yes");
            spans[at].content.metadata.insert("rare".to_owned(), rare);
        }
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let raw = json!({
            "type": "stringObject", "column": "metadata", "operator": "=", "key": "rare", "value": "yes",
        });
        let mut query = ObservationQuery {
            filter: Filter::parse(&[raw], OBSERVATIONS).unwrap(),
            max_tested: 7,
            ..ObservationQuery::default()
        };
        let mut found = Vec::new();
        let mut given_up = Vec::new();
        loop {
            let page = store.telemetry.observations(&p, &query).await.unwrap();
            let ids = page.items.iter().map(|stored| stored.observation.id.clone());
            found.push(ids.collect::<Vec<_>>());
            assert_eq!(page.has_more, page.given_up_at.is_some());
            let Some(at) = page.given_up_at else {
                break;
            };
            assert_eq!(at.columns, ["metadata"]);
            given_up.push(at.after.id.clone());
            query.after = Some(at.after);
        }
        // The latest comes first: 20 to 14, 13 to 7, and the rest.
        assert_eq!(given_up, [span_id(14), span_id(7)]);
        assert_eq!(found, [vec![span_id(16)], vec![], vec![span_id(5)]]);

        query = ObservationQuery {
            max_tested: 20,
            ..query
        };
        query.after = None;
        let page = store.telemetry.observations(&p, &query).await.unwrap();
        assert_eq!(page.items.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_search_that_fills_its_page_is_not_given_up() {
    on_each_database(|store| async move {
        let p = project("p");
        let spans = (1..=20).map(|id| span(1, id, None)).collect();
        store
            .telemetry
            .write_batch(&p, batch(spans), at(0))
            .await
            .unwrap();
        let raw = json!({
            "type": "stringObject", "column": "metadata", "operator": "=", "key": "topic",
            "value": "weather",
        });
        let query = ObservationQuery {
            filter: Filter::parse(&[raw], OBSERVATIONS).unwrap(),
            limit: 5,
            max_tested: 7,
            ..ObservationQuery::default()
        };
        let page = store.telemetry.observations(&p, &query).await.unwrap();
        assert!(page.has_more && page.given_up_at.is_none());
        assert_eq!(page.items.len(), 5);
    })
    .await;
}

//! Searches with conditions that no database tests: they may be given up, and continue where they stopped.

use super::*;
use perpend_domain::trace_list::TraceOrder;

#[tokio::test]
async fn a_search_that_is_given_up_continues_after_the_tested_rows() {
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
            assert_eq!(page.has_more, page.scan_limit.is_some());
            let Some(at) = page.scan_limit else {
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
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
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
        assert!(page.has_more && page.scan_limit.is_none());
        assert_eq!(page.items.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn a_search_finds_all_where_each_content_exceeds_the_page() {
    on_each_database(|store| async move {
        let p = project("p");
        let spans = (1..=5).map(|id| span(1, id, None)).collect();
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let raw = json!({
            "type": "stringObject", "column": "metadata", "operator": "=", "key": "topic",
            "value": "weather",
        });
        let query = ObservationQuery {
            filter: Filter::parse(&[raw], OBSERVATIONS).unwrap(),
            with_content: true,
            max_bytes: 1,
            ..ObservationQuery::default()
        };
        let mut by_cursor = query.clone();
        let mut found = Vec::new();
        loop {
            let page = store.telemetry.observations(&p, &by_cursor).await.unwrap();
            assert_eq!(page.items.len(), 1);
            let last = &page.items[0].observation;
            found.push(last.id.clone());
            if !page.has_more {
                break;
            }
            by_cursor.after = Some(ObservationCursor {
                start: last.start,
                trace_id: last.trace_id.clone(),
                id: last.id.clone(),
            });
        }
        let all: Vec<_> = (1..=5).rev().map(span_id).collect();
        assert_eq!(found, all);
        for with_total in [false, true] {
            for (offset, id) in (0..5).zip(&all) {
                let numbered = ObservationQuery { limit: 1, offset, with_total, ..query.clone() };
                let page = store.telemetry.observations(&p, &numbered).await.unwrap();
                assert_eq!(&page.items[0].observation.id, id);
                assert_eq!(page.has_more, offset < 4);
                assert_eq!(page.n_total, if with_total { 5 } else { 0 });
            }
        }
    })
    .await;
}

/// Traces 1 to 3 with two observations each: only the child of trace 2 mentions refunds.
async fn write_refunds(store: &crate::testing::Store, project: &ProjectId) {
    let mut spans = Vec::new();
    for trace in 1..=3 {
        let root = span(trace, 10 * trace, None);
        let mut child = span(trace, 10 * trace + 1, Some(10 * trace));
        if trace == 2 {
            child.name = "Bestellung Größe".to_owned();
            child.content.input =
                Some(Payload::Text("The REFUND policy, 100% \"fair\"".to_owned()));
            child.content.output =
                Some(Payload::from_value(json!({"city": "İstanbul, МОСКВА, 東京"})));
        }
        spans.extend([root, child]);
    }
    store.telemetry.write_batch(project, batch(spans), at(0)).await.unwrap();
}

#[tokio::test]
async fn text_is_found_in_ids_names_inputs_and_outputs_in_any_case_and_script() {
    on_each_database(|store| async move {
        let p = project("p");
        write_refunds(&store, &p).await;
        let child = span_id(21).to_string();
        let found = [
            "refund pol",
            "REFUND",
            "größe",
            "GRÖSSE",
            "100%",
            "1_0%",
            "\"fair\"",
            "москва",
            "東京",
            "istanbul",
            "i\u{307}stanbul",
            "{\"city\"",
            &child[child.len() - 6..],
        ];
        for word in found {
            let is_there = !["GRÖSSE", "1_0%", "istanbul"].contains(&word);
            let raw =
                [json!({"type": "string", "column": "text", "operator": "matches", "value": word})];
            let query = ObservationQuery {
                filter: Filter::parse(&raw, OBSERVATIONS).unwrap(),
                ..ObservationQuery::default()
            };
            let page = store.telemetry.observations(&p, &query).await.unwrap();
            let ids: Vec<_> =
                page.items.iter().map(|stored| stored.observation.id.clone()).collect();
            let expected = if is_there { vec![span_id(21)] } else { Vec::new() };
            assert_eq!(ids, expected, "{word}");

            let query = TraceQuery {
                filter: Filter::parse(&raw, TRACES).unwrap(),
                ..TraceQuery::default()
            };
            let page = store.telemetry.traces(&p, &query).await.unwrap();
            let ids: Vec<_> = page.items.iter().map(|stored| stored.trace.id.clone()).collect();
            let expected = if is_there { vec![trace_id(2)] } else { Vec::new() };
            assert_eq!(ids, expected, "{word}");
        }
    })
    .await;
}

/// The traces of the observations and the traces that match a condition on their text.
async fn traces_with(
    store: &crate::testing::Store,
    project: &ProjectId,
    operator: &str,
    text: &str,
) -> [Vec<TraceId>; 2] {
    let raw = [json!({"type": "string", "column": "text", "operator": operator, "value": text})];
    let query = ObservationQuery {
        filter: Filter::parse(&raw, OBSERVATIONS).unwrap(),
        ..ObservationQuery::default()
    };
    let found = store.telemetry.observations(project, &query).await.unwrap();
    let found = found.items.into_iter();
    let of_observations = found.map(|stored| stored.observation.trace_id).collect();
    let query = TraceQuery {
        filter: Filter::parse(&raw, TRACES).unwrap(),
        order: TraceOrder::Id,
        ascending: true,
        ..TraceQuery::default()
    };
    let found = store.telemetry.traces(project, &query).await.unwrap();
    let found = found.items.into_iter();
    [of_observations, found.map(|stored| stored.trace.id).collect()]
}

#[tokio::test]
async fn text_is_found_as_it_is_read_and_as_it_is_written_however_json_escapes_it() {
    on_each_database(|store| async move {
        let p = project("p");
        let inner = json!({ "city": "Zürich \"HB\"" }).to_string();
        let inputs = [
            Payload::Text(
                r#"{"q":"\u4f60\u597d escaped \u0645\u0631\u062d\u0628\u0627"}"#.to_owned(),
            ),
            Payload::from_value(json!({
                "q": "say \"quokka\"\non C:\\temp", "arguments": inner,
            })),
            Payload::Json(
                r#"{"url":"http:\/\/x.example\/a \ud83d\ude42","q":"\u0052ef\u0075nd"}"#.to_owned(),
            ),
        ];
        let spans = inputs.into_iter().zip(1..).map(|(input, trace)| {
            let mut made = span(trace, 1, None);
            made.content.input = Some(input);
            made
        });
        let write = store.telemetry.write_batch(&p, batch(spans.collect()), at(0));
        write.await.unwrap();
        for (text, n) in [
            ("你好", 1),
            ("مرحبا", 1),
            ("\\u4f60", 1),
            ("SAY \"quokka\"\non C:\\Temp", 2),
            ("say \\\"quokka", 2),
            ("zürich \"hb\"", 2),
            ("HTTP://x.example/a 🙂", 3),
            ("x.example\\/a", 3),
            ("refund", 3),
        ] {
            let expected = vec![trace_id(n)];
            let found = traces_with(&store, &p, "matches", text).await;
            assert_eq!(found, [expected.clone(), expected], "{text}");
        }
        let found = traces_with(&store, &p, "starts with", "{\"q\":\"你").await;
        assert_eq!(found, [vec![trace_id(1)], vec![trace_id(1)]]);
        let [_, found] = traces_with(&store, &p, "does not contain", "Refund").await;
        assert_eq!(found, [trace_id(1), trace_id(2)]);
    })
    .await;
}

#[tokio::test]
async fn a_trace_is_found_by_an_input_and_an_output_of_its_own() {
    on_each_database(|store| async move {
        let p = project("p");
        let mut traced = span(1, 1, None);
        traced.trace = Some(Box::new(TraceFacts {
            input: Some(Payload::Text("Who is it?".to_owned())),
            output: Some(Payload::from_value(json!(["A \"quokka\"."]))),
            ..TraceFacts::default()
        }));
        let spans = vec![traced, span(2, 1, None)];
        let write = store.telemetry.write_batch(&p, batch(spans), at(0));
        write.await.unwrap();
        for text in ["who is", "a \"QUOKKA\"", "\\\"quokka"] {
            let found = traces_with(&store, &p, "matches", text).await;
            assert_eq!(found, [vec![], vec![trace_id(1)]], "{text}");
        }
        let [_, found] = traces_with(&store, &p, "does not contain", "A \"quokka").await;
        assert_eq!(found, [trace_id(2)]);
    })
    .await;
}

#[tokio::test]
async fn a_trace_is_found_by_texts_of_different_parts_and_left_out_by_any() {
    on_each_database(|store| async move {
        let p = project("p");
        write_refunds(&store, &p).await;
        let id = trace_id(2).to_string();
        let condition = |operator: &str, value: &str| {
            json!({"type": "string", "column": "text", "operator": operator, "value": value})
        };
        let none_of = json!({"type": "stringOptions", "column": "text", "operator": "none of",
                             "value": ["Bestellung Größe"]});
        let is_null = json!({"type": "null", "column": "text", "operator": "is null"});
        let is_set = json!({"type": "null", "column": "text", "operator": "is not null"});
        let cases = [
            (vec![condition("matches", "refund"), condition("contains", &id)], vec![2]),
            (vec![condition("matches", "refund"), condition("starts with", "Beste")], vec![2]),
            (vec![condition("contains", "refund")], vec![]),
            (vec![condition("=", "Bestellung Größe")], vec![2]),
            (vec![condition("does not contain", "REFUND")], vec![1, 3]),
            (vec![none_of], vec![1, 3]),
            (vec![condition("matches", "refund"), condition("does not contain", "fair")], vec![]),
            (vec![is_set], vec![1, 2, 3]),
            (vec![is_null], vec![]),
        ];
        for (raw, expected) in cases {
            let query = TraceQuery {
                filter: Filter::parse(&raw, TRACES).unwrap(),
                order: TraceOrder::Id,
                ascending: true,
                ..TraceQuery::default()
            };
            let page = store.telemetry.traces(&p, &query).await.unwrap();
            let ids: Vec<_> = page.items.iter().map(|stored| stored.trace.id.clone()).collect();
            let expected: Vec<_> = expected.into_iter().map(trace_id).collect();
            assert_eq!(ids, expected, "{raw:?}");
            assert_eq!(page.n_total, expected.len() as u64, "{raw:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_of_traces_reports_the_number_of_untested_traces() {
    on_each_database(|store| async move {
        let p = project("p");
        let spans = (1..=9).map(|n| span(n, 1, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(spans), at(0));
        write.await.unwrap();
        let raw = json!({
            "type": "string", "column": "text", "operator": "matches", "value": "STEP 1",
        });
        let query =
            TraceQuery { filter: Filter::parse(&[raw], TRACES).unwrap(), ..TraceQuery::default() };
        for (max, n_found, n_left) in [(4, 4, 5), (9, 9, 0), (100, 9, 0)] {
            let tested = store.telemetry.search_traces(&p, &query, max).await.unwrap();
            assert_eq!((tested.total.unwrap().n, tested.n_left), (n_found, n_left));
        }
        // Conditions that an index decides are not tested row by row.
        let any = TraceQuery::default();
        let all = store.telemetry.search_traces(&p, &any, 1).await.unwrap();
        assert_eq!((all.total.unwrap().n, all.n_left), (9, 0));
    })
    .await;
}

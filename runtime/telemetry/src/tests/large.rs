//! Traces of many observations, which are read as a few texts.

use futures_util::future::join_all;

use super::*;

#[tokio::test]
async fn a_large_trace_is_folded_as_a_small_one_is() {
    on_each_database(|store| async move {
        let (p, trace) = (project("p1"), trace_id(1));
        let telemetry = &store.telemetry;
        let mut spans: Vec<Observation> =
            (1..=600).map(|n| span(1, n, (n > 1).then_some(1))).collect();
        "a \"quoted\" name\n\u{1}\u{1f600}".clone_into(&mut spans[3].name);
        spans[5].end = None;
        let last = spans.len() - 1;
        for (at, length) in [(7, 5_000), (last, 3_000)] {
            let stop = Value::String("é".repeat(length));
            spans[at].model_parameters.insert("stop".to_owned(), stop);
            spans[at].tags = vec![format!("tag {at}")];
        }
        // The last one arrives after many observations of another trace.
        let others = (1_000..3_600).map(|n| span(2, n, Some(1_000)));
        for part in [spans[..last].to_vec(), others.collect(), spans[last..].to_vec()] {
            telemetry.write_batch(&p, batch(part.clone()), at(0)).await.unwrap();
            if part[0].trace_id == trace {
                let n = if part.len() == 1 { spans.len() } else { last };
                // Readers at the same time share the work.
                let readers = (0..4).map(|_| telemetry.trace(&p, &trace, true));
                for stored in join_all(readers).await {
                    assert_eq!(Some(stored.unwrap().unwrap().trace), fold(&spans[..n]));
                }
            }
        }
        let progress = telemetry.progress_now(&p, &trace).await.unwrap().unwrap();
        assert_eq!(progress.n_open, 1);
        let list = telemetry.traces(&p, &TraceQuery::default()).await.unwrap();
        let mut n: Vec<u32> = list.items.iter().map(|stored| stored.trace.n_observations).collect();
        n.sort_unstable();
        assert_eq!(n, [600, 2_600]);
    })
    .await;
}

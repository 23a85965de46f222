//! Counts of the values of the newest traces.

use super::*;

async fn counted(store: &Store, p: &ProjectId, max: u32) -> BTreeMap<String, u64> {
    let all = Filter::default();
    let found = store.telemetry.trace_facets(p, &all, max);
    let found = found.await.unwrap();
    let named = found.facets.into_iter().flat_map(|facet| {
        let column = facet.column;
        let named = |(value, n): (Option<String>, u64)| {
            (format!("{column:?} {}", value.as_deref().unwrap_or("-")), n)
        };
        facet.values.into_iter().map(named).collect::<Vec<_>>()
    });
    let mut named: BTreeMap<String, u64> = named.collect();
    named.insert("all".to_owned(), found.n_traces);
    named
}

#[tokio::test]
async fn values_of_the_newest_traces_are_counted_once_for_each_trace() {
    on_each_database(|store| async move {
        let p = project("p");
        assert_eq!(counted(&store, &p, 10).await, [("all".to_owned(), 0)].into());
        let spans = (1..=5).map(|n| {
            let mut root = span(n, n, None);
            root.name = format!("name {}", n % 2);
            root.user_id = (n == 5).then(|| "ada".to_owned());
            root.tags = ["x", "y \u{0} z"].map(str::to_owned)[..(n % 3) as usize].to_vec();
            if n == 1 {
                root.level = Level::Error;
            }
            root.kind = ObservationKind::Generation;
            root.model = Some(format!("model {}", n % 2));
            root.prompt = (n == 4).then(|| perpend_domain::observation::PromptLink {
                name: "greet".to_owned(),
                version: Some(1),
            });
            root
        });
        let write = store.telemetry.write_batch(&p, batch(spans.collect()), at(0));
        write.await.unwrap();
        let scores = [(1, 3, "tone"), (2, 3, "tone"), (3, 4, "fit"), (4, 1, "old")];
        let scores = scores.map(|(n, trace, name)| {
            score(&format!("s{n}"), Subject::Trace(trace_id(trace)), name, 0.5)
        });
        store.telemetry.put_scores(&p, &scores, at(0)).await.unwrap();
        let found = counted(&store, &p, 4).await;
        let of = |name: &str| found.get(name).copied();
        assert_eq!(of("all"), Some(4), "the oldest is left out: {found:?}");
        for (name, n) in [
            ("Environment default", 4),
            ("Name name 0", 2),
            ("Name name 1", 2),
            ("User ada", 1),
            ("User -", 3),
            ("Release -", 4),
            ("Level DEFAULT", 4),
            ("Tag x", 3),
            ("Kind GENERATION", 4),
            ("Model model 0", 2),
            ("Model model 1", 2),
            ("Prompt greet", 1),
            ("Score tone", 1),
            ("Score fit", 1),
        ] {
            assert_eq!(of(name), Some(n), "{name}: {found:?}");
        }
        assert_eq!(of("Score old"), None);
        let tags = found.iter().filter(|(name, _)| name.starts_with("Tag y"));
        assert_eq!(tags.map(|(_, n)| *n).collect::<Vec<_>>(), [2], "{found:?}");
    })
    .await;
}

#[tokio::test]
async fn a_count_stops_at_its_limit_and_reports_more_rows() {
    on_each_database(|store| async move {
        let p = project("p");
        let spans = (1..=9).map(|n| span(n, 1, None)).collect();
        let write = store.telemetry.write_batch(&p, batch(spans), at(0));
        write.await.unwrap();
        let version =
            json!({"type": "string", "column": "version", "operator": "=", "value": "1.0"});
        let text =
            json!({"type": "string", "column": "text", "operator": "matches", "value": "STEP"});
        for (condition, max, n, is_more) in [
            (&version, (Some(9), 1), 9, false),
            (&version, (Some(8), 1), 8, true),
            (&version, (None, 1), 9, false),
            (&text, (Some(100), 4), 4, true),
            (&text, (Some(100), 9), 9, false),
        ] {
            let filter = Filter::parse(std::slice::from_ref(condition), TRACES).unwrap();
            let counted = store.telemetry.count_traces(&p, &filter, max);
            let counted = counted.await.unwrap();
            assert_eq!((counted.n, counted.is_more), (n, is_more), "{condition} {max:?}");
        }
    })
    .await;
}

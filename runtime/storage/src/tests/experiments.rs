//! Experiments as spans, as links, and as both.

use perpend_domain::batch::Batch;
use perpend_domain::filter::{Condition, Filter, Test, find};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::metrics::{Aggregation, Metric, MetricGroup, MetricQuery, MetricView};
use perpend_domain::observation::{ExperimentLink, Observation};
use perpend_domain::patch::{Patch, PatchSubject, merge};

use perpend_domain::dataset::{Dataset, run_id};
use perpend_domain::list::{Cursor, Paging};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use perpend_domain::telemetry::{NewLink, Period, SpanQuery};

use crate::Store;
use crate::testing::on_each_database;

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn fresh(name: &str, now: Timestamp) -> Dataset {
    Dataset {
        id: format!("id of {name}"),
        name: name.to_owned(),
        description: None,
        metadata: Value::Null,
        input_schema: None,
        expected_output_schema: None,
        created_at: now,
        updated_at: now,
    }
}

async fn dataset(store: &Store, name: &str) -> Dataset {
    store.catalog.dataset(&home(), name).await.unwrap().unwrap().dataset
}

fn trace(n: i64) -> TraceId {
    TraceId::new(&format!("trace {n:03}")).unwrap()
}

/// The span of an item of an experiment, in a trace of its own.
fn item_span(experiment: &str, n: i64) -> Observation {
    let id = ObservationId::new(&format!("span {n:03}")).unwrap();
    let mut patch = Patch::new("e".to_owned(), at(n), false, PatchSubject::Observation(id));
    patch.trace_id = Some(trace(n));
    (patch.start, patch.end) = (Some(at(n)), Some(at(n + 10)));
    let mut span = merge([&patch]).unwrap();
    span.experiment = Some(Box::new(ExperimentLink {
        id: Some(experiment.to_owned()),
        name: Some(format!("name of {experiment} at {n}")),
        dataset_id: Some("d".to_owned()),
        item_id: Some(format!("item {n}")),
        item_root_observation_id: Some(span.id.to_string()),
        ..ExperimentLink::default()
    }));
    span
}

/// A span of the same experiment that is no item.
fn inner_span(experiment: &str, n: i64) -> Observation {
    let mut span = item_span(experiment, n);
    span.id = ObservationId::new(&format!("inner {n:03}")).unwrap();
    span
}

async fn write(store: &Store, observations: Vec<Observation>) {
    let batch = Batch { observations, ..Batch::default() };
    store.telemetry.write_batch(&home(), batch, at(0)).await.unwrap();
}

fn link(run: &str, n: i64) -> NewLink {
    NewLink {
        run_name: run.to_owned(),
        run_description: None,
        metadata: None,
        item_id: format!("item {n}"),
        dataset_version: None,
        trace_id: trace(n).to_string(),
        observation_id: None,
        created_at: at(n),
    }
}

#[tokio::test]
async fn experiments_are_found_by_their_spans_however_many_there_are_of_each() {
    on_each_database(|store| async move {
        let p = home();
        let spans = (0..60).map(|n| item_span(["a", "b", "c"][(n % 3) as usize], n));
        write(&store, spans.chain((0..60).map(|n| inner_span("d", n))).collect()).await;
        let all = Period::default();
        let active = store.telemetry.span_activity(&p, all).await.unwrap();
        let expected = [("a", 57), ("b", 58), ("c", 59)].map(|(id, n)| (id.to_owned(), at(n)));
        assert_eq!(active, expected);
        let early = Period { from: Some(at(1)), to: Some(at(3)) };
        let active = store.telemetry.span_activity(&p, early).await.unwrap();
        let expected = [("b", 1), ("c", 2)].map(|(id, n)| (id.to_owned(), at(n)));
        assert_eq!(active, expected);
        let found = store.telemetry.span_experiments(&p, &["c", "a", "d"], all).await.unwrap();
        assert_eq!(found.len(), 2);
        let a = &found[0];
        assert_eq!((a.id.as_str(), a.n_items), ("a", 20));
        assert_eq!((a.start, a.end), (at(0), at(67)));
        assert_eq!(a.link.name.as_deref(), Some("name of a at 57"));
        let query =
            SpanQuery { experiment_ids: vec!["b".to_owned()], limit: 100, ..SpanQuery::default() };
        let (spans, next) = store.telemetry.experiment_spans(&p, &query).await.unwrap();
        assert_eq!((spans.len(), next), (20, None));
        // Spans recorded before the deletion of the run are not shown, later ones are.
        store.telemetry.delete_dataset_run(&p, "a", at(30)).await.unwrap();
        let found = store.telemetry.span_experiments(&p, &["a"], all).await.unwrap();
        assert_eq!((found[0].start, found[0].n_items), (at(33), 9));
        let traces: Vec<TraceId> = (0..60).map(trace).collect();
        store.telemetry.delete_traces(&p, &traces).await.unwrap();
        assert_eq!(store.telemetry.span_activity(&p, all).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_link_to_a_trace_with_a_span_of_the_item_adds_no_entry() {
    on_each_database(|store| async move {
        let p = home();
        let made = fresh("d", at(0));
        store.catalog.create_dataset(&p, &made).await.unwrap();
        let run = run_id(&p, &made.id, "run");
        write(&store, (0..10).map(|n| item_span(&run, n)).collect()).await;
        for n in 5..25 {
            let new = link("run", n);
            let linked = store.telemetry.link_run_item(&p, &made, &new, at(n)).await.unwrap();
            assert_eq!(linked.run_id, run);
        }
        let all = Period::default();
        let linked = store.telemetry.linked_runs(&p, &[&run], all).await.unwrap();
        assert_eq!((linked[0].start, linked[0].end), (at(5), at(24)));
        assert_eq!(linked[0].n_items, 15);
        let mut shown = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            let which = (all, &[][..]);
            let some = store.telemetry.links_without_spans(&p, which, after.as_ref(), 4);
            let some = some.await.unwrap();
            let Some((last, of)) = some.last() else { break };
            assert_eq!((of.name.as_str(), of.dataset_name.as_str()), ("run", "d"));
            after = Some(Cursor::new(last.created_at, last.id.clone()));
            shown.extend(some.into_iter().map(|(link, _)| link.item_id));
        }
        let expected: Vec<String> = (10..25).rev().map(|n| format!("item {n}")).collect();
        assert_eq!(shown, expected);
        // For the items of a run the link takes precedence over the span.
        let run = store.telemetry.dataset_run(&p, &run).await.unwrap().unwrap();
        let entries = store.telemetry.run_entries(&p, &run, None).await.unwrap();
        assert_eq!(entries.n_total, 25);
        let items: Vec<&str> = entries.items.iter().map(|e| e.item_id.as_str()).collect();
        let expected: Vec<String> = (0..25).rev().map(|n| format!("item {n}")).collect();
        assert_eq!(items, expected);
        for page in 1..=3 {
            let paging = Paging { page, limit: 10 };
            let some = store.telemetry.run_entries(&p, &run, Some(paging)).await.unwrap();
            let first = (page as usize - 1) * 10;
            let last = (first + 10).min(25);
            assert_eq!((some.n_total, &some.items[..]), (25, &entries.items[first..last]));
        }
    })
    .await;
}

#[tokio::test]
async fn an_item_and_its_dataset_have_runs_of_links_and_of_spans() {
    on_each_database(|store| async move {
        let (p, telemetry) = (home(), &store.telemetry);
        let made = Dataset { id: "d".to_owned(), ..fresh("questions", at(0)) };
        store.catalog.create_dataset(&p, &made).await.unwrap();
        // The second attempt of the result of an item replaces the first one.
        let attempt = |n: i64, attempt: u32| {
            let mut span = item_span("s", n);
            let link = span.experiment.as_mut().unwrap();
            link.item_id = Some("item 3".to_owned());
            link.attempt = Some(attempt);
            span
        };
        write(&store, vec![attempt(3, 0), attempt(6, 1), item_span("other", 4)]).await;
        let linked = NewLink { item_id: "item 3".to_owned(), ..link("run", 5) };
        telemetry.link_run_item(&p, &made, &linked, at(5)).await.unwrap();
        let found = telemetry.runs_of_item(&p, "d", "item 3", 10).await.unwrap();
        let found: Vec<(&str, &str)> =
            found.iter().map(|one| (one.run_name.as_str(), one.trace_id.as_str())).collect();
        assert_eq!(found, [("name of s at 6", "trace 006"), ("run", "trace 005")]);
        let names = telemetry.run_names_of_datasets(&p, &["d"], 10).await.unwrap();
        assert_eq!(names["d"], ["run", "name of other at 4", "name of s at 6"]);
        let newest = telemetry.newest_runs(&p, 2).await.unwrap();
        let newest: Vec<&str> = newest.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(newest, ["run", "name of other at 4"]);
        let two = telemetry.run_names_of_datasets(&p, &["d"], 2).await.unwrap();
        assert_eq!(two["d"], ["run", "name of other at 4"]);
    })
    .await;
}

#[tokio::test]
async fn a_run_of_spans_is_renamed_with_or_without_a_dataset() {
    on_each_database(|store| async move {
        let (p, telemetry) = (home(), &store.telemetry);
        let made = Dataset { id: "d".to_owned(), ..fresh("questions", at(0)) };
        store.catalog.create_dataset(&p, &made).await.unwrap();
        let mut alone = item_span("alone", 2);
        alone.experiment.as_mut().unwrap().dataset_id = None;
        write(&store, vec![item_span("s", 1), alone]).await;
        let linked = telemetry.link_run_item(&p, &made, &link("run", 5), at(5)).await.unwrap();
        for (id, dataset) in [("s", Some("d")), ("alone", None)] {
            let run = telemetry.experiment_run(&p, id).await.unwrap().unwrap();
            assert!(telemetry.rename_run(&p, &run, "new", at(9)).await.unwrap(), "{id}");
            let renamed = telemetry.experiment_run(&p, id).await.unwrap().unwrap();
            assert_eq!((renamed.name.as_str(), renamed.created_at), ("new", run.created_at));
            assert_eq!(renamed.dataset_id.as_deref(), dataset);
            let results = telemetry.run_results(&p, id).await.unwrap().unwrap();
            assert_eq!((results.run.name.as_str(), results.items.len()), ("new", 1));
            assert_eq!(results.run.dataset_id.as_deref(), dataset);
        }
        // The names of a run stay reserved, and lead to it.
        let run = telemetry.experiment_run(&p, &linked.run_id).await.unwrap().unwrap();
        assert!(!telemetry.rename_run(&p, &run, "new", at(9)).await.unwrap());
        assert!(telemetry.rename_run(&p, &run, "second", at(9)).await.unwrap());
        let s = telemetry.experiment_run(&p, "s").await.unwrap().unwrap();
        assert!(!telemetry.rename_run(&p, &s, "run", at(10)).await.unwrap());
        for name in ["run", "second"] {
            assert_eq!(telemetry.run_id_of_name(&p, "d", name).await.unwrap(), linked.run_id);
        }
        let again = telemetry.link_run_item(&p, &made, &link("second", 6), at(11)).await.unwrap();
        assert_eq!((again.run_id, again.run_name.as_str()), (linked.run_id, "second"));
    })
    .await;
}

/// Numbers of observations by the run of a metric query, with a condition on the run and one that only whole rows can test.
async fn counts_by_run(store: &Store, run: Option<&str>, of_whole_rows: bool) -> Vec<String> {
    let view = MetricView::Observations;
    let mut conditions = Vec::new();
    if let Some(run) = run {
        let column = find(view.columns(), "experimentId");
        conditions.push(Condition { column, test: Test::AnyOf(vec![run.to_owned()]) });
    }
    if of_whole_rows {
        let column = find(view.columns(), "metadata");
        conditions.push(Condition { column, test: Test::MemberIsNotSet("nothing".to_owned()) });
    }
    let metric =
        Metric { measure: view.measure("count").unwrap(), aggregation: Aggregation::Count };
    let dimensions = ["experimentId", "experimentName", "experimentDatasetId"];
    let query = MetricQuery {
        view,
        with_booleans: true,
        dimensions: dimensions.map(|name| view.dimension(name).unwrap()).to_vec(),
        metrics: vec![metric],
        filter: Filter { conditions },
        from: at(-10),
        to: at(1_000),
        granularity: None,
        top: None,
    };
    let groups = store.telemetry.metrics(&home(), &query).await.unwrap();
    let group = |group: &MetricGroup| {
        let texts = group.dimensions.iter().map(|text| text.as_deref().unwrap_or("-"));
        let texts: Vec<&str> = texts.collect();
        format!("{} {}", texts.join(", "), group.values[0].result(&metric, 10))
    };
    groups.iter().map(group).collect()
}

#[tokio::test]
async fn metrics_count_linked_items_as_items_of_their_run() {
    on_each_database(|store| async move {
        let p = home();
        let made = fresh("d", at(0));
        store.catalog.create_dataset(&p, &made).await.unwrap();
        // Spans of items, traces that are linked as a whole, and an observation that is linked itself.
        let plain = |n: i64| Observation { experiment: None, ..item_span("", n) };
        let mut child = Observation { experiment: None, ..inner_span("", 4) };
        child.parent_id = Some(plain(4).id);
        let linked = (2..6).map(plain).chain([child.clone()]);
        write(&store, [item_span("s", 0), item_span("s", 1)].into_iter().chain(linked).collect())
            .await;
        let run = run_id(&p, &made.id, "run");
        let to_child = NewLink { observation_id: Some(child.id.to_string()), ..link("run", 4) };
        // The last link of an observation counts.
        let links = [link("other", 3), link("run", 2), link("run", 3), to_child];
        for (n, new) in (0..).zip(&links) {
            store.telemetry.link_run_item(&p, &made, new, at(n)).await.unwrap();
        }
        let of_run = format!("{run}, run, id of d 3");
        for of_whole_rows in [false, true] {
            let mut found = counts_by_run(&store, None, of_whole_rows).await;
            let mut expected = vec![
                "-, -, - 2".to_owned(),
                of_run.clone(),
                "s, name of s at 0, d 1".to_owned(),
                "s, name of s at 1, d 1".to_owned(),
            ];
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{of_whole_rows}");
            let found = counts_by_run(&store, Some(&run), of_whole_rows).await;
            assert_eq!(found, [of_run.as_str()], "{of_whole_rows}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_link_made_twice_is_one_and_a_run_has_the_id_that_clients_compute() {
    on_each_database(|store| async move {
        let telemetry = &store.telemetry;
        store.catalog.create_dataset(&home(), &fresh("d", at(0))).await.unwrap();
        let d = dataset(&store, "d").await;
        let link = |item: &str, description: Option<&str>| NewLink {
            run_name: "run".to_owned(),
            run_description: description.map(str::to_owned),
            metadata: None,
            item_id: item.to_owned(),
            dataset_version: Some(at(1)),
            trace_id: format!("trace of {item}"),
            observation_id: None,
            created_at: at(2),
        };
        let first =
            telemetry.link_run_item(&home(), &d, &link("a", Some("one")), at(3)).await.unwrap();
        let again = telemetry.link_run_item(&home(), &d, &link("a", None), at(4)).await.unwrap();
        assert_eq!(first, again);
        let other =
            telemetry.link_run_item(&home(), &d, &link("b", Some("two")), at(5)).await.unwrap();
        assert_eq!(other.run_id, run_id(&home(), &d.id, "run"));
        let run = telemetry.dataset_run(&home(), &other.run_id).await.unwrap().unwrap();
        assert_eq!((run.description.as_deref(), run.updated_at), (Some("two"), at(5)));
        assert_eq!((run.metadata, run.created_at), (Value::Null, at(3)));
        let run = telemetry.dataset_run(&home(), &other.run_id).await;
        let run = run.unwrap().unwrap();
        let links = telemetry.run_entries(&home(), &run, None).await.unwrap();
        assert_eq!(links.n_total, 2);
        assert_eq!(links.items, [other.clone(), first]);
        let one = Paging { page: 2, limit: 1 };
        let page = telemetry.run_entries(&home(), &run, Some(one)).await.unwrap();
        assert_eq!((page.n_total, &page.items[..]), (2, &links.items[1..]));
        let late = Period { from: Some(at(9)), to: None };
        let none = telemetry.run_activity(&home(), None, late).await.unwrap();
        assert_eq!(none, []);
        let foreign = ProjectId::new("foreign").unwrap();
        telemetry.delete_dataset_run(&foreign, &other.run_id, at(6)).await.unwrap();
        let all = Period::default();
        let runs = telemetry.run_activity(&home(), Some(&d.id), all).await.unwrap();
        assert_eq!(runs.len(), 1, "of another project");
        telemetry.delete_dataset_run(&home(), &other.run_id, at(6)).await.unwrap();
        let links = telemetry.run_entries(&home(), &run, None).await.unwrap();
        assert_eq!(links.n_total, 0);
        let runs = telemetry.run_activity(&home(), None, all).await.unwrap();
        assert!(runs.is_empty());
    })
    .await;
}

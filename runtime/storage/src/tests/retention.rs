//! Traces beyond the retention of their project, and traces of deleted projects.

use perpend_catalog::comments::{Comment, CommentQuery};
use perpend_catalog::datasets::ItemVersion;
use perpend_catalog::{Init, NewApiKey, ProjectPatch, Rights, SecretHash};
use perpend_domain::backtest::{BacktestPlan, PairedValue, ScorePair};
use perpend_domain::batch::Batch;
use perpend_domain::dataset::{Dataset, DatasetItem, ItemPatch};
use perpend_domain::evaluation::{EvaluatorVersion, OnMissing, Target, TargetKind};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{ObservationId, OrganizationId, ProjectId, ScoreId, TraceId};
use perpend_domain::list::Paging;
use perpend_domain::observation::Observation;
use perpend_domain::patch::{Patch, PatchSubject, merge};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{Digest, Grants};
use perpend_domain::score::{NewScore, ScoreSource, ScoreValue, Subject};
use perpend_domain::time::Timestamp;
use perpend_executions::{BacktestStep, Lease};
use perpend_telemetry::media::{MediaOwner, NewMedia};
use serde_json::{Map, Value, json};

use crate::Store;
use crate::testing::on_each_database;

const DAY_MS: i64 = 86_400_000;

fn organization() -> OrganizationId {
    OrganizationId::new("org").unwrap()
}

fn project(name: &str) -> ProjectId {
    ProjectId::new(name).unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + millis)
}

fn trace_id(n: u32) -> TraceId {
    TraceId::new(&format!("{n:032x}")).unwrap()
}

fn span(trace: u32, id: u32) -> Observation {
    let id = ObservationId::new(&format!("{id:016x}")).unwrap();
    let mut patch = Patch::new("e".to_owned(), at(0), false, PatchSubject::Observation(id));
    patch.trace_id = Some(trace_id(trace));
    (patch.start, patch.end) = (Some(at(1)), Some(at(501)));
    let mut span = merge([&patch]).unwrap();
    span.has_content = true;
    span.content.output = Some(Payload::Text("sunny".to_owned()));
    span
}

fn batch(observations: Vec<Observation>) -> Batch {
    Batch { observations, ..Batch::default() }
}

/// A project of the organization, with a trace that started on each of these days.
async fn start(store: &Store, id: &str, days: &[i64]) -> ProjectId {
    let init = Init {
        organization_id: organization(),
        organization_name: "Acme".to_owned(),
        project_id: project(id),
        project_name: id.to_owned(),
        key: NewApiKey {
            id: format!("key of {id}"),
            public_key: format!("pk-{id}").parse().unwrap(),
            secret_hash: SecretHash::new("secret", [1; 16]),
            secret_hint: String::new(),
            rights: Rights::Full,
            note: None,
            expires_at: None,
        },
    };
    store.catalog.create_first_project(&init, at(0)).await.unwrap();
    for day in days {
        let n = u32::try_from(*day).unwrap() + 1;
        let began = at(day * DAY_MS);
        let observation = Observation { start: began, end: Some(began), ..span(n, 1) };
        store.telemetry.write_batch(&project(id), batch(vec![observation]), began).await.unwrap();
        let score = NewScore {
            id: ScoreId::new(&format!("s{n}")).unwrap(),
            name: "relevance".to_owned(),
            value: ScoreValue::Numeric(0.5),
            subject: Subject::Trace(trace_id(n)),
            source: ScoreSource::Api,
            timestamp: began,
            environment: "default".to_owned(),
            comment: None,
            metadata: Map::new(),
            config_id: None,
            queue_id: None,
            author_user_id: None,
            origin: None,
        };
        store.telemetry.put_scores(&project(id), &[score], began).await.unwrap();
    }
    project(id)
}

/// The days with existing traces, with their scores.
async fn days(store: &Store, project: &ProjectId, of: &[i64]) -> Vec<i64> {
    let mut there = Vec::new();
    for day in of {
        let n = u32::try_from(*day).unwrap() + 1;
        let has_trace =
            store.telemetry.trace(project, &trace_id(n), false).await.unwrap().is_some();
        let score = ScoreId::new(&format!("s{n}")).unwrap();
        let has_score = store.telemetry.score(project, &score).await.unwrap().is_some();
        assert_eq!(has_trace, has_score, "day {day}");
        there.extend(has_trace.then_some(*day));
    }
    there
}

#[tokio::test]
async fn traces_go_when_their_project_keeps_them_no_longer() {
    on_each_database(|store| async move {
        let all = [0, 10, 20];
        let (ours, theirs) = (start(&store, "a", &all).await, start(&store, "b", &all).await);
        let now = |day: i64| at(day * DAY_MS);
        assert_eq!(store.sweep(now(90)).await.unwrap().n_expired, 0, "for ever");
        let patch = ProjectPatch { retention_days: Some(15), ..ProjectPatch::default() };
        store.catalog.update_project(&organization(), &ours, &patch, at(0)).await.unwrap();
        assert_eq!(store.sweep(now(21)).await.unwrap().n_expired, 1);
        assert_eq!(days(&store, &ours, &all).await, [10, 20]);
        assert_eq!(store.sweep(now(21)).await.unwrap().n_expired, 0);
        assert_eq!(store.sweep(now(90)).await.unwrap().n_expired, 2);
        assert_eq!(days(&store, &theirs, &all).await, all);
    })
    .await;
}

/// Writes traces with one observation each, and comments on the trace, the observation and a session with the id of the trace.
async fn comment(store: &Store, project: &ProjectId, traces: &[(u32, i64)]) {
    for (n, day) in traces {
        let began = at(day * DAY_MS);
        let observation = Observation { start: began, end: Some(began), ..span(*n, *n) };
        store.telemetry.write_batch(project, batch(vec![observation]), began).await.unwrap();
        let trace = trace_id(*n).to_string();
        let span = span(*n, *n).id.to_string();
        for (object_type, object_id) in
            [("TRACE", trace.clone()), ("OBSERVATION", span), ("SESSION", trace)]
        {
            let comment = Comment {
                id: format!("{object_type} {n}"),
                object_type: object_type.to_owned(),
                object_id,
                trace_id: None,
                content: "text".to_owned(),
                author_user_id: None,
                created_at: began,
            };
            store.catalog.create_comment(project, &comment).await.unwrap();
        }
    }
}

/// The ids of the comments of a project.
async fn comments(store: &Store, project: &ProjectId) -> Vec<String> {
    let all = CommentQuery::default();
    let found = store.catalog.comments(project, &all, Paging::default()).await.unwrap();
    let mut ids: Vec<String> = found.items.into_iter().map(|comment| comment.id).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn comments_on_a_trace_and_its_observations_are_deleted_with_it() {
    on_each_database(|store| async move {
        let (ours, theirs) = (start(&store, "a", &[]).await, start(&store, "b", &[]).await);
        comment(&store, &ours, &[(1, 0), (2, 0), (3, 20)]).await;
        comment(&store, &theirs, &[(1, 0)]).await;
        store.telemetry.delete_traces(&ours, &[trace_id(1)]).await.unwrap();
        let left = [
            "OBSERVATION 2",
            "OBSERVATION 3",
            "SESSION 1",
            "SESSION 2",
            "SESSION 3",
            "TRACE 2",
            "TRACE 3",
        ];
        assert_eq!(comments(&store, &ours).await, left);
        let patch = ProjectPatch { retention_days: Some(15), ..ProjectPatch::default() };
        store.catalog.update_project(&organization(), &ours, &patch, at(0)).await.unwrap();
        assert_eq!(store.sweep(at(21 * DAY_MS)).await.unwrap().n_expired, 1);
        let left = ["OBSERVATION 3", "SESSION 1", "SESSION 2", "SESSION 3", "TRACE 3"];
        assert_eq!(comments(&store, &ours).await, left);
        assert_eq!(comments(&store, &theirs).await, ["OBSERVATION 1", "SESSION 1", "TRACE 1"]);
    })
    .await;
}

#[tokio::test]
async fn a_failure_in_one_project_is_counted_and_the_next_sweep_deletes_its_traces() {
    on_each_database(|store| async move {
        let ours = start(&store, "a", &[0]).await;
        let patch = ProjectPatch { retention_days: Some(15), ..ProjectPatch::default() };
        store.catalog.update_project(&organization(), &ours, &patch, at(0)).await.unwrap();
        store.pool.change("ALTER TABLE traces RENAME TO moved", &[]).await.unwrap();
        let swept = store.sweep(at(90 * DAY_MS)).await.unwrap();
        assert_eq!((swept.n_failed, swept.n_expired), (1, 0), "{swept:?}");
        store.pool.change("ALTER TABLE moved RENAME TO traces", &[]).await.unwrap();
        let swept = store.sweep(at(90 * DAY_MS)).await.unwrap();
        assert_eq!((swept.n_failed, swept.n_expired), (0, 1), "{swept:?}");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_project_leaves_no_row_of_telemetry() {
    on_each_database(|store| async move {
        let many: Vec<i64> = (0..45).collect();
        let (ours, theirs) = (start(&store, "a", &many).await, start(&store, "b", &[0]).await);
        store.catalog.delete_project(&organization(), &ours, at(0)).await.unwrap();
        assert_eq!(store.sweep(at(0)).await.unwrap().n_lingering, 1);
        assert_eq!(days(&store, &ours, &many).await, [0; 0]);
        const LEFT: &str = "
            SELECT (SELECT COUNT(*) FROM traces) + (SELECT COUNT(*) FROM observations)
                 + (SELECT COUNT(*) FROM payloads) + (SELECT COUNT(*) FROM scores)";
        let left: Vec<(i64,)> = store.pool.select(LEFT, &[]).await.unwrap();
        assert_eq!(left, [(4,)], "those of the other project");
        assert_eq!(days(&store, &theirs, &[0]).await, [0]);
        // A request that started with a key of the project ends after the first sweep.
        let late = batch(vec![span(99, 1)]);
        store.telemetry.write_batch(&ours, late, at(1)).await.unwrap();
        assert_eq!(store.sweep(at(150_000)).await.unwrap().n_gone, 0);
        assert_eq!(store.sweep(at(150_000)).await.unwrap().n_gone, 1);
        assert_eq!(
            store.telemetry.trace(&ours, &trace_id(99), false).await.unwrap().map(|_| ()),
            None
        );
    })
    .await;
}

#[tokio::test]
async fn expired_media_are_requested_again_and_those_of_items_stay() {
    on_each_database(|store| async move {
        let catalog = &store.catalog;
        let telemetry = &store.telemetry;
        let ours = start(&store, "a", &[0]).await;
        let medium = |n: u8| NewMedia {
            id: format!("medium-{n}"),
            sha256: [n; 32],
            content_type: "image/png".to_owned(),
            content_length: 5,
            place: MediaOwner::Trace(trace_id(1).to_string(), None),
            field: "input".to_owned(),
        };
        for n in [1, 2] {
            let new = medium(n);
            assert!(!telemetry.announce_media(&ours, &new, at(0)).await.unwrap());
            let announced = telemetry.medium(&ours, &new.id).await.unwrap().unwrap();
            let bytes = telemetry.store_media(&ours, &announced, b"bytes", at(0));
            bytes.await.unwrap();
            assert!(telemetry.announce_media(&ours, &new, at(0)).await.unwrap());
        }
        // An item that was made from the trace and refers to one of them.
        let shown = "see @@@langfuseMedia:type=image/png|id=medium-2|source=bytes@@@";
        let dataset = Dataset {
            id: "d".to_owned(),
            name: "d".to_owned(),
            description: None,
            metadata: Value::Null,
            input_schema: None,
            expected_output_schema: None,
            created_at: at(0),
            updated_at: at(0),
        };
        assert!(catalog.create_dataset(&ours, &dataset).await.unwrap());
        let input =
            ItemPatch { input: Some(json!({ "picture": [shown] })), ..ItemPatch::default() };
        let item = DatasetItem::new("i".to_owned(), &dataset, input, at(0));
        let version = ItemVersion { item, is_deleted: false };
        let revision = catalog.dataset(&ours, "d").await.unwrap().unwrap();
        let put = store.put_dataset_item(&ours, &version, None, revision.revisions.schema);
        assert!(put.await.unwrap());

        let patch = ProjectPatch { retention_days: Some(15), ..ProjectPatch::default() };
        catalog.update_project(&organization(), &ours, &patch, at(0)).await.unwrap();
        store.sweep(at(30 * DAY_MS)).await.unwrap();
        let bytes = async |n: u8| {
            let id = medium(n).id;
            telemetry.media_bytes(&ours, &id).await.unwrap()
        };
        assert_eq!(bytes(1).await, None);
        assert_eq!(bytes(2).await.as_deref(), Some(&b"bytes"[..]));
        let first = medium(1);
        let again = telemetry.announce_media(&ours, &first, at(31 * DAY_MS));
        assert!(!again.await.unwrap(), "its bytes are requested");
    })
    .await;
}

/// The plan of a backtest of the targets that started in these days.
pub(super) fn backtest_plan(days: (i64, i64)) -> BacktestPlan {
    let version = EvaluatorVersion {
        id: "v".parse().unwrap(),
        number: 1,
        plugin: Digest::of(b""),
        plugin_name: "a/b".to_owned(),
        plugin_version: "1.0.0".to_owned(),
        plugin_evaluator: "e".to_owned(),
        config: json!({}),
        mapping: Vec::new(),
        grants: Grants::NONE,
        slots: Vec::new(),
        fingerprint: Digest::of(b""),
        created_at: at(0),
    };
    BacktestPlan {
        evaluator: "e".parse().unwrap(),
        evaluator_name: "e".to_owned(),
        version,
        rule: None,
        target: TargetKind::Trace,
        from: at(days.0 * DAY_MS),
        to: at(days.1 * DAY_MS),
        filter: WrittenFilter::default(),
        mapping: None,
        on_missing: OnMissing::Fail,
        is_fresh: false,
        max_items: None,
        max_usd: None,
        n_in_range: None,
        usd_per_target: None,
    }
}

/// A backtest of the targets that started in these days, with a pair with comments for each target.
async fn backtest(
    store: &Store,
    project: &ProjectId,
    id: &str,
    (days, targets): ((i64, i64), &[Target]),
) {
    let value = |number: f64| PairedValue {
        value: ScoreValue::Numeric(number),
        comment: Some("it says: sunny".to_owned()),
    };
    let pair = |target: &Target| ScorePair {
        target: target.clone(),
        observation: None,
        name: "relevance".to_owned(),
        live: value(0.0),
        tested: value(1.0),
        model: None,
        environment: "default".to_owned(),
        prompt: None,
    };
    let ledger = &store.ledger;
    assert!(ledger.create_backtest(project, id, &backtest_plan(days), at(0)).await.unwrap());
    let lease = Lease { fence: 1, until: at(1) };
    assert!(ledger.claim_backtest((project, id), lease, at(0)).await.unwrap());
    let mut next = ledger.backtest(project, id).await.unwrap().unwrap();
    next.counts.n_pairs = targets.len() as u64;
    let step = BacktestStep { next, pairs: targets.iter().map(pair).collect() };
    assert!(ledger.advance_backtest(&step, lease.fence, at(0)).await.unwrap());
}

/// Whether the pairs of a backtest have comments.
async fn commented(store: &Store, project: &ProjectId, id: &str) -> Vec<bool> {
    let flips = store.ledger.backtest_flips(project, id, None, 100).await.unwrap();
    let commented = flips.iter().map(|flip| {
        let (live, tested) = (&flip.pair.live.comment, &flip.pair.tested.comment);
        assert_eq!(live.is_some(), tested.is_some());
        live.is_some()
    });
    commented.collect()
}

#[tokio::test]
async fn comments_of_backtests_go_with_the_traces_that_they_may_quote() {
    on_each_database(|store| async move {
        let ours = start(&store, "a", &[0, 10]).await;
        let patch = ProjectPatch { retention_days: Some(15), ..ProjectPatch::default() };
        store.catalog.update_project(&organization(), &ours, &patch, at(0)).await.unwrap();
        for (trace, day, session) in [(1, 0, "old"), (11, 10, "new")] {
            let (start, session_id) = (at(day * DAY_MS), Some(session.to_owned()));
            let own = Observation { start, end: Some(start), session_id, ..span(trace, 2) };
            store.telemetry.write_batch(&ours, batch(vec![own]), at(0)).await.unwrap();
        }
        let trace = |n: u32| Target::Trace(trace_id(n));
        let session = |id: &str| Target::Session(id.parse().unwrap());
        let targets = [trace(1), session("old"), trace(11), session("new")];
        backtest(&store, &ours, "wide", ((0, 30), &targets[..])).await;
        // Its trace was deleted while the step was evaluating it.
        backtest(&store, &ours, "late", ((0, 5), &[trace(99)][..])).await;

        store.delete_traces(&project("b"), &[trace_id(1), trace_id(11)]).await.unwrap();
        assert_eq!(store.sweep(at(14 * DAY_MS)).await.unwrap().n_expired, 0);
        assert_eq!(commented(&store, &ours, "wide").await, [true; 4]);
        assert_eq!(commented(&store, &ours, "late").await, [true]);
        assert_eq!(store.sweep(at(21 * DAY_MS)).await.unwrap().n_expired, 1);
        assert_eq!(commented(&store, &ours, "wide").await, [false, false, true, true]);
        assert_eq!(commented(&store, &ours, "late").await, [false]);
        store.delete_traces(&ours, &[trace_id(11)]).await.unwrap();
        assert_eq!(commented(&store, &ours, "wide").await, [false; 4]);
    })
    .await;
}

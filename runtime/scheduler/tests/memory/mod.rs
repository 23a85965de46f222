//! Large targets are evaluated within the memory budget.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use perpend_domain::evaluation::{Mapping, OnMissing, Target, TargetKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CallResult, EvaluationCall, FailureClass, Item, PluginScore, PluginScoreValue, ReplyReuse,
};
use perpend_scheduler::{Evaluate, Options, Trial, TrialSubject};
use perpend_storage::testing::on_each_database;

use crate::support::{FakeEvaluate, World, generation, together};

const MIB: usize = 1 << 20;

/// Counts the bytes of the items of all unanswered calls.
#[derive(Debug)]
struct Counting {
    n_bytes: AtomicUsize,
    most: AtomicUsize,
    answers: Arc<FakeEvaluate>,
}

impl Evaluate for Counting {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        let n_bytes: usize = calls.iter().map(|call| call.item.n_bytes()).sum();
        let now = self.n_bytes.fetch_add(n_bytes, Ordering::SeqCst) + n_bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        let results = async move {
            // Lets all other tasks run first.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let results = self.answers.results(calls).await;
            self.n_bytes.fetch_sub(n_bytes, Ordering::SeqCst);
            results
        };
        together(results).boxed()
    }
}

/// Keeps the items of all calls.
#[derive(Debug)]
struct Keeping {
    items: Mutex<Vec<Arc<Item>>>,
    answers: Arc<FakeEvaluate>,
}

impl Evaluate for Keeping {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        self.items.lock().unwrap().extend(calls.iter().map(|call| Arc::clone(&call.item)));
        together(self.answers.results(calls))
    }
}

#[tokio::test]
async fn evaluators_of_a_rule_with_the_same_mapping_share_the_item_of_a_target() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let mut evaluators = Vec::new();
        for id in ["a", "b", "c"] {
            let other = world.rule(id, TargetKind::Observation, |rule| rule.enabled = false).await;
            evaluators.push(other.assignments[0].evaluator_id.clone());
        }
        let output =
            Mapping { variable: "output".to_owned(), source: "output".to_owned(), json_path: None };
        world
            .rule("r", TargetKind::Observation, |rule| {
                for (n, evaluator) in evaluators.into_iter().enumerate() {
                    let mut another = rule.assignments[0].clone();
                    another.id = format!("as-r-{n}").parse().unwrap();
                    another.evaluator_id = evaluator;
                    another.mapping = (n == 2).then(|| vec![output.clone()]);
                    rule.assignments.push(another);
                }
            })
            .await;
        world.ingest((1..=3).map(|n| generation(n, n)).collect()).await;
        let evaluate =
            Arc::new(Keeping { items: Mutex::default(), answers: FakeEvaluate::length() });
        world.scheduler(evaluate.clone()).run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 4 * 3);
        let items = evaluate.items.lock().unwrap();
        assert_eq!(items.len(), 4 * 3);
        let built: HashSet<_> = items.iter().map(Arc::as_ptr).collect();
        assert_eq!(built.len(), 2 * 3);
    })
    .await;
}

#[tokio::test]
async fn large_targets_wait_for_memory_and_all_are_scored() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        for rule in ["r1", "r2", "r3"] {
            world.rule(rule, TargetKind::Observation, |_| {}).await;
        }
        let large = |n| {
            let mut own = generation(n, n);
            own.content.output = Some(Payload::Text("x".repeat(300_000)));
            own
        };
        world.ingest((1..=12).map(large).collect()).await;
        world.ingest((20..=30).map(|n| generation(n, n)).collect()).await;
        let evaluate = Arc::new(Counting {
            n_bytes: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            answers: FakeEvaluate::length(),
        });
        let options = Options { max_memory_bytes: 2 * MIB, ..Options::default() };
        let scheduler = world.scheduler_with(evaluate.clone(), None, options);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.answers.n_calls(), 3 * (12 + 11));
        let most = evaluate.most.load(Ordering::SeqCst);
        assert!(most <= MIB, "{most} bytes of items at a time");
    })
    .await;
}

/// Returns for each call a score with a comment of this number of bytes.
#[derive(Debug)]
struct Verbose(usize);

impl Evaluate for Verbose {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        let score = PluginScore {
            name: "length".to_owned(),
            value: PluginScoreValue::Numeric(1.0),
            observation_id: None,
            comment: Some("x".repeat(self.0)),
            metadata: None,
        };
        let result = CallResult { outcome: Ok(vec![score]), ..CallResult::empty() };
        together(std::future::ready(vec![result; calls.len()]))
    }
}

#[tokio::test]
async fn results_of_a_trial_that_exceed_the_memory_of_evaluations_are_failures() {
    const COMMENT_BYTES: usize = 300_000;
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", TargetKind::Observation, |_| {}).await;
        world.ingest((1..=8).map(|n| generation(n, n)).collect()).await;
        let options = Options { max_memory_bytes: 2 * MIB, ..Options::default() };
        let scheduler = world.scheduler_with(Arc::new(Verbose(COMMENT_BYTES)), None, options);
        let id = &rule.assignments[0].evaluator_id;
        let evaluator = world.store.catalog.evaluator(&world.project, id).await.unwrap();
        let target = |n| {
            let own = generation(n, n);
            TrialSubject::Target(Target::Observation(own.trace_id, own.id))
        };
        let trial = Trial {
            evaluator: evaluator.unwrap(),
            mapping: None,
            on_missing: OnMissing::Fail,
            on: (1..=8).map(target).collect(),
            reuse: ReplyReuse::default(),
            limit: Duration::from_secs(600),
        };
        let results = scheduler.trial(&world.project, trial).await.unwrap();
        let scored = results.iter().filter(|result| result.outcome.is_ok()).count();
        assert!(0 < scored && scored * COMMENT_BYTES <= 2 * MIB, "{scored} results");
        for why in results.iter().filter_map(|result| result.outcome.as_ref().err()) {
            assert_eq!(why.class, FailureClass::OutputLimit.into());
        }
    })
    .await;
}

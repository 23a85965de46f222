//! Tests of steps: their size, and the pairs of scores.

use perpend_domain::evaluation::EvaluatorVersion;
use perpend_domain::plugin::{Digest, Grants};
use perpend_domain::score::{NewScore, ScoreOrigin, ScoreSource, ScoreValue};
use serde_json::{Map, json};

use super::*;

fn backtest(calls_models: bool, counts: BacktestCounts) -> Backtest {
    let at = Timestamp::from_micros(0);
    let grants = if calls_models { Grants::NONE.with("model").unwrap() } else { Grants::NONE };
    let version = EvaluatorVersion {
        id: "version".parse().unwrap(),
        number: 0,
        plugin: Digest::from_bytes([0; 32]),
        plugin_name: "perpend/text".to_owned(),
        plugin_version: "1.0.0".to_owned(),
        plugin_evaluator: "max-length".to_owned(),
        config: json!({}),
        mapping: Vec::new(),
        grants,
        slots: Vec::new(),
        fingerprint: Digest::from_bytes([0; 32]),
        created_at: at,
    };
    Backtest {
        project: "project".parse().unwrap(),
        id: "backtest".to_owned(),
        plan: BacktestPlan {
            evaluator: "evaluator".parse().unwrap(),
            evaluator_name: "evaluator".to_owned(),
            version,
            rule: None,
            target: TargetKind::Observation,
            from: at,
            to: at,
            filter: WrittenFilter::default(),
            mapping: None,
            on_missing: OnMissing::Fail,
            is_fresh: false,
            max_items: Some(100),
            max_usd: Some(1.0),
            n_in_range: None,
            usd_per_target: None,
        },
        state: BackfillState::Running,
        reason: None,
        cursor: None,
        reached_at: None,
        counts,
        failures: Vec::new(),
        adopted_version: None,
        created_at: at,
        updated_at: at,
        ended_at: None,
    }
}

/// A live score and the name that the plug-in gave it.
fn live(name: &str, given: &str, number: f64) -> Score {
    let (at, trace) = (Timestamp::from_micros(0), "trace".parse().unwrap());
    let origin = ScoreOrigin {
        execution_id: format!("execution of {name}").parse().unwrap(),
        evaluator_id: "evaluator".parse().unwrap(),
        evaluator_version_id: "version".parse().unwrap(),
        rule_id: "rule".parse().unwrap(),
        fingerprint: Digest::from_bytes([0; 32]),
        inclusion_probability: 1.0,
        score_name: given.to_owned(),
    };
    let written = NewScore {
        id: "score".parse().unwrap(),
        name: name.to_owned(),
        value: ScoreValue::Numeric(number),
        subject: Subject::Trace(trace),
        source: ScoreSource::Eval,
        timestamp: at,
        environment: "default".to_owned(),
        comment: None,
        metadata: Map::new(),
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: Some(origin),
    };
    Score { written, created_at: at, updated_at: at }
}

fn tested(name: &str, given: &str) -> TrialScore {
    TrialScore {
        name: name.to_owned(),
        given: given.to_owned(),
        value: ScoreValue::Numeric(0.5),
        comment: None,
        metadata: Map::new(),
        observation: None,
    }
}

/// The step of a target with these scores, and the executions of the compared ones.
fn noted(live: &[Score], tested: Vec<TrialScore>) -> (BacktestStep, Vec<ExecutionId>) {
    let next = backtest(false, BacktestCounts::default());
    let mut step = BacktestStep { next, pairs: Vec::new() };
    let result = TrialResult {
        item: None,
        outcome: Ok(tested),
        model_calls: Vec::new(),
        took_ms: 0,
        cpu_us: 0,
        log: Vec::new(),
    };
    let target = Target::Trace("trace".parse().unwrap());
    let executions = note(&mut step, &target, (live, &result), None);
    (step, executions)
}

#[test]
fn scores_of_a_renamed_evaluator_are_paired_by_the_names_of_the_plug_in() {
    let live = [live("old.a", "a", 1.0), live("old.b", "b", 2.0), live("old.c", "c", 3.0)];
    let (step, _) =
        noted(&live, vec![tested("new.a", "a"), tested("new.b", "b"), tested("x", "x")]);
    let pairs = step.pairs.iter().map(|pair| (pair.name.as_str(), pair.live.number()));
    assert_eq!(pairs.collect::<Vec<_>>(), [("new.a", Some(1.0)), ("new.b", Some(2.0))]);
    let counts = step.next.counts;
    assert_eq!((counts.n_pairs, counts.n_unpaired), (2, 2), "c and x have no counterpart");
}

#[test]
fn a_live_score_with_the_present_name_comes_before_a_newer_one_with_another() {
    let live = [live("old", "a", 1.0), live("new", "a", 2.0), live("new", "a", 3.0)];
    let (step, executions) = noted(&live, vec![tested("new", "a")]);
    let numbers = step.pairs.iter().map(|pair| pair.live.number());
    assert_eq!(numbers.collect::<Vec<_>>(), [Some(2.0)]);
    assert_eq!(step.next.counts.n_unpaired, 0);
    let executions = executions.iter().map(ExecutionId::as_str);
    assert_eq!(executions.collect::<Vec<_>>(), ["execution of new"]);
}

#[test]
fn limits_of_targets_and_cost_bound_the_next_step() {
    let at = |calls_models, n_items, cost_usd| {
        let counts = BacktestCounts { n_items, cost_usd, ..BacktestCounts::default() };
        capacity(&backtest(calls_models, counts))
    };
    assert_eq!(at(false, 0, 0.0), Ok(100));
    assert_eq!(at(false, 100, 0.0), Err(BacktestReason::MaxItems));
    assert_eq!(at(true, 0, 0.0), Ok(64));
    assert_eq!(at(true, 1, 0.25), Ok(3));
    assert_eq!(at(true, 4, 1.0), Err(BacktestReason::MaxUsd));
    assert_eq!(at(true, 40, 0.0), Ok(1), "a call may still cost");
    assert_eq!(at(false, 40, 0.0), Ok(60));
    let after = CallTotals { cost_usd: 0.5, ..CallTotals::default() };
    let cached = BacktestCounts { n_items: 2, after, ..BacktestCounts::default() };
    assert_eq!(capacity(&backtest(true, cached)), Ok(4), "the cost of cached replies counts");
    let estimated = |counts, usd| {
        let mut backtest = backtest(true, counts);
        backtest.plan.usd_per_target = Some(usd);
        capacity(&backtest)
    };
    assert_eq!(estimated(BacktestCounts::default(), 0.125), Ok(8));
    assert_eq!(estimated(BacktestCounts::default(), 2.0), Ok(64), "the first target is evaluated");
    let mut costly = backtest(true, BacktestCounts::default());
    costly.plan.usd_per_target = Some(2.0);
    assert!(is_cost_unknown(&costly), "the first step ends after it");
    costly.plan.usd_per_target = Some(0.125);
    assert!(!is_cost_unknown(&costly));
    let free = BacktestCounts { n_items: 1, ..BacktestCounts::default() };
    assert_eq!(estimated(free, 0.25), Ok(4), "no target had a cost");
    let dear = BacktestCounts { n_items: 1, cost_usd: 0.5, ..BacktestCounts::default() };
    assert_eq!(estimated(dear, 0.01), Ok(1), "the cost of a target replaces the estimate");
}

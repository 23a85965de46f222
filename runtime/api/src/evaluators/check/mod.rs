//! Check of an evaluator: it judges labelled items, several times, and with instructions planted
//! into it (evaluation.md 3.12).

mod figures;
mod labels;
mod plants;
mod tally;

use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use perpend_api_types::judge_check::{
    CalibrationStatus, CheckFailures, CheckInput, EvaluatorCheck, EvaluatorChecks,
    PlantedInstructions,
};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Evaluator, OnMissing};
use perpend_domain::ids::ProjectId;
use perpend_domain::score::ScoreDataType;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use perpend_scheduler::{Trial, TrialResult, TrialSubject};

use super::find::find;
use super::trial::{LIMIT, at_version, check_plan, kinds, manual_item, reuse, trial_item};
use crate::state::{App, Routes};
use crate::turns::QueueSlot;
use figures::ComparedPairs;
use labels::{LabelledItem, Verdict};
use plants::JudgedItem;
use tally::Tally;

const CHECK: &str = "/api/v1/evaluators/{evaluatorId}/check";
/// Items per trial, which has one time limit for all of them: the default number of concurrent requests of a connection.
const CHUNK: usize = 8;
/// Time limit of a check.
const LIMIT_OF_ALL: Duration = Duration::from_secs(15 * 60);
const MAX_RUNS: u32 = 5;
/// Lifetime of a check.
const FRESH_MS: i64 = 90 * 86_400_000;

pub(super) fn routes(routes: &mut Routes) {
    let check = Operation::post(
        "checkEvaluator",
        CHECK,
        "Check an evaluator against labels",
        EvaluatorWrite,
    );
    routes.add(check.body::<CheckInput>(), check_evaluator);
    let list = Operation::get(
        "listEvaluatorChecks",
        CHECK,
        "List the last check of each version of an evaluator",
        EvaluatorRead,
    );
    routes.add(list, list_checks);
}

async fn list_checks(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<EvaluatorChecks>, Problem> {
    let evaluator = find(&app, &caller.project, &id).await?;
    let stored = app.store.catalog.evaluator_checks(&caller.project, &evaluator.id);
    let mut data: Vec<EvaluatorCheck> = stored.await?;
    let now = app.web.clock.now();
    let newest = evaluator.version.number;
    for check in &mut data {
        let is_old = check.checked_at.plus_millis(FRESH_MS) < now;
        if (is_old || check.version < newest) && check.status != CalibrationStatus::Uncalibrated {
            check.status = CalibrationStatus::Stale;
        }
    }
    let status = data.first().map_or(CalibrationStatus::Uncalibrated, |check| check.status);
    Ok(Answer(EvaluatorChecks { status, data }))
}

async fn check_evaluator(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<CheckInput>,
) -> Result<Answer<EvaluatorCheck>, Problem> {
    let project = &caller.project;
    let mut evaluator = find(&app, project, &id).await?;
    if let Some(number) = input.version {
        evaluator.version = at_version(&app, project, &evaluator, number).await?;
    }
    let runs = input.runs.unwrap_or(2);
    if !(1..=MAX_RUNS).contains(&runs) {
        let message = format!("must be from 1 to {MAX_RUNS}, got {runs}");
        return Err(Problem::body("runs", message));
    }
    let labelled = labels::load(&app, project, &input).await?;
    let kinds = kinds(labelled.iter().map(|one| &one.on));
    check_plan(&evaluator, input.variable_mapping.as_deref(), kinds)?;
    let mut check = CheckRun {
        app: &app,
        project,
        evaluator: &evaluator,
        input: &input,
        slot: app.trials.enqueue(project)?,
        until: Instant::now() + LIMIT_OF_ALL,
        run: 0,
        score: None,
        tally: Tally::default(),
    };
    let check = check.check(labelled, runs).await?;
    let which = (&evaluator.id, check.version);
    let catalog = &app.store.catalog;
    let kept = catalog.put_evaluator_check(project, which, &check, check.checked_at);
    match kept.await? {
        true => Ok(Answer(check)),
        false => Err(Problem::not_found("evaluator")),
    }
}

/// A running check. Results are reduced at once, because items may be large.
struct CheckRun<'a> {
    app: &'a App,
    project: &'a ProjectId,
    evaluator: &'a Evaluator,
    input: &'a CheckInput,
    /// Slot in the queue of trials, kept for the whole check.
    slot: QueueSlot<'a>,
    until: Instant,
    /// Number of the run, starting at 0.
    run: u32,
    /// The score that is compared with the labels, known after the first result.
    score: Option<(String, ScoreDataType)>,
    tally: Tally,
}

/// Further results of the first run.
#[derive(Default)]
struct FirstRun {
    failures: Vec<CheckFailures>,
    /// Items for planted instructions.
    items: Vec<JudgedItem>,
}

impl CheckRun<'_> {
    async fn check(
        &mut self,
        labelled: Vec<LabelledItem>,
        runs: u32,
    ) -> Result<EvaluatorCheck, Problem> {
        let mut first = FirstRun::default();
        let verdicts_of_run = self.first_run(&labelled, &mut first).await?;
        let judged = figures::compare(&labelled, &verdicts_of_run, &categories_of(self.evaluator))?;
        let mut verdicts = vec![verdicts_of_run];
        for number in 1..runs {
            self.run = number;
            let mut run = Vec::with_capacity(labelled.len());
            for some in labelled.chunks(CHUNK) {
                let results = self.evaluate(some.iter().map(|one| one.on.clone())).await?;
                run.extend(results.iter().map(|result| self.verdict_of(result)));
            }
            verdicts.push(run);
        }
        let n_labels = labelled.len() as u64;
        drop(labelled);
        let id = self.evaluator.id.clone();
        let reckoned = tokio::task::spawn_blocking(move || {
            let figures = figures::figures(id.as_str(), &judged);
            (judged, figures)
        });
        let (judged, figures) = reckoned.await.map_err(|_| Problem::internal())?;
        self.run = 0;
        let plants = match self.input.plants.unwrap_or(true) {
            true => self.plants(first.items, &judged, &verdicts).await?,
            false => Vec::new(),
        };
        let (status, explanation) = figures.badge(judged.n_pairs());
        let latency = self.tally.latency();
        first.failures.sort_by_key(|failures| std::cmp::Reverse(failures.count));
        Ok(EvaluatorCheck {
            evaluator_id: self.evaluator.id.clone(),
            version: self.evaluator.version.number,
            checked_at: self.app.web.clock.now(),
            status,
            explanation,
            against: self.input.against.clone(),
            data_type: self.score.as_ref().map(|score| score.1),
            score: self.score.as_ref().map(|score| score.0.clone()),
            label_count: n_labels,
            pair_count: judged.n_pairs() as u64,
            failures: first.failures,
            agreement: figures.agreement,
            correlation: figures.correlation,
            runs,
            repeatability: (1 < runs).then(|| figures::repeatability(&verdicts)),
            plants,
            execution_count: self.tally.n,
            cost_usd: self.tally.cost(),
            saved_usd: self.tally.saved(),
            latency_median_ms: latency.map(|(median, _)| median),
            latency_p95_ms: latency.map(|(_, p95)| p95),
        })
    }

    /// The verdicts of the first run. Verdicts that cannot be compared are refused after the first chunk.
    async fn first_run(
        &mut self,
        labelled: &[LabelledItem],
        first: &mut FirstRun,
    ) -> Result<Vec<Option<Verdict>>, Problem> {
        let mut verdicts = Vec::with_capacity(labelled.len());
        for some in labelled.chunks(CHUNK) {
            let results = self.evaluate(some.iter().map(|one| one.on.clone())).await?;
            if self.score.is_none() {
                self.score = choose_score(self.input.score.as_deref(), &results)?;
            }
            let from = verdicts.len();
            for (at, result) in results.into_iter().enumerate() {
                let verdict = self.verdict_of(&result);
                note_failure(&mut first.failures, &result, verdict.as_ref());
                if let (Some(verdict), Some(item)) = (&verdict, result.item)
                    && first.items.len() < plants::N_ITEMS
                {
                    first.items.push(JudgedItem {
                        index: from + at,
                        item: manual_item(trial_item(item)),
                        verdict: verdict.clone(),
                    });
                }
                verdicts.push(verdict);
            }
            figures::compare(labelled, &verdicts, &categories_of(self.evaluator))?;
            if verdicts.iter().all(Option::is_none) {
                let n = verdicts.len();
                let why = first.failures.first();
                let why =
                    why.map_or_else(String::new, |why| format!("{}: {}", why.class, why.message));
                let message =
                    format!("the evaluator gave no verdict for the first {n} items: {why}");
                return Err(Problem::new(Code::Unprocessable, message));
            }
        }
        Ok(verdicts)
    }

    /// Evaluates items. Fails after the time limit of the check.
    async fn evaluate(
        &mut self,
        on: impl Iterator<Item = TrialSubject>,
    ) -> Result<Vec<TrialResult>, Problem> {
        let _turn = self.slot.turn().await?;
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = format!(
                "the check exceeded its time limit of {} minutes: use a lower limit or fewer runs",
                LIMIT_OF_ALL.as_secs() / 60
            );
            return Err(Problem::new(Code::Unprocessable, message).with("field", "limit"));
        }
        let trial = Trial {
            evaluator: self.evaluator.clone(),
            mapping: self.input.variable_mapping.clone(),
            on_missing: OnMissing::Fail,
            on: on.collect(),
            reuse: reuse(self.input.fresh, self.run),
            limit: LIMIT.min(left),
        };
        let results = self.app.scheduler.trial(self.project, trial).await?;
        self.tally.add(&results);
        Ok(results)
    }

    async fn plants(
        &mut self,
        items: Vec<JudgedItem>,
        judged: &ComparedPairs,
        verdicts: &[Vec<Option<Verdict>>],
    ) -> Result<Vec<PlantedInstructions>, Problem> {
        let planted = plants::plant(&items, judged);
        drop(items);
        let mut after = Vec::with_capacity(planted.len());
        for some in planted.chunks(CHUNK) {
            let results = self.evaluate(some.iter().map(|one| one.on.clone())).await?;
            after.extend(results.iter().map(|result| self.verdict_of(result)));
        }
        Ok(plants::count_flips(&planted, &after, verdicts))
    }

    fn verdict_of(&self, result: &TrialResult) -> Option<Verdict> {
        let (name, _) = self.score.as_ref()?;
        let mut scores = result.outcome.iter().flatten();
        let found = scores.find(|score| score.name == *name)?;
        Verdict::of(&found.value)
    }
}

/// The categories of a judge with one score; empty if unknown.
fn categories_of(evaluator: &Evaluator) -> Vec<String> {
    let categories = match evaluator.version.is_judge() {
        true => evaluator.version.config.pointer("/output/score/categories"),
        false => None,
    };
    let categories = categories.and_then(serde_json::Value::as_array);
    let names = categories.into_iter().flatten().filter_map(|name| name.as_str());
    names.map(str::to_owned).collect()
}

/// The score that is compared with the labels, and its type; `None` without any score.
fn choose_score(
    requested: Option<&str>,
    results: &[TrialResult],
) -> Result<Option<(String, ScoreDataType)>, Problem> {
    let mut names: Vec<(String, ScoreDataType)> = Vec::new();
    for score in results.iter().flat_map(|result| result.outcome.iter().flatten()) {
        if names.iter().all(|(name, _)| *name != score.name) {
            names.push((score.name.clone(), score.value.data_type()));
        }
    }
    let listed = || {
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    match requested {
        Some(requested) => match names.iter().find(|(name, _)| name == requested) {
            Some(found) => Ok(Some(found.clone())),
            None if names.is_empty() => Ok(None),
            None => {
                let message =
                    format!("must be a score of the evaluator ({}), got {requested:?}", listed());
                Err(Problem::new(Code::Unprocessable, message).with("field", "score"))
            }
        },
        None if names.len() < 2 => Ok(names.pop()),
        None => {
            let message =
                format!("the evaluator returns several scores; score must be one of {}", listed());
            Err(Problem::new(Code::Unprocessable, message).with("field", "score"))
        }
    }
}

/// Counts the failures of items without a verdict by class.
fn note_failure(all: &mut Vec<CheckFailures>, result: &TrialResult, verdict: Option<&Verdict>) {
    let (class, message) = match &result.outcome {
        Err(why) => (why.class.as_str(), why.message.as_str()),
        Ok(_) if verdict.is_none() => (
            "no_such_score",
            "the evaluator returned no numeric, boolean or categorical score of this name",
        ),
        Ok(_) => return,
    };
    match all.iter_mut().find(|failures| failures.class == class) {
        Some(failures) => failures.count += 1,
        None => all.push(CheckFailures {
            class: class.to_owned(),
            count: 1,
            message: message.to_owned(),
        }),
    }
}

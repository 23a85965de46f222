//! Whether an evaluator can be trusted: it judges what people have judged, again and again, and with instructions planted
//! into it (evaluation.md 3.12).

mod figures;
mod labels;
mod plants;
mod tally;

use axum::extract::{Path, State};
use perpend_contract::judge_check::{
    Badge, CheckFailures, CheckInput, EvaluatorCheck, EvaluatorChecks, Plants,
};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Evaluator, Mapping, OnMissing};
use perpend_domain::ids::ProjectId;
use perpend_domain::score::ScoreDataType;
use perpend_scheduler::{Trial, TrialOn, TrialResult};
use perpend_web::answer::Answer;
use perpend_web::auth::Act;
use perpend_web::extract::Body;
use perpend_web::problem::{Code, Problem};
use perpend_web::routes::Operation;

use super::existing::existing;
use super::trial::{LIMIT, at_version, check_plan};
use crate::state::{App, Routes};
use labels::{Labelled, Verdict};
use plants::Planted;
use tally::Tally;

const CHECK: &str = "/api/v1/evaluators/{evaluatorId}/check";
/// Targets or items of one trial: its limit of time is for all of them.
const CHUNK: usize = 20;
const MAX_RUNS: u32 = 5;
/// A check of a version is believed for so long.
const FRESH_MS: i64 = 90 * 86_400_000;

pub(super) fn routes(routes: &mut Routes) {
    let check = Operation::post(
        "checkEvaluator",
        CHECK,
        "Hold an evaluator against what people say",
        EvaluatorWrite,
    );
    routes.add(check.body::<CheckInput>(), check_evaluator);
    let list = Operation::get(
        "listEvaluatorChecks",
        CHECK,
        "The last check of each version of an evaluator",
        EvaluatorRead,
    );
    routes.add(list, list_checks);
}

async fn list_checks(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<EvaluatorChecks>, Problem> {
    let evaluator = existing(&app, &caller.project, &id).await?;
    let stored = app
        .store
        .catalog
        .evaluator_checks(&caller.project, &evaluator.id);
    let mut data: Vec<EvaluatorCheck> = stored.await?;
    let now = app.web.clock.now();
    for check in &mut data {
        let is_old = check.checked_at.plus_millis(FRESH_MS) < now;
        if is_old && check.status != Badge::Uncalibrated {
            check.status = Badge::Stale;
        }
    }
    let newest = evaluator.version.number;
    let status = match data.first() {
        None => Badge::Uncalibrated,
        Some(first) if first.version < newest => Badge::Stale,
        Some(first) => first.status,
    };
    Ok(Answer(EvaluatorChecks { status, data }))
}

async fn check_evaluator(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<CheckInput>,
) -> Result<Answer<EvaluatorCheck>, Problem> {
    let project = &caller.project;
    let mut evaluator = existing(&app, project, &id).await?;
    if let Some(number) = input.version {
        evaluator.version = at_version(&app, project, &evaluator, number).await?;
    }
    let runs = input.runs.unwrap_or(2);
    if !(1..=MAX_RUNS).contains(&runs) {
        let message = format!("a number from 1 to {MAX_RUNS} is expected");
        return Err(Problem::body("runs", message));
    }
    let labelled = labels::of(&app, project, &input).await?;
    let on: Vec<TrialOn> = labelled.iter().map(|one| one.on.clone()).collect();
    check_plan(&evaluator, input.variable_mapping.as_deref(), &on)?;
    let asking = Asking {
        app: &app,
        project,
        evaluator: &evaluator,
        mapping: input.variable_mapping.clone(),
    };
    let check = asking.check(&input, labelled, runs).await?;
    let which = (&evaluator.id, check.version);
    let catalog = &app.store.catalog;
    let kept = catalog.put_evaluator_check(project, which, &check, check.checked_at);
    match kept.await? {
        true => Ok(Answer(check)),
        false => Err(Problem::not_found("evaluator")),
    }
}

/// An evaluator that is asked again and again.
struct Asking<'a> {
    app: &'a App,
    project: &'a ProjectId,
    evaluator: &'a Evaluator,
    mapping: Option<Vec<Mapping>>,
}

impl Asking<'_> {
    async fn check(
        &self,
        input: &CheckInput,
        labelled: Vec<Labelled>,
        runs: u32,
    ) -> Result<EvaluatorCheck, Problem> {
        let mut tally = Tally::default();
        let mut all: Vec<Vec<TrialResult>> = Vec::new();
        for _ in 0..runs {
            let on = labelled.iter().map(|one| one.on.clone()).collect();
            let results = self.ask(on).await?;
            tally.add(&results);
            all.push(results);
        }
        let first = all.first().map_or(&[][..], Vec::as_slice);
        let score = chosen(input.score.as_deref(), first)?;
        let verdict = |result: &TrialResult| verdict_of(result, score.as_ref());
        let verdicts: Vec<Vec<Option<Verdict>>> = all
            .iter()
            .map(|run| run.iter().map(verdict).collect())
            .collect();
        let judged = figures::judged(&labelled, verdicts.first())?;
        let id = self.evaluator.id.clone();
        let reckoned = tokio::task::spawn_blocking(move || {
            let figures = figures::figures(id.as_str(), &judged);
            (judged, figures)
        });
        let (judged, figures) = reckoned.await.map_err(|_| Problem::internal())?;
        let plants = match input.plants.unwrap_or(true) {
            true => {
                let planted = plants::planted(first, verdicts.first(), &judged);
                self.plants(planted, &verdicts, score.as_ref(), &mut tally)
                    .await?
            }
            false => Vec::new(),
        };
        let (status, explanation) = figures.badge(judged.n_pairs());
        let latency = tally.latency();
        Ok(EvaluatorCheck {
            evaluator_id: self.evaluator.id.clone(),
            version: self.evaluator.version.number,
            checked_at: self.app.web.clock.now(),
            status,
            explanation,
            against: input.against.clone(),
            data_type: score.as_ref().map(|score| score.1),
            score: score.map(|score| score.0),
            label_count: labelled.len() as u64,
            pair_count: judged.n_pairs() as u64,
            failures: failures(first, verdicts.first()),
            agreement: figures.agreement,
            correlation: figures.correlation,
            runs,
            repeatability: (1 < runs).then(|| figures::repeatability(&verdicts)),
            plants,
            execution_count: tally.n,
            cost_usd: tally.cost(),
            latency_median_ms: latency.map(|(median, _)| median),
            latency_p95_ms: latency.map(|(_, p95)| p95),
        })
    }

    /// What the evaluator gives for these, some at a time: a check takes its turns among the trials of its project.
    async fn ask(&self, on: Vec<TrialOn>) -> Result<Vec<TrialResult>, Problem> {
        let mut results = Vec::with_capacity(on.len());
        for some in on.chunks(CHUNK) {
            let trial = Trial {
                evaluator: self.evaluator.clone(),
                mapping: self.mapping.clone(),
                on_missing: OnMissing::Fail,
                on: some.to_vec(),
                limit: LIMIT,
            };
            let _turn = self.app.trials.wait(self.project).await?;
            results.extend(self.app.scheduler.trial(self.project, trial).await?);
        }
        Ok(results)
    }

    async fn plants(
        &self,
        planted: Vec<Planted>,
        verdicts: &[Vec<Option<Verdict>>],
        score: Option<&(String, ScoreDataType)>,
        tally: &mut Tally,
    ) -> Result<Vec<Plants>, Problem> {
        let on = planted.iter().map(|one| one.on.clone()).collect();
        let results = self.ask(on).await?;
        tally.add(&results);
        let after: Vec<_> = results
            .iter()
            .map(|result| verdict_of(result, score))
            .collect();
        Ok(plants::counted(&planted, &after, verdicts))
    }
}

/// The score that is held against the labels, and its type; none where nothing was given.
fn chosen(
    asked: Option<&str>,
    results: &[TrialResult],
) -> Result<Option<(String, ScoreDataType)>, Problem> {
    let mut names: Vec<(String, ScoreDataType)> = Vec::new();
    for score in results
        .iter()
        .flat_map(|result| result.outcome.iter().flatten())
    {
        if names.iter().all(|(name, _)| *name != score.name) {
            names.push((score.name.clone(), score.value.data_type()));
        }
    }
    let listed = || {
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    match asked {
        Some(asked) => match names.iter().find(|(name, _)| name == asked) {
            Some(found) => Ok(Some(found.clone())),
            None if names.is_empty() => Ok(None),
            None => {
                let message = format!("the evaluator gave no score {asked:?} but {}", listed());
                Err(Problem::new(Code::Unprocessable, message).with("field", "score"))
            }
        },
        None if names.len() < 2 => Ok(names.pop()),
        None => {
            let message = format!(
                "the evaluator gives several scores, name one of {}",
                listed()
            );
            Err(Problem::new(Code::Unprocessable, message).with("field", "score"))
        }
    }
}

fn verdict_of(result: &TrialResult, score: Option<&(String, ScoreDataType)>) -> Option<Verdict> {
    let (name, _) = score?;
    let mut scores = result.outcome.iter().flatten();
    let found = scores.find(|score| score.name == *name)?;
    Verdict::of(&found.value)
}

/// Why items have no verdict, by class.
fn failures(
    results: &[TrialResult],
    verdicts: Option<&Vec<Option<Verdict>>>,
) -> Vec<CheckFailures> {
    let mut all: Vec<CheckFailures> = Vec::new();
    let mut note = |class: &str, message: &str| match all
        .iter_mut()
        .find(|failures| failures.class == class)
    {
        Some(failures) => failures.count += 1,
        None => all.push(CheckFailures {
            class: class.to_owned(),
            count: 1,
            message: message.to_owned(),
        }),
    };
    let verdicts = verdicts.into_iter().flatten();
    for (result, verdict) in results.iter().zip(verdicts) {
        match &result.outcome {
            Err(why) => note(why.class.as_str(), &why.message),
            Ok(_) if verdict.is_none() => note(
                "no_such_score",
                "the evaluator gave other scores, but none with a number, a truth value or a category of this name",
            ),
            Ok(_) => {}
        }
    }
    all.sort_by_key(|failures| std::cmp::Reverse(failures.count));
    all
}

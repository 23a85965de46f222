//! Transactions over several crates.
//!
//! Invariants:
//! - **Change rows are consumed once.** They are deleted in the transaction that makes their executions.
//! - **Scores and state together.** Scores are written in the transaction that completes their execution, and
//!   only while it is under the lease.

use std::collections::{BTreeMap, HashSet};

use perpend_db::{Tx, despite_collisions, in_transaction};
use perpend_domain::dataset::DatasetRun;
use perpend_domain::evaluation::Execution;
use perpend_domain::ids::{ProjectId, RuleId, ScoreId};
use perpend_domain::score::NewScore;
use perpend_domain::time::Timestamp;

use crate::Store;
use perpend_catalog::dataset_imports::{ImportAdvance, advance_import};
use perpend_catalog::datasets::{self, ItemVersion, NewItemVersion};
use perpend_catalog::{delete_endpoint_secret, put_endpoint_secret};
use perpend_db::Error;
use perpend_executions::{
    EndReport, ExecutionEnd, Lease, LeaseEnd, MatchBatch, NewServerRun, Outcome, OwnedByRuns,
    RunItem, delete_server_run, delete_server_runs_of_dataset, insert_run,
};
use perpend_telemetry::experiments::{delete_run, delete_runs_of_dataset, insert_dataset_run};
use perpend_telemetry::media::link_item;
use perpend_telemetry::scores::{delete_surplus, put, supersede};
use perpend_telemetry::take_changes;

/// The outcome of [`Store::commit_matches`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchOutcome {
    /// The batch is written. For each execution of the batch its `seq`; `None` if it existed already.
    Made(Vec<Option<i64>>),
    /// Another matcher has handled a part of the batch.
    Overtaken,
    /// The catalog has changed since the revision that decided the batch.
    Outdated,
}

/// The outcome of [`Store::put_dataset_items`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsWrite {
    /// Everything is written.
    Written,
    /// The schemas or an item have changed since they were read; nothing is written.
    Changed,
    /// The stage of the import has ended or was started again; nothing is written.
    LeaseLost,
}

/// Deletes the secrets of experiments without remaining runs.
async fn delete_secrets(
    tx: &mut Tx,
    project: &ProjectId,
    unused: &OwnedByRuns,
) -> Result<(), Error> {
    for experiment in &unused.experiments {
        delete_endpoint_secret(tx, project, experiment).await?;
    }
    Ok(())
}

impl Store {
    /// Writes a version of an item that was checked against the schemas of `schema_revision`, as the
    /// successor of the version that started at `seen`, or as the first one, and links the media to which it
    /// refers. `false` if either has changed since.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn put_dataset_item(
        &self,
        project: &ProjectId,
        version: &ItemVersion,
        seen: Option<Timestamp>,
        schema_revision: i64,
    ) -> Result<bool, Error> {
        let new = [NewItemVersion { version: version.clone(), seen }];
        let dataset_id = &version.item.dataset_id;
        let put = self.put_dataset_items(project, dataset_id, &new, schema_revision, None);
        Ok(put.await? == ItemsWrite::Written)
    }

    /// As [`Store::put_dataset_item`], for versions of different items of one dataset, with the progress of the
    /// import that they come from: all is written, or nothing.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn put_dataset_items(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        new: &[NewItemVersion],
        schema_revision: i64,
        advance: Option<&ImportAdvance>,
    ) -> Result<ItemsWrite, Error> {
        in_transaction!(&self.pool, |tx| {
            if !new.is_empty()
                && !datasets::put_items(&mut tx, project, dataset_id, new, schema_revision).await?
            {
                return Ok(ItemsWrite::Changed);
            }
            for NewItemVersion { version, .. } in new {
                link_item(&mut tx, project, &version.item).await?;
            }
            if let Some(advance) = advance
                && !advance_import(&mut tx, advance).await?
            {
                return Ok(ItemsWrite::LeaseLost);
            }
        });
        Ok(ItemsWrite::Written)
    }

    /// Deletes a dataset with all versions of its items and with its runs and what belongs to them. Traces and scores are
    /// kept. `false` if it does not exist.
    ///
    /// # Errors
    /// When the database fails; nothing is deleted then.
    pub async fn delete_dataset(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let unused = in_transaction!(&self.pool, |tx| {
            if !datasets::delete_dataset(&mut tx, project, id).await? {
                return Ok(false);
            }
            let unused = delete_server_runs_of_dataset(&mut tx, project, id).await?;
            delete_secrets(&mut tx, project, &unused).await?;
            delete_runs_of_dataset(&mut tx, project, id, now).await?;
            unused
        });
        self.delete_rules_of_runs(project, &unused).await?;
        Ok(true)
    }

    /// Deletes a run with its links and the states of its items. With the last run of an experiment, the secret and the rule
    /// of the experiment are deleted. Traces and scores are kept.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_run(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let unused = in_transaction!(&self.pool, |tx| {
            let unused = delete_server_run(&mut tx, project, id).await?;
            delete_secrets(&mut tx, project, &unused).await?;
            delete_run(&mut tx, project, id, now).await?;
            unused
        });
        self.delete_rules_of_runs(project, &unused).await
    }

    /// In transactions of their own: one that changes the catalog must lock its revision first.
    async fn delete_rules_of_runs(
        &self,
        project: &ProjectId,
        unused: &OwnedByRuns,
    ) -> Result<(), Error> {
        for rule in unused.rules.iter().filter_map(|id| RuleId::new(id).ok()) {
            match self.catalog.delete_rule(project, &rule).await {
                // A user has deleted it.
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts the runs of an experiment, each with its dataset run, over the same items, and stores the encrypted secret
    /// of their endpoint. The number of a run whose name is taken, if there is one; nothing is written then.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn start_server_runs(
        &self,
        project: &ProjectId,
        (runs, items): (&[(NewServerRun, DatasetRun)], &[RunItem]),
        secret: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Option<usize>, Error> {
        in_transaction!(&self.pool, |tx| {
            for (at, (run, dataset_run)) in runs.iter().enumerate() {
                let is_new = insert_dataset_run(&mut tx, project, dataset_run).await?
                    && insert_run(&mut tx, project, (run, items), now).await?;
                if !is_new {
                    return Ok(Some(at));
                }
            }
            if let (Some(secret), Some((run, _))) = (secret, runs.first()) {
                let sealed = (run.experiment_id.as_str(), secret);
                put_endpoint_secret(&mut tx, project, sealed, now).await?;
            }
        });
        Ok(None)
    }

    /// Deletes change rows and makes the resulting executions and watches. Executions that start in state
    /// `running` are put under `lease`.
    ///
    /// Writes nothing unless it returns [`MatchOutcome::Made`]; otherwise the caller reads again. Crosses tenants:
    /// for the engine.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn commit_matches(
        &self,
        touched: &[i64],
        batch: &MatchBatch,
        lease: Lease,
        now: Timestamp,
    ) -> Result<MatchOutcome, Error> {
        despite_collisions!(self.commit_matches_once(touched, batch, lease, now).await)
    }

    async fn commit_matches_once(
        &self,
        touched: &[i64],
        batch: &MatchBatch,
        lease: Lease,
        now: Timestamp,
    ) -> Result<MatchOutcome, Error> {
        let made = in_transaction!(&self.pool, |tx| {
            // First, as in all transactions that change the catalog, to avoid deadlocks.
            if let Some(revision) = batch.decided_by
                && perpend_catalog::lock_revision(&mut tx).await? != revision
            {
                return Ok(MatchOutcome::Outdated);
            }
            if !take_changes(&mut tx, touched).await? {
                return Ok(MatchOutcome::Overtaken);
            }
            tx.reach("matching: taken")?;
            let Some(made) = perpend_executions::make(&mut tx, batch, lease, now).await? else {
                return Ok(MatchOutcome::Overtaken);
            };
            tx.reach("matching: made")?;
            made
        });
        Ok(MatchOutcome::Made(made))
    }

    /// Ends leases: states, scores, attempts and counters. Executions that are no longer under the lease are
    /// unchanged, and so are their scores. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn finish_executions(
        &self,
        ending: LeaseEnd<'_>,
        finished: &[ExecutionEnd<'_>],
    ) -> Result<EndReport, Error> {
        let ended = despite_collisions!(self.finish_once(ending, finished).await)?;
        for each in finished.iter().filter(|each| each.outcome.is_final()) {
            if ended.mine.contains(&each.execution.seq) {
                let outcome = each.outcome.name();
                let count =
                    metrics::counter!("perpend_executions_finished_total", "outcome" => outcome);
                count.increment(1);
            }
        }
        Ok(ended)
    }

    async fn finish_once(
        &self,
        ending: LeaseEnd<'_>,
        finished: &[ExecutionEnd<'_>],
    ) -> Result<EndReport, Error> {
        let mut ended = EndReport::default();
        in_transaction!(&self.pool, |tx| {
            ended.mine = perpend_executions::end(&mut tx, ending, finished).await?;
            tx.reach("finishing: ended")?;
            write_scores(&mut tx, finished, &ended.mine, ending.now).await?;
            for each in finished {
                let (execution, made) = (each.execution, &each.execution.made);
                if made.shadow.is_some()
                    && matches!(each.outcome, Outcome::Completed(_))
                    && ended.mine.contains(&execution.seq)
                {
                    let target = (&execution.project, &made.target);
                    supersede(&mut tx, target, &made.id, &made.id).await?;
                }
            }
            for old in perpend_executions::replaced(&mut tx, finished, &ended.mine).await? {
                let target = (old.project, old.target);
                supersede(&mut tx, target, &old.execution, &old.newest).await?;
            }
            tx.reach("finishing: scored")?;
            ended.failures =
                perpend_executions::count(&mut tx, finished, &ended.mine, ending.now).await?;
            tx.reach("finishing: counted")?;
        });
        Ok(ended)
    }
}

/// Writes the scores of the executions that are still under our lease.
async fn write_scores(
    tx: &mut Tx,
    finished: &[ExecutionEnd<'_>],
    mine: &HashSet<i64>,
    now: Timestamp,
) -> Result<(), Error> {
    let mut by_project: BTreeMap<&ProjectId, Vec<NewScore>> = BTreeMap::new();
    let mut again = Vec::new();
    for each in finished.iter().filter(|each| mine.contains(&each.execution.seq)) {
        let Outcome::Completed(scores) = &each.outcome else {
            continue;
        };
        let all = by_project.entry(&each.execution.project).or_default();
        all.extend(scores.iter().cloned());
        // Only an earlier attempt can have left scores that this one does not have.
        if 0 < each.execution.attempts {
            again.push((each, scores));
        }
    }
    for (project, scores) in by_project {
        put(tx, project, &scores, now).await?;
    }
    for (each, scores) in again {
        let keep: Vec<ScoreId> = scores.iter().map(|score| score.id.clone()).collect();
        let Execution { project, made, .. } = each.execution;
        delete_surplus(tx, (project, &made.target), &made.id, &keep).await?;
    }
    Ok(())
}

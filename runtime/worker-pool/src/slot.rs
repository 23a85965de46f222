//! A worker slot: runs one worker process after another, and requeues the calls of a lost one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perpend_domain::plugin::FailureClass;
use tokio::sync::watch as signal;

use crate::call_failure::failed_result;
use crate::queue::{Duty, Job, lock, stopped};
use crate::run::run;
use crate::session::{Session, Shared, WorkerLoss};

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Runs a worker process while there is work.
pub(crate) async fn run_slot(
    shared: Arc<Shared>,
    duty: Duty,
    number: usize,
    mut stop: signal::Receiver<bool>,
) {
    let mut backoff = FIRST_BACKOFF;
    loop {
        while shared.queue.is_empty(duty) {
            tokio::select! {
                () = shared.queue.wait_for_work(duty) => {}
                () = stopped(&mut stop) => return,
            }
        }
        let (session, messages) = Session::new(duty, number);
        let ended = run(&shared, &session, messages, stop.clone()).await;
        let pending = std::mem::take(&mut *lock(&session.pending));
        let lost: Vec<Job> = pending.into_values().map(|pending| pending.job).collect();
        if lost.is_empty() && session.since_shutdown_sent().is_some() {
            if let Err(WorkerLoss { reason, .. }) = ended {
                tracing::warn!(reason, "a worker process did not shut down");
            }
            if *stop.borrow() {
                return;
            }
            continue;
        }
        let loss = ended.err().unwrap_or_else(|| WorkerLoss {
            reason: "it exited".into(),
            class: FailureClass::PluginTrap,
        });
        tracing::warn!(n_calls = lost.len(), reason = loss.reason, "a worker process ended");
        let class = loss.class.as_str();
        metrics::counter!("perpend_worker_losses_total", "class" => class).increment(1);
        if !lost.is_empty() {
            backoff = FIRST_BACKOFF;
            requeue(&shared, lost, &loss);
            continue;
        }
        if !session.was_ready.load(Ordering::Acquire) {
            if shared.start_failures.record(number) {
                // No slot can run the queued calls.
                let reason = format!("no worker process can be started: {}", loss.reason);
                for job in shared.queue.drain(duty) {
                    job.answer(failed_result(FailureClass::WorkerLost, &reason));
                }
            } else {
                // Another slot may run them.
                shared.queue.notify(duty);
            }
        }
        if tokio::time::timeout(backoff, stopped(&mut stop)).await.is_ok() {
            return;
        }
        backoff = MAX_BACKOFF.min(backoff * 2);
    }
}

/// Queues the calls of a lost worker as suspects, or puts the only call of a second lost worker into quarantine.
fn requeue(shared: &Shared, mut lost: Vec<Job>, loss: &WorkerLoss) {
    lost.retain(|job| !job.group.is_abandoned());
    for job in &mut lost {
        job.n_deaths += 1;
    }
    match lost.pop() {
        Some(job) if lost.is_empty() && 1 < job.n_deaths => {
            shared.quarantine.add(&job.call);
            let reason = &loss.reason;
            let message = format!(
                "the call ended two worker processes in a row, the second one while it ran alone: {reason}. \
                 The item is in quarantine for this evaluator and configuration until the server restarts"
            );
            tracing::error!(
                plugin.digest = %job.call.plugin,
                evaluator.id = &*job.call.evaluator_id,
                item.id = job.call.item.id,
                reason,
                "a call ended two worker processes"
            );
            job.answer(failed_result(loss.class, message));
        }
        job => {
            lost.extend(job);
            if !lost.is_empty() {
                shared.queue.suspect(lost);
            }
        }
    }
}

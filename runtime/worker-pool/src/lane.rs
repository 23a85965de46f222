//! The lane that keeps one worker process after another, and what becomes of the calls of one that is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perpend_domain::plugin::FailureClass;
use tokio::sync::watch as signal;

use crate::failed::failed;
use crate::queue::{Duty, Job, lock, stopped};
use crate::run::run;
use crate::session::{Loss, Session, Shared};

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Keeps one worker process running while there is work.
pub(crate) async fn lane(
    shared: Arc<Shared>,
    duty: Duty,
    number: usize,
    mut stop: signal::Receiver<bool>,
) {
    let mut backoff = FIRST_BACKOFF;
    loop {
        while shared.queue.is_empty(duty) {
            tokio::select! {
                () = shared.queue.filled(duty) => {}
                () = stopped(&mut stop) => return,
            }
        }
        let (session, messages) = Session::new(duty, number);
        let ended = run(&shared, &session, messages, stop.clone()).await;
        let pending = std::mem::take(&mut *lock(&session.pending));
        let lost: Vec<Job> = pending.into_values().map(|pending| pending.job).collect();
        if lost.is_empty() && session.since_told_to_end().is_some() {
            if let Err(Loss { reason, .. }) = ended {
                tracing::warn!(reason, "a worker process did not end when it was told to");
            }
            if *stop.borrow() {
                return;
            }
            continue;
        }
        let loss = ended.err().unwrap_or_else(|| Loss {
            reason: "it ended by itself".into(),
            class: FailureClass::PluginTrap,
        });
        tracing::warn!(n_calls = lost.len(), reason = loss.reason, "a worker process ended");
        if !lost.is_empty() {
            backoff = FIRST_BACKOFF;
            lose(&shared, lost, &loss);
            continue;
        }
        if !session.was_ready.load(Ordering::Acquire) {
            if shared.starts.failed(number) {
                // Nobody would answer the calls that wait.
                let reason = format!("no worker process can be started: {}", loss.reason);
                for job in shared.queue.drain(duty) {
                    job.answer(failed(FailureClass::WorkerLost, &reason));
                }
            } else {
                // They are another lane's, if there is one that rests.
                shared.queue.refill(duty);
            }
        }
        if tokio::time::timeout(backoff, stopped(&mut stop)).await.is_ok() {
            return;
        }
        backoff = MAX_BACKOFF.min(backoff * 2);
    }
}

/// Calls whose worker ended are run again apart from others, until the one that ends workers is alone.
fn lose(shared: &Shared, mut lost: Vec<Job>, loss: &Loss) {
    lost.retain(|job| !job.group.is_abandoned());
    for job in &mut lost {
        job.n_deaths += 1;
    }
    match lost.pop() {
        Some(job) if lost.is_empty() && 1 < job.n_deaths => {
            shared.quarantine.convict(&job.call);
            let reason = &loss.reason;
            let message = format!(
                "the call ended two worker processes in a row, the second while it was alone in it: {reason}. \
                 The item is in quarantine for this evaluator and configuration until the server starts \
                 again"
            );
            tracing::error!(
                plugin.digest = %job.call.plugin,
                evaluator.id = &*job.call.evaluator_id,
                item.id = job.call.item.id,
                reason,
                "a call ends worker processes"
            );
            job.answer(failed(loss.class, message));
        }
        job => {
            lost.extend(job);
            if !lost.is_empty() {
                shared.queue.suspect(lost);
            }
        }
    }
}

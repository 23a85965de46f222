//! Queues of long operations: inspections of components, trials of evaluators.
//!
//! Invariants:
//! - **Only complete requests wait.** A turn is requested after the body was read; a slow upload holds none.
//! - **Projects do not block each other.** A project waits for its own turns. Every queue is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_http_kit::problem::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Limits of turns and queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnLimits {
    /// Concurrent turns.
    concurrency: usize,
    /// Concurrent turns of one project.
    concurrency_per_project: usize,
    /// Waiting and running operations of one project.
    max_per_project: usize,
    /// Waiting and running operations of all projects.
    max_total: usize,
    /// Description in messages.
    description: &'static str,
}

/// Inspections of components, each with a process and CPU time.
pub(crate) const INSPECTIONS: TurnLimits = TurnLimits {
    concurrency: 4,
    concurrency_per_project: 1,
    max_per_project: 8,
    max_total: 64,
    description: "components are being registered",
};

/// Trials of evaluators, which mostly wait for models.
pub(crate) const TRIALS: TurnLimits = TurnLimits {
    concurrency: 16,
    concurrency_per_project: 4,
    max_per_project: 16,
    max_total: 128,
    description: "trials of evaluators are in progress",
};

/// Tests of evaluators before they or their rules are saved. They do not wait for trials, which may take minutes.
pub(crate) const PREFLIGHTS: TurnLimits = TurnLimits {
    concurrency: 16,
    concurrency_per_project: 4,
    max_per_project: 16,
    max_total: 128,
    description: "tests of evaluators are in progress",
};

/// Running and waiting operations.
#[derive(Debug)]
pub(crate) struct TurnQueue {
    limits: TurnLimits,
    all: Semaphore,
    queues: Mutex<HashMap<ProjectId, ProjectQueue>>,
}

#[derive(Debug)]
struct ProjectQueue {
    n: usize,
    turn: Arc<Semaphore>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _of_all: SemaphorePermit<'a>,
    _of_project: OwnedSemaphorePermit,
}

/// A slot in the queue of a project until it is dropped, for one turn or several in sequence.
#[derive(Debug)]
pub(crate) struct QueueSlot<'a> {
    turns: &'a TurnQueue,
    project: &'a ProjectId,
    turn: Arc<Semaphore>,
}

impl<'a> QueueSlot<'a> {
    /// Waits for the next turn.
    ///
    /// # Errors
    /// Never, while the server runs.
    pub(crate) async fn turn(&self) -> Result<Turn<'a>, Problem> {
        let of_project = Arc::clone(&self.turn).acquire_owned().await;
        let of_all = self.turns.all.acquire().await;
        Ok(Turn {
            _of_all: of_all.map_err(|_| Problem::internal())?,
            _of_project: of_project.map_err(|_| Problem::internal())?,
        })
    }
}

impl TurnQueue {
    /// An empty queue.
    pub(crate) fn new(limits: TurnLimits) -> Self {
        Self { all: Semaphore::new(limits.concurrency), limits, queues: Mutex::default() }
    }

    // The map is consistent between any two statements, also after a panic.
    fn queues(&self) -> MutexGuard<'_, HashMap<ProjectId, ProjectQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of this project. Turn and slot are released together.
    ///
    /// # Errors
    /// 503 when the queue is full.
    pub(crate) async fn wait<'a>(
        &'a self,
        project: &'a ProjectId,
    ) -> Result<(Turn<'a>, QueueSlot<'a>), Problem> {
        let slot = self.enqueue(project)?;
        Ok((slot.turn().await?, slot))
    }

    /// Takes a slot in the queue of this project.
    ///
    /// # Errors
    /// 503 when the queue is full.
    pub(crate) fn enqueue<'a>(&'a self, project: &'a ProjectId) -> Result<QueueSlot<'a>, Problem> {
        let mut queues = self.queues();
        let max_total: usize = queues.values().map(|queue| queue.n).sum();
        let queue = queues.get(project);
        let TurnLimits {
            max_per_project: most_of_project,
            max_total: most_of_all,
            description,
            ..
        } = self.limits;
        if queue.is_some_and(|queue| most_of_project <= queue.n) {
            return Err(Problem::unavailable(format!(
                "{most_of_project} {description} for this project; send the request again"
            )));
        }
        if most_of_all <= max_total {
            return Err(Problem::unavailable(format!(
                "{most_of_all} {description}; send the request again"
            )));
        }
        let queue = queues.entry(project.clone()).or_insert_with(|| ProjectQueue {
            n: 0,
            turn: Arc::new(Semaphore::new(self.limits.concurrency_per_project)),
        });
        queue.n += 1;
        Ok(QueueSlot { turns: self, project, turn: Arc::clone(&queue.turn) })
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        if let Some(queue) = queues.get_mut(self.project) {
            queue.n -= 1;
            if queue.n == 0 {
                queues.remove(self.project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use perpend_http_kit::problem::Code;

    fn project(name: &str) -> ProjectId {
        ProjectId::new(name).unwrap()
    }

    #[tokio::test]
    async fn a_project_with_many_components_waits_without_blocking_others() {
        let turns = TurnQueue::new(INSPECTIONS);
        let (busy, other) = (project("busy"), project("other"));
        let first = turns.wait(&busy).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> =
            (1..INSPECTIONS.max_per_project).map(|_| Box::pin(turns.wait(&busy))).collect();
        for one in &mut waiting {
            assert!(one.as_mut().poll(&mut context).is_pending());
        }
        let refused = turns.wait(&busy).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        drop(turns.wait(&other).await.unwrap());
        drop(first);
        let mut second = pin!(waiting.remove(0));
        assert!(matches!(second.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        drop(waiting);
        assert!(turns.queues().is_empty());
    }

    #[tokio::test]
    async fn the_number_of_waiting_operations_is_bounded() {
        let turns = TurnQueue::new(INSPECTIONS);
        let projects: Vec<_> =
            (0..=INSPECTIONS.max_total).map(|n| project(&format!("p{n}"))).collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Vec::new();
        for (n, project) in projects.iter().enumerate() {
            let mut one = Box::pin(turns.wait(project));
            match one.as_mut().poll(&mut context) {
                Poll::Ready(Ok(turn)) => {
                    assert!(n < INSPECTIONS.concurrency);
                    std::mem::forget(turn);
                }
                Poll::Pending => waiting.push(one),
                Poll::Ready(Err(problem)) => {
                    assert_eq!((n, problem.code()), (INSPECTIONS.max_total, Code::Unavailable));
                }
            }
        }
        assert_eq!(waiting.len(), INSPECTIONS.max_total - INSPECTIONS.concurrency);
    }
}

//! Turns of work that takes long: components to be inspected, evaluators to be tried.
//!
//! Invariants:
//! - **Only whole requests wait.** A turn is asked for when the bytes are here; a slow upload holds none.
//! - **A project waits for itself.** What it has beyond its own turns waits behind them. No line grows without bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_http_kit::problem::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// How many turns there are, and how long lines get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnLimits {
    /// Done at a time.
    at_a_time: usize,
    /// The same of one project.
    at_a_time_of_project: usize,
    /// Waiting or being done, of one project.
    n_of_project: usize,
    /// The same of all projects.
    n_of_all: usize,
    /// What waits, and what is done with it, for people.
    doing: &'static str,
}

/// Components to be inspected: a process and CPU time each.
pub(crate) const INSPECTIONS: TurnLimits = TurnLimits {
    at_a_time: 4,
    at_a_time_of_project: 1,
    n_of_project: 8,
    n_of_all: 64,
    doing: "components are being registered",
};

/// Evaluators to be tried: mostly waiting for models.
pub(crate) const TRIALS: TurnLimits = TurnLimits {
    at_a_time: 16,
    at_a_time_of_project: 4,
    n_of_project: 16,
    n_of_all: 128,
    doing: "trials of evaluators are under way",
};

/// Evaluators to be tested when they or their rules are saved: they do not wait for trials, which may take minutes.
pub(crate) const PREFLIGHTS: TurnLimits = TurnLimits {
    at_a_time: 16,
    at_a_time_of_project: 4,
    n_of_project: 16,
    n_of_all: 128,
    doing: "tests of evaluators are under way",
};

/// Whose turn it is, and who waits.
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

/// A place in the line of a project, kept until it is dropped: for one turn, or for one after the other.
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
    /// None is taken yet.
    pub(crate) fn new(limits: TurnLimits) -> Self {
        Self { all: Semaphore::new(limits.at_a_time), limits, queues: Mutex::default() }
    }

    // What is guarded is whole between any two statements, also after a panic.
    fn queues(&self) -> MutexGuard<'_, HashMap<ProjectId, ProjectQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of this project; both are given back together.
    ///
    /// # Errors
    /// 503 when too many wait already.
    pub(crate) async fn wait<'a>(
        &'a self,
        project: &'a ProjectId,
    ) -> Result<(Turn<'a>, QueueSlot<'a>), Problem> {
        let slot = self.enqueue(project)?;
        Ok((slot.turn().await?, slot))
    }

    /// Takes a place in the line of this project.
    ///
    /// # Errors
    /// 503 when too many wait already.
    pub(crate) fn enqueue<'a>(&'a self, project: &'a ProjectId) -> Result<QueueSlot<'a>, Problem> {
        let mut queues = self.queues();
        let n_of_all: usize = queues.values().map(|queue| queue.n).sum();
        let queue = queues.get(project);
        let TurnLimits { n_of_project: most_of_project, n_of_all: most_of_all, doing, .. } =
            self.limits;
        if queue.is_some_and(|queue| most_of_project <= queue.n) {
            return Err(Problem::unavailable(format!(
                "{most_of_project} {doing} for this project; nothing of this one was kept"
            )));
        }
        if most_of_all <= n_of_all {
            return Err(Problem::unavailable(format!(
                "{most_of_all} {doing}; nothing of this one was kept"
            )));
        }
        let queue = queues.entry(project.clone()).or_insert_with(|| ProjectQueue {
            n: 0,
            turn: Arc::new(Semaphore::new(self.limits.at_a_time_of_project)),
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
    async fn a_project_with_many_components_waits_behind_itself_and_others_do_not() {
        let turns = TurnQueue::new(INSPECTIONS);
        let (busy, other) = (project("busy"), project("other"));
        let first = turns.wait(&busy).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> =
            (1..INSPECTIONS.n_of_project).map(|_| Box::pin(turns.wait(&busy))).collect();
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
    async fn no_more_wait_than_there_is_room_for() {
        let turns = TurnQueue::new(INSPECTIONS);
        let projects: Vec<_> =
            (0..=INSPECTIONS.n_of_all).map(|n| project(&format!("p{n}"))).collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Vec::new();
        for (n, project) in projects.iter().enumerate() {
            let mut one = Box::pin(turns.wait(project));
            match one.as_mut().poll(&mut context) {
                Poll::Ready(Ok(turn)) => {
                    assert!(n < INSPECTIONS.at_a_time);
                    std::mem::forget(turn);
                }
                Poll::Pending => waiting.push(one),
                Poll::Ready(Err(problem)) => {
                    assert_eq!((n, problem.code()), (INSPECTIONS.n_of_all, Code::Unavailable));
                }
            }
        }
        assert_eq!(waiting.len(), INSPECTIONS.n_of_all - INSPECTIONS.at_a_time);
    }
}

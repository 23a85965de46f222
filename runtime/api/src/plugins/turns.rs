//! Turns of components to be inspected, which takes a process and CPU time each.
//!
//! Invariants:
//! - **Only whole components wait.** A turn is asked for when the bytes are here; a slow upload holds none.
//! - **A project waits for itself.** One component of a project is inspected at a time, the others of it wait behind
//!   that one. No line grows without bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_web::problem::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Components inspected at a time.
const MAX_AT_A_TIME: usize = 4;
/// Components of one project that wait or are inspected.
const MAX_OF_PROJECT: usize = 8;
/// The same of all projects.
const MAX_OF_ALL: usize = 64;

/// Who is inspected, and who waits.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Semaphore,
    lines: Mutex<HashMap<ProjectId, Line>>,
}

#[derive(Debug)]
struct Line {
    n_components: usize,
    turn: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Semaphore::new(MAX_AT_A_TIME),
            lines: Mutex::default(),
        }
    }
}

/// The turn of one component, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _of_all: SemaphorePermit<'a>,
    _of_project: OwnedSemaphorePermit,
    _place: Place<'a>,
}

/// A place in the line of a project.
#[derive(Debug)]
struct Place<'a> {
    turns: &'a Turns,
    project: &'a ProjectId,
}

impl Turns {
    // What is guarded is whole between any two statements, also after a panic.
    fn lines(&self) -> MutexGuard<'_, HashMap<ProjectId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of this project.
    ///
    /// # Errors
    /// 503 when too many wait already.
    pub(super) async fn wait<'a>(&'a self, project: &'a ProjectId) -> Result<Turn<'a>, Problem> {
        let (place, turn) = self.line_up(project)?;
        let of_project = turn.acquire_owned().await;
        let of_all = self.all.acquire().await;
        Ok(Turn {
            _of_all: of_all.map_err(|_| Problem::internal())?,
            _of_project: of_project.map_err(|_| Problem::internal())?,
            _place: place,
        })
    }

    fn line_up<'a>(
        &'a self,
        project: &'a ProjectId,
    ) -> Result<(Place<'a>, Arc<Semaphore>), Problem> {
        let mut lines = self.lines();
        let n_of_all: usize = lines.values().map(|line| line.n_components).sum();
        let line = lines.get(project);
        if line.is_some_and(|line| MAX_OF_PROJECT <= line.n_components) {
            return Err(Problem::unavailable(format!(
                "{MAX_OF_PROJECT} components of this project are being registered; nothing of this one was kept"
            )));
        }
        if MAX_OF_ALL <= n_of_all {
            return Err(Problem::unavailable(format!(
                "{MAX_OF_ALL} components are being registered; nothing of this one was kept"
            )));
        }
        let line = lines.entry(project.clone()).or_insert_with(|| Line {
            n_components: 0,
            turn: Arc::new(Semaphore::new(1)),
        });
        line.n_components += 1;
        let place = Place {
            turns: self,
            project,
        };
        Ok((place, Arc::clone(&line.turn)))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.turns.lines();
        if let Some(line) = lines.get_mut(self.project) {
            line.n_components -= 1;
            if line.n_components == 0 {
                lines.remove(self.project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use perpend_web::problem::Code;

    fn project(name: &str) -> ProjectId {
        ProjectId::new(name).unwrap()
    }

    #[tokio::test]
    async fn a_project_with_many_components_waits_behind_itself_and_others_do_not() {
        let turns = Turns::default();
        let (busy, other) = (project("busy"), project("other"));
        let first = turns.wait(&busy).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> = (1..MAX_OF_PROJECT)
            .map(|_| Box::pin(turns.wait(&busy)))
            .collect();
        for one in &mut waiting {
            assert!(one.as_mut().poll(&mut context).is_pending());
        }
        let refused = turns.wait(&busy).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        drop(turns.wait(&other).await.unwrap());
        drop(first);
        let mut second = pin!(waiting.remove(0));
        assert!(matches!(
            second.as_mut().poll(&mut context),
            Poll::Ready(Ok(_))
        ));
        drop(waiting);
        assert!(turns.lines().is_empty());
    }

    #[tokio::test]
    async fn no_more_wait_than_there_is_room_for() {
        let turns = Turns::default();
        let projects: Vec<_> = (0..=MAX_OF_ALL)
            .map(|n| project(&format!("p{n}")))
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Vec::new();
        for (n, project) in projects.iter().enumerate() {
            let mut one = Box::pin(turns.wait(project));
            match one.as_mut().poll(&mut context) {
                Poll::Ready(Ok(turn)) => {
                    assert!(n < MAX_AT_A_TIME);
                    std::mem::forget(turn);
                }
                Poll::Pending => waiting.push(one),
                Poll::Ready(Err(problem)) => {
                    assert_eq!((n, problem.code()), (MAX_OF_ALL, Code::Unavailable));
                }
            }
        }
        assert_eq!(waiting.len(), MAX_OF_ALL - MAX_AT_A_TIME);
    }
}

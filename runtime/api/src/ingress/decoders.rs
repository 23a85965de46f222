//! Threads that decode, map and pack telemetry.
//!
//! There is one per CPU, with a lower priority than all other threads: under load, commits, evaluations
//! and responses go first, and new telemetry waits. Each
//! waiting body keeps its share of the memory budget, so that the number of waiting bodies is bounded.

use perpend_http_kit::problem::Problem;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use tokio::sync::oneshot;

/// Threads for CPU-bound work.
#[derive(Debug)]
pub struct Decoders(ThreadPool);

impl Decoders {
    /// Starts one thread for each CPU.
    ///
    /// # Errors
    /// When a thread cannot be created.
    pub fn start() -> Result<Self, ThreadPoolBuildError> {
        let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = ThreadPoolBuilder::new()
            .num_threads(n_cpus)
            .thread_name(|at| format!("decoder-{at}"))
            .start_handler(|_| lower_priority())
            // `run` reports the failure to the waiting request.
            .panic_handler(|_| tracing::error!("mapping failed"))
            .build()?;
        Ok(Self(pool))
    }

    /// Runs `work` on one of the threads.
    ///
    /// # Errors
    /// The error of `work`; 500 when it panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (done, result) = oneshot::channel();
        self.0.spawn(move || {
            // The work of an abandoned request is skipped.
            if !done.is_closed() {
                drop(done.send(work()));
            }
        });
        result.await.unwrap_or_else(|_| Err(Problem::internal()))
    }
}

fn lower_priority() {
    // On Linux this applies to the calling thread; elsewhere it would apply to the process. A nice value of 5 gives a third of
    // the CPU share of the other threads.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(5) {
        tracing::debug!(%error, "the priority of a decoder was not lowered");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn the_work_of_an_abandoned_request_is_skipped() {
        let decoders = Decoders::start().unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
        for _ in 0..decoders.0.current_num_threads() {
            let gate = gate.clone();
            decoders.0.spawn(move || assert!(gate.lock().unwrap().recv().is_err()));
        }
        let (sender, receiver) = mpsc::channel();
        let mut abandoned = Box::pin(decoders.run(move || {
            sender.send(()).unwrap();
            Ok(())
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(abandoned.as_mut().poll(&mut context), Poll::Pending));
        drop(abandoned);
        drop(open);
        assert_eq!(decoders.run(|| Ok(7)).await.ok(), Some(7));
        assert!(receiver.try_recv().is_err());
    }

    #[tokio::test]
    async fn work_that_panics_is_answered_with_an_internal_error() {
        let decoders = Decoders::start().unwrap();
        let result: Result<(), Problem> = decoders.run(|| panic!("a fault")).await;
        assert!(result.is_err());
        assert_eq!(decoders.run(|| Ok(7)).await.ok(), Some(7));
    }
}

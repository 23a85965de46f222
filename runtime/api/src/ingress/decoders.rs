//! The threads that decode, map and pack what comes in.
//!
//! There are as many as CPUs and they stand behind all other threads: when CPUs are short, what was
//! acknowledged or asked for goes first (commits, evaluations, answers), and new telemetry waits. Each
//! body that waits keeps its share of the budget of bytes, so that no more wait than fit.

use perpend_http_kit::problem::Problem;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use tokio::sync::oneshot;

/// Threads for work that needs nothing but a CPU.
#[derive(Debug)]
pub struct Decoders(ThreadPool);

impl Decoders {
    /// Starts one thread for each CPU.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> Result<Self, ThreadPoolBuildError> {
        let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = ThreadPoolBuilder::new()
            .num_threads(n_cpus)
            .thread_name(|at| format!("decoder-{at}"))
            .start_handler(|_| lower_priority())
            // Whoever waits for the work is told; see `run`.
            .panic_handler(|_| tracing::error!("mapping failed"))
            .build()?;
        Ok(Self(pool))
    }

    /// Runs `work` when it is its turn.
    ///
    /// # Errors
    /// What `work` gives; 500 when it panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (done, result) = oneshot::channel();
        self.0.spawn(move || {
            // Nobody waits any more when a request was given up: it makes room for those that are not.
            if !done.is_closed() {
                drop(done.send(work()));
            }
        });
        result.await.unwrap_or_else(|_| Err(Problem::internal()))
    }
}

fn lower_priority() {
    // On Linux the calling thread alone; elsewhere it would be the whole program. Five steps are a third of
    // the share of a CPU that a thread of the others wants too.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(5) {
        tracing::debug!(%error, "a decoder stays in front");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn work_that_nobody_waits_for_any_more_is_left_out() {
        let decoders = Decoders::start().unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
        for _ in 0..decoders.0.current_num_threads() {
            let gate = gate.clone();
            decoders.0.spawn(move || assert!(gate.lock().unwrap().recv().is_err()));
        }
        let (told, heard) = mpsc::channel();
        let mut given_up = Box::pin(decoders.run(move || {
            told.send(()).unwrap();
            Ok(())
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(given_up.as_mut().poll(&mut context), Poll::Pending));
        drop(given_up);
        drop(open);
        assert_eq!(decoders.run(|| Ok(7)).await.ok(), Some(7));
        assert!(heard.try_recv().is_err());
    }

    #[tokio::test]
    async fn work_that_panics_is_answered_with_an_internal_error() {
        let decoders = Decoders::start().unwrap();
        let result: Result<(), Problem> = decoders.run(|| panic!("a fault")).await;
        assert!(result.is_err());
        assert_eq!(decoders.run(|| Ok(7)).await.ok(), Some(7));
    }
}

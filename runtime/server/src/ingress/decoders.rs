//! The threads that decode, map and pack what comes in.
//!
//! There are as many as CPUs and they stand behind all other threads: when CPUs are short, what was
//! acknowledged or asked for goes first (commits, evaluations, answers), and new telemetry waits. Each
//! body that waits keeps its share of the budget of bytes, so that no more wait than fit.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use tokio::sync::oneshot;

use crate::problem::Problem;

/// Steps below the other threads of the program (`nice`): a third of their share of a CPU that both want.
const BEHIND: i32 = 5;

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
            .start_handler(|_| step_back())
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
        // Nobody waits any more when a request was given up.
        self.0.spawn(move || drop(done.send(work())));
        result.await.unwrap_or_else(|_| Err(Problem::internal()))
    }
}

fn step_back() {
    // On Linux the calling thread alone; elsewhere it would be the whole program.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(BEHIND) {
        tracing::debug!(%error, "a decoder stays in front");
    }
}

//! Progress of concurrent tasks: a line for each finished step, and on a terminal a status line with the current steps.

use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::shell::coloured;

/// Refresh interval of the status line.
const PAINT: Duration = Duration::from_millis(200);
/// Narrow enough for most terminals: a wrapped line cannot be overwritten.
const WIDTH: usize = 79;

/// The progress of all tasks.
pub(crate) struct Progress {
    started: Instant,
    is_terminal: bool,
    doing: Mutex<Vec<(&'static str, String)>>,
    is_over: AtomicBool,
}

/// One task.
#[derive(Clone, Copy)]
pub(crate) struct Task<'p> {
    progress: &'p Progress,
    name: &'static str,
}

/// Stops the status line when dropped.
struct StopOnDrop<'o>(&'o AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Progress {
    /// Runs `work` and shows its progress.
    pub(crate) fn show<T>(work: impl FnOnce(&Self) -> T) -> T {
        Self::run(std::io::stderr().is_terminal(), work)
    }

    /// The same without a status line, for use with a program that has its own.
    pub(crate) fn note<T>(work: impl FnOnce(&Self) -> T) -> T {
        Self::run(false, work)
    }

    fn run<T>(is_terminal: bool, work: impl FnOnce(&Self) -> T) -> T {
        let progress = Self {
            started: Instant::now(),
            is_terminal,
            doing: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            if progress.is_terminal {
                scope.spawn(|| progress.paint());
            }
            // Also when `work` panics: the scope waits for the painter, which would never end.
            let _over = StopOnDrop(&progress.is_over);
            work(&progress)
        })
    }

    /// A task; its lines start with its name.
    pub(crate) fn task(&self, name: &'static str) -> Task<'_> {
        Task { progress: self, name }
    }

    fn doing(&self) -> MutexGuard<'_, Vec<(&'static str, String)>> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paint(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            {
                let doing = self.doing();
                let seconds = self.started.elapsed().as_secs();
                let mut line = format!("{}:{:02}", seconds / 60, seconds % 60);
                for (name, what) in doing.iter() {
                    line.push_str(&format!("  {name}: {what}"));
                }
                let line: String = line.chars().take(WIDTH).collect();
                let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
            }
            thread::sleep(PAINT);
        }
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }

    /// Prints a permanent line.
    pub(crate) fn line(&self, line: &str) {
        // Under the lock, so that the status line is not painted in between.
        let _doing = self.doing();
        let clear = if self.is_terminal { "\r\x1b[2K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{line}");
    }
}

impl Task<'_> {
    /// Sets the current step in the status line.
    pub(crate) fn doing(self, what: impl Into<String>) {
        let what = what.into();
        let mut doing = self.progress.doing();
        match doing.iter_mut().find(|(name, _)| *name == self.name) {
            Some((_, step)) => *step = what,
            None => doing.push((self.name, what)),
        }
    }

    /// Removes the task from the status line.
    pub(crate) fn over(self) {
        self.progress.doing().retain(|(name, _)| *name != self.name);
    }

    /// Runs a step and prints its duration.
    pub(crate) fn step<T>(
        self,
        what: &str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.doing(what);
        if !self.progress.is_terminal {
            self.progress.line(&format!("  {}: {what} ...", self.name));
        }
        let started = Instant::now();
        let done = work();
        self.over();
        if done.is_ok() {
            let took = started.elapsed().as_secs_f64();
            self.say(&format!("{what}: {took:.1} s"));
        }
        done
    }

    /// Prints a permanent line of the task.
    pub(crate) fn say(self, line: &str) {
        self.progress.line(&format!("  {}: {line}", coloured(1, self.name)));
    }
}

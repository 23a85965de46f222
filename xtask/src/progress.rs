//! Several things that are done at the same time, on one terminal: a line for each step that ended, and on a
//! terminal a last line with what is being done.

use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::shell::coloured;

/// How often the last line is painted.
const PAINT: Duration = Duration::from_millis(200);
/// Narrow enough for most terminals: a line that wraps cannot be painted over.
const WIDTH: usize = 79;

/// What is shown.
pub(crate) struct Progress {
    begun: Instant,
    is_terminal: bool,
    doing: Mutex<Vec<(&'static str, String)>>,
    is_over: AtomicBool,
}

/// One of the things that are done.
#[derive(Clone, Copy)]
pub(crate) struct Part<'p> {
    progress: &'p Progress,
    name: &'static str,
}

/// Says when dropped that all is done.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Progress {
    /// Runs `work` while what it does is shown.
    pub(crate) fn show<T>(work: impl FnOnce(&Self) -> T) -> T {
        Self::run(std::io::stderr().is_terminal(), work)
    }

    /// The same beside something that paints a last line of its own: only the lines that stay.
    pub(crate) fn note<T>(work: impl FnOnce(&Self) -> T) -> T {
        Self::run(false, work)
    }

    fn run<T>(is_terminal: bool, work: impl FnOnce(&Self) -> T) -> T {
        let progress = Self {
            begun: Instant::now(),
            is_terminal,
            doing: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            if progress.is_terminal {
                scope.spawn(|| progress.paint());
            }
            // Also when `work` panics: the scope waits for the painter, which would go on for ever.
            let _over = Over(&progress.is_over);
            work(&progress)
        })
    }

    /// A thing that is done; its name begins its lines.
    pub(crate) fn part(&self, name: &'static str) -> Part<'_> {
        Part { progress: self, name }
    }

    fn doing(&self) -> MutexGuard<'_, Vec<(&'static str, String)>> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paint(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            {
                let doing = self.doing();
                let seconds = self.begun.elapsed().as_secs();
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

    /// Prints a line that stays.
    pub(crate) fn line(&self, line: &str) {
        // Under the lock, so that nothing is painted in between.
        let _doing = self.doing();
        let clear = if self.is_terminal { "\r\x1b[2K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{line}");
    }
}

impl Part<'_> {
    /// What happens now, on the last line.
    pub(crate) fn doing(self, what: impl Into<String>) {
        let what = what.into();
        let mut doing = self.progress.doing();
        match doing.iter_mut().find(|(name, _)| *name == self.name) {
            Some((_, said)) => *said = what,
            None => doing.push((self.name, what)),
        }
    }

    /// Nothing happens any more.
    pub(crate) fn over(self) {
        self.progress.doing().retain(|(name, _)| *name != self.name);
    }

    /// Does a step, and says how long it took.
    pub(crate) fn step<T>(
        self,
        what: &str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.doing(what);
        if !self.progress.is_terminal {
            self.progress.line(&format!("  {}: {what} ...", self.name));
        }
        let begun = Instant::now();
        let done = work();
        self.over();
        if done.is_ok() {
            let took = begun.elapsed().as_secs_f64();
            self.say(&format!("{what}: {took:.1} s"));
        }
        done
    }

    /// A line that stays.
    pub(crate) fn say(self, line: &str) {
        self.progress.line(&format!("  {}: {line}", coloured(1, self.name)));
    }
}

//! Progress of commands on standard error.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Receives the progress of a command. Methods can be called from any thread.
pub trait Progress: Send + Sync {
    /// Starts a step, such as `compiling plugin.wasm`, and ends the previous one.
    fn step(&self, text: &str);

    /// The latest line of output of a tool.
    fn line(&self, text: &str);

    /// The progress within the step.
    fn count(&self, n_done: u64, n_all: u64);

    /// The end of the last step.
    fn done(&self);
}

/// Discards progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: &str) {}
    fn line(&self, _: &str) {}
    fn count(&self, _: u64, _: u64) {}
    fn done(&self) {}
}

/// A line on standard error for each step that takes longer than a second, for use without a terminal.
#[derive(Debug, Default)]
pub struct Plain(Mutex<Option<Sender<()>>>);

/// The minimum duration of a step with a line.
const MIN_DURATION: Duration = Duration::from_secs(1);

impl Plain {
    /// Replaces the current step; dropping the sender of the previous one ends it.
    fn replace(&self, step: Option<Sender<()>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }
}

impl Progress for Plain {
    fn step(&self, text: &str) {
        let (step, end) = channel();
        self.replace(Some(step));
        let text = text.to_owned();
        std::thread::spawn(move || {
            if end.recv_timeout(MIN_DURATION) == Err(RecvTimeoutError::Timeout) {
                let _ = writeln!(std::io::stderr(), "perpend: {text} ...");
            }
        });
    }

    fn line(&self, _: &str) {}

    fn count(&self, _: u64, _: u64) {}

    fn done(&self) {
        self.replace(None);
    }
}

/// A line on standard error with the step, its duration and its progress. Nothing is written when standard error
/// is not a terminal.
#[derive(Debug, Default)]
pub struct Terminal(Mutex<Option<ProgressBar>>);

/// The interval between two updates of the line.
const TICK: Duration = Duration::from_millis(120);
/// The maximum number of characters of a tool's output; the line must not wrap.
const MAX_SHOWN: usize = 60;

impl Terminal {
    fn with(&self, act: impl FnOnce(&ProgressBar)) {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &*bar {
            act(bar);
        }
    }

    fn clear(&self) {
        let mut bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Progress for Terminal {
    fn step(&self, text: &str) {
        self.clear();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {prefix} {elapsed} {msg}"));
        bar.set_prefix(text.to_owned());
        bar.enable_steady_tick(TICK);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    fn line(&self, text: &str) {
        let shown: String =
            text.trim().chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect();
        self.with(|bar| bar.set_message(shown));
    }

    fn count(&self, n_done: u64, n_all: u64) {
        self.with(|bar| {
            if bar.length().is_none() {
                bar.set_length(n_all);
                bar.set_style(style("{prefix} [{bar:30}] {pos}/{len} {elapsed}"));
            }
            bar.set_position(n_done);
        });
    }

    fn done(&self) {
        self.clear();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.clear();
    }
}

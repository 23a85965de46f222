//! What a person sees while something takes long.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Told what goes on. Every method may be called from any thread.
pub trait Progress: Send + Sync {
    /// A step begins and the one before it is over, such as `compiling plugin.wasm`.
    fn step(&self, text: &str);

    /// The newest line that a tool wrote; shown behind the step and overwritten by the next.
    fn line(&self, text: &str);

    /// So many of so many are done in this step.
    fn count(&self, n_done: u64, n_all: u64);

    /// Nothing goes on any more.
    fn done(&self);
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: &str) {}
    fn line(&self, _: &str) {}
    fn count(&self, _: u64, _: u64) {}
    fn done(&self) {}
}

/// A plain line on standard error for each step that takes over a second, where there is no terminal: who
/// runs a command unseen shall know what it waits for.
#[derive(Debug, Default)]
pub struct Plain(Mutex<Option<Sender<()>>>);

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_secs(1);

impl Plain {
    /// The step that the end of `begun` is the end of, or none.
    fn begin(&self, begun: Option<Sender<()>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }
}

impl Progress for Plain {
    fn step(&self, text: &str) {
        let (begun, over) = channel();
        self.begin(Some(begun));
        let text = text.to_owned();
        std::thread::spawn(move || {
            if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = writeln!(std::io::stderr(), "perpend: {text} ...");
            }
        });
    }

    fn line(&self, _: &str) {}

    fn count(&self, _: u64, _: u64) {}

    fn done(&self) {
        self.begin(None);
    }
}

/// One line on standard error that shows the step, how long it has taken and where it is. Nothing at
/// all where standard error is no terminal.
#[derive(Debug, Default)]
pub struct Terminal(Mutex<Option<ProgressBar>>);

/// How often the line is drawn anew.
const TICK: Duration = Duration::from_millis(120);
/// A tool's line is cut here: the line must not wrap.
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

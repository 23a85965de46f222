//! One session: its turns in order, each as what was asked and what was answered.

use askama::Template;
use perpend_domain::telemetry::GroupedBy;
use perpend_domain::trace::Trace;

use crate::content::{Addresses, Block};
use crate::groups::GroupLine;
use crate::line::TraceLine;
use crate::scores::{ScoreView, Tone};
use crate::shell::href;
use crate::ways::Ways;
use crate::{Shell, Text};

/// Turns on a page.
pub const TURNS: u32 = 20;

/// A window of a session.
#[derive(Clone, Debug, Template)]
#[template(path = "session.html")]
pub struct SessionPage {
    /// Around the page.
    pub shell: Shell,
    /// Which one, with sums.
    pub line: GroupLine,
    /// Users of its traces, the first of them where there are many.
    pub users: Vec<Text>,
    /// Scores of the session itself.
    pub scores: Vec<ScoreView>,
    /// What rules say of it that did not score it.
    pub verdicts: Vec<crate::Verdict>,
    /// The turns of this window.
    pub turns: Vec<Turn>,
    /// How many there are.
    pub n_turns: u64,
    /// The turn that was asked for; the first one where none was.
    pub wanted: u64,
    /// One was asked for: it takes the focus.
    pub is_jump: bool,
    /// The time that was asked for, as typed.
    pub at: String,
    /// What of the address cannot be read.
    pub fault: Option<&'static str>,
    /// Earlier turns, and later ones.
    pub ways: Ways,
}

/// One trace of a session.
#[derive(Clone, Debug)]
pub struct Turn {
    number: u64,
    trace: TraceLine,
    input: Block,
    output: Block,
}

impl SessionPage {
    pub(crate) fn user_href(&self, user: &Text) -> String {
        href(self.shell.base(), GroupedBy::User, user.raw())
    }

    /// Something is on its way: the scores are asked for again.
    fn is_unsettled(&self) -> bool {
        self.verdicts
            .iter()
            .any(|verdict| verdict.tone == Tone::Waiting)
    }

    pub(crate) fn first_turn(&self) -> u64 {
        self.turns.first().map_or(0, |turn| turn.number)
    }

    pub(crate) fn last_turn(&self) -> u64 {
        self.turns.last().map_or(0, |turn| turn.number)
    }
}

impl Turn {
    /// The turn of this number, from 1: its trace with input and output, shown in the project at `base`.
    #[must_use]
    pub fn new(number: u64, line: TraceLine, trace: &Trace, base: &str) -> Self {
        let at = |part: &str| Addresses::new(base, line.id.as_str(), None, part);
        Self {
            number,
            input: Block::of(trace.input.as_ref(), &at("input")),
            output: Block::of(trace.output.as_ref(), &at("output")),
            trace: line,
        }
    }
}

//! One session: its turns in order, each as what was asked and what was answered.

use askama::Template;
use perpend_domain::telemetry::GroupedBy;
use perpend_domain::trace::Trace;

use crate::content::{Addresses, Block, Spoken, repeated};
use crate::groups::GroupLine;
use crate::line::TraceLine;
use crate::scores::{ScoreView, Tone};
use crate::shell::href;
use crate::ways::Ways;
use crate::{Shell, Text};
use perpend_words::many;

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
    /// The messages of its input that an earlier turn had.
    same: Option<Same>,
    input: Block,
    output: Block,
}

/// Messages at the beginning of an input that an earlier turn had or gave.
#[derive(Clone, Debug)]
struct Same {
    n: usize,
    /// The number of that turn.
    turn: u64,
    /// Where that turn is.
    href: String,
    /// Where the messages are.
    those: String,
}

impl Same {
    fn title(&self) -> String {
        format!(
            "same {} as turn {}",
            many(self.n as u64, "message"),
            self.turn
        )
    }
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
    /// Turns in order, numbered from `first` on: their traces with input and output, shown in the project at `base`.
    /// Messages of an input that an earlier one of them had, or `before`, the turn before the first, are left out.
    #[must_use]
    pub fn all(
        first: u64,
        before: Option<&Trace>,
        turns: Vec<(TraceLine, Trace)>,
        base: &str,
    ) -> Vec<Self> {
        let n_before = usize::from(before.is_some());
        let traces = before.into_iter();
        let traces = traces.chain(turns.iter().map(|(_, trace)| trace));
        let spoken: Vec<Spoken> = traces.map(spoken).collect();
        let same = repeated(&spoken).into_iter().skip(n_before);
        let turns = turns.into_iter().zip(same).zip(first..);
        let turns = turns.map(|(((line, trace), same), number)| {
            let at = |part: &str| Addresses::new(base, &line.id, None, part);
            let (n_same, input) = (same.map_or(0, |(n, _)| n), at("input"));
            let same = same.map(|(n, place)| {
                let turn = (first + place as u64).saturating_sub(n_before as u64);
                Same {
                    n,
                    turn,
                    href: match turn < first {
                        true => format!("?turn={turn}"),
                        false => format!("#turn-{turn}"),
                    },
                    those: input.page(&format!("&as=conversation&n={n}")),
                }
            });
            Self {
                number,
                same,
                input: Block::behind(trace.input.as_ref(), &input, n_same),
                output: Block::of(trace.output.as_ref(), &at("output")),
                trace: line,
            }
        });
        turns.collect()
    }
}

/// What a turn says, to be compared with others; nothing of it is shown.
fn spoken(trace: &Trace) -> Spoken {
    let nowhere = Addresses::default();
    Spoken::new(
        (trace.input.as_ref(), &nowhere),
        (trace.output.as_ref(), &nowhere),
    )
}

//! View structs and templates: what the server knows, as HTML.
//!
//! The server's page handlers fill a view struct and call [`render`]; nothing here asks a store, reads
//! a clock or knows HTTP.
//!
//! Invariants:
//! - **Trace text is inert.** Text from outside is a [`Text`] or becomes [`Html`]; both escape it and make control
//!   characters visible. Nothing else builds HTML by hand.
//! - **No inline script or style.** The policy in [`assets::CONTENT_SECURITY_POLICY`] would refuse it;
//!   time bars are SVG attributes, indentation is a class.
//! - **Pages work without script.** The script swaps rows and the detail pane in place; every link leads to a
//!   whole page.
//! - **Bounded.** A page holds at most [`WINDOW`] rows of a trace, however many there are, and no HTML of the rest is
//!   made. Trees are walked without recursion.

mod around;
mod aspect;
pub mod assets;
mod charts;
mod chips;
mod compare;
mod content;
mod datasets;
mod diff;
mod facets;
mod facts;
mod figure;
mod filter;
mod find;
mod focus;
pub mod format;
mod forms;
mod groups;
mod happened;
mod keys;
mod line;
#[cfg(test)]
mod lists_tests;
mod log;
pub mod markup;
mod menu;
mod news;
pub mod openapi;
mod overview;
#[cfg(test)]
mod pages_tests;
mod peaks;
mod peek;
mod preferences;
mod preview;
mod reference;
mod rows;
#[cfg(test)]
mod rows_tests;
mod rules;
#[cfg(test)]
mod samples_tests;
mod score_list;
mod scores;
mod search;
mod session;
#[cfg(test)]
mod session_tests;
mod setup;
mod shell;
mod simple;
mod step_scores;
#[cfg(test)]
mod steps_tests;
mod suggest;
mod table;
mod thread;
mod time;
mod trace;
mod traces;
mod trends;
pub mod urls;
mod value;
pub mod value_diff;
#[cfg(test)]
mod views_tests;
mod ways;

pub use askama::{Error, Template};

pub use crate::format::{
    TraceState, clock, cost, count, date, dollars, duration, many, number, read_duration, size,
};
pub use crate::markup::{Html, Text, encode, of_segment, segment, with_query, without_passing};
pub use crate::urls::{
    ApiRequest, Columns, END, Filtered, Focus, ListPage, MAX_COLUMNS, MAX_LIST, Moment,
    NamedColumns, OF_SESSIONS, OF_TRACES, OF_USERS, Others, Parameter, ROWS, RowColumn, Sort,
    TracesQuery,
};
pub use aspect::{Aspect, HeadInput, Kept, Looking, Neighbours, TypedPart};
pub use charts::{Bar, Chart, Part, SO_FAR};
pub use chips::{Chip, chips};
pub use compare::{
    COMPARED_ROWS, CompareInput, ComparePage, CompareQuery, CompareSide, OfSide, PickPage, Prints,
    Scored, StepPrints,
};
pub use content::{
    Addresses, Asked, Block, Form, Forms, InlineMedium, MAX_PATH, Picked, inline_medium,
    inline_type, node,
};
pub use datasets::DatasetPage;
pub use diff::{Diff, DiffChoice, value_print};
pub use facets::{FacetsPage, FacetsView};
pub use facts::{total_tokens, when};
pub use figure::{Figure, change, points};
pub use filter::{FilterView, Searched, Stopped, TermChip, Why};
pub use find::{FindInput, FindPage};
pub use focus::FocusView;
pub use forms::{FormKit, Told, Tried, Undo};
pub use groups::{GroupChip, GroupLine, GroupsPage, UserPage};
pub use line::TraceLine;
pub use log::{LOG, LogInput, LogPage};
pub use news::{NewsFragment, StateFragment};
pub use overview::{OverviewPage, RunLine, Waiting};
pub use peek::{CellPage, Peek, PeekInput, PeekPage};
pub use preferences::{Preferences, PreferencesPage, Theme};
pub use preview::{Preview, beginning};
pub use reference::{ReferenceGroupPage, ReferencePage, TryPage};
pub use rows::{RowsInput, RowsPage, WINDOW};
pub use rules::{EvaluatorRow, RuleRow, RulesPage};
pub use score_list::{ScoreLine, ScoresPage};
pub use scores::{Named, Origin, RulesAsked, ScoreView, Tone, Verdict, anchor, together};
pub use search::{
    Found, FoundGroup, SearchAnswer, SearchContentsFragment, SearchFragment, SearchPage,
};
pub use session::{FoundTurns, SessionPage, TURNS, Turn, TurnInput};
pub use setup::{Refused, Setup};
pub use shell::{Opened, Section, Shell, Waits, base, href, list_href};
pub use simple::{ErrorPage, LoginPage, LogoutPage, ScoredPage};
pub use step_scores::{ScoreOfStep, ScoresOfSteps};
pub use suggest::{SuggestPage, Suggestion};
pub use thread::{CALLS, Call, ThreadInput, ThreadPage, Within};
pub use trace::{DetailInput, DetailPage, TraceInput, TracePage};
pub use traces::{Pager, TracesPage};
pub use trends::{Later, ModelLine, ScoreTrend, Together, Trend, TrendPage};
pub use value::{ValueInput, ValuePage, ValueView};
pub use ways::Ways;

/// The HTML of a page.
///
/// # Errors
/// Only when formatting into memory fails, which is a bug in a template.
pub fn render(page: &impl Template) -> Result<String, Error> {
    page.render()
}

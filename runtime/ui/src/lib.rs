//! View structs and templates: what the server knows, as HTML.
//!
//! The server's page handlers fill a view struct and call [`render`]; nothing here asks a store, reads
//! a clock or knows HTTP.
//!
//! Invariants:
//! - **Trace text is inert.** Text from outside is a [`Text`] or goes through `markup`; both escape it
//!   and make control characters visible. `markup` is the only module that builds HTML by hand.
//! - **No inline script or style.** The policy in [`assets::CONTENT_SECURITY_POLICY`] would refuse it;
//!   time bars are SVG attributes, indentation is a class.
//! - **Pages work without script.** The script folds the tree and swaps the detail pane in place;
//!   every link leads to a whole page.
//! - **Bounded.** Work per page is linear in what it shows; trees are walked without recursion.

pub mod assets;
mod content;
mod format;
mod groups;
mod markup;
mod overview;
#[cfg(test)]
mod pages_tests;
mod reference;
mod rules;
mod scores;
mod session;
mod shell;
mod simple;
mod timeline;
mod trace;
mod traces;
mod tree;

pub use askama::{Error, Template};

pub use content::{Addresses, Block, InlineMedium, inline_type};
pub use format::{clock, count, dollars, duration};
pub use groups::{GroupLine, GroupsPage, UserPage, Ways};
pub use markup::{Html, Text};
pub use overview::{Figure, OverviewPage, RangeLink, Setup, Waiting, change};
pub use reference::{Reference, ReferencePage};
pub use rules::{EvaluatorRow, RuleRow, RulesPage};
pub use scores::{Chip, Origin, ScoreView, Tone, Verdict};
pub use session::{SessionPage, TURNS, Turn};
pub use shell::{Opened, Section, Shell, base, encode};
pub use simple::{ErrorPage, LoginPage};
pub use trace::{
    DetailInput, DetailPage, Pieces, TraceInput, TracePage, VISIBLE_ROWS, total_tokens,
};
pub use traces::{Pager, Sort, TermChip, TraceLine, TracesPage, TracesQuery};

/// The HTML of a page.
///
/// # Errors
/// Only when formatting into memory fails, which is a bug in a template.
pub fn render(page: &impl Template) -> Result<String, Error> {
    page.render()
}

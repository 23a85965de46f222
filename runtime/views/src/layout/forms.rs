//! What every form of a page needs: the fields that show where it was sent from, what was wrong with it, and what it did.

use std::fmt;

use crate::Text;

/// The fields that each form of a page carries, and what the last one did.
#[derive(Clone, Default)]
pub struct FormContext {
    /// Masked: another text in every answer. Empty where there is no session.
    pub token: String,
    /// Where the sender goes on: the address of the page.
    pub back: String,
    /// What the last form did, while it can be undone.
    pub flash: Option<FlashMessage>,
}

/// Without the token.
impl fmt::Debug for FormContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormKit")
            .field("back", &self.back)
            .field("flash", &self.flash)
            .finish_non_exhaustive()
    }
}

/// What a form did, in words, and the way to undo it.
#[derive(Clone, Debug)]
pub struct FlashMessage {
    /// Names what was done: a script announces it once.
    pub id: String,
    /// `Bookmark set`.
    pub text: Text,
    /// Absent for what cannot be undone.
    pub undo: Option<Undo>,
}

/// The form that undoes another one.
#[derive(Clone, Debug)]
pub struct Undo {
    /// Where it is sent to.
    pub action: String,
    /// Names and values of the form fields.
    pub fields: Vec<(&'static str, String)>,
}

/// A form that was not accepted: what was typed, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct RejectedForm {
    /// Names and values of the fields as they were sent.
    pub values: Vec<(&'static str, String)>,
    /// Names of fields, and what is wrong with them.
    pub problems: Vec<(&'static str, Text)>,
}

impl RejectedForm {
    /// What was typed into a field.
    pub(crate) fn value(&self, field: &str) -> &str {
        let found = self.values.iter().find(|(name, _)| *name == field);
        found.map_or("", |(_, value)| value)
    }

    /// What is wrong with a field.
    pub(crate) fn problem(&self, field: &str) -> Option<&Text> {
        let found = self.problems.iter().find(|(name, _)| *name == field);
        found.map(|(_, problem)| problem)
    }
}

//! Common parts of forms: hidden fields, validation errors and the message after a change.

use std::fmt;

use crate::Text;

/// Hidden fields of all forms of a page, and the message about the last change.
#[derive(Clone, Default)]
pub struct FormContext {
    /// CSRF token, masked differently in every response. Empty without a session.
    pub token: String,
    /// URL to return to after the form was sent.
    pub return_url: String,
    /// Message about the last change, for one minute.
    pub flash: Option<FlashMessage>,
}

/// Omits the token.
impl fmt::Debug for FormContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormKit")
            .field("return_url", &self.return_url)
            .field("flash", &self.flash)
            .finish_non_exhaustive()
    }
}

/// A message about a change, with the form that undoes it.
#[derive(Clone, Debug)]
pub struct FlashMessage {
    /// Identifies the message, so that a script announces it once.
    pub id: String,
    /// Text, such as `Bookmark set`.
    pub text: Text,
    /// Absent if the change cannot be undone.
    pub undo: Option<Undo>,
}

/// A form that undoes a change.
#[derive(Clone, Debug)]
pub struct Undo {
    /// Action.
    pub action: String,
    /// Names and values of the form fields.
    pub fields: Vec<(&'static str, String)>,
}

/// A rejected form with its values and validation errors.
#[derive(Clone, Debug, Default)]
pub struct RejectedForm {
    /// Names and values of the sent fields.
    pub values: Vec<(&'static str, String)>,
    /// Names of fields with validation errors.
    pub problems: Vec<(&'static str, Text)>,
}

impl RejectedForm {
    /// Sent value of a field, or an empty text.
    pub(crate) fn value(&self, field: &str) -> &str {
        let found = self.values.iter().find(|(name, _)| *name == field);
        found.map_or("", |(_, value)| value)
    }

    /// Field, its name as words, and its validation error.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (&'static str, String, &Text)> {
        self.problems.iter().map(|(field, problem)| (*field, field.replace('_', " "), problem))
    }

    /// Validation error of a field.
    pub(crate) fn problem(&self, field: &str) -> Option<&Text> {
        let found = self.problems.iter().find(|(name, _)| *name == field);
        found.map(|(_, problem)| problem)
    }
}

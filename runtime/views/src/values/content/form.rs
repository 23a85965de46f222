//! The forms in which a value is shown, and how an address names them.

use std::fmt::Write as _;

/// A form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Tools that were offered, as a list.
    List,
    /// Messages, as a conversation.
    Conversation,
    /// Text with its markdown rendered; JSON indented.
    Text,
    /// Keys, types and sizes.
    Tree,
    /// As it was recorded.
    Raw,
}

impl Form {
    /// Their words for addresses, for a message.
    pub const NAMES: &str = "conversation, text, tree or raw";

    /// All of them, with the words for addresses and for people.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 5] = [
        (Self::List, "list", "List"),
        (Self::Conversation, "conversation", "Conversation"),
        (Self::Text, "text", "Text"),
        (Self::Tree, "tree", "Tree"),
        (Self::Raw, "raw", "Raw"),
    ];

    /// The one with this name in an address.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        found.map(|(own, ..)| *own)
    }

    pub(crate) fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(own, ..)| *own == self);
        own.map_or("", |(_, name, _)| name)
    }
}

/// The parts that have forms, each with the parameter that chooses one.
const PARTS: [(&str, &str); 4] = [
    ("input", "as.input"),
    ("output", "as.output"),
    ("tools", "as.tools"),
    ("metadata", "as.metadata"),
];

/// The forms that were chosen for the parts of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms([Option<Form>; 4]);

impl Forms {
    /// Takes a parameter of an address: nothing when it is of another kind, else whether its value can be read.
    pub fn take(&mut self, parameter: &str, value: &str) -> Option<bool> {
        let at = PARTS.iter().position(|(_, name)| *name == parameter)?;
        self.0[at] = Form::from_name(value);
        Some(self.0[at].is_some())
    }

    /// The form of a part.
    pub(crate) fn of(&self, part: &str) -> Option<Form> {
        let at = PARTS.iter().position(|(name, _)| *name == part)?;
        self.0[at]
    }

    /// The same with another form of a part.
    pub(crate) fn with(&self, part: &str, form: Form) -> Self {
        let mut forms = self.clone();
        if let Some(at) = PARTS.iter().position(|(name, _)| *name == part) {
            forms.0[at] = Some(form);
        }
        forms
    }

    /// The same with the forms of others for the parts of which it says nothing.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        let mut forms = self.clone();
        for (own, other) in forms.0.iter_mut().zip(others.0) {
            *own = own.or(other);
        }
        forms
    }

    /// The parameters that say so.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let named = PARTS.iter().zip(self.0);
        named.filter_map(|((_, parameter), form)| Some((*parameter, form?.name())))
    }

    /// As the end of an address.
    #[must_use]
    pub fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in self.pairs() {
            // Writing to a `String` cannot fail.
            let _ = write!(query, "&{name}={value}");
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_they_are_written() {
        let mut forms = Forms::default();
        assert_eq!(forms.take("as.input", "tree"), Some(true));
        assert_eq!(forms.take("as.output", "cloud"), Some(false));
        assert_eq!(forms.take("as.else", "tree"), None);
        let forms = forms.with("metadata", Form::Raw);
        assert_eq!(forms.query(), "&as.input=tree&as.metadata=raw");
        assert_eq!((forms.of("input"), forms.of("output")), (Some(Form::Tree), None));
        let others = Forms::default().with("input", Form::Raw);
        let both = forms.or(&others.with("tools", Form::List));
        assert_eq!(both.query(), "&as.input=tree&as.tools=list&as.metadata=raw");
    }
}

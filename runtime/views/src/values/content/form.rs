//! The forms in which values are shown, and their names in URLs.

use std::fmt::Write as _;

/// A form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Tool definitions as a list.
    List,
    /// Messages, as a conversation.
    Conversation,
    /// Text with its markdown rendered; JSON indented.
    Text,
    /// A tree of keys, types and sizes.
    Tree,
    /// The recorded text.
    Raw,
}

impl Form {
    /// The names in URLs, in error messages.
    pub const NAMES: &str = "one of conversation, text, tree, raw";

    /// All forms with their names in URLs and their labels.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 5] = [
        (Self::List, "list", "List"),
        (Self::Conversation, "conversation", "Conversation"),
        (Self::Text, "text", "Text"),
        (Self::Tree, "tree", "Tree"),
        (Self::Raw, "raw", "Raw"),
    ];

    /// The form with this name in a URL.
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

/// The values that have forms, with the query parameter that selects the form.
const PARTS: [(&str, &str); 4] = [
    ("input", "as.input"),
    ("output", "as.output"),
    ("tools", "as.tools"),
    ("metadata", "as.metadata"),
];

/// The selected forms of the values of an observation or a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms([Option<Form>; 4]);

impl Forms {
    /// Sets a form from a query parameter. Returns `None` for other parameters, and whether the value is valid otherwise.
    pub fn take(&mut self, parameter: &str, value: &str) -> Option<bool> {
        let at = PARTS.iter().position(|(_, name)| *name == parameter)?;
        self.0[at] = Form::from_name(value);
        Some(self.0[at].is_some())
    }

    /// The form of a value.
    pub(crate) fn of(&self, part: &str) -> Option<Form> {
        let at = PARTS.iter().position(|(name, _)| *name == part)?;
        self.0[at]
    }

    /// A copy with another form for one value.
    pub(crate) fn with(&self, part: &str, form: Form) -> Self {
        let mut forms = self.clone();
        if let Some(at) = PARTS.iter().position(|(name, _)| *name == part) {
            forms.0[at] = Some(form);
        }
        forms
    }

    /// A copy in which values without a form have the form of `others`.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        let mut forms = self.clone();
        for (own, other) in forms.0.iter_mut().zip(others.0) {
            *own = own.or(other);
        }
        forms
    }

    /// The query parameters.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let named = PARTS.iter().zip(self.0);
        named.filter_map(|((_, parameter), form)| Some((*parameter, form?.name())))
    }

    /// The query parameters, each preceded by `&`.
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
    fn forms_round_trip_through_query_parameters() {
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

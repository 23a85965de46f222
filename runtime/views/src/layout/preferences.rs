//! Preferences of a browser, stored in a cookie.

use askama::Template;

use crate::Shell;
use crate::layout::forms::RejectedForm;

/// Preferences of a browser. The cookie contains only values that differ from the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// Whether single-key shortcuts are off.
    pub is_shortcuts_off: bool,
    /// Theme.
    pub theme: Theme,
    /// Whether rows have compact spacing.
    pub is_compact: bool,
    /// Whether times are in UTC rather than in the time zone of the browser.
    pub is_utc: bool,
    /// Whether the sidebar is collapsed to icons.
    pub is_sidebar_collapsed: bool,
}

/// Theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Theme of the system.
    #[default]
    System,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A field of the form with its values, default first.
struct Choice {
    name: &'static str,
    values: &'static [&'static str],
}

const CHOICES: [Choice; 5] = [
    Choice { name: "keys", values: &["on", "off"] },
    Choice { name: "theme", values: &["system", "light", "dark"] },
    Choice { name: "density", values: &["comfortable", "compact"] },
    Choice { name: "zone", values: &["browser", "utc"] },
    Choice { name: "rail", values: &["names", "letters"] },
];

impl Preferences {
    /// Name of the cookie.
    pub const COOKIE: &'static str = "perpend_preferences";

    /// Parses a cookie; unknown words are ignored.
    #[must_use]
    pub fn of_cookie(value: &str) -> Self {
        let mut all = Self::default();
        for word in value.split('.') {
            all.take(word);
        }
        all
    }

    /// The value of the cookie; empty for the defaults.
    #[must_use]
    pub fn cookie(&self) -> String {
        let unusual = CHOICES.iter().filter_map(|choice| {
            let chosen = self.chosen(choice.name);
            (choice.values.first() != Some(&chosen)).then_some(chosen)
        });
        unusual.collect::<Vec<_>>().join(".")
    }

    /// Parses a form; absent fields have the default.
    ///
    /// # Errors
    /// Name of the first field with an unknown value, and a message with the valid values.
    pub fn of_form<'f>(
        field: impl Fn(&str) -> Option<&'f str>,
    ) -> Result<Self, (&'static str, String)> {
        let mut all = Self::default();
        for choice in &CHOICES {
            match field(choice.name) {
                Some(value) if choice.values.contains(&value) => all.take(value),
                None => {}
                Some(value) => {
                    let offered = choice.values.join(", ");
                    return Err((choice.name, format!("must be one of {offered}; got {value}")));
                }
            }
        }
        Ok(all)
    }

    /// Values are unique across all fields.
    fn take(&mut self, word: &str) {
        match word {
            "off" => self.is_shortcuts_off = true,
            "light" => self.theme = Theme::Light,
            "dark" => self.theme = Theme::Dark,
            "compact" => self.is_compact = true,
            "utc" => self.is_utc = true,
            "letters" => self.is_sidebar_collapsed = true,
            _ => {}
        }
    }

    fn chosen(&self, name: &str) -> &'static str {
        match (name, self.theme) {
            ("keys", _) if self.is_shortcuts_off => "off",
            ("keys", _) => "on",
            ("theme", Theme::System) => "system",
            ("theme", Theme::Light) => "light",
            ("theme", Theme::Dark) => "dark",
            ("density", _) if self.is_compact => "compact",
            ("density", _) => "comfortable",
            ("zone", _) if self.is_utc => "utc",
            ("zone", _) => "browser",
            _ if self.is_sidebar_collapsed => "letters",
            _ => "names",
        }
    }

    /// Fields of a form that toggles only the sidebar.
    pub(crate) fn with_toggled_sidebar(&self) -> Vec<(&'static str, &'static str)> {
        let other = Self { is_sidebar_collapsed: !self.is_sidebar_collapsed, ..*self };
        let fields = CHOICES.iter();
        fields.map(|choice| (choice.name, other.chosen(choice.name))).collect()
    }

    pub(crate) fn is_light(&self) -> bool {
        self.theme == Theme::Light
    }

    pub(crate) fn is_dark(&self) -> bool {
        self.theme == Theme::Dark
    }
}

/// The page with the form.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "preferences.html")]
pub struct PreferencesPage {
    /// Page frame with the current preferences.
    pub shell: Shell,
    /// Whether the form was just saved.
    pub is_saved: bool,
    /// The form, if it was rejected.
    pub rejected_form: RejectedForm,
}

impl PreferencesPage {
    fn is(&self, name: &str, value: &str) -> bool {
        self.shell.preferences.chosen(name) == value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_of_the_form_round_trips_through_the_cookie() {
        for n in 0..48_usize {
            let values = CHOICES.iter().scan(n, |rest, choice| {
                let value = choice.values[*rest % choice.values.len()];
                *rest /= choice.values.len();
                Some((choice.name, value))
            });
            let values: Vec<_> = values.collect();
            let field = |name: &str| {
                let found = values.iter().find(|(own, _)| *own == name);
                found.map(|(_, value)| *value)
            };
            let made = Preferences::of_form(field).unwrap();
            assert_eq!(Preferences::of_cookie(&made.cookie()), made, "{values:?}");
            for (name, value) in values {
                assert_eq!(made.chosen(name), value);
            }
        }
        assert_eq!(Preferences::default().cookie(), "");
        let odd = Preferences::of_cookie("dark.<b>.off.off");
        assert!(odd.is_dark() && odd.is_shortcuts_off && !odd.is_compact);
        let wrong = |name: &str| (name == "theme").then_some("pink");
        let (name, message) = Preferences::of_form(wrong).unwrap_err();
        assert_eq!(
            (name, message.as_str()),
            ("theme", "must be one of system, light, dark; got pink")
        );
    }
}

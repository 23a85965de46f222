//! One row of the table of settings.

use crate::Config;

/// One setting.
pub(super) struct Setting {
    /// Key in the file: sections and a name.
    pub(super) key: &'static str,
    /// Name of variable (after `PERPEND_`) and flag, if it differs from the key.
    pub(super) short: Option<&'static str>,
    /// Default value as text.
    pub(super) default: &'static str,
    /// The version that introduced it.
    pub(super) since: &'static str,
    /// Description in help and on the reference page.
    pub(super) text: &'static str,
    /// Validates and sets a value; the error states the expectation.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// The variable.
    pub(super) fn env(&self) -> String {
        let name = self.short.unwrap_or(self.key);
        format!("PERPEND_{}", name.replace(['.', '-'], "_").to_uppercase())
    }

    /// The flag, without dashes.
    pub(super) fn flag(&self) -> String {
        let name = self.short.unwrap_or(self.key);
        name.replace(['.', '_'], "-")
    }
}

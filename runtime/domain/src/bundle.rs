//! The plug-ins that come with a program: nothing is special about them but where their bytes come from.

use std::fmt;

/// What a program brings.
#[derive(Clone, Copy, Debug)]
pub struct Bundle {
    /// Embedded in the program, and registered at each start.
    pub first_party: &'static [Component],
    /// Names of the interpreters and scorer libraries. Their components are files beside the program: an
    /// installation may lack them.
    pub optional: &'static [&'static str],
}

/// One plug-in, as a file would hold it.
#[derive(Clone, Copy)]
pub struct Component {
    /// The name its description gives, such as `perpend/text`.
    pub name: &'static str,
    /// The WebAssembly component.
    pub bytes: &'static [u8],
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes.len())
    }
}

impl Bundle {
    /// The embedded plug-in of this name.
    #[must_use]
    pub fn first_party(&self, name: &str) -> Option<&'static Component> {
        self.first_party.iter().find(|plugin| plugin.name == name)
    }
}

//! The plug-ins that come with a program: nothing is special about them but where their bytes come from.

use std::fmt;

/// All that a program brings.
#[derive(Clone, Copy, Debug)]
pub struct Bundle {
    /// Those that every server has, registered when it starts.
    pub first_party: &'static [Component],
    /// Interpreters and scorer libraries of other languages: large, and registered when somebody first asks.
    pub apart: &'static [Apart],
    /// The command that builds those of `apart` that are missing, before the program is built again.
    pub build_apart: &'static str,
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

/// A plug-in that cargo alone cannot build. It is in the program only when it was built before the program was.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// The name its description gives, such as `perpend/javascript`.
    pub name: &'static str,
    /// Unpacks the WebAssembly component; `None` when it was not built. Fails when the packed bytes are
    /// damaged.
    pub component: Option<fn() -> std::io::Result<Vec<u8>>>,
}

impl Bundle {
    /// The plug-in of this name that every server has.
    #[must_use]
    pub fn first_party(&self, name: &str) -> Option<&'static Component> {
        self.first_party.iter().find(|plugin| plugin.name == name)
    }

    /// The plug-in of this name that may be missing.
    #[must_use]
    pub fn apart(&self, name: &str) -> Option<&'static Apart> {
        self.apart.iter().find(|plugin| plugin.name == name)
    }
}

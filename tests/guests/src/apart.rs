//! Plug-ins that `cargo xtask plugins` builds, as an installation has them.

use crate::kept::{self, Shared};
use crate::{Guest, Missing};

/// Loaded in this program: each once, whatever the number of its tests.
static LOADED: Shared<Result<Guest, Missing>> = Shared::new();

/// The plug-in of this name, such as `perpend/javascript`, loaded; nothing is granted to it.
///
/// # Errors
/// When it was not built.
///
/// # Panics
/// When it is refused.
pub fn apart(name: &'static str) -> Result<&'static Guest, Missing> {
    let loaded = LOADED.get(name, || Ok(Guest::new(&component(name)?)));
    loaded.as_ref().map_err(Clone::clone)
}

/// The bytes of the plug-in of this name.
///
/// # Errors
/// When it was not built.
///
/// # Panics
/// When this program is not where cargo puts tests.
pub fn component(name: &str) -> Result<Vec<u8>, Missing> {
    let short = name.trim_start_matches("perpend/");
    let file = kept::target().join(format!("share/perpend/components/{short}.wasm"));
    std::fs::read(&file).map_err(|_| Missing::tool(name, "cargo xtask plugins"))
}

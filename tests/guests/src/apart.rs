//! Plug-ins that `cargo xtask plugins` builds, as an installation has them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::{Guest, Missing};

/// Loaded in this program: each once, whatever the number of its tests.
static LOADED: Mutex<BTreeMap<&str, &Guest>> = Mutex::new(BTreeMap::new());

/// The plug-in of this name, such as `perpend/javascript`, loaded; nothing is granted to it.
///
/// # Errors
/// When it was not built.
///
/// # Panics
/// When it is refused.
pub fn apart(name: &'static str) -> Result<&'static Guest, Missing> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guest) = loaded.get(name) {
        return Ok(guest);
    }
    let guest = &*Box::leak(Box::new(Guest::new(&component(name)?)));
    loaded.insert(name, guest);
    Ok(guest)
}

/// The bytes of the plug-in of this name.
///
/// # Errors
/// When it was not built.
///
/// # Panics
/// When this program is not where cargo puts tests.
pub fn component(name: &str) -> Result<Vec<u8>, Missing> {
    // The test is `target/PROFILE/deps/NAME`.
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let short = name.trim_start_matches("perpend/");
    let file = target.join(format!("share/perpend/components/{short}.wasm"));
    std::fs::read(&file).map_err(|_| Missing::tool(name, "cargo xtask plugins"))
}

//! Plug-ins that `cargo xtask plugins` builds, as the server carries them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use perpend_plugins_bundle::BUNDLE;

use crate::{Guest, Missing};

/// Loaded in this program: each once, whatever the number of its tests.
static LOADED: Mutex<BTreeMap<&str, &Guest>> = Mutex::new(BTreeMap::new());

/// The plug-in of this name, such as `perpend/javascript`, loaded; nothing is granted to it.
///
/// # Errors
/// When it was not built before this program was.
///
/// # Panics
/// When there is no such plug-in, or it is refused.
pub fn apart(name: &'static str) -> Result<&'static Guest, Missing> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guest) = loaded.get(name) {
        return Ok(guest);
    }
    let Some(component) = BUNDLE.apart(name).unwrap().component else {
        return Err(Missing::tool(name, BUNDLE.build_apart));
    };
    let guest = &*Box::leak(Box::new(Guest::new(&component().unwrap())));
    loaded.insert(name, guest);
    Ok(guest)
}

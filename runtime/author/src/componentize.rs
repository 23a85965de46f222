//! From a core module, as C and Go compile to, to a component of the contract.

use std::path::Path;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::build::BuildError;

/// The world modules are made for. What a module does not use of it, its component does not import.
const WORLD: &str = "judge";

/// Where the layer that answers WASI calls gets its memory from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Realloc {
    /// From the module's own allocator.
    Module,
    /// From new pages: the module's allocator cannot be entered at that time, as that of Go.
    NewPages,
}

/// The component of a core module that was built against the contract in the folder `wit`.
///
/// # Errors
/// When the contract cannot be read, or the module does not fit it.
pub(crate) fn componentize(
    mut module: Vec<u8>,
    wit: &Path,
    realloc: Realloc,
) -> Result<Vec<u8>, BuildError> {
    // Its errors come from a crate that hides them behind a trait; their text is all we need.
    let wrong = |error: &dyn std::fmt::Display| BuildError::Componentize(format!("{error:#}"));
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).map_err(|error| wrong(&error))?;
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .map_err(|error| wrong(&error))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| wrong(&error))?;
    let encoded = ComponentEncoder::default()
        .realloc_via_memory_grow(realloc == Realloc::NewPages)
        .module(&module)
        .and_then(|encoder| {
            encoder.adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )
        })
        .and_then(ComponentEncoder::encode);
    encoded.map_err(|error| wrong(&error))
}

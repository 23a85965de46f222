//! The first-party plug-ins as components, embedded in whatever depends on this crate.
//!
//! The server registers them at start like any other plug-in: nothing about them is special but where
//! their bytes come from.

/// One plug-in, as a file would hold it.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// The name its description gives, such as `assay/text`.
    pub name: &'static str,
    /// The WebAssembly component.
    pub bytes: &'static [u8],
}

/// Every plug-in that comes with the server.
#[must_use]
pub fn first_party() -> &'static [Component] {
    const ALL: &[Component] = &[
        Component {
            name: "assay/text",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/text.wasm")),
        },
        Component {
            name: "assay/json",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/json.wasm")),
        },
    ];
    ALL
}

/// A plug-in that cargo alone cannot build: an interpreter or a scorer library of another language. It is
/// in the program only when it was built before the program was.
#[derive(Clone, Copy)]
pub struct Apart {
    /// The name its description gives, such as `assay/javascript`.
    pub name: &'static str,
    packed: Option<&'static [u8]>,
}

/// What builds those that are missing, before the program is built again.
pub const BUILD_APART: &str = "cargo xtask plugins";

/// Every such plug-in, here or not.
#[must_use]
pub fn apart() -> &'static [Apart] {
    const ALL: &[Apart] = include!(concat!(env!("OUT_DIR"), "/apart.rs"));
    ALL
}

impl Apart {
    /// Whether it is in this program.
    #[must_use]
    pub const fn is_here(&self) -> bool {
        self.packed.is_some()
    }

    /// The WebAssembly component, unpacked; `None` when it was not built.
    ///
    /// # Errors
    /// When the packed bytes are damaged.
    pub fn component(&self) -> std::io::Result<Option<Vec<u8>>> {
        self.packed.map(zstd::decode_all).transpose()
    }
}

impl std::fmt::Debug for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.packed.map_or(0, <[u8]>::len);
        f.debug_struct("Apart")
            .field("name", &self.name)
            .field("packed_bytes", &size)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_apart_unpacks_to_a_component_or_is_not_here() {
        for plugin in apart() {
            let component = plugin.component().unwrap();
            assert_eq!(component.is_some(), plugin.is_here());
            if let Some(component) = component {
                assert_eq!(component[..4], *b"\0asm", "{}", plugin.name);
            }
        }
    }

    #[test]
    fn every_file_is_a_component_and_no_core_module() {
        // Magic, binary version 13, layer 1.
        let component = [0x00, b'a', b's', b'm', 0x0d, 0x00, 0x01, 0x00];
        for plugin in first_party() {
            assert_eq!(plugin.bytes[..8], component, "{}", plugin.name);
        }
    }

    #[test]
    fn names_are_unique_and_have_a_vendor() {
        let mut names: Vec<_> = first_party().iter().map(|plugin| plugin.name).collect();
        assert!(names.iter().all(|name| name.starts_with("assay/")));
        names.dedup();
        assert_eq!(names.len(), first_party().len());
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

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

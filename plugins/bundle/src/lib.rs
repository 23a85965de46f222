//! The first-party plug-ins as components, embedded in whatever depends on this crate.

use perpend_domain::bundle::{Apart, Bundle, Component};

/// Every plug-in that comes with the server.
pub const BUNDLE: Bundle = Bundle {
    first_party: &[
        Component {
            name: "perpend/text",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/text.wasm")),
        },
        Component {
            name: "perpend/json",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/json.wasm")),
        },
    ],
    apart: include!(concat!(env!("OUT_DIR"), "/apart.rs")),
    build_apart: "cargo xtask plugins",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_apart_unpacks_to_a_component_or_is_not_here() {
        for plugin in BUNDLE.apart {
            if let Some(component) = plugin.component {
                assert_eq!(component().unwrap()[..4], *b"\0asm", "{}", plugin.name);
            }
        }
    }

    #[test]
    fn every_file_is_a_component_and_no_core_module() {
        // Magic, binary version 13, layer 1.
        let component = [0x00, b'a', b's', b'm', 0x0d, 0x00, 0x01, 0x00];
        for plugin in BUNDLE.first_party {
            assert_eq!(plugin.bytes[..8], component, "{}", plugin.name);
        }
    }

    #[test]
    fn names_are_unique_and_have_a_vendor() {
        let plugins = BUNDLE.first_party.iter();
        let mut names: Vec<_> = plugins.map(|plugin| plugin.name).collect();
        assert!(names.iter().all(|name| name.starts_with("perpend/")));
        names.dedup();
        assert_eq!(names.len(), BUNDLE.first_party.len());
    }
}

//! The first-party plug-ins as components, embedded in whatever depends on this crate.

mod presets;

use perpend_domain::bundle::{Bundle, Component};
use perpend_domain::plugin::Digest;

/// The first-party plug-ins; optional ones by name only.
pub const BUNDLE: Bundle = Bundle {
    first_party: &[
        Component {
            name: "perpend/text",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/text.wasm")),
            digest: Digest::from_bytes(*include_bytes!(concat!(env!("OUT_DIR"), "/text.sha256"))),
        },
        Component {
            name: "perpend/json",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/json.wasm")),
            digest: Digest::from_bytes(*include_bytes!(concat!(env!("OUT_DIR"), "/json.sha256"))),
        },
        Component {
            name: "perpend/judge",
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/judge.wasm")),
            digest: Digest::from_bytes(*include_bytes!(concat!(env!("OUT_DIR"), "/judge.sha256"))),
        },
    ],
    optional: &[
        "perpend/javascript",
        "perpend/python",
        "perpend/autoevals-js",
        "perpend/autoevals-py",
    ],
    presets: presets::PRESETS,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_component_and_no_core_module() {
        // Magic, binary version 13, layer 1.
        let component = [0x00, b'a', b's', b'm', 0x0d, 0x00, 0x01, 0x00];
        for plugin in BUNDLE.first_party {
            assert_eq!(plugin.bytes[..8], component, "{}", plugin.name);
        }
    }

    #[test]
    fn the_digest_of_a_component_is_that_of_its_bytes() {
        for plugin in BUNDLE.first_party {
            assert_eq!(plugin.digest, Digest::of(plugin.bytes), "{}", plugin.name);
        }
    }

    #[test]
    fn names_are_unique_and_have_a_vendor() {
        let embedded = BUNDLE.first_party.iter().map(|plugin| plugin.name);
        let names: Vec<_> = embedded.chain(BUNDLE.optional.iter().copied()).collect();
        assert!(names.iter().all(|name| name.starts_with("perpend/")));
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}

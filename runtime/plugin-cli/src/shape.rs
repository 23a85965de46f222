//! The names of the imports and exports of a component, read from the file without compiling it.

use wasmparser::{Parser, Payload};

/// The imports and exports of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Shape {
    /// The names in the readable part of the file.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut shape = Self::default();
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload {
                Ok(Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) => depth += 1,
                Ok(Payload::End(_)) => depth = depth.saturating_sub(1),
                Ok(Payload::ComponentImportSection(section)) if depth == 0 => {
                    let names = section.into_iter().flatten();
                    shape.imports.extend(names.map(|import| import.name.name.to_owned()));
                }
                Ok(Payload::ComponentExportSection(section)) if depth == 0 => {
                    let names = section.into_iter().flatten();
                    shape.exports.extend(names.map(|export| export.name.name.to_owned()));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        shape
    }

    fn of_contract(names: &[String]) -> impl Iterator<Item = &str> {
        names.iter().filter_map(|name| {
            let rest = name.strip_prefix("perpend:evaluator/")?;
            Some(rest.split_once('@').map_or(rest, |(interface, _)| interface))
        })
    }

    /// The smallest world of the contract that matches.
    pub(crate) fn world(&self) -> &'static str {
        let mut exports = Self::of_contract(&self.exports);
        let mut imports = Self::of_contract(&self.imports);
        if exports.any(|name| name == "batch" || name == "config-check") {
            "full"
        } else if imports.any(|name| name == "model" || name.ends_with("-reader")) {
            "judge"
        } else {
            "scorer"
        }
    }

    /// The imports in one line; those of WASI are only counted.
    pub(crate) fn imports(&self) -> String {
        let mut parts: Vec<&str> =
            Self::of_contract(&self.imports).filter(|name| *name != "types").collect();
        let n_wasi = self.imports.iter().filter(|name| name.starts_with("wasi:")).count();
        let wasi = format!("{n_wasi} of inert WASI 0.2");
        if 0 < n_wasi {
            parts.push(&wasi);
        }
        if parts.is_empty() {
            return "nothing".to_owned();
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(imports: &[&str], exports: &[&str]) -> Shape {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Shape { imports: owned(imports), exports: owned(exports) }
    }

    #[test]
    fn the_world_is_the_smallest_matching_one() {
        let scorer = shape(
            &["perpend:evaluator/log@1.0.0", "wasi:io/error@0.2.6"],
            &["perpend:evaluator/evaluator@1.0.0"],
        );
        assert_eq!(scorer.world(), "scorer");
        assert_eq!(scorer.imports(), "log, 1 of inert WASI 0.2");
        let judge = shape(&["perpend:evaluator/model@1.0.0"], &[]);
        assert_eq!(judge.world(), "judge");
        let full = shape(&[], &["perpend:evaluator/batch@1.0.0"]);
        assert_eq!((full.world(), full.imports().as_str()), ("full", "nothing"));
    }

    #[test]
    fn a_file_without_component_has_an_empty_shape() {
        assert_eq!(Shape::of(b"not wasm"), Shape::default());
    }
}

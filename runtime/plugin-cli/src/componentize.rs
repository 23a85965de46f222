//! The conversion of a core module, as produced by C and Go, to a component of the contract.
//!
//! A small module (`wasi.wat`) implements WASI 0.1. The common adapter is not used: it allocates memory after that
//! of the module, which the Go runtime considers free and overwrites.

use std::fmt::Display;
use std::path::Path;

use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::build::BuildError;

/// The world of modules. The component imports only the functions that the module uses.
const WORLD: &str = "judge";
/// The optional interfaces of the contract; those that a module exports are added to its world.
const OPTIONAL: [&str; 2] = ["batch", "config-check"];

const WASI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wasi.wasm"));
const WASI_NAME: &str = "wasi_snapshot_preview1";

/// The part of WASI 0.2 that `wasi.wat` imports.
const WASI_PACKAGES: [(&str, &str); 4] = [
    (
        "random.wit",
        "package wasi:random@0.2.0; interface random { get-random-u64: func() -> u64; }",
    ),
    (
        "clocks.wit",
        "package wasi:clocks@0.2.0;
         interface monotonic-clock { type instant = u64; now: func() -> instant; }
         interface wall-clock {
             record datetime { seconds: u64, nanoseconds: u32 }
             now: func() -> datetime;
         }",
    ),
    (
        "io.wit",
        "package wasi:io@0.2.0;
         interface error { resource error; }
         interface streams {
             use error.{error};
             variant stream-error { last-operation-failed(error), closed }
             resource output-stream {
                 blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
             }
         }",
    ),
    (
        "cli.wit",
        "package wasi:cli@0.2.0;
         interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
         interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }",
    ),
];
const WASI_WORLD: &str = "package perpend:guest;
    world inert {
        import wasi:random/random@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.0;
        import wasi:clocks/wall-clock@0.2.0;
        import wasi:cli/stdout@0.2.0;
        import wasi:cli/stderr@0.2.0;
        import wasi:io/streams@0.2.0;
    }";

/// The error for a failure of a library.
fn failed(error: impl Display) -> BuildError {
    BuildError::Componentize(format!("{error:#}"))
}

/// The component of a core module that was built against the contract in the folder `wit`.
///
/// # Errors
/// When the contract cannot be read, or the module does not match it.
pub(crate) fn componentize(mut module: Vec<u8>, wit: &Path) -> Result<Vec<u8>, BuildError> {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_dir(wit).map_err(failed)?;
    let version = resolve.packages[contract].name.version.clone();
    let version = version.ok_or_else(|| failed("the contract has no version"))?;
    let mut text = format!("include perpend:evaluator/{WORLD}@{version};");
    for interface in optional_exports(&module).map_err(failed)? {
        text.push_str(&format!("export perpend:evaluator/{interface}@{version};"));
    }
    let text = format!("package perpend:made; world made {{ {text} }}");
    let package = resolve.push_str("made.wit", &text).map_err(failed)?;
    let world = resolve.select_world(&[package], None).map_err(failed)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(failed)?;
    let encoded = ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.adapter(WASI_NAME, &inert_wasi()?))
        .and_then(|mut encoder| encoder.encode());
    encoded.map_err(failed)
}

/// The optional interfaces that a module exports.
fn optional_exports(module: &[u8]) -> anyhow::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::ExportSection(exports) = payload? else {
            continue;
        };
        for export in exports {
            let name = export?.name;
            let is_of = |interface: &&str| {
                name.strip_prefix("perpend:evaluator/")
                    .and_then(|rest| rest.strip_prefix(interface))
                    .is_some_and(|rest| rest.starts_with('@'))
            };
            found.extend(OPTIONAL.into_iter().find(|interface| is_of(interface)));
        }
    }
    Ok(found)
}

/// `wasi.wat` as a module with the metadata of its world.
fn inert_wasi() -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    for (name, text) in WASI_PACKAGES {
        resolve.push_str(name, text)?;
    }
    let package = resolve.push_str("guest.wit", WASI_WORLD)?;
    let world = resolve.select_world(&[package], None)?;
    let mut module = WASI.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(module)
}

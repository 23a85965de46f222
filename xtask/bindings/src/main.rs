//! Prints the bindings that the SDKs for C and Go are built on, generated from the contract: a JSON object with
//! the path and the text of each file. `cargo xtask generate` writes them.
//!
//! Other languages' toolchains make their bindings while they build; C and Go need them in the SDK. A program of
//! its own, so that the first command of a newcomer does not wait for the generators.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};

/// Where the runtime half of the Go bindings comes from in the generated text, and where ours is.
const GO_RUNTIME: (&str, &str) = ("go.bytecodealliance.org/pkg/wit/", "perpend/internal/wit/");

fn main() -> anyhow::Result<()> {
    let files: BTreeMap<String, String> = c()?.into_iter().chain(go()?).collect();
    let json = serde_json::to_vec(&files)?;
    Ok(std::io::stdout().write_all(&json)?)
}

/// The contract, and its world of this name.
fn contract(world: &str) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../plugin-sdk/wit"
    )))?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}

fn generated(mut generator: Box<dyn WorldGenerator>) -> anyhow::Result<Vec<(String, String)>> {
    let (mut resolve, world) = contract("judge")?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    let texts = files.iter().map(|(name, bytes)| {
        let text = String::from_utf8(bytes.to_vec()).with_context(|| name.to_owned())?;
        Ok((name.to_owned(), text))
    });
    texts.collect()
}

/// `wit.h` and `wit.c`, all names of which begin with `wit_`, or with the name of an interface.
fn c() -> anyhow::Result<Vec<(String, String)>> {
    let options = wit_bindgen_c::Opts {
        no_object_file: true,
        rename_world: Some("wit".to_owned()),
        ..wit_bindgen_c::Opts::default()
    };
    let files = generated(options.build())?.into_iter();
    Ok(files
        .map(|(name, text)| (format!("plugin-sdk/c/{name}"), text))
        .collect())
}

/// The packages below `perpend/internal`.
fn go() -> anyhow::Result<Vec<(String, String)>> {
    let options = wit_bindgen_go::Opts {
        // Not formatted: what comes out must not depend on whether gofmt is there.
        format: wit_bindgen_go::Format::False,
        pkg_name: Some("perpend/internal".to_owned()),
        ..wit_bindgen_go::Opts::default()
    };
    let files = generated(options.build())?.into_iter();
    Ok(files
        .map(|(name, text)| {
            let path = format!("plugin-sdk/go/internal/{name}");
            (path, text.replace(GO_RUNTIME.0, GO_RUNTIME.1))
        })
        .collect())
}

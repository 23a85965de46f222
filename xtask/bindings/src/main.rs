//! Prints the bindings that the SDKs for Rust, C and Go are built on, generated from the contract: a JSON object
//! with the path and the text of each file. `cargo xtask generate` writes them.
//!
//! Other languages' toolchains make their bindings while they build; C and Go need them in the SDK. Rust could make
//! them by a macro, for which every build of a plug-in would compile the generator first. It is a separate program
//! so that other commands do not compile the generators.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::WithOption;

/// The import path of the Go runtime in the generated text, and its replacement.
const GO_RUNTIME: (&str, &str) = ("go.bytecodealliance.org/pkg/wit/", "perpend/internal/wit/");

const WIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin-sdk/wit");

fn main() -> anyhow::Result<()> {
    let files: BTreeMap<String, String> = [c()?, go()?, rust()?].into_iter().flatten().collect();
    let json = serde_json::to_vec(&files)?;
    Ok(std::io::stdout().write_all(&json)?)
}

/// The contract, and its world of this name.
fn contract(world: &str) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin-sdk/wit")))?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}

fn generated(generator: Box<dyn WorldGenerator>) -> anyhow::Result<Vec<(String, String)>> {
    let (resolve, world) = contract("judge")?;
    generated_of(generator, resolve, world)
}

fn generated_of(
    mut generator: Box<dyn WorldGenerator>,
    mut resolve: Resolve,
    world: WorldId,
) -> anyhow::Result<Vec<(String, String)>> {
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
    Ok(files.map(|(name, text)| (format!("plugin-sdk/c/{name}"), text)).collect())
}

/// The packages below `perpend/internal`.
fn go() -> anyhow::Result<Vec<(String, String)>> {
    let options = wit_bindgen_go::Opts {
        // Not formatted: the output must not depend on the presence of gofmt.
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

/// One file for each world: that of a plug-in, and those of the optional exports.
fn rust() -> anyhow::Result<Vec<(String, String)>> {
    let (resolve, world) = contract("judge")?;
    let mut files = vec![rust_world("bindings", resolve, world, Vec::new())?];
    for export in ["batch", "config-check"] {
        let mut resolve = Resolve::default();
        resolve.push_dir(Path::new(WIT))?;
        let text = format!(
            "package perpend:{export}; world {export} {{ export perpend:evaluator/{export}@1.0.0; }}"
        );
        let package = resolve.push_str("inline", &text)?;
        let world = resolve.select_world(&[package], Some(export))?;
        let types = "super::bindings::perpend::evaluator::types".to_owned();
        let with = ("perpend:evaluator/types@1.0.0".to_owned(), WithOption::Path(types));
        let module = export.replace('-', "_");
        files.push(rust_world(&module, resolve, world, vec![with])?);
    }
    Ok(files)
}

fn rust_world(
    module: &str,
    resolve: Resolve,
    world: WorldId,
    with: Vec<(String, WithOption)>,
) -> anyhow::Result<(String, String)> {
    let macro_name = match module {
        "bindings" => "export_component".to_owned(),
        other => format!("export_{other}"),
    };
    let options = wit_bindgen_rust::Opts {
        format: true,
        pub_export_macro: true,
        export_macro_name: Some(macro_name),
        default_bindings_module: Some(format!("perpend_plugin::guest::{module}")),
        with,
        ..wit_bindgen_rust::Opts::default()
    };
    let mut files = generated_of(Box::new(options.build()), resolve, world)?;
    let (_, text) = files.pop().context("no bindings for Rust")?;
    Ok((format!("plugin-sdk/rust/bindings/{module}.rs"), text))
}

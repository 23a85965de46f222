//! Checks, compiles and describes a component.
//!
//! Runs in a child process ([`compile_main`]), because a small component can make the compiler use unbounded memory.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_worker_protocol::{
    CompileAnswer, CompileHead, CompileRequest, ComponentProblem, Grants,
};
use rustix::process::Resource;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::artifact::{ArtifactError, Artifacts};
use crate::bindings::JudgePre;
use crate::child::{self, limit, limit_cpu, read_frame};
use crate::confine::{Role, confine};
use crate::host::Host;
use crate::{info, names};

/// Maximum size of a component.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;
/// Address space until a guest runs. Afterwards it limits writable memory.
const COMPILE_MEMORY: u64 = 2 << 30;
const COMPILE_CPU_SECONDS: u64 = 60;
/// Each memory reserves 4 GiB of addresses.
const DESCRIBE_ADDRESS_SPACE: u64 = 64 << 30;

const CONTRACT: &str = "perpend:evaluator/";
const VERSION: &str = "1.0.0";
const INERT_WASI: [&str; 6] = ["cli", "io", "clocks", "random", "filesystem", "sockets"];

/// The command `perpend compile`: reads a [`CompileRequest`] from standard input, confines itself, reads the component, and
/// writes a [`CompileHead`], the image and a [`CompileAnswer`] to standard output.
#[must_use]
pub fn compile_main() -> ExitCode {
    child::main("perpend compile", answer_request)
}

fn answer_request() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let request: CompileRequest = read_frame(&mut stdin)?;
    // After confinement no limit can be lowered, and only the limit of the address space can be raised, up to
    // its hard limit.
    limit(Resource::As, COMPILE_MEMORY, DESCRIBE_ADDRESS_SPACE)?;
    limit(Resource::Data, COMPILE_MEMORY, COMPILE_MEMORY)?;
    limit_cpu(COMPILE_CPU_SECONDS)?;
    // Before the component is read.
    confine(Role::Compiler, request.require_all_layers).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    stdin.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let host = Host::on_demand().map_err(io::Error::other)?;
    let (image, compiled) = match compile_checked(&host, &bytes, request.grants) {
        Ok((component, image)) => (image, Ok(component)),
        Err(problems) => (Vec::new(), Err(problems)),
    };
    let head = CompileHead {
        engine_key: host.artifacts().engine_key().to_owned(),
        image_bytes: image.len() as u64,
    };
    let mut frame = Vec::new();
    perpend_worker_protocol::write_frame(&head, &mut frame).map_err(io::Error::other)?;
    // The image is sent before the guest runs, so that the guest cannot modify it.
    let mut stdout = io::stdout().lock();
    stdout.write_all(&frame)?;
    stdout.write_all(&image)?;
    stdout.flush()?;
    drop(image);
    limit(Resource::As, DESCRIBE_ADDRESS_SPACE, DESCRIBE_ADDRESS_SPACE)?;
    let answer: CompileAnswer = compiled.and_then(|component| describe(&host, &component));
    serde_json::to_writer(&mut stdout, &answer).map_err(io::Error::other)?;
    stdout.flush()
}

/// Compiles a component in this process, for tests, benchmarks and offline checks.
///
/// # Errors
/// All problems of the first step that fails.
pub fn compile(bytes: &[u8], cache_dir: &Path, grants: Grants) -> CompileAnswer {
    let host = Host::on_demand()
        .map_err(|error| vec![ComponentProblem::new("host", error.to_string())])?;
    let cache = |error: ArtifactError| vec![ComponentProblem::new("cache", error.to_string())];
    let artifacts = Artifacts::open(cache_dir, host.engine()).map_err(cache)?;
    let (component, image) = compile_checked(&host, bytes, grants)?;
    let info = describe(&host, &component)?;
    artifacts.write(Digest::of(bytes), &image, &info).map_err(cache)?;
    Ok(info)
}

/// Compiles a component and checks its format, imports and exports. Does not run guest code.
fn compile_checked(
    host: &Host,
    bytes: &[u8],
    grants: Grants,
) -> Result<(Component, Vec<u8>), Vec<ComponentProblem>> {
    check_format(bytes).map_err(|message| vec![ComponentProblem::new("file", message)])?;
    let compile_problem =
        |error: wasmtime::Error| vec![ComponentProblem::new("compile", format!("{error:#}"))];
    let bytes = names::strip_if_large(bytes);
    let component = Component::from_binary(host.engine(), &bytes).map_err(compile_problem)?;
    let mut problems = check_imports(&component, grants, host);
    problems.extend(check_exports(&component, host));
    if !problems.is_empty() {
        return Err(problems);
    }
    let image = component.serialize().map_err(compile_problem)?;
    Ok((component, image))
}

fn check_format(bytes: &[u8]) -> Result<(), String> {
    if MAX_COMPONENT_BYTES < bytes.len() {
        return Err("larger than 64 MiB".into());
    }
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(
            "a core module; a component is needed (build for wasm32-wasip2, or `wasm-tools component new`)"
                .into(),
        ),
        [0, b'a', b's', b'm', ..] => Err("a WebAssembly file of an unknown version".into()),
        [0x7f, b'E', b'L', b'F', ..] => {
            Err("a precompiled artifact; the component it was made from is needed".into())
        }
        _ if bytes.trim_ascii_start().starts_with(b"(") => {
            Err("the text format; a binary component is needed (`wasm-tools parse`)".into())
        }
        _ => Err("not a WebAssembly component".into()),
    }
}

fn check_imports(component: &Component, grants: Grants, host: &Host) -> Vec<ComponentProblem> {
    let mut problems = Vec::new();
    for (name, _) in component.component_type().imports(host.engine()) {
        if let Err(message) = check_import(name, grants) {
            problems.push(ComponentProblem::new(format!("import {name}"), message));
        }
    }
    if problems.is_empty()
        && let Err(error) = host.linker().instantiate_pre(component)
    {
        // All interfaces are known, so a function or a type in one of them differs.
        let message =
            format!("{error:#}; this server provides {CONTRACT}*@{VERSION} and inert WASI 0.2");
        problems.push(ComponentProblem::new("import", message));
    }
    problems
}

fn check_import(name: &str, grants: Grants) -> Result<(), String> {
    let (path, version) = name.split_once('@').unwrap_or((name, ""));
    if let Some(interface) = path.strip_prefix(CONTRACT) {
        if version.split('.').next() != Some("1") {
            return Err(format!(
                "version {version:?} was requested; this server provides {VERSION}"
            ));
        }
        let needs = |granted: bool, capability: &str| {
            let message = format!(
                "needs the capability `{capability}`, which was not granted to this plug-in: an \
                 administrator must grant it"
            );
            if granted { Ok(()) } else { Err(message) }
        };
        return match interface {
            "context" | "log" | "types" => Ok(()),
            "model" => needs(grants.model, "model"),
            "trace-reader" | "session-reader" | "run-reader" => needs(grants.trace_reader, "trace"),
            _ => Err(format!("no such interface in {CONTRACT}*@{VERSION}")),
        };
    }
    if let Some(wasi) = path.strip_prefix("wasi:") {
        let package = wasi.split('/').next().unwrap_or_default();
        if package == "http" {
            return Err("needs the capability `http`, which this server does not offer".into());
        }
        if !INERT_WASI.contains(&package) {
            return Err("not part of the inert WASI 0.2 that plug-ins get".into());
        }
        if !version.starts_with("0.2.") {
            return Err(format!(
                "version {version:?} was requested; this server provides WASI 0.2"
            ));
        }
        return Ok(());
    }
    Err(format!(
        "unknown: plug-ins may import {CONTRACT}{{context, log, model, trace-reader, session-reader, \
         run-reader}}@{VERSION} and inert WASI 0.2"
    ))
}

fn check_exports(component: &Component, host: &Host) -> Vec<ComponentProblem> {
    let name = format!("{CONTRACT}evaluator@{VERSION}");
    let at = format!("export {name}");
    let component_type = component.component_type();
    let Some(ComponentItem::ComponentInstance(instance)) =
        component_type.get_export(host.engine(), &name).map(|export| export.ty)
    else {
        let others: Vec<&str> =
            component_type.exports(host.engine()).map(|(name, _)| name).take(8).collect();
        let message = format!("missing; the component exports {others:?}");
        return vec![ComponentProblem::new(at, message)];
    };
    let missing = ["describe", "evaluate"].into_iter().filter(|function| {
        let export = instance.get_export(host.engine(), function).map(|export| export.ty);
        !matches!(export, Some(ComponentItem::ComponentFunc(_)))
    });
    missing
        .map(|function| ComponentProblem::new(&at, format!("has no function `{function}`")))
        .collect()
}

fn describe(host: &Host, component: &Component) -> CompileAnswer {
    let export =
        |error: wasmtime::Error| vec![ComponentProblem::new("export", format!("{error:#}"))];
    let pre = host.linker().instantiate_pre(component).map_err(export)?;
    let pre = JudgePre::new(pre).map_err(export)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| vec![ComponentProblem::new("host", error.to_string())])?;
    let (mut info, _log) = runtime.block_on(host.describe(&pre)).map_err(|failure| {
        vec![ComponentProblem::new("describe", format!("{}: {}", failure.class, failure.message))]
    })?;
    info::add_capabilities(&mut info, component, host.engine());
    let problems = info::find_problems(&info);
    if problems.is_empty() { Ok::<PluginInfo, _>(info) } else { Err(problems) }
}

//! Compiles the first-party plug-ins to components as part of the build of the server.
//!
//! It runs a second cargo, because the components have another target and profile. Its target directory is below
//! the current one (cargo locks a directory during a build), and shared by debug and release builds, clippy and the
//! documentation, so that components are compiled once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, exit};
use std::{env, fs};

use sha2::{Digest as _, Sha256};

/// The plug-ins, by their name after `perpend/`.
const PLUGINS: [&str; 3] = ["text", "json", "judge"];
const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "plugin";

/// Initial memory that is sufficient for ordinary calls: growing it is a system call under a lock that all
/// instances share.
const LINK: &str = "-Clink-arg=--initial-memory=2097152";

/// Variables of the outer cargo that the inner one inherits. Other variables that begin with `CARGO` or `RUST`
/// describe the outer build (flags, wrappers such as clippy, target and profile) and would change the components
/// or their location.
const KEPT: [&str; 9] = [
    "CARGO_HOME",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
];

fn main() {
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    watch(&root);

    let target_dir = shared_target_dir(&out_dir);
    compile(&root, &target_dir);
    let built = target_dir.join(TARGET).join(PROFILE);
    for plugin in PLUGINS {
        let file = built.join(format!("perpend_plugin_{plugin}.wasm"));
        let copied = fs::read(&file).and_then(|bytes| {
            let digest = Sha256::digest(&bytes);
            fs::write(out_dir.join(format!("{plugin}.sha256")), digest)?;
            fs::write(out_dir.join(format!("{plugin}.wasm")), bytes)
        });
        if let Err(why) = copied {
            fail(&format!("the component {} cannot be copied: {why}", file.display()));
        }
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("cargo did not set {name}")))
}

/// The sources of the components.
fn watch(root: &Path) {
    let sources = [
        "plugins/measures",
        "plugins/text",
        "plugins/json",
        "plugins/judge",
        "plugin-sdk/template",
        "plugin-sdk/reply",
        "plugin-sdk/rust",
    ];
    for folder in sources {
        println!("cargo::rerun-if-changed={}", root.join(folder).join("src").display());
        println!("cargo::rerun-if-changed={}", root.join(folder).join("Cargo.toml").display());
    }
    // The profile and the versions of libraries.
    for path in [
        "plugin-sdk/rust/bindings",
        "plugin-sdk/wit",
        "rust-toolchain.toml",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// `target/plugins`, from an output directory like `target/debug/build/NAME/out`: the folder above the
/// nearest `build` is the profile's, and the one above that is shared by all profiles. With `--target`
/// it is one level deeper.
fn shared_target_dir(out_dir: &Path) -> PathBuf {
    let profile_dir = out_dir
        .ancestors()
        .find(|folder| folder.file_name().is_some_and(|name| name == "build"))
        .and_then(Path::parent);
    profile_dir.and_then(Path::parent).unwrap_or(out_dir).join("plugins")
}

/// Compiles offline first, then with the registry: the outer cargo may not have fetched all dependencies of the
/// components.
fn compile(root: &Path, target_dir: &Path) {
    let may_fetch =
        !env::var("CARGO_NET_OFFLINE").is_ok_and(|value| value == "true" || value == "1");
    let mut last = cargo(root, target_dir, true);
    if may_fetch && misses_packages(&last) {
        last = cargo(root, target_dir, false);
    }
    let mut rustup = String::new();
    if may_fetch && misses_target(&last) {
        rustup = add_target();
        last = cargo(root, target_dir, false);
    }
    if last.status.success() {
        return;
    }
    if misses_target(&last) {
        fail(&format!(
            "the plug-ins need the target {TARGET}, which this toolchain lacks. \
             Run: rustup target add {TARGET}\n{rustup}"
        ));
    }
    fail(&format!(
        "the first-party plug-ins do not compile:\n{}",
        String::from_utf8_lossy(&last.stderr)
    ));
}

fn misses_packages(build: &Output) -> bool {
    reports(build, &["--offline", "offline mode"])
}

fn misses_target(build: &Output) -> bool {
    reports(build, &["can't find crate for `core`", "can't find crate for `std`"])
}

fn reports(build: &Output, texts: &[&str]) -> bool {
    let errors = String::from_utf8_lossy(&build.stderr);
    !build.status.success() && texts.iter().any(|text| errors.contains(text))
}

/// Adds the target in `rust-toolchain.toml` if rustup runs the build, and returns its output. rustup adds it only
/// when it installs the toolchain, not to an existing one.
fn add_target() -> String {
    let Ok(toolchain) = env::var("RUSTUP_TOOLCHAIN") else {
        return String::new();
    };
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", "--toolchain", &toolchain, TARGET]);
    match rustup.output() {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(why) => format!("rustup cannot be started: {why}"),
    }
}

fn cargo(root: &Path, target_dir: &Path, offline: bool) -> Output {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let describes_outer = text.starts_with("CARGO") || text.starts_with("RUST");
        if describes_outer && !KEPT.iter().any(|kept| text.starts_with(kept)) {
            command.env_remove(&name);
        }
    }
    command
        .current_dir(root)
        .env("CARGO_ENCODED_RUSTFLAGS", LINK)
        .args(["build", "--quiet", "--lib", "--target", TARGET, "--profile", PROFILE])
        .arg("--target-dir")
        .arg(target_dir);
    for plugin in PLUGINS {
        command.args(["--package", &format!("perpend-plugin-{plugin}")]);
    }
    if offline {
        command.arg("--offline");
    }
    command.output().unwrap_or_else(|why| fail(&format!("cargo cannot be started: {why}")))
}

fn fail(text: &str) -> ! {
    for line in text.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}

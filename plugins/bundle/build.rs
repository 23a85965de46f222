//! Compiles the first-party plug-ins to components, so that whoever builds the server needs no second
//! command.
//!
//! A second cargo does it: the components are for another target and another profile. It gets a target
//! directory of its own below the one in use (cargo locks a directory while it builds), which debug and
//! release builds, clippy and the documentation share, so the components are compiled once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, exit};
use std::{env, fs};

use sha2::{Digest as _, Sha256};

/// Each plug-in: what comes after `perpend/` in its name.
const PLUGINS: [&str; 3] = ["text", "json", "judge"];
const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "plugin";

/// Enough initial memory that an ordinary call never grows it: each growth is a system call under a
/// lock that all instances share.
const LINK: &str = "-Clink-arg=--initial-memory=2097152";

/// Variables of the outer cargo that the inner one may see. Everything else that begins with `CARGO` or
/// `RUST` describes the outer build (flags, wrappers such as clippy's, its target and profile) and
/// would change the components or their place.
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

/// Everything the components are made from.
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
    // The profile and the versions of the libraries too.
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
/// it is one level deeper, which is as good.
fn shared_target_dir(out_dir: &Path) -> PathBuf {
    let profile_dir = out_dir
        .ancestors()
        .find(|folder| folder.file_name().is_some_and(|name| name == "build"))
        .and_then(Path::parent);
    profile_dir.and_then(Path::parent).unwrap_or(out_dir).join("plugins")
}

/// First with what is on this machine, then with the registry: the outer cargo fetched what it needs
/// itself, which does not have to be all that the components need.
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
    says(build, &["--offline", "offline mode"])
}

fn misses_target(build: &Output) -> bool {
    says(build, &["can't find crate for `core`", "can't find crate for `std`"])
}

fn says(build: &Output, texts: &[&str]) -> bool {
    let errors = String::from_utf8_lossy(&build.stderr);
    !build.status.success() && texts.iter().any(|text| errors.contains(text))
}

/// Adds the target that `rust-toolchain.toml` names, where rustup runs the build; what rustup says. By itself
/// it does so where it installs the toolchain, and not where the toolchain was there before.
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

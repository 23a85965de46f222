//! The compile process: one at a time, watched from outside.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use assay_domain::plugin::{Digest, PluginInfo};
use assay_domain::protocol::{self, CompileAnswer, CompileRequest, Grants, Problem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::Options;

const MAX_ANSWER_BYTES: u64 = 16 << 20;
const MAX_COMPONENT_BYTES: usize = 64 << 20;

pub(crate) struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
    cache_dir: PathBuf,
    limit: Duration,
    one_at_a_time: Mutex<()>,
}

impl Compiler {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            program: options.program.clone(),
            args: options.compile_args.clone(),
            cache_dir: options.cache_dir.clone(),
            limit: options.compile_limit,
            one_at_a_time: Mutex::default(),
        }
    }

    /// Compiles and describes. With `reuse`, a sound artifact that is there is enough.
    pub(crate) async fn compile(&self, bytes: &[u8], grants: Grants, reuse: bool) -> CompileAnswer {
        if MAX_COMPONENT_BYTES < bytes.len() {
            return Err(vec![Problem::new("file", "larger than 64 MiB")]);
        }
        let _turn = self.one_at_a_time.lock().await;
        let cache_dir = self.cache_dir.to_string_lossy().into_owned();
        let request = CompileRequest {
            cache_dir,
            grants,
            reuse,
        };
        match tokio::time::timeout(self.limit, self.child(&request, bytes)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(vec![Problem::new(
                "host",
                format!("the compile process failed: {error}"),
            )]),
            // Dropping the child killed it.
            Err(_) => {
                let message = format!("compiling took longer than {} s", self.limit.as_secs());
                Err(vec![Problem::new("compile", message)])
            }
        }
    }

    /// Makes the artifact of a registered component, unless a sound one is there by now. Its imports were
    /// checked against grants when it was registered.
    pub(crate) async fn rebuild(&self, digest: Digest, bytes: &[u8]) -> Result<(), String> {
        if Digest::of(bytes) != digest {
            return Err(format!(
                "the stored bytes of the plug-in {digest} are not those of its digest"
            ));
        }
        let answer = self.compile(bytes, Grants::ALL, true).await;
        answer.map(drop).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!(
                "the plug-in {digest} cannot be compiled: {}",
                problems.join("; ")
            )
        })
    }

    async fn child(&self, request: &CompileRequest, bytes: &[u8]) -> io::Result<CompileAnswer> {
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let mut frame = Vec::new();
        protocol::write_frame(request, &mut frame).map_err(io::Error::other)?;
        let feed = async {
            // A child that ends early closes the pipe; its answer or status says more.
            if stdin.write_all(&frame).await.is_ok() {
                drop(stdin.write_all(bytes).await);
            }
            drop(stdin);
        };
        let (mut answer, mut said) = (Vec::new(), Vec::new());
        let mut stdout = stdout.take(MAX_ANSWER_BYTES);
        let mut stderr = stderr.take(64 << 10);
        let ((), read, _) = tokio::join!(
            feed,
            stdout.read_to_end(&mut answer),
            stderr.read_to_end(&mut said)
        );
        read?;
        let status = child.wait().await?;
        if status.success() {
            let answer: Result<PluginInfo, Vec<Problem>> =
                serde_json::from_slice(&answer).map_err(io::Error::other)?;
            return Ok(answer);
        }
        Ok(Err(vec![Problem::new(
            "compile",
            ended(status, &String::from_utf8_lossy(&said)),
        )]))
    }
}

/// Why a compile process gave no answer, in words.
fn ended(status: ExitStatus, said: &str) -> String {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    const SIGXCPU: i32 = 24;
    match status.signal() {
        Some(SIGXCPU) => "compiling took more than 60 s of CPU time".to_owned(),
        Some(SIGABRT) => "compiling needs more than 2 GiB of memory".to_owned(),
        _ => {
            let last = said.lines().last().unwrap_or_default();
            format!("the compile process ended ({status}): {last}")
        }
    }
}

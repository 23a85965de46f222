//! The compile process: one at a time, with limits enforced from outside. It has no access to files: its output arrives over a
//! pipe and is cached here.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_worker_protocol::{
    self, CompileAnswer, CompileHead, CompileRequest, ComponentProblem, Grants, PREFIX_BYTES,
};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::Mutex;

use crate::cache::{self, ArtifactWriter, Cache};
use crate::child::{self, ChildOutput};
use crate::options::{ComponentSource, Options};

const SIGKILL: i32 = 9;
const MAX_ANSWER_BYTES: u64 = 16 << 20;
const MAX_HEAD_BYTES: usize = 4 << 10;
const MAX_IMAGE_BYTES: u64 = 1 << 30;
const MAX_COMPONENT_BYTES: usize = 64 << 20;

pub(crate) struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
    require_all_layers: bool,
    limit: Duration,
    cache: Arc<Cache>,
    in_use: Mutex<()>,
    was_pruned: AtomicBool,
}

/// The output of a compile process.
struct Compiled {
    info: PluginInfo,
    engine_key: String,
    artifact: File,
}

impl Compiler {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            program: options.program.clone(),
            args: options.compile_args.clone(),
            require_all_layers: options.require_all_layers,
            limit: options.compile_limit,
            cache: Arc::new(Cache::open(&options.cache_dir, options.max_cache_bytes)),
            in_use: Mutex::default(),
            was_pruned: AtomicBool::new(false),
        }
    }

    /// Compiles and describes a component, and caches its artifact.
    pub(crate) async fn compile(&self, bytes: &[u8], grants: Grants) -> CompileAnswer {
        let _guard = self.in_use.lock().await;
        let (info, _) = self.make(bytes, grants).await?;
        Ok(info)
    }

    /// Like [`Self::compile`], but uses a cached artifact for workers with this engine.
    pub(crate) async fn described(
        &self,
        bytes: &[u8],
        engine_key: &str,
        grants: Grants,
    ) -> CompileAnswer {
        let found = self.find(Digest::of(bytes), engine_key).await;
        match found.ok().flatten().and_then(|file| cache::info(&file)) {
            Some(info) => Ok(info),
            None => self.compile(bytes, grants).await,
        }
    }

    /// The artifact of a registered component for workers with this engine: a cached one, or a new one, also when the worker
    /// `rejected` the cached one. Imports are not checked against grants, which registration did.
    pub(crate) async fn artifact(
        &self,
        digest: Digest,
        engine_key: &str,
        rejected: Option<&str>,
        components: &dyn ComponentSource,
    ) -> Result<Arc<File>, String> {
        let find = || self.find(digest, engine_key);
        if rejected.is_none()
            && let Some(file) = find().await?
        {
            return Ok(file);
        }
        let bytes = components.component(digest).await;
        let bytes = bytes.ok_or_else(|| format!("the plug-in {digest} is not registered"))?;
        if Digest::of(&bytes) != digest {
            return Err(format!(
                "the stored bytes of the plug-in {digest} do not match its digest"
            ));
        }
        let _guard = self.in_use.lock().await;
        if rejected.is_some() {
            self.cache.forget(digest, engine_key);
        } else if let Some(file) = find().await? {
            // It was compiled for another worker.
            return Ok(file);
        }
        tracing::info!(plugin.digest = %digest, rejected, "compiling a component");
        let compiled = self.make(&bytes, Grants::ALL).await;
        compiled.map(|(_, file)| file).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("the plug-in {digest} cannot be compiled: {}", problems.join("; "))
        })
    }

    /// Prunes the cache once, as soon as the engine key is known.
    pub(crate) async fn prune(&self, engine_key: &str, components: &dyn ComponentSource) {
        if self.was_pruned.swap(true, Ordering::AcqRel) {
            return;
        }
        let registered = components.registered().await;
        let registered: Option<HashSet<Digest>> = registered.map(|all| all.into_iter().collect());
        let (cache, engine_key) = (Arc::clone(&self.cache), engine_key.to_owned());
        let prune = move || cache.prune(Some(&engine_key), registered.as_ref());
        drop(tokio::task::spawn_blocking(prune).await);
    }

    async fn find(&self, digest: Digest, engine_key: &str) -> Result<Option<Arc<File>>, String> {
        let (cache, engine_key) = (Arc::clone(&self.cache), engine_key.to_owned());
        let find = tokio::task::spawn_blocking(move || cache.find(digest, &engine_key));
        find.await.map_err(|error| error.to_string())?
    }

    async fn make(
        &self,
        bytes: &[u8],
        grants: Grants,
    ) -> Result<(PluginInfo, Arc<File>), Vec<ComponentProblem>> {
        if MAX_COMPONENT_BYTES < bytes.len() {
            return Err(vec![ComponentProblem::new("file", "larger than 64 MiB")]);
        }
        let request = CompileRequest { grants, require_all_layers: self.require_all_layers };
        let compiled = match tokio::time::timeout(self.limit, self.child(&request, bytes)).await {
            Ok(Ok(answer)) => answer?,
            Ok(Err(error)) => {
                let message = format!("the compile process failed: {error}");
                return Err(vec![ComponentProblem::new("host", message)]);
            }
            // Dropping the child killed it.
            Err(_) => {
                let message = format!("compiling took longer than {} s", self.limit.as_secs());
                return Err(vec![ComponentProblem::new("compile", message)]);
            }
        };
        let (cache, digest) = (Arc::clone(&self.cache), Digest::of(bytes));
        let Compiled { info, engine_key, artifact } = compiled;
        let put = tokio::task::spawn_blocking(move || cache.put(digest, &engine_key, artifact));
        let file = put.await.unwrap_or_else(|error| Err(error.to_string()));
        let file = file.map_err(|message| vec![ComponentProblem::new("cache", message)])?;
        Ok((info, file))
    }

    async fn child(
        &self,
        request: &CompileRequest,
        bytes: &[u8],
    ) -> io::Result<Result<Compiled, Vec<ComponentProblem>>> {
        let mut frame = Vec::new();
        perpend_worker_protocol::write_frame(request, &mut frame).map_err(io::Error::other)?;
        let input = [frame.as_slice(), bytes];
        let child = child::start(&self.program, &self.args)?;
        let ChildOutput { status, answer, stderr_line } =
            child.exchange(&input, read_answer).await?;
        if status.success() {
            return answer;
        }
        // By the operator, or by a kernel short of memory: not caused by the component.
        if status.signal() == Some(SIGKILL) {
            return Err(io::Error::other("the process was killed"));
        }
        Ok(Err(vec![ComponentProblem::new("compile", ended(status, &stderr_line))]))
    }
}

/// Reads head, image and answer, in the order of output. The answer is untrusted, because guest code runs before it is written;
/// the image is complete before any guest code runs.
async fn read_answer(
    mut stdout: ChildStdout,
) -> io::Result<Result<Compiled, Vec<ComponentProblem>>> {
    let mut prefix = [0; PREFIX_BYTES];
    stdout.read_exact(&mut prefix).await?;
    let length = perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?;
    if MAX_HEAD_BYTES < length {
        return Err(io::Error::other("the head is too long"));
    }
    let mut head = vec![0; length];
    stdout.read_exact(&mut head).await?;
    let head: CompileHead = perpend_worker_protocol::read_frame(&head).map_err(io::Error::other)?;
    if MAX_IMAGE_BYTES < head.image_bytes {
        let message = "the compiled form is larger than 1 GiB";
        return Ok(Err(vec![ComponentProblem::new("compile", message)]));
    }
    let mut writer = ArtifactWriter::new()?;
    let mut chunk = vec![0; 64 << 10];
    let mut rest = head.image_bytes;
    while 0 < rest {
        let most = chunk.len().min(usize::try_from(rest).unwrap_or(chunk.len()));
        let n = stdout.read(&mut chunk[..most]).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        writer.add(&chunk[..n])?;
        rest -= n as u64;
    }
    let mut answer = Vec::new();
    stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
    let info = match parse_answer(&answer) {
        Ok(_) if head.image_bytes == 0 => return Err(io::Error::other("the image is missing")),
        Ok(info) => info,
        Err(problems) => return Ok(Err(problems)),
    };
    let description = serde_json::to_vec(&info).map_err(io::Error::other)?;
    Ok(Ok(Compiled { info, engine_key: head.engine_key, artifact: writer.seal(&description)? }))
}

/// The answer; a problem of the component if guest code made it too long or unreadable.
fn parse_answer(bytes: &[u8]) -> CompileAnswer {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        let message = format!("the description cannot be read: {error}");
        Err(vec![ComponentProblem::new("describe", message)])
    })
}

/// The message for a compile process that ended without an answer.
fn ended(status: ExitStatus, stderr_line: &str) -> String {
    const SIGABRT: i32 = 6;
    const SIGXCPU: i32 = 24;
    match status.signal() {
        Some(SIGXCPU) => "compiling took more than 60 s of CPU time".to_owned(),
        Some(SIGABRT) => "compiling needs more than 2 GiB of memory".to_owned(),
        _ => format!("the compile process ended ({status}): {stderr_line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_a_problem_of_the_component() {
        let problems = parse_answer(br#"{"Ok":{"name":"#).unwrap_err();
        assert_eq!(problems[0].at, "describe");
    }
}

//! The server connection of `perpend plugin push`, `perpend judge check` and similar commands.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use clap::Args;
use perpend_plugin_cli::{Remote, RemoteResponse};
use tokio::runtime::Runtime;

use crate::client::Client;

/// The default server.
const DEFAULT_SERVER: &str = "http://127.0.0.1:4717";
/// Variables for absent flags; the first that is set. Those of Langfuse clients are in many CI settings.
const SERVER_VARIABLES: [&str; 4] =
    ["PERPEND_SERVER", "PERPEND_HOST", "LANGFUSE_BASE_URL", "LANGFUSE_HOST"];
const PUBLIC_KEY_VARIABLES: [&str; 2] = ["PERPEND_PUBLIC_KEY", "LANGFUSE_PUBLIC_KEY"];
const SECRET_KEY_VARIABLES: [&str; 2] = ["PERPEND_SECRET_KEY", "LANGFUSE_SECRET_KEY"];
/// Timeout of requests, which includes compilation: an interpreter takes a minute on a slow machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(180);

/// Address of the server and credentials.
#[derive(Clone, Debug, Args)]
pub(super) struct Access {
    /// URL of the server [default: $PERPEND_SERVER, $PERPEND_HOST, $LANGFUSE_BASE_URL, $LANGFUSE_HOST or http://127.0.0.1:4717]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Public key of the project [default: $PERPEND_PUBLIC_KEY or $LANGFUSE_PUBLIC_KEY]
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
    /// Secret key of the project [default: $PERPEND_SECRET_KEY or $LANGFUSE_SECRET_KEY]
    #[arg(long, value_name = "KEY")]
    secret_key: Option<String>,
}

/// A server accessed over HTTP.
#[derive(Debug)]
pub(super) struct ServerRemote {
    address: String,
    client: Client,
    runtime: Runtime,
}

impl ServerRemote {
    /// Connects to the server in the flags or the environment.
    pub(super) fn new(access: &Access, timeout: Duration) -> anyhow::Result<Self> {
        let or_variable = |flag: &Option<String>, names: &[&str]| {
            let variables = names.iter().map(|name| std::env::var(name).ok());
            let mut values = std::iter::once(flag.clone()).chain(variables).flatten();
            values.find(|value| !value.is_empty())
        };
        let address = or_variable(&access.server, &SERVER_VARIABLES);
        let address = address.unwrap_or_else(|| DEFAULT_SERVER.to_owned());
        let public = or_variable(&access.public_key, &PUBLIC_KEY_VARIABLES);
        let secret = or_variable(&access.secret_key, &SECRET_KEY_VARIABLES);
        let (Some(public), Some(secret)) = (public, secret) else {
            anyhow::bail!(
                "a key pair of the project is required: use --public-key and --secret-key, or set \
                 PERPEND_PUBLIC_KEY and PERPEND_SECRET_KEY; a server prints a key pair on its first start"
            );
        };
        anyhow::ensure!(
            address.starts_with("http://") || address.starts_with("https://"),
            "--server must be an http:// or https:// URL, got {address:?}"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _entered = runtime.enter();
            Client::new(&address)
        };
        Ok(Self {
            client: client.with_keys(&public, &secret).with_timeout(timeout),
            address,
            runtime,
        })
    }
}

impl ServerRemote {
    /// `POST` with the content of a file.
    pub(super) fn post_file(&self, path: &str, file: &Path) -> anyhow::Result<RemoteResponse> {
        let answer = self.runtime.block_on(self.client.post_file(path, file))?;
        Ok(RemoteResponse { status: answer.status.as_u16(), body: answer.json() })
    }

    /// `GET` of a body that is written to `out`. A response without success is returned.
    pub(super) fn download(
        &self,
        path: &str,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<Option<RemoteResponse>> {
        let answer = self.runtime.block_on(self.client.download(path, out))?;
        Ok(answer
            .map(|answer| RemoteResponse { status: answer.status.as_u16(), body: answer.json() }))
    }
}

impl Remote for ServerRemote {
    fn address(&self) -> &str {
        &self.address
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<RemoteResponse, String> {
        let method: Method = method.parse().map_err(|_| "invalid method".to_owned())?;
        let (headers, body) = match body {
            Some((media_type, bytes)) => (vec![("content-type", media_type)], Body::from(bytes)),
            None => (Vec::new(), Body::empty()),
        };
        let sent = self.client.send(method, path, &headers, body);
        match self.runtime.block_on(sent) {
            Ok(answer) => {
                Ok(RemoteResponse { status: answer.status.as_u16(), body: answer.json() })
            }
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

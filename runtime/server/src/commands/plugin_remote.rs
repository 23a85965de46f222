//! The server that `perpend plugin push`, `perpend judge check` and their neighbours speak to.

use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use clap::Args;
use perpend_plugin_cli::{Answer, Remote};
use tokio::runtime::Runtime;

use crate::client::Client;

/// Where a server is when nobody says.
const DEFAULT_SERVER: &str = "http://127.0.0.1:4717";
/// A server compiles what is pushed: an interpreter takes it a minute on a slow machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(180);

/// Where the server is, and who asks.
#[derive(Clone, Debug, Args)]
pub(super) struct Access {
    /// The server's address [default: $PERPEND_SERVER or http://127.0.0.1:4717]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Public half of the project's key pair [default: $PERPEND_PUBLIC_KEY]
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
    /// Secret half of the project's key pair [default: $PERPEND_SECRET_KEY]
    #[arg(long, value_name = "KEY")]
    secret_key: Option<String>,
}

/// A server spoken to over HTTP.
#[derive(Debug)]
pub(super) struct ServerRemote {
    address: String,
    client: Client,
    runtime: Runtime,
}

impl ServerRemote {
    /// The server that was named, by flags or in the environment. An answer is waited for so long.
    pub(super) fn new(access: &Access, timeout: Duration) -> anyhow::Result<Self> {
        let or_variable = |given: &Option<String>, name: &str| {
            let variable = || std::env::var(name).ok();
            given.clone().or_else(variable).filter(|value| !value.is_empty())
        };
        let address = or_variable(&access.server, "PERPEND_SERVER");
        let address = address.unwrap_or_else(|| DEFAULT_SERVER.to_owned());
        let public = or_variable(&access.public_key, "PERPEND_PUBLIC_KEY");
        let secret = or_variable(&access.secret_key, "PERPEND_SECRET_KEY");
        let (Some(public), Some(secret)) = (public, secret) else {
            anyhow::bail!(
                "a key pair of the project is needed: give --public-key and --secret-key, or set \
                 PERPEND_PUBLIC_KEY and PERPEND_SECRET_KEY; a server prints its first pair when it starts"
            );
        };
        anyhow::ensure!(
            !address.starts_with("https://"),
            "--server: this version of perpend speaks plain http; reach {address} by its http address, \
             or through a tunnel to it on this machine"
        );
        anyhow::ensure!(
            address.starts_with("http://"),
            "--server: {address:?} is no address; it begins with http://"
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

impl Remote for ServerRemote {
    fn address(&self) -> &str {
        &self.address
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Answer, String> {
        let method: Method = method.parse().map_err(|_| "no such method".to_owned())?;
        let (headers, body) = match body {
            Some((media_type, bytes)) => (vec![("content-type", media_type)], Body::from(bytes)),
            None => (Vec::new(), Body::empty()),
        };
        let sent = self.client.send(method, path, &headers, body);
        match self.runtime.block_on(sent) {
            Ok(answer) => Ok(Answer { status: answer.status.as_u16(), body: answer.json() }),
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

//! A lean HTTP/1.1 client: one connection, one request at a time, so that the load generator leaves
//! the processor to the server.

use std::net::SocketAddr;

use anyhow::Context;
use base64::Engine;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;

/// One keep-alive connection that authenticates with a key pair.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authorization: String,
    host: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub(crate) async fn open(
        address: SocketAddr,
        (public, secret): (&str, &str),
    ) -> anyhow::Result<Self> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{public}:{secret}"));
        Ok(Self {
            sender,
            authorization: format!("Basic {pair}"),
            host: address.to_string(),
        })
    }

    /// Sends one request and reads the whole answer.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<(u16, Bytes)> {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("authorization", &self.authorization)
            .header("content-type", content_type)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends JSON and reads JSON; any status but 2xx is an error that shows the body.
    ///
    /// # Errors
    /// When the connection breaks or the server refuses.
    pub(crate) async fn json(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> anyhow::Result<serde_json::Value> {
        let bytes = body.map(ToString::to_string).unwrap_or_default();
        let (status, answer) = self
            .send(method, path, "application/json", bytes.into())
            .await?;
        let shown = String::from_utf8_lossy(&answer);
        anyhow::ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status} {shown}"
        );
        serde_json::from_str(&shown).with_context(|| format!("{method} {path}: {shown}"))
    }
}

//! The demo speaks to the server as every client does: over HTTP, with a key pair.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use axum::body::Bytes;
use base64::Engine;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::KeyPair;

/// One connection that stays open.
pub(super) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    authorization: String,
}

impl Client {
    /// Connects; the connection's own task belongs to `tasks`.
    pub(super) async fn connect(
        address: SocketAddr,
        keys: &KeyPair,
        tasks: &TaskTracker,
    ) -> anyhow::Result<Self> {
        let stream = tokio::net::TcpStream::connect(address)
            .await
            .with_context(|| format!("the server does not listen on {address}"))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tasks.spawn(connection);
        let pair = format!("{}:{}", keys.public_key, keys.secret_key);
        let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
        Ok(Self { sender, host: address.to_string(), authorization: format!("Basic {encoded}") })
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("authorization", &self.authorization)
            .header("content-type", content_type)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        let shown = String::from_utf8_lossy(&answer);
        ensure!(status.is_success(), "{method} {path} answered {status}: {shown}");
        Ok(answer)
    }

    /// Exports spans as an OpenTelemetry exporter does.
    pub(super) async fn export(&mut self, request: Vec<u8>) -> anyhow::Result<()> {
        let path = "/api/public/otel/v1/traces";
        let answer = self.send("POST", path, "application/x-protobuf", request.into()).await?;
        ensure!(answer.is_empty(), "the server accepted only a part of the spans");
        Ok(())
    }

    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let answer = self.send("GET", path, "application/json", Bytes::new()).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let answer = self.send("POST", path, "application/json", body.to_string().into()).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

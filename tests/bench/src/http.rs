//! A lean HTTP/1.1 client: one connection, one request at a time, so that the load generator leaves
//! the processor to the server.

use std::net::SocketAddr;

use anyhow::Context;
use base64::Engine;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;

use crate::server::KEYS;

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
    /// When the connection is refused.
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
        Ok(Self { sender, authorization: format!("Basic {pair}"), host: address.to_string() })
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

    /// A page as a browser gets it, compressed.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn page(&mut self, path: &str, cookie: &str) -> anyhow::Result<(u16, Bytes)> {
        self.get(path, cookie, "gzip, deflate, br").await
    }

    /// A page that is not compressed.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn plain_page(
        &mut self,
        path: &str,
        cookie: &str,
    ) -> anyhow::Result<(u16, Bytes)> {
        self.get(path, cookie, "identity").await
    }

    async fn get(
        &mut self,
        path: &str,
        cookie: &str,
        encodings: &str,
    ) -> anyhow::Result<(u16, Bytes)> {
        let request = hyper::Request::get(path)
            .header("host", &self.host)
            .header("cookie", cookie)
            .header("accept", "text/html")
            .header("accept-encoding", encodings)
            .body(Full::default())?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Logs in by form: the cookie of the session, and the address of the project.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) async fn log_in(&mut self) -> anyhow::Result<(String, String)> {
        let form = format!("public_key={}&secret_key={}", KEYS.0, KEYS.1);
        let request = hyper::Request::post("/login")
            .header("host", &self.host)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Full::new(form.into()))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let cookie = response.headers().get("set-cookie").context("no cookie")?;
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
        let cookie = cookie.to_owned();
        let _ = response.into_body().collect().await?;
        let request = hyper::Request::get("/")
            .header("host", &self.host)
            .header("cookie", &cookie)
            .header("accept", "text/html")
            .body(Full::default())?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let base = response.headers().get("location").context("no project")?;
        let base = base.to_str()?.to_owned();
        let _ = response.into_body().collect().await?;
        Ok((cookie, base))
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
        let (status, answer) = self.send(method, path, "application/json", bytes.into()).await?;
        let shown = String::from_utf8_lossy(&answer);
        anyhow::ensure!((200..300).contains(&status), "{method} {path}: {status} {shown}");
        serde_json::from_str(&shown).with_context(|| format!("{method} {path}: {shown}"))
    }
}

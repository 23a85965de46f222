//! Requests written by hand: senders that announce a body and do not keep to it.

use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::PATIENCE;

/// `Authorization` with the key pair of the first project.
pub const PAIR: &str = "Basic cGstdGVzdDpzay10ZXN0";
/// That of the second project.
pub const OTHER_PAIR: &str = "Basic cGstb3RoZXI6c2stb3RoZXI=";
/// That of the organization.
pub const ORGANIZATION_PAIR: &str = "Basic cGstdGVzdC1vcmc6c2stdGVzdC1vcmc=";

/// A connection with a request whose body is sent at the leisure of a test.
#[derive(Debug)]
pub struct RawRequest(TcpStream);

impl RawRequest {
    /// Sends the head, with further lines of it.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn open(origin: &str, line: &str, headers: &[(&str, &str)]) -> anyhow::Result<Self> {
        let address = origin.trim_start_matches("http://");
        let mut head = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(head.as_bytes()).await?;
        Ok(Self(stream))
    }

    /// Sends a part of the body.
    ///
    /// # Errors
    /// When the server does not take it.
    pub async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write_all(bytes).await?)
    }

    /// Waits until the answer begins, of which nothing is taken yet.
    ///
    /// # Errors
    /// When it does not.
    pub async fn begins(&self) -> anyhow::Result<()> {
        let mut first = [0];
        let peek = tokio::time::timeout(PATIENCE, self.0.peek(&mut first)).await;
        let n = peek.context("no answer")??;
        anyhow::ensure!(n == 1, "the connection is closed");
        Ok(())
    }

    /// The answer, head and all, once the server has closed the connection.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn answer(mut self) -> anyhow::Result<String> {
        let mut answer = Vec::new();
        let read = self.0.read_to_end(&mut answer);
        let read = tokio::time::timeout(PATIENCE, read).await;
        match read.context("no answer")? {
            // What was sent and not read any more cuts the connection behind the answer.
            Err(error) if answer.is_empty() => Err(error.into()),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }

    /// The answer to a body of which `piece` comes again and again, with pauses.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn trickle(mut self, piece: &[u8], pause: Duration) -> anyhow::Result<String> {
        let mut answer = Vec::new();
        let (mut reading, mut writing) = self.0.split();
        let write = async {
            while writing.write_all(piece).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = reading.read_to_end(&mut answer) => {}
            () = write => {}
            () = tokio::time::sleep(PATIENCE) => anyhow::bail!("no answer"),
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

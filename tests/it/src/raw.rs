//! Raw requests: senders whose body is slow, or differs from the announced length.

use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::PATIENCE;

/// `Authorization` with the key pair of the first project.
pub const PAIR: &str = "Basic cGstdGVzdDpzay10ZXN0";
/// `Authorization` with the key pair of the second project.
pub const OTHER_PAIR: &str = "Basic cGstb3RoZXI6c2stb3RoZXI=";
/// `Authorization` with the key pair of the organization.
pub const ORGANIZATION_PAIR: &str = "Basic cGstdGVzdC1vcmc6c2stdGVzdC1vcmc=";

/// A connection with a request whose body a test sends piece by piece.
#[derive(Debug)]
pub struct RawRequest(TcpStream);

impl RawRequest {
    /// Sends the head with further headers.
    ///
    /// # Errors
    /// When the connection fails.
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
    /// When the connection is closed.
    pub async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.write_all(bytes).await?)
    }

    /// Waits until the response starts, without reading it.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn begins(&self) -> anyhow::Result<()> {
        let mut first = [0];
        let peek = tokio::time::timeout(PATIENCE, self.0.peek(&mut first)).await;
        let n = peek.context("no response")??;
        anyhow::ensure!(n == 1, "the connection is closed");
        Ok(())
    }

    /// The whole response, once the server has closed the connection.
    ///
    /// # Errors
    /// When no response arrives in time.
    pub async fn answer(mut self) -> anyhow::Result<String> {
        let mut answer = Vec::new();
        let read = self.0.read_to_end(&mut answer);
        let read = tokio::time::timeout(PATIENCE, read).await;
        match read.context("no response")? {
            // Unread request data resets the connection after the response.
            Err(error) if answer.is_empty() => Err(error.into()),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }

    /// The response to a body of repeated pieces with pauses in between.
    ///
    /// # Errors
    /// When no response arrives in time.
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
            () = tokio::time::sleep(PATIENCE) => anyhow::bail!("no response"),
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

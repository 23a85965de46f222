//! Fails statements at once while PostgreSQL is unreachable. A pool alone lets each of them wait for a
//! connection until its timeout.

use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Connection as _;
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{Mutex, watch};

use crate::Error;

/// A statement that takes longer triggers a check whether the server is reachable.
const SLOW: Duration = Duration::from_millis(500);
/// Timeout of an attempt to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Interval of attempts to connect while the server is unreachable.
const RETRY: Duration = Duration::from_millis(250);

/// Whether the server is reachable.
#[derive(Debug)]
pub(crate) struct Outage {
    connect: PgConnectOptions,
    is_down: watch::Sender<bool>,
    /// Held by the statement that runs the check: others wait for its result.
    probing: Mutex<()>,
}

fn unreachable() -> Error {
    Error::Unavailable("PostgreSQL cannot be reached".to_owned())
}

/// Whether the server refuses every connection, and not only this one.
fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        // It shuts down, crashed, or starts.
        sqlx::Error::Database(error) => {
            matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03"))
        }
        _ => false,
    }
}

impl Outage {
    pub(crate) fn new(connect: PgConnectOptions) -> Arc<Self> {
        Arc::new(Self { connect, is_down: watch::Sender::new(false), probing: Mutex::default() })
    }

    /// The result of `work`, or an error as soon as the server is found to be unreachable.
    pub(crate) async fn guard<T>(
        self: &Arc<Self>,
        mut work: BoxFuture<'_, Result<T, Error>>,
    ) -> Result<T, Error> {
        if *self.is_down.borrow() {
            return Err(unreachable());
        }
        if let Ok(done) = tokio::time::timeout(SLOW, &mut work).await {
            return done;
        }
        let mut is_down = self.is_down.subscribe();
        tokio::select! {
            biased;
            done = &mut work => done,
            _ = is_down.wait_for(|is_down| *is_down) => Err(unreachable()),
            () = self.probe() => Err(unreachable()),
        }
    }

    /// Completes if it finds an outage, and never otherwise.
    async fn probe(self: &Arc<Self>) {
        {
            let Ok(_probing) = self.probing.try_lock() else {
                return pending().await;
            };
            if !self.refuses().await {
                drop(_probing);
                return pending().await;
            }
            if !self.is_down.send_replace(true) {
                tracing::error!("PostgreSQL cannot be reached: requests are answered with 503");
                tokio::spawn(watch_for_its_end(Arc::downgrade(self)));
            }
        }
    }

    async fn refuses(&self) -> bool {
        let connecting = PgConnection::connect_with(&self.connect);
        match tokio::time::timeout(CONNECT, connecting).await {
            Ok(Ok(connection)) => {
                let _ = connection.close().await;
                false
            }
            Ok(Err(error)) => is_outage(&error),
            // The server may be busy: the statements have their own timeouts.
            Err(_) => false,
        }
    }
}

async fn watch_for_its_end(outage: Weak<Outage>) {
    loop {
        tokio::time::sleep(RETRY).await;
        let Some(outage) = outage.upgrade() else {
            return;
        };
        if !outage.refuses().await {
            tracing::info!("PostgreSQL can be reached again");
            outage.is_down.send_replace(false);
            return;
        }
    }
}

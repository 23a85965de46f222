//! Fails statements at once while PostgreSQL cannot be reached. A pool alone lets each of them wait for a connection until
//! its time is over.

use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Connection as _;
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{Mutex, watch};

use crate::Error;

/// A statement that takes longer is a reason to look whether the server can be reached.
const SLOW: Duration = Duration::from_millis(500);
/// How long an attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Between attempts to connect while the server cannot be reached.
const RETRY: Duration = Duration::from_millis(250);

/// Whether the server can be reached.
#[derive(Debug)]
pub(crate) struct Outage {
    connect: PgConnectOptions,
    is_down: watch::Sender<bool>,
    /// Held by the statement that looks: others wait for what it finds.
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

    /// The result of `work`, or an error as soon as it is known that the server cannot be reached.
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

    /// Ends when it finds an outage, and never otherwise.
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
            // It may be busy: the statements have limits of their own.
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

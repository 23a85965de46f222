//! This crate alone in a temporary database.

use std::future::Future;

pub(crate) use perpend_db::testing::TempDatabase;
use perpend_db::testing::patient;
use perpend_db::{DatabaseUrl, Error, Options, Pool};

use crate::Telemetry;

/// The stored telemetry and its connection pool.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) telemetry: Telemetry,
    pub(crate) pool: Pool,
}

impl Store {
    pub(crate) fn over(pool: Pool) -> Self {
        Self { telemetry: Telemetry::start(&pool), pool }
    }

    /// Opens a database and migrates it to the newest schema.
    pub(crate) async fn open(url: &DatabaseUrl, options: &Options) -> Result<Self, Error> {
        Ok(Self::over(perpend_db::testing::open(url, options).await?))
    }

    pub(crate) async fn close(&self) {
        self.telemetry.close().await;
        self.pool.close().await;
    }
}

/// Opens a temporary database as a store.
pub(crate) trait OpenStore {
    async fn open(&self) -> Store;
}

impl OpenStore for TempDatabase {
    async fn open(&self) -> Store {
        Store::open(self.url(), &patient()).await.unwrap()
    }
}

/// Runs a test on an empty, migrated database of each kind in turn, and writes the kind to standard error.
pub(crate) async fn on_each_database<F, Fut>(test: F)
where
    F: Fn(Store) -> Fut,
    Fut: Future<Output = ()>,
{
    for database in TempDatabase::each_migrated().await {
        eprintln!("on {}", database.url());
        let store = database.open().await;
        test(store.clone()).await;
        store.close().await;
    }
}

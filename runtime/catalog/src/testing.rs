//! This crate alone in a temporary database.

use std::future::Future;

use perpend_db::Pool;
pub(crate) use perpend_db::testing::TempDatabase;
use perpend_db::testing::{open, patient};

use crate::Catalog;

/// The catalog and its connection pool.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) catalog: Catalog,
    pub(crate) pool: Pool,
}

impl Store {
    pub(crate) fn over(pool: Pool) -> Self {
        Self { catalog: Catalog::new(&pool), pool }
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Opens a temporary database as a store.
pub(crate) trait OpenStore {
    async fn open(&self) -> Store;
}

impl OpenStore for TempDatabase {
    async fn open(&self) -> Store {
        Store::over(open(self.url(), &patient()).await.unwrap())
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

//! Temporary databases with the schema, for tests.

use std::future::Future;

use crate::Store;

use perpend_db::testing::patient;

pub use perpend_db::testing::TempDatabase;

/// Opens a temporary database as a store.
pub trait OpenStore {
    /// Opens it, and migrates it to the newest schema.
    ///
    /// # Panics
    /// When it cannot be opened.
    fn open(&self) -> impl Future<Output = Store> + Send;
}

impl OpenStore for TempDatabase {
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    async fn open(&self) -> Store {
        Store::open(self.url(), &patient()).await.expect("the test database opens")
    }
}

/// Runs a test on an empty, migrated database of each kind in turn, and writes the kind to standard error.
///
/// # Panics
/// As the test does.
pub async fn on_each_database<F, Fut>(test: F)
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

/// Simulates a full disk: see [`perpend_db::testing::fill_disk`].
///
/// # Panics
/// When the database does not answer.
pub async fn fill_disk(store: &Store, is_full: bool) {
    perpend_db::testing::fill_disk(&store.pool, is_full).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_test_gets_an_empty_migrated_database() {
        on_each_database(|store| async move {
            store.ping().await.unwrap();
            const N_KEYS: &str = "SELECT COUNT(*) FROM api_keys";
            let n: i64 = perpend_db::query_scalar(N_KEYS).fetch_one(&store.pool).await.unwrap();
            assert_eq!(n, 0);
        })
        .await;
    }
}

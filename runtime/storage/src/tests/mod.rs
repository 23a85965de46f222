//! Migration of databases of older versions.

mod backfills;
mod backtests;
mod comparisons;
mod costs;
mod executions;
mod experiments;
mod marks;
mod replies;
mod retention;
mod run_results;
mod server_runs;
mod statements;

use std::collections::BTreeSet;

use perpend_db::{CURRENT, KNOWN, MigrationMode, Pool, STEPS, migrate, query, query_scalar};

use crate::testing::{OpenStore as _, TempDatabase};
use crate::{Catalog, Ledger, Store, Telemetry};
use perpend_db::{Error, Options};

const SCORE: &str = "
    INSERT INTO scores (project_id, id, trace_id, name, data_type, number, source, timestamp, environment,
                        metadata, created_at, updated_at)
    VALUES ('p', 's', 't', $1, 'NUMERIC', 1, 'API', 0, 'default', '{}', 0, 0)";
const TRACE: &str = "
    INSERT INTO traces (tenant, trace_id, revision, stale, first_seen, last_seen, n_open, has_marker, name,
                        started_at, release, version, environment, is_public, level, n_observations, n_debug,
                        n_default, n_warning, n_error, latency_us, total_cost, detail)
    VALUES (1, 't', 0, 0, 0, 0, 0, 0, 'n', 0, $1, $1, 'default', 0, 'DEFAULT', 0, 0, 0, 0, 0, 0, 0, '{}')";
const SHOWN: &str = "
    SELECT s.name, t.release, t.version FROM scores s JOIN traces t ON t.trace_id = s.trace_id";

/// Characters of three bytes that compression does not make shorter.
fn noise(n_chars: usize) -> String {
    let mut state = 1_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        char::from_u32(0x4e00 + state % 20_000).unwrap()
    };
    (0..n_chars).map(|_| next()).collect()
}

#[tokio::test]
async fn an_older_schema_next_to_a_server_is_refused_and_unchanged() {
    let options = Options::default();
    for database in TempDatabase::each().await {
        let pool = Pool::open(database.url(), &options).await.unwrap();
        let all_but_one = &STEPS[..STEPS.len() - 1];
        migrate(&pool, all_but_one, MigrationMode::Migrate).await.unwrap();
        let refused = Store::open_next_to_server(database.url(), &options).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::TooOld { .. }), "{refused:?}");
        assert!(refused.to_string().contains("start the server"), "{refused}");
        let found: i64 = query_scalar(CURRENT).fetch_one(&pool).await.unwrap();
        assert_eq!(found, KNOWN - 1);
        pool.close().await;
        // Opening by the server migrates.
        for open in [Store::open, Store::open_next_to_server] {
            open(database.url(), &options).await.unwrap().close().await;
        }
    }
}

#[tokio::test]
async fn a_database_with_different_steps_is_refused() {
    let options = Options::default();
    for database in TempDatabase::each().await {
        let pool = Pool::open(database.url(), &options).await.unwrap();
        let mut changed = STEPS.to_vec();
        let last = changed.last_mut().unwrap();
        let name = last.name;
        last.sqlite = "CREATE TABLE other (a BIGINT)";
        last.postgres = last.sqlite;
        migrate(&pool, &changed, MigrationMode::Migrate).await.unwrap();
        pool.close().await;
        for open in [Store::open, Store::open_next_to_server] {
            let refused = open(database.url(), &options).await.unwrap_err();
            assert!(matches!(refused, Error::ChangedStep { .. }), "{refused:?}");
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_database_from_before_checksums_gets_those_of_its_steps() {
    const FORGET: &str = "ALTER TABLE schema_steps DROP COLUMN checksum";
    const N_KEPT: &str = "SELECT COUNT(*) FROM schema_steps WHERE checksum IS NOT NULL";
    let options = Options::default();
    for database in TempDatabase::each().await {
        let store = database.open().await;
        store.pool.change(FORGET, &[]).await.unwrap();
        store.close().await;
        // A process next to a server that may not know the schema does not migrate.
        let opened = Store::open_next_to_server(database.url(), &options).await;
        opened.unwrap().close().await;
        let store = database.open().await;
        let n_kept: i64 = query_scalar(N_KEPT).fetch_one(&store.pool).await.unwrap();
        assert_eq!(n_kept, KNOWN);
        store.close().await;
    }
}

#[tokio::test]
async fn an_empty_database_gets_its_schema_when_it_is_opened() {
    for database in TempDatabase::each().await {
        let options = Options::default();
        let store = Store::open_next_to_server(database.url(), &options).await;
        let store = store.unwrap();
        let found: i64 = query_scalar(CURRENT).fetch_one(&store.pool).await.unwrap();
        assert_eq!(found, KNOWN);
        store.close().await;
    }
}

#[tokio::test]
async fn older_public_keys_are_recorded_by_the_migration() {
    const KEY: &str = "
        INSERT INTO api_keys (public_key, id, organization_id, secret_hash, secret_hint, rights, created_at)
        VALUES ($1, 'k', 'o', '', '', 'full', 0)";
    const OWNER: &str = "INSERT INTO organizations (id, name, created_at) VALUES ('o', $1, 0)";
    let before = STEPS.iter().position(|step| step.name == "used public keys");
    for database in TempDatabase::each().await {
        let pool = Pool::open(database.url(), &Options::default()).await;
        let pool = pool.unwrap();
        let store = Store::over(pool);
        migrate(&store.pool, &STEPS[..before.unwrap()], MigrationMode::Migrate).await.unwrap();
        store.pool.change(OWNER, &["o".into()]).await.unwrap();
        store.pool.change(KEY, &["pk-old".into()]).await.unwrap();
        migrate(&store.pool, STEPS, MigrationMode::Migrate).await.unwrap();
        let key = perpend_domain::ids::PublicKey::new("pk-old").unwrap();
        store.catalog.delete_organization_key(&key).await.unwrap();
        assert!(store.catalog.is_public_key_used(&key).await.unwrap());
        store.close().await;
    }
}

#[tokio::test]
async fn names_that_no_index_of_postgresql_takes_are_cut_as_it_gets_the_index() {
    let before = STEPS.iter().position(|step| step.name == "narrow lists");
    let long = noise(1_500);
    for database in TempDatabase::each().await {
        let pool = Pool::open(database.url(), &Options::default()).await;
        let pool = pool.unwrap();
        let store = Store::over(pool);
        migrate(&store.pool, &STEPS[..before.unwrap()], MigrationMode::Migrate).await.unwrap();
        for sql in [SCORE, TRACE] {
            store.pool.change(sql, &[long.as_str().into()]).await.unwrap();
        }
        migrate(&store.pool, STEPS, MigrationMode::Migrate).await.unwrap();
        let shown: (String, String, String) = query(SHOWN).fetch_one(&store.pool).await.unwrap();
        let cut = |n: usize| match store.pool.is_postgres() {
            false => long.clone(),
            true => long.chars().take(n).collect(),
        };
        assert_eq!(shown, (cut(300), cut(600), cut(600)));
        store.close().await;
    }
}

#[tokio::test]
async fn every_table_with_rows_of_projects_is_swept() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    const TABLES: &str = "
        SELECT DISTINCT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
         WHERE m.type = 'table' AND c.name IN ('project_id', 'tenant') ORDER BY m.name";
    let rows: Vec<(String,)> = store.pool.select(TABLES, &[]).await.unwrap();
    let known: BTreeSet<String> = rows.into_iter().map(|(name,)| name).collect();
    let mut swept: BTreeSet<String> = Catalog::tables_swept()
        .chain(Telemetry::tables_swept())
        .chain(Ledger::tables_swept())
        .map(str::to_owned)
        .collect();
    // The number of a project is no data, and stays.
    assert!(swept.insert("tenants".to_owned()));
    assert_eq!(known, swept, "left: in the schema; right: tables in the sweep.rs of each crate");
    store.close().await;
}

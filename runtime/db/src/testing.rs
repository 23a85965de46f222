//! Temporary databases for tests: a SQLite file per test, and a PostgreSQL server that the test process
//! starts from the installed binaries.
//!
//! The server belongs to a watching shell whose standard input is a pipe from this process. When the process
//! ends in any way, the pipe closes; the shell then stops the server and removes its files.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::{Connection, Executor as _};
use sqlx_postgres::PgConnection;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{DatabaseUrl, Engine, Error, MigrationMode, Options, Pool, STEPS, migrate};

/// Set to `require`, the tests fail if PostgreSQL is not installed.
const REQUIRE: &str = "PERPEND_TEST_POSTGRES";
/// The account of the server if the tests run as root, which PostgreSQL refuses.
const NOBODY_UID: &str = "65534";
const N_TRIES: u32 = 5;

/// Starts a server in its own directory, prints `ready`, and stops it at the end of standard input. Its
/// readiness is checked through its own socket: at the port a faster server of another process may answer.
/// The directory is not in `TMPDIR`, which may be in memory: databases stay until the server stops, some GB in all, and
/// without `fsync` no test waits for the disk.
const WATCH: &str = r#"
dir=$(mktemp -d /tmp/perpend-postgres-XXXXXX) || exit 1
trap '' INT TERM HUP
"$1/initdb" -D "$dir/data" -U perpend -A trust -E UTF8 --locale=C -N >"$dir/log" 2>&1 ||
    { cat "$dir/log" >&2; rm -rf "$dir"; exit 1; }
"$1/postgres" -D "$dir/data" -k "$dir" -h 127.0.0.1 -p "$2" -F -c max_connections=400 \
    -c shared_buffers=32MB -c full_page_writes=off >"$dir/log" 2>&1 &
pid=$!
tries=0
until "$1/pg_isready" -q -h "$dir" -p "$2" -U perpend -d postgres; do
    tries=$((tries + 1))
    if ! kill -0 $pid 2>/dev/null || [ $tries -gt 3000 ]; then
        cat "$dir/log" >&2; kill -QUIT $pid 2>/dev/null; rm -rf "$dir"; exit 1
    fi
    sleep 0.1
done
echo ready
read -r _
kill -QUIT $pid
wait $pid
rm -rf "$dir"
"#;

/// The server of this process. Its watcher lives as long as the pipe in `_watcher` is open.
#[derive(Debug)]
struct Server {
    port: u16,
    _watcher: Child,
}

fn binaries() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
        .collect();
    found.sort();
    found.pop()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n")
}

fn start(bin: &Path) -> Option<Server> {
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY_UID, "--regid", NOBODY_UID, "--clear-groups", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    let mut watcher = command
        .args(["-c", WATCH, "watch"])
        .arg(bin)
        .arg(port.to_string())
        .current_dir("/")
        // A Ctrl-C in the terminal is for the tests; the watcher ends after them.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(watcher.stdout.take()?).read_line(&mut line).ok()?;
    (line == "ready\n").then_some(Server { port, _watcher: watcher })
}

/// The server of this process, started on first use.
fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let bin = binaries();
        if bin.is_none() {
            // Written directly, because the output of passing tests is captured.
            let _ = writeln!(
                std::io::stderr().lock(),
                "not run: PostgreSQL is not installed, and its half of the tests on databases is left out"
            );
        }
        let bin = bin?;
        // Another process may take the port between the choice and the use.
        let server = (0..N_TRIES).find_map(|_| start(&bin));
        assert!(
            server.is_some(),
            "PostgreSQL is installed and did not start"
        );
        server
    });
    // A switch of the test run, not of the product.
    let is_required = std::env::var(REQUIRE).is_ok_and(|value| value == "require");
    assert!(
        server.is_some() || !is_required,
        "{REQUIRE}=require is set and PostgreSQL is not installed"
    );
    server.as_ref()
}

/// The address of the databases of that server, without a name; `None` if PostgreSQL is not installed.
#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
async fn server_url() -> Option<String> {
    let port = tokio::task::spawn_blocking(|| server().map(|server| server.port))
        .await
        .expect("PostgreSQL starts")?;
    Some(format!("postgres://perpend@127.0.0.1:{port}"))
}

/// A separate database for one test, removed when this is dropped.
#[derive(Debug)]
pub struct TempDatabase {
    url: DatabaseUrl,
    _dir: Option<TempDir>,
}

impl TempDatabase {
    /// An SQLite file that does not exist yet, in its own directory.
    ///
    /// # Panics
    /// When no directory can be created.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub fn sqlite() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { url: DatabaseUrl::Sqlite(dir.path().join("perpend.db")), _dir: Some(dir) }
    }

    /// An empty PostgreSQL database; `None` if the server is not installed.
    ///
    /// # Panics
    /// When the server is installed and does not work, or is required and not installed.
    pub async fn postgres() -> Option<Self> {
        Some(Self::copy_of("template1", server_url().await?).await)
    }

    /// A separate database on the server of the tests, created as a copy of another one.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    async fn copy_of(template: &str, base: String) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut connection =
            PgConnection::connect(&format!("{base}/postgres")).await.expect("a connection");
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
            "CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
        )))
        .execute(&mut connection)
        .await
        .expect("a database");
        Self { url: DatabaseUrl::Postgres(format!("{base}/{name}")), _dir: None }
    }

    /// As [`Self::each`], with the newest schema: one database of each kind is migrated per process, and
    /// copied.
    ///
    /// # Panics
    /// As for `each`, and when a step of the schema fails.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub async fn each_migrated() -> Vec<Self> {
        static POSTGRES: OnceCell<String> = OnceCell::const_new();
        let sqlite = Self::sqlite();
        std::fs::write(sqlite.path(), Self::migrated_sqlite().await)
            .expect("the file can be written");
        let mut all = vec![sqlite];
        if let Some(base) = server_url().await {
            let template = POSTGRES.get_or_init(async || {
                let template = Self::copy_of("template1", base.clone()).await;
                template.migrate().await;
                let DatabaseUrl::Postgres(url) = template.url() else {
                    unreachable!("made as one");
                };
                url[base.len() + 1..].to_owned()
            });
            all.push(Self::copy_of(template.await, base.clone()).await);
        }
        all
    }

    /// The content of an SQLite file with the newest schema and no rows, migrated once per process.
    ///
    /// # Panics
    /// When a step of the schema fails.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    pub async fn migrated_sqlite() -> &'static [u8] {
        static FILE: OnceCell<Vec<u8>> = OnceCell::const_new();
        let file = FILE.get_or_init(async || {
            let template = Self::sqlite();
            template.migrate().await;
            std::fs::read(template.path()).expect("the file is there")
        });
        file.await
    }

    /// Migrates it to the newest schema, and closes the connections.
    #[expect(clippy::expect_used, reason = "a test cannot go on without it")]
    async fn migrate(&self) {
        let pool = open(self.url(), &patient()).await;
        pool.expect("the steps of the schema work").close().await;
    }

    /// The path of an SQLite file.
    fn path(&self) -> &Path {
        match &self.url {
            DatabaseUrl::Sqlite(path) => path,
            DatabaseUrl::Postgres(_) => unreachable!("no file"),
        }
    }

    /// One database of every kind on this machine, SQLite first.
    pub async fn each() -> Vec<Self> {
        let mut all = vec![Self::sqlite()];
        all.extend(Self::postgres().await);
        all
    }

    /// The URL of the database.
    #[must_use]
    pub const fn url(&self) -> &DatabaseUrl {
        &self.url
    }
}

/// A database with the newest schema.
///
/// # Errors
/// As [`Pool::open`] and [`migrate`].
pub async fn open(url: &DatabaseUrl, options: &Options) -> Result<Pool, Error> {
    let pool = Pool::open(url, options).await?;
    migrate(&pool, STEPS, MigrationMode::Migrate).await?;
    Ok(pool)
}

/// Options for tests.
#[must_use]
pub fn patient() -> Options {
    Options {
        // Much longer than any test takes on the slowest machine.
        wait: Duration::from_secs(60),
        ..Options::default()
    }
}

/// Simulates a full disk for SQLite: with `true` the file may not grow any more, and a write that needs
/// another page fails as it does without space. SQLite limits a connection, and such a failure may close the
/// connection: the limit holds for later connections too. PostgreSQL has no such switch.
///
/// # Panics
/// When the database does not answer.
#[expect(clippy::expect_used, reason = "a test cannot go on without it")]
pub async fn fill_disk(pool: &Pool, is_full: bool) {
    let Engine::Sqlite { writer, .. } = pool.engine() else {
        return;
    };
    // SQLite raises a limit below the size of the file to this size.
    let (limit, set_limit) = match is_full {
        true => ("1", "PRAGMA max_page_count = 1"),
        false => ("4294967294", "PRAGMA max_page_count = 4294967294"),
    };
    let options = writer.connect_options();
    writer.set_connect_options((*options).clone().pragma("max_page_count", limit));
    sqlx::query(set_limit).execute(writer).await.expect("SQLite takes the limit");
}

/// Lets the database parse a statement without running it: its keywords, tables and columns must be valid. A
/// placeholder whose type follows only from a value is no error.
///
/// # Errors
/// The error of the database.
pub async fn prepare(pool: &Pool, sql: &'static str) -> Result<(), Error> {
    const INDETERMINATE: &str = "42P18";
    let prepared = match pool.engine() {
        Engine::Sqlite { reader, .. } => {
            let sql = crate::spell::for_sqlite(sql.into()).into_owned();
            let sql = sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(sql));
            reader.prepare(sql).await.map(drop)
        }
        Engine::Postgres(pool) => {
            let sql = sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(sql));
            pool.prepare(sql).await.map(drop)
        }
    };
    match prepared {
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(INDETERMINATE) => {
            Ok(())
        }
        prepared => Ok(prepared?),
    }
}

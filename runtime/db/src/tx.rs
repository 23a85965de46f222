//! Write transactions, and rows that belong to the transaction of a change, such as its audit record.
//!
//! Invariant:
//! - **No change without its rows.** [`Tx::commit`] calls the hook of the task in each transaction that changed rows; a
//!   hook that fails rolls the transaction back.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, Transaction};
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use crate::arg::{Arg, bind_args};
use crate::pool::{Engine, Pool};
use crate::sized::Sized;
use crate::spell::for_sqlite;
use crate::writes::Writes;
use crate::{Breakpoints, Error};

/// The breakpoint after each statement of a script.
pub const STATEMENT: &str = "statement of a script";

tokio::task_local! {
    static HOOK: Arc<dyn CommitHook>;
}

/// Takes part in the transactions of a task.
pub trait CommitHook: fmt::Debug + Send + Sync {
    /// Called before the commit of a transaction that changed rows.
    fn before_commit<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, Result<(), Error>>;

    /// Called after the commit.
    fn committed(&self);
}

/// Runs a future whose transactions call the hook.
pub async fn with_hook<F: Future>(hook: Arc<dyn CommitHook>, future: F) -> F::Output {
    HOOK.scope(hook, future).await
}

/// The hook of the current task.
fn current_hook() -> Option<Arc<dyn CommitHook>> {
    HOOK.try_with(Arc::clone).ok()
}

/// A write transaction. Dropped before its commit, it is rolled back.
#[derive(Debug)]
pub struct Tx {
    pub(crate) open: Open,
    breakpoints: Breakpoints,
    pub(crate) writes: Writes,
    /// Whether a statement changed a row.
    pub(crate) has_changed: bool,
}

#[derive(Debug)]
pub(crate) enum Open {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Tx {
    /// Begins a transaction. SQLite has one at a time: others wait.
    ///
    /// # Errors
    /// When the database fails.
    pub fn begin(pool: &Pool) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(async move {
            let begin = async {
                Ok(match pool.engine() {
                    // IMMEDIATE: a reader that becomes a writer halfway would fail instead of waiting.
                    Engine::Sqlite { writer, .. } => {
                        Open::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?)
                    }
                    Engine::Postgres(pool) => Open::Postgres(pool.begin().await?),
                })
            };
            Ok(Self {
                open: pool.guard(Box::pin(begin)).await?,
                breakpoints: pool.breakpoints.clone(),
                writes: pool.writes.clone(),
                has_changed: false,
            })
        })
    }

    /// Commits durably, after the hook of the task if a row was changed.
    ///
    /// # Errors
    /// When the database or the hook fails.
    pub fn commit(mut self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let hook = current_hook().filter(|_| self.has_changed);
            if let Some(hook) = &hook {
                hook.before_commit(&mut self).await?;
            }
            let committed = match self.open {
                Open::Sqlite(tx) => tx.commit().await,
                Open::Postgres(tx) => tx.commit().await,
            };
            self.writes.note(committed.map_err(Error::from))?;
            if let Some(hook) = &hook {
                hook.committed();
            }
            Ok(())
        })
    }

    pub const fn is_postgres(&self) -> bool {
        matches!(self.open, Open::Postgres(_))
    }

    /// A named point at which a test may end the transaction.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it does.
    pub fn reach(&self, at: &'static str) -> Result<(), Error> {
        self.breakpoints.reach(at)
    }

    /// Number of changed rows.
    pub(crate) fn run<'a>(
        &'a mut self,
        sql: Cow<'static, str>,
        args: &'a [Arg<'a>],
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            let changed = match &mut self.open {
                Open::Sqlite(tx) => {
                    let query = bind_args!(for_sqlite(sql), args);
                    let executed = query.execute(&mut **tx).await;
                    executed.map(|executed| executed.rows_affected())
                }
                Open::Postgres(tx) => {
                    let query = bind_args!(sql, args);
                    let executed = query.execute(&mut **tx).await;
                    executed.map(|executed| executed.rows_affected())
                }
            };
            let n_changed = self.writes.note(changed.map_err(Error::from))?;
            self.has_changed |= 0 < n_changed;
            Ok(n_changed)
        })
    }

    /// Runs the statements of one text, without values. There is a breakpoint after each, [`STATEMENT`].
    ///
    /// # Errors
    /// When the database fails.
    pub fn run_script(&mut self, sql: String) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let script = sqlx::raw_sql(AssertSqlSafe(sql));
            macro_rules! each {
                ($tx:expr) => {{
                    let mut done = script.execute_many($tx);
                    while done.try_next().await?.is_some() {
                        self.breakpoints.reach(STATEMENT)?;
                    }
                }};
            }
            match &mut self.open {
                Open::Sqlite(tx) => each!(&mut **tx),
                Open::Postgres(tx) => each!(&mut **tx),
            }
            Ok(())
        })
    }

    /// Number of changed rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, Error> {
        self.run(sql.into(), args).await
    }

    /// Runs a statement for all rows, in their order; returns the number of changed rows. `push` appends the
    /// values of one row.
    pub async fn execute_for<'r, T>(
        &mut self,
        statement: &'static Sized,
        rows: &'r [T],
        push: impl Fn(&mut Vec<Arg<'r>>, &'r T),
    ) -> Result<u64, Error> {
        let mut n_changed = 0;
        let mut rest = rows;
        while !rest.is_empty() {
            let (changed, later) = self.execute_some(statement, &[], rest, &push).await?;
            n_changed += changed;
            rest = later;
        }
        Ok(n_changed)
    }

    /// Runs a statement for the first of some rows, at least one; returns the number of changed rows, and the
    /// remaining rows. `first` are the values before those of the rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execute_some<'r, T>(
        &mut self,
        statement: &'static Sized,
        first: &[Arg<'r>],
        rows: &'r [T],
        push: impl Fn(&mut Vec<Arg<'r>>, &'r T),
    ) -> Result<(u64, &'r [T]), Error> {
        let (sql, n) = statement.for_some_of(rows.len());
        let (chunk, later) = rows.split_at(n.min(rows.len()));
        let Some(last) = chunk.last() else {
            return Ok((0, later));
        };
        let mut args = first.to_vec();
        chunk.iter().for_each(|row| push(&mut args, row));
        let n_of_row = (args.len() - first.len()) / chunk.len();
        args.reserve_exact((n - chunk.len()) * n_of_row);
        (chunk.len()..n).for_each(|_| push(&mut args, last));
        Ok((self.execute(sql, &args).await?, later))
    }
}

/// Maximum of retries of a transaction that collided with another one.
pub const MAX_COLLISIONS: u32 = 8;

#[doc(hidden)]
pub fn log_collision(reason: &str, n_collisions: u32) {
    tracing::debug!(reason, n_collisions, "a transaction runs again");
}

/// Evaluates an expression that awaits a whole transaction, and retries it after collisions.
#[macro_export]
macro_rules! despite_collisions {
    ($transaction:expr) => {{
        let mut n_collisions = 0;
        loop {
            match $transaction {
                Err($crate::Error::Collision(reason)) if n_collisions < $crate::MAX_COLLISIONS => {
                    n_collisions += 1;
                    $crate::log_collision(&reason, n_collisions);
                }
                result => break result,
            }
        }
    }};
}

/// Runs the body in one write transaction and commits it: `in_transaction!(&pool, |tx| { .. })`. `?` and
/// `return` inside roll it back.
#[macro_export]
macro_rules! in_transaction {
    ($pool:expr, |$tx:ident| $body:block) => {{
        let mut $tx = $crate::Tx::begin($pool).await?;
        let value = $body;
        $tx.commit().await?;
        value
    }};
}

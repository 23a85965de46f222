//! SQLite and PostgreSQL behind one interface: connections, transactions, statements and rows.
//!
//! The statements belong to the crates of their tables. One text serves both databases, with placeholders
//! `$1, $2, ...`; if they must differ, there are two constants next to each other. The steps of the schema
//! are in this crate: all crates share one database, and each needs the whole schema for its tests.
//!
//! Invariants:
//! - **Committed means durable.** SQLite writes its write-ahead log with full sync.
//! - **A dropped transaction is rolled back.** A transaction that collided with another one may be retried as
//!   a whole ([`despite_collisions!`]).
//! - **The text of a statement contains no external input.** Values are bound.

mod arg;
mod breakpoints;
mod conditions;
mod error;
pub mod file;
mod list;
mod migrate;
mod numbers;
mod outage;
mod pool;
mod query;
mod readiness;
mod reading;
mod row;
mod sized;
mod spell;
mod steps;
mod stored;
mod sweep;
#[cfg(feature = "testing")]
pub mod testing;
mod turns;
mod tx;
mod writes;

pub use arg::Arg;
pub use breakpoints::Breakpoints;
pub use conditions::{Expr, Sql};
pub use error::Error;
pub use list::{PageQuery, bounds};
pub use migrate::{CURRENT, MigrationMode, Step, migrate};
pub use numbers::{NumberedTable, Numbers};
pub use pool::{DatabaseUrl, Engine, InvalidDatabaseUrl, Options, Pool, ScanTurn};
pub use query::{Query, RowSink, Scalars, Source, query, query_scalar};
pub use reading::{
    Memory, OutOfMemory, Reading, Scratch, apart, charge, check_deadline, is_half_over, optional,
    unlimited,
};
pub use row::{Cell, Column, ColumnRef, ColumnType, Record, Row};
pub use sized::{Sized, value_list, value_rows};
pub use steps::{KNOWN, STEPS};
pub use stored::{checked, digest, from_json, to_json};
pub use sweep::TenantTable;
pub use tx::{CommitHook, MAX_COLLISIONS, STATEMENT, Tx, log_collision, with_hook};

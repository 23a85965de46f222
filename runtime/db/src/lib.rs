//! SQLite and PostgreSQL as one: connections, transactions, statements and the rows that they find.
//!
//! The statements themselves belong to the rooms whose tables they are about. One text serves both databases,
//! with placeholders `$1, $2, ...`; where they must differ, two constants stand side by side. The steps of the
//! schema are here: the rooms share one database, and each needs it whole for its tests.
//!
//! Invariants:
//! - **Committed means durable.** SQLite writes its log ahead with full sync.
//! - **A transaction that is dropped is undone.** One that another one was in the way of may be run again as a
//!   whole ([`despite_collisions!`]).
//! - **The text of a statement holds nothing that came from outside.** Values are bound.

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
pub use list::{Listed, bounds};
pub use migrate::{CURRENT, Older, Step, migrate};
pub use numbers::{Numbers, Table};
pub use pool::{DatabaseUrl, Engine, InvalidDatabaseUrl, Options, Pool, ScanTurn};
pub use query::{Put, Query, Scalars, Source, query, query_scalar};
pub use reading::{
    Memory, OutOfMemory, Reading, Scratch, apart, charge, check_deadline, is_half_over, unlimited,
};
pub use row::{As, At, Cell, Column, Record, Row};
pub use sized::{Sized, value_list, value_rows};
pub use steps::{KNOWN, STEPS};
pub use stored::{checked, digest, from_json, to_json};
pub use sweep::Owned;
pub use tx::{MAX_COLLISIONS, STATEMENT, Tx};

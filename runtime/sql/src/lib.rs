//! SQLite and PostgreSQL as one: connections, transactions, statements and the rows that they find.
//!
//! The statements themselves belong to the rooms whose tables they are about. One text serves both databases,
//! with placeholders `$1, $2, ...`; where they must differ, two constants stand side by side.
//!
//! Invariants:
//! - **Committed means durable.** SQLite writes its log ahead with full sync.
//! - **A transaction that is dropped is undone.** One that another one was in the way of may be run again as a
//!   whole ([`despite_collisions!`]).
//! - **The text of a statement holds nothing that came from outside.** Values are bound.

mod arg;
mod error;
pub mod file;
mod migrate;
mod pool;
mod query;
mod row;
mod sized;
mod spell;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;

pub use arg::{Arg, storable};
pub use error::Error;
pub use migrate::{CURRENT, Older, Step, migrate};
pub use pool::{DatabaseUrl, InvalidDatabaseUrl, Options, Pool};
pub use query::{Put, Query, Scalars, Source, query, query_scalar};
pub use row::{As, At, Cell, Column, Record, Row};
pub use sized::{Sized, value_list, value_rows};
pub use tx::{MAX_COLLISIONS, Tx};

//! Dashboards: charts, and the grids they stand on.
//!
//! Invariants:
//! - **A tile shows something.** A widget that is placed cannot be deleted, and none is placed that the
//!   project does not have; the database's own references say so, whoever comes at the same time.
//! - **A chart is opaque here.** What it may ask for is checked before it comes; it is stored as JSON.

mod grid;
#[cfg(test)]
mod tests;
mod widgets;

use perpend_domain::time::Timestamp;
use serde_json::Value;

pub use grid::{DashboardPatch, NewPlacement};

/// A chart that may stand on any dashboard.
#[derive(Clone, Debug, PartialEq)]
pub struct Widget {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// What it shows and how.
    pub chart: Value,
    /// Made at.
    pub created_at: Timestamp,
    /// Last changed at.
    pub updated_at: Timestamp,
}

/// A grid of tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Conditions on everything it shows.
    pub filters: Vec<Value>,
    /// In the order in which they came.
    pub placements: Vec<Placement>,
    /// Made at.
    pub created_at: Timestamp,
    /// Last changed at.
    pub updated_at: Timestamp,
}

/// A tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its id, unique on the dashboard.
    pub id: String,
    /// What it shows.
    pub content: Content,
    /// Where it stands.
    pub tile: Tile,
}

/// What a tile shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A widget of the project, by id.
    Widget(String),
    /// A chart that clients know by this name.
    Preset(String),
}

/// A place on the grid, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// First column.
    pub x: i64,
    /// First row, from the top.
    pub y: i64,
    /// Columns.
    pub width: i64,
    /// Rows.
    pub height: i64,
}

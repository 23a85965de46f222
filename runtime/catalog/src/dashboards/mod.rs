//! Dashboards: widgets, and the grids on which they are placed.
//!
//! Invariants:
//! - **A placement has content.** A placed widget cannot be deleted, and only widgets of the project can be
//!   placed. Foreign keys of the database guarantee this under concurrent changes.
//! - **A chart is opaque here.** Its query is checked by the caller; it is stored as JSON.

mod grid;
#[cfg(test)]
mod tests;
mod widgets;

use perpend_domain::time::Timestamp;
use serde_json::Value;

pub use grid::{DashboardPatch, NewPlacement};

/// A chart that may be placed on any dashboard.
#[derive(Clone, Debug, PartialEq)]
pub struct Widget {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Description for users.
    pub description: String,
    /// The chart.
    pub chart: Value,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A grid of placements.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Description for users.
    pub description: String,
    /// Conditions on everything that the dashboard shows.
    pub filters: Vec<Value>,
    /// In the order of their creation.
    pub placements: Vec<Placement>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Content at a position of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its id, unique on the dashboard.
    pub id: String,
    /// The content.
    pub content: PlacedChart,
    /// Its position.
    pub tile: Tile,
}

/// Content of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacedChart {
    /// A widget of the project, by id.
    Widget(String),
    /// A chart that is known to clients under this name.
    Preset(String),
}

/// A rectangle of the grid, in cells.
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

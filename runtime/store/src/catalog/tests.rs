//! What the catalog promises, on each database.

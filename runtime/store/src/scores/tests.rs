//! What the scores promise, on each database.

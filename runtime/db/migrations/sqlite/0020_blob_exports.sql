-- Where projects have their data written to, one place each. `settings` is a JSON object; `secret` is encrypted
-- with a key that is not in this database. The window under way ends at `window_end`, and `place` says how far
-- its files have come. Whoever holds the `fence` writes them, until `leased_until`.
CREATE TABLE blob_exports (
    project_id TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    secret BLOB NOT NULL,
    is_enabled SMALLINT NOT NULL,
    next_sync_at BIGINT,
    last_sync_at BIGINT,
    window_end BIGINT,
    place TEXT,
    n_failures BIGINT NOT NULL,
    last_error TEXT,
    last_error_at BIGINT,
    fence BIGINT NOT NULL,
    leased_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- What changed within a time. For traces and observations the time stands first: an index that began with
-- the tenant would be taken for lists of it, which then are sorted whole.
CREATE INDEX traces_changed ON traces (last_seen, tenant);
CREATE INDEX observations_changed ON observations (updated_at, tenant);
CREATE INDEX scores_changed ON scores (project_id, updated_at, id);

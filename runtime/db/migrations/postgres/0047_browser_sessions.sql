-- Sessions of browsers. A cookie holds a random reference, its row the SHA-256 of that. A session began with a key pair
-- or with the login token of one start of a server.
CREATE TABLE browser_sessions (
    digest BYTEA PRIMARY KEY,
    project_id TEXT NOT NULL,
    public_key TEXT,
    start_id TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    CHECK ((public_key IS NULL) <> (start_id IS NULL))
);
CREATE INDEX browser_sessions_by_expiry ON browser_sessions (expires_at);
CREATE INDEX browser_sessions_by_project ON browser_sessions (project_id);

-- Keys that signed sessions and links to media. Sessions are rows now, and links are signed with a key that is derived
-- from secrets.key.
DELETE FROM server_secrets WHERE name IN ('session-key', 'media-key');

-- One row, which is written to find out whether the database takes writes.
CREATE TABLE write_probes (
    id SMALLINT PRIMARY KEY,
    written_at BIGINT NOT NULL,
    payload BYTEA NOT NULL
);

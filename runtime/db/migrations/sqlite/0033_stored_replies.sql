-- Usable replies of providers, for equal requests of the project. `key` is the SHA-256 of the request and of who was asked;
-- `body` is the provider's answer, compressed, and `size` what it takes up.
CREATE TABLE stored_replies (
    project_id TEXT NOT NULL,
    key BLOB NOT NULL,
    connection_id TEXT NOT NULL,
    method TEXT NOT NULL,
    body BLOB NOT NULL,
    size BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, key)
);
-- In the order in which they go.
CREATE INDEX stored_replies_by_time ON stored_replies (project_id, stored_at, size);
CREATE INDEX stored_replies_by_age ON stored_replies (stored_at);
CREATE INDEX stored_replies_by_connection ON stored_replies (project_id, connection_id);

-- Whether a stored reply answered, and what that saved in US dollars.
ALTER TABLE model_calls ADD COLUMN from_cache SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE model_calls ADD COLUMN saved DOUBLE PRECISION;
ALTER TABLE kept_answers ADD COLUMN from_cache SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE model_costs ADD COLUMN n_cached BIGINT NOT NULL DEFAULT 0;
ALTER TABLE model_costs ADD COLUMN saved DOUBLE PRECISION NOT NULL DEFAULT 0;

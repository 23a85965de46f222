-- How model providers are reached. `secret` holds the key and the values of the extra headers, encrypted
-- with a key that is not in this database.
CREATE TABLE llm_connections (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    provider TEXT NOT NULL,
    adapter TEXT NOT NULL,
    secret BLOB NOT NULL,
    display_secret TEXT NOT NULL,
    base_url TEXT,
    custom_models TEXT NOT NULL,
    with_default_models SMALLINT NOT NULL,
    extra_header_keys TEXT NOT NULL,
    config TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id),
    UNIQUE (project_id, provider)
);

-- Models with prices of a project's own. `pricing` holds the tiers as JSON: they are read whole.
CREATE TABLE models (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    pattern TEXT NOT NULL,
    start_date BIGINT,
    unit TEXT,
    tokenizer_id TEXT,
    tokenizer_config TEXT,
    pricing TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id),
    UNIQUE (project_id, name)
);

-- Prices of a model change: it may have several definitions of one name that begin at different dates.
CREATE TABLE dated_models (
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
    PRIMARY KEY (project_id, id)
);
INSERT INTO dated_models SELECT project_id, id, name, pattern, start_date, unit, tokenizer_id, tokenizer_config, pricing,
       created_at, updated_at
  FROM models;
DROP TABLE models;
ALTER TABLE dated_models RENAME TO models;
-- A definition without a date begins before all others.
CREATE UNIQUE INDEX models_by_name ON models (project_id, name, COALESCE(start_date, -9223372036854775807));

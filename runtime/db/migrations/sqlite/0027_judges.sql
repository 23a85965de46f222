-- Which models evaluators ask: a JSON array of slots. A slot without a model asks the default model of its project.
ALTER TABLE evaluator_versions ADD COLUMN slots TEXT NOT NULL DEFAULT '[]';

-- The most requests at a time to a provider, and which of OpenAI's two protocols it is spoken to in.
ALTER TABLE llm_connections ADD COLUMN max_in_flight INTEGER NOT NULL DEFAULT 8;
ALTER TABLE llm_connections ADD COLUMN use_responses_api SMALLINT NOT NULL DEFAULT 0;

CREATE TABLE default_models (
    project_id TEXT NOT NULL PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    params TEXT NOT NULL,
    updated_at BIGINT NOT NULL
) WITHOUT ROWID;

-- Replies of models that an evaluator may ask for once more: a repeated attempt of the same execution gets the reply
-- that was paid for. `call` counts the calls of an attempt, `request` is the SHA-256 of what was asked.
CREATE TABLE kept_replies (
    execution_id BLOB NOT NULL,
    call INTEGER NOT NULL,
    request BLOB NOT NULL,
    project_id TEXT NOT NULL,
    reply TEXT NOT NULL,
    kept_at BIGINT NOT NULL,
    PRIMARY KEY (execution_id, call, request)
) WITHOUT ROWID;
CREATE INDEX kept_replies_by_project ON kept_replies (project_id);

-- Each exchange with a provider, failed ones too. `cost` is in US dollars, NULL where the price is not known.
CREATE TABLE model_calls (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    execution_id BLOB NOT NULL,
    evaluator_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    model_answered TEXT,
    method TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    latency_ms BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    estimated SMALLINT NOT NULL,
    cost DOUBLE PRECISION,
    error_class TEXT,
    error_message TEXT
);
CREATE INDEX model_calls_by_execution ON model_calls (execution_id);
CREATE INDEX model_calls_by_project ON model_calls (project_id, started_at);

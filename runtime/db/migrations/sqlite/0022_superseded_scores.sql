-- Scores of executions that a later one over the same target took the place of. Nobody lists them; they are
-- read by their execution.
CREATE TABLE superseded_scores (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    trace_id TEXT,
    observation_id TEXT,
    session_id TEXT,
    experiment_id TEXT,
    name TEXT NOT NULL,
    data_type TEXT NOT NULL,
    number DOUBLE PRECISION,
    text TEXT,
    source TEXT NOT NULL,
    timestamp BIGINT NOT NULL,
    environment TEXT NOT NULL,
    comment TEXT,
    metadata TEXT NOT NULL,
    config_id TEXT,
    queue_id TEXT,
    author_user_id TEXT,
    execution_id TEXT,
    evaluator_id TEXT,
    evaluator_version_id TEXT,
    rule_id TEXT,
    fingerprint BLOB,
    inclusion_probability DOUBLE PRECISION,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    superseded_by TEXT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX superseded_by_trace ON superseded_scores (project_id, trace_id);

-- Scores: one narrow row each, written at line rate by the engine.
--
-- Rows stand in the order of arrival. The random primary key is an index beside them, needed because a
-- score is replaced by its id; the execution has no index of its own, its trace leads to it.

CREATE TABLE scores (
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
    fingerprint BYTEA,
    inclusion_probability DOUBLE PRECISION,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX scores_newest ON scores (project_id, timestamp, id);
CREATE INDEX scores_by_trace ON scores (project_id, trace_id);
CREATE INDEX scores_by_session ON scores (project_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX scores_by_experiment ON scores (project_id, experiment_id) WHERE experiment_id IS NOT NULL;

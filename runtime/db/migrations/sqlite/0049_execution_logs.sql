-- The last lines that an evaluator logged for an execution: a JSON array of objects with level, message and fields.
CREATE TABLE execution_logs (
    execution_seq BIGINT PRIMARY KEY,
    project_id TEXT NOT NULL,
    logged_at BIGINT NOT NULL,
    lines TEXT NOT NULL
);
CREATE INDEX execution_logs_by_time ON execution_logs (logged_at);
CREATE INDEX execution_logs_by_project ON execution_logs (project_id);

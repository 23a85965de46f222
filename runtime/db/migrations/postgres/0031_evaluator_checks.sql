-- The last check of each version of an evaluator against what people say: `result` is JSON as the API shows it.
CREATE TABLE evaluator_checks (
    project_id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    checked_at BIGINT NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (project_id, evaluator_id, number),
    FOREIGN KEY (project_id, evaluator_id, number)
        REFERENCES evaluator_versions (project_id, evaluator_id, number) ON DELETE CASCADE
);

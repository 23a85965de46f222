-- The better direction of a score: `higher_is_better`, `lower_is_better` or unknown.
ALTER TABLE score_configs ADD COLUMN direction TEXT;
CREATE INDEX score_configs_by_name ON score_configs (project_id, name, created_at);

-- Outcomes of gates of experiment runs. The report is the JSON that was returned.
CREATE TABLE experiment_gates (
    project_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    report TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, run_id, id)
);
CREATE INDEX experiment_gates_newest ON experiment_gates (project_id, run_id, created_at, id);

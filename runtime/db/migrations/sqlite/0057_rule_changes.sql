-- The definition of a rule after each change, as JSON, oldest first.
CREATE TABLE rule_changes (
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    place BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    author TEXT,
    definition TEXT NOT NULL,
    PRIMARY KEY (project_id, rule_id, place)
);

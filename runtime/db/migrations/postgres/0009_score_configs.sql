-- What scores of a name may look like. Never deleted: scores refer to it; it is archived.
CREATE TABLE score_configs (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    data_type TEXT NOT NULL,
    is_archived SMALLINT NOT NULL,
    min_value DOUBLE PRECISION,
    max_value DOUBLE PRECISION,
    categories TEXT,
    description TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX score_configs_newest ON score_configs (project_id, created_at, id);

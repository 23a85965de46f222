-- Datasets with the history of their schemas, items in versions, runs over them, and what was recorded
-- for each item of a run.

-- `items_revision` counts writes to items, `schema_revision` changes of the schemas: whoever checks items
-- against a schema writes only if neither side has moved since. JSON values are JSON texts.
CREATE TABLE datasets (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    metadata TEXT NOT NULL,
    input_schema TEXT,
    expected_output_schema TEXT,
    schema_revision BIGINT NOT NULL,
    items_revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id),
    UNIQUE (project_id, name)
);
CREATE INDEX datasets_newest ON datasets (project_id, created_at, id);

-- What a dataset said from a moment on.
CREATE TABLE dataset_versions (
    project_id TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    valid_from BIGINT NOT NULL,
    description TEXT,
    metadata TEXT NOT NULL,
    input_schema TEXT,
    expected_output_schema TEXT,
    PRIMARY KEY (project_id, dataset_id, valid_from)
);

-- One row per version of an item; nothing is overwritten. The one without an end holds now. A deletion is
-- a version too.
CREATE TABLE dataset_items (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    valid_from BIGINT NOT NULL,
    valid_to BIGINT,
    is_deleted SMALLINT NOT NULL,
    dataset_id TEXT NOT NULL,
    status TEXT NOT NULL,
    input TEXT NOT NULL,
    expected_output TEXT NOT NULL,
    metadata TEXT NOT NULL,
    source_trace_id TEXT,
    source_observation_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id, valid_from)
);
CREATE UNIQUE INDEX dataset_items_now ON dataset_items (project_id, id) WHERE valid_to IS NULL;
-- Which versions are on a page, now or at a moment, is told by this index alone.
CREATE INDEX dataset_items_newest ON dataset_items
    (project_id, dataset_id, created_at, id, valid_from, valid_to, is_deleted, status);

CREATE TABLE dataset_runs (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX dataset_runs_newest ON dataset_runs (project_id, dataset_id, created_at, id);

CREATE TABLE dataset_run_items (
    project_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    id TEXT NOT NULL,
    item_id TEXT NOT NULL,
    dataset_version BIGINT,
    trace_id TEXT NOT NULL,
    observation_id TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, run_id, id),
    FOREIGN KEY (project_id, run_id) REFERENCES dataset_runs (project_id, id) ON DELETE CASCADE
);
CREATE INDEX dataset_run_items_newest ON dataset_run_items (project_id, run_id, created_at, id);
CREATE INDEX dataset_run_items_by_time ON dataset_run_items (project_id, created_at);

-- Experiments that clients record as spans only: the spans that stand for their items, by start. The
-- condition is spelled so that both databases can keep an index by it.
CREATE INDEX observations_of_experiments ON observations (tenant, started_at)
    WHERE replace(detail, '"item_root_observation_id":"' || id || '"', '') <> detail;

-- What was recorded for a run before it was deleted is not shown; the spans belong to their traces.
CREATE TABLE dataset_run_deletions (
    project_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, run_id)
);

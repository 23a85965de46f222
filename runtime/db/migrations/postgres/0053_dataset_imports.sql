-- Imports of files into datasets. The file is in the data directory of the server that received it; the rows of
-- this table are the state. `revision` counts the starts of a stage: a run of an older start writes nothing.
-- Settings and preview are JSON texts.
CREATE TABLE dataset_imports (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    file_name TEXT NOT NULL,
    n_bytes BIGINT NOT NULL,
    state TEXT NOT NULL,
    settings TEXT NOT NULL,
    preview TEXT NOT NULL,
    revision BIGINT NOT NULL,
    n_rows BIGINT NOT NULL,
    n_created BIGINT NOT NULL,
    n_updated BIGINT NOT NULL,
    n_unchanged BIGINT NOT NULL,
    n_skipped BIGINT NOT NULL,
    n_invalid BIGINT NOT NULL,
    n_bytes_done BIGINT NOT NULL,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX dataset_imports_newest ON dataset_imports (project_id, dataset_id, created_at, id);
CREATE INDEX dataset_imports_by_state ON dataset_imports (state, updated_at);

-- Rows of a file that were not imported, with one reason each, in the order of the file.
CREATE TABLE dataset_import_rejects (
    project_id TEXT NOT NULL,
    import_id TEXT NOT NULL,
    place BIGINT NOT NULL,
    row_number BIGINT NOT NULL,
    column_name TEXT NOT NULL,
    pointer TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (project_id, import_id, place)
);

-- Runs of experiments that the server executes. The runs that one request starts share `experiment_id`, and `max_usd` limits
-- their cost together. `dataset_at` is the time as of which the dataset is read. States: 0 running, 1 paused, 2 completed,
-- 3 cancelled. One process at a time drives a run: until `lease_until`, with `fence`, which grows with each lease.
CREATE TABLE server_runs (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    experiment_id TEXT NOT NULL,
    name TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    dataset_at BIGINT NOT NULL,
    task TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    max_usd DOUBLE PRECISION,
    state SMALLINT NOT NULL,
    reason TEXT,
    message TEXT,
    fence BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (project_id, id)
) WITHOUT ROWID;
CREATE INDEX server_runs_running ON server_runs (lease_until) WHERE state = 0;
CREATE INDEX server_runs_by_experiment ON server_runs (project_id, experiment_id);

-- One row for each result of a run, in the order of the calls. States: 0 pending, 1 call under way, 2 answered, 3 completed,
-- 4 failed. An answer is stored until its trace is written. `tries` counts failed calls, `interrupted` calls whose process
-- ended. `item_version` is the start of the version of the item.
CREATE TABLE server_run_items (
    project_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    place BIGINT NOT NULL,
    item_id TEXT NOT NULL,
    item_version BIGINT NOT NULL,
    repetition INTEGER NOT NULL,
    state SMALLINT NOT NULL,
    attempt INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    interrupted INTEGER NOT NULL,
    due_at BIGINT NOT NULL,
    answer TEXT,
    cost DOUBLE PRECISION,
    error_class TEXT,
    error_message TEXT,
    PRIMARY KEY (project_id, run_id, place)
) WITHOUT ROWID;
CREATE INDEX server_run_items_open ON server_run_items (project_id, run_id, state, due_at, place) WHERE state < 3;
CREATE INDEX server_run_items_failed ON server_run_items (project_id, run_id, place) WHERE state = 4;

-- Secrets with which requests to endpoints of applications are signed, encrypted. The id is that of an experiment.
CREATE TABLE endpoint_secrets (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    secret BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
) WITHOUT ROWID;

-- What OpenTelemetry sends: traces, observations, and their payloads apart.
--
-- Every table written at line rate has an integer row number as its key, and rows stand in the order of
-- arrival. A trace gets a number when it is first seen, so that the index over (trace, id) grows at its
-- end too: the one index with random order is that over the ids of traces.

-- Projects by number, so that rows and indexes carry 1 to 3 bytes in the place of an id.
CREATE TABLE tenants (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL UNIQUE
);

-- Computed from the observations. `revision` counts changes of the set; while `stale` is 1, the computed
-- columns are of an older revision. `first_seen`, `last_seen` and `root_ended_at` are receive times.
CREATE TABLE traces (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant BIGINT NOT NULL,
    trace_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    stale SMALLINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    root_ended_at BIGINT,
    n_open BIGINT NOT NULL,
    has_marker SMALLINT NOT NULL,
    name TEXT,
    started_at BIGINT NOT NULL,
    user_id TEXT,
    session_id TEXT,
    release TEXT,
    version TEXT,
    environment TEXT NOT NULL,
    is_public SMALLINT NOT NULL,
    level TEXT NOT NULL,
    n_observations BIGINT NOT NULL,
    n_debug BIGINT NOT NULL,
    n_default BIGINT NOT NULL,
    n_warning BIGINT NOT NULL,
    n_error BIGINT NOT NULL,
    latency_us BIGINT NOT NULL,
    input_tokens BIGINT,
    output_tokens BIGINT,
    total_tokens BIGINT,
    total_cost DOUBLE PRECISION NOT NULL,
    detail TEXT NOT NULL
);
CREATE UNIQUE INDEX traces_by_id ON traces (tenant, trace_id);
CREATE INDEX traces_newest ON traces (tenant, started_at);
CREATE INDEX traces_stale ON traces (number) WHERE stale = 1;

-- One narrow row each. `payload` and `place` say where the content stands.
CREATE TABLE observations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant BIGINT NOT NULL,
    trace BIGINT NOT NULL,
    id TEXT NOT NULL,
    parent_id TEXT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    first_token_at BIGINT,
    level TEXT NOT NULL,
    status_message TEXT,
    environment TEXT NOT NULL,
    release TEXT,
    version TEXT,
    user_id TEXT,
    session_id TEXT,
    model TEXT,
    is_root SMALLINT NOT NULL,
    prompt_name TEXT,
    prompt_version BIGINT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    total_tokens BIGINT,
    input_cost DOUBLE PRECISION,
    output_cost DOUBLE PRECISION,
    total_cost DOUBLE PRECISION,
    detail TEXT NOT NULL,
    payload BIGINT,
    place BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX observations_by_trace ON observations (trace, id);
CREATE INDEX observations_newest ON observations (tenant, started_at);

-- Compressed blocks, each with the contents of some observations that arrived together and belong to one
-- trace: they resemble each other, so a block packs better than its parts, and one row serves them all.
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    body BLOB NOT NULL
);

-- GenAI log records that belong to spans. Kept with the span, and for an hour without one.
CREATE TABLE span_logs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant BIGINT NOT NULL,
    trace_id TEXT NOT NULL,
    observation_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    happened_at BIGINT NOT NULL,
    event TEXT NOT NULL,
    attributes TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    is_joined SMALLINT NOT NULL
);
CREATE UNIQUE INDEX span_logs_once ON span_logs (tenant, trace_id, observation_id, digest);
CREATE INDEX span_logs_waiting ON span_logs (received_at) WHERE is_joined = 0;

-- Bytes taken out of payloads, once per project, and where they stood.
CREATE TABLE media (
    tenant BIGINT NOT NULL,
    id TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    content_type TEXT NOT NULL,
    bytes BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, sha256)
);
CREATE INDEX media_by_id ON media (tenant, id);
CREATE TABLE media_links (
    tenant BIGINT NOT NULL,
    trace_id TEXT NOT NULL,
    observation_id TEXT NOT NULL,
    field TEXT NOT NULL,
    media_id TEXT NOT NULL,
    PRIMARY KEY (tenant, trace_id, observation_id, field, media_id)
);

-- One row per ingest request that changed something: what the engine has to look at. The engine deletes
-- it in the transaction that deals with it.
CREATE TABLE touched (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    body BLOB NOT NULL
);

-- Who may ask, with what things are scored, and when: small tables, written by people.

CREATE TABLE organizations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE projects (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- Deferred: the first key is written before its project, because its public half is what two nodes
-- that start at once collide on.
CREATE TABLE api_keys (
    public_key TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    project_id TEXT NOT NULL REFERENCES projects (id) DEFERRABLE INITIALLY DEFERRED,
    secret_hash TEXT NOT NULL,
    secret_hint TEXT NOT NULL,
    rights TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX api_keys_by_project ON api_keys (project_id);

-- Random values made once for the whole installation, such as the key that signs sessions.
CREATE TABLE server_secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
);

-- The bytes, once per digest, whoever registered them.
CREATE TABLE components (
    digest BLOB PRIMARY KEY,
    bytes BLOB NOT NULL
);

-- Who may use which component under which name. An empty owner is the server itself: its plug-ins are
-- visible to every project.
CREATE TABLE plugins (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    digest BLOB NOT NULL REFERENCES components (digest),
    info TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (owner, name, version, digest)
);
CREATE UNIQUE INDEX plugins_one_digest ON plugins (owner, name, version) WHERE owner <> '';

CREATE TABLE evaluators (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    paused_reason TEXT,
    paused_message TEXT,
    paused_at BIGINT,
    version INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX evaluators_newest ON evaluators (project_id, created_at, id);

CREATE TABLE evaluator_versions (
    project_id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    plugin BLOB NOT NULL,
    plugin_name TEXT NOT NULL,
    plugin_version TEXT NOT NULL,
    plugin_evaluator TEXT NOT NULL,
    config TEXT NOT NULL,
    mapping TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, evaluator_id, number),
    UNIQUE (project_id, id),
    FOREIGN KEY (project_id, evaluator_id) REFERENCES evaluators (project_id, id) ON DELETE CASCADE
);

CREATE TABLE rules (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    target TEXT NOT NULL,
    enabled SMALLINT NOT NULL,
    paused_reason TEXT,
    paused_message TEXT,
    paused_at BIGINT,
    sampling DOUBLE PRECISION NOT NULL,
    sampling_independent SMALLINT NOT NULL,
    filter TEXT NOT NULL,
    settle_ms BIGINT,
    quiet_ms BIGINT,
    max_wait_ms BIGINT,
    on_missing TEXT NOT NULL,
    late TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX rules_newest ON rules (project_id, created_at, id);

CREATE TABLE assignments (
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    mapping TEXT,
    PRIMARY KEY (project_id, rule_id, place),
    FOREIGN KEY (project_id, rule_id) REFERENCES rules (project_id, id) ON DELETE CASCADE,
    FOREIGN KEY (project_id, evaluator_id) REFERENCES evaluators (project_id, id) ON DELETE CASCADE
);
CREATE INDEX assignments_by_evaluator ON assignments (project_id, evaluator_id);

-- One row. Every write to rules or evaluators raises it first, which also makes those writes queue up:
-- what they check holds until they commit.
CREATE TABLE catalog_revision (
    id SMALLINT PRIMARY KEY,
    revision BIGINT NOT NULL
);
INSERT INTO catalog_revision (id, revision) VALUES (1, 0);

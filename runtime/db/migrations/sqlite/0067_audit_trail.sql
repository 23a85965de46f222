-- The audit trail: a record for each change of the configuration. Records are inserted, and deleted after their retention, and
-- never changed. They outlive their project, so the ids of projects have columns of other names than in tables of projects.
-- Each hash covers the record and the hash before it. A chain holds the head, and the last deleted record or 0.
CREATE TABLE audit_chains (
    organization TEXT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash BLOB NOT NULL,
    cut_seq BIGINT NOT NULL,
    cut_hash BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit_records (
    organization TEXT NOT NULL,
    seq BIGINT NOT NULL,
    recorded_at BIGINT NOT NULL,
    project TEXT,
    actor_kind TEXT NOT NULL,
    actor TEXT,
    address TEXT,
    request_id TEXT,
    operation TEXT NOT NULL,
    object_kind TEXT NOT NULL,
    object_id TEXT,
    result TEXT NOT NULL,
    state_before TEXT,
    state_after TEXT,
    hash BLOB NOT NULL,
    PRIMARY KEY (organization, seq)
) WITHOUT ROWID;
CREATE INDEX audit_records_by_project ON audit_records (project, seq);
CREATE INDEX audit_records_by_time ON audit_records (organization, recorded_at);

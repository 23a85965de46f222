-- Organizations manage their projects with keys of their own, and know people.

ALTER TABLE projects ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
UPDATE projects SET updated_at = created_at;
-- Traces older than so many days are deleted; 0 keeps them.
ALTER TABLE projects ADD COLUMN retention_days BIGINT NOT NULL DEFAULT 0;
-- Set from the deletion until the last row of the project is gone, and this one goes too.
ALTER TABLE projects ADD COLUMN deleted_at BIGINT;
CREATE INDEX projects_by_organization ON projects (organization_id, created_at, id);

-- A key opens a project or an organization, and public halves are unique over both kinds. SQLite cannot
-- make a column nullable, so the table is made anew.
ALTER TABLE api_keys RENAME TO api_keys_before;
DROP INDEX api_keys_by_project;
CREATE TABLE api_keys (
    public_key TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    project_id TEXT REFERENCES projects (id) DEFERRABLE INITIALLY DEFERRED,
    organization_id TEXT REFERENCES organizations (id) DEFERRABLE INITIALLY DEFERRED,
    secret_hash TEXT NOT NULL,
    secret_hint TEXT NOT NULL,
    rights TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    CHECK ((project_id IS NULL) <> (organization_id IS NULL))
);
CREATE INDEX api_keys_by_project ON api_keys (project_id);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id);
INSERT INTO api_keys (public_key, id, project_id, secret_hash, secret_hint, rights, note, created_at)
SELECT public_key, id, project_id, secret_hash, secret_hint, rights, note, created_at FROM api_keys_before;
DROP TABLE api_keys_before;

-- People, each known to one organization: what one learns of a person is not seen by another. Who has left
-- keeps the id, so that what was written stays theirs when they come back. User names are in lower case.
CREATE TABLE users (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    is_active SMALLINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    left_at BIGINT,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, user_name)
);
CREATE INDEX users_by_time ON users (organization_id, created_at, id);

-- Roles that differ in one project from the one in the organization.
CREATE TABLE project_members (
    project_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, user_id)
);

-- Accounts of people, once per installation. E-mail addresses are in lower case. An account without a password cannot
-- sign in.
CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    password_hash TEXT,
    is_operator SMALLINT NOT NULL,
    is_active SMALLINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Sessions of browsers of accounts. A cookie holds a random reference, its row the SHA-256 of that.
CREATE TABLE account_sessions (
    digest BYTEA PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    -- Time at which the password was last entered.
    fresh_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
);
CREATE INDEX account_sessions_by_account ON account_sessions (account_id, created_at, digest);
CREATE INDEX account_sessions_by_expiry ON account_sessions (expires_at);

-- One-time links: invitations to an organization, and resets of a password. The row holds the SHA-256 of the token.
CREATE TABLE account_links (
    digest BYTEA PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    purpose TEXT NOT NULL,
    organization_id TEXT REFERENCES organizations (id),
    account_id TEXT REFERENCES accounts (id),
    email TEXT NOT NULL,
    role TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX account_links_by_organization ON account_links (organization_id, created_at, id);
CREATE INDEX account_links_by_account ON account_links (account_id);
CREATE INDEX account_links_by_expiry ON account_links (expires_at);

-- The account of a member of an organization. Members without one come from SCIM and cannot sign in.
ALTER TABLE users ADD COLUMN account_id TEXT REFERENCES accounts (id);
CREATE INDEX users_by_account ON users (account_id);

-- A rotation replaces the secret of a key pair. The previous secret is accepted until `previous_expires_at`.
ALTER TABLE api_keys ADD COLUMN rotated_at BIGINT;
ALTER TABLE api_keys ADD COLUMN previous_secret_hash TEXT;
ALTER TABLE api_keys ADD COLUMN previous_secret_hint TEXT;
ALTER TABLE api_keys ADD COLUMN previous_expires_at BIGINT;
ALTER TABLE api_keys ADD COLUMN previous_last_used_at BIGINT;
-- End of the secret before the previous one. Browser sessions from before it have ended.
ALTER TABLE api_keys ADD COLUMN sessions_since BIGINT;

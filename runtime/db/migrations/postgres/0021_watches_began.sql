-- Since when a target is waited for: what comes after it was complete starts the longest wait anew.
ALTER TABLE watches ADD COLUMN began_at BIGINT NOT NULL DEFAULT 0;

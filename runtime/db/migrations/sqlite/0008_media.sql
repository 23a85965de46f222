-- Media that clients upload by themselves: what they announced, and what became of it. The bytes stand in
-- `media`, beside those that were taken out of payloads.
CREATE TABLE media_uploads (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    content_type TEXT NOT NULL,
    content_length BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    uploaded_at BIGINT,
    http_status BIGINT,
    http_error TEXT,
    time_ms BIGINT,
    PRIMARY KEY (project_id, id)
);

-- Where uploaded media stand in items of datasets; `media_links` has those in traces.
CREATE TABLE media_item_links (
    project_id TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    item_id TEXT NOT NULL,
    field TEXT NOT NULL,
    media_id TEXT NOT NULL,
    PRIMARY KEY (project_id, dataset_id, item_id, field, media_id)
);

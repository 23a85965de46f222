-- What people say about traces and other things, and what they are asked to look at.
CREATE TABLE comments (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    object_type TEXT NOT NULL,
    object_id TEXT NOT NULL,
    content TEXT NOT NULL,
    author_user_id TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX comments_newest ON comments (project_id, created_at, id);
CREATE INDEX comments_by_object ON comments (project_id, object_type, object_id);

CREATE TABLE annotation_queues (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    score_config_ids TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id),
    UNIQUE (project_id, name)
);

CREATE TABLE annotation_queue_items (
    project_id TEXT NOT NULL,
    queue_id TEXT NOT NULL,
    id TEXT NOT NULL,
    object_id TEXT NOT NULL,
    object_type TEXT NOT NULL,
    status TEXT NOT NULL,
    completed_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, queue_id, id),
    FOREIGN KEY (project_id, queue_id) REFERENCES annotation_queues (project_id, id) ON DELETE CASCADE
);
CREATE INDEX annotation_queue_items_newest
    ON annotation_queue_items (project_id, queue_id, created_at, id);

CREATE TABLE annotation_assignments (
    project_id TEXT NOT NULL,
    queue_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, queue_id, user_id),
    FOREIGN KEY (project_id, queue_id) REFERENCES annotation_queues (project_id, id) ON DELETE CASCADE
);

-- Sessions are made of their traces: the earliest one says when a session began.
CREATE INDEX traces_by_session ON traces (tenant, session_id, started_at) WHERE session_id IS NOT NULL;

-- Prompts: what belongs to the prompt, its numbered versions, and the labels that stand on one of them.

-- `tags` is a JSON array. The row is what two writers of one prompt wait for each other on.
CREATE TABLE prompts (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    tags TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, name)
);

CREATE TABLE prompt_versions (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    config TEXT NOT NULL,
    commit_message TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, name, version),
    FOREIGN KEY (project_id, name) REFERENCES prompts (project_id, name) ON DELETE CASCADE
);

CREATE TABLE prompt_labels (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (project_id, name, label),
    FOREIGN KEY (project_id, name, version)
        REFERENCES prompt_versions (project_id, name, version) ON DELETE CASCADE
);
CREATE INDEX prompt_labels_by_version ON prompt_labels (project_id, name, version);

-- What a version includes: the version that has a number, or the one that has a label at the time.
CREATE TABLE prompt_references (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    included_name TEXT NOT NULL,
    included_version BIGINT,
    included_label TEXT,
    FOREIGN KEY (project_id, name, version)
        REFERENCES prompt_versions (project_id, name, version) ON DELETE CASCADE
);
CREATE INDEX prompt_references_from ON prompt_references (project_id, name, version);
CREATE INDEX prompt_references_to ON prompt_references (project_id, included_name);

-- Labels that only people with elevated rights move on the pages.
CREATE TABLE prompt_protected_labels (
    project_id TEXT NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (project_id, label)
);

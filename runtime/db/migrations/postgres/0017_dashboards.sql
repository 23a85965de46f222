-- Dashboards: charts, and the grids they stand on. Skills: folders of text files in versions.

-- `chart` is JSON: view, dimensions, metrics, filters and how it is drawn.
CREATE TABLE dashboard_widgets (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    chart TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX dashboard_widgets_newest ON dashboard_widgets (project_id, updated_at, id);

-- `filters` is a JSON array. The row is what two writers of one grid wait for each other on.
CREATE TABLE dashboards (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    filters TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX dashboards_newest ON dashboards (project_id, updated_at, id);

-- A tile: a widget of the project, or a preset that clients know by its name. A widget cannot go while it
-- is placed.
CREATE TABLE dashboard_placements (
    project_id TEXT NOT NULL,
    dashboard_id TEXT NOT NULL,
    id TEXT NOT NULL,
    place BIGINT NOT NULL,
    widget_id TEXT,
    preset_id TEXT,
    x BIGINT NOT NULL,
    y BIGINT NOT NULL,
    width BIGINT NOT NULL,
    height BIGINT NOT NULL,
    PRIMARY KEY (project_id, dashboard_id, id),
    FOREIGN KEY (project_id, dashboard_id) REFERENCES dashboards (project_id, id) ON DELETE CASCADE,
    FOREIGN KEY (project_id, widget_id) REFERENCES dashboard_widgets (project_id, id)
);
CREATE INDEX dashboard_placements_by_widget ON dashboard_placements (project_id, widget_id);

-- `tags` is a JSON array. The row is what two writers of one skill wait for each other on, and says what
-- was given out: a number is not used twice.
CREATE TABLE skills (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    tags TEXT NOT NULL,
    last_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, name)
);

-- `frontmatter` is JSON, `files` a JSON array of path, hash and size.
CREATE TABLE skill_versions (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    id TEXT NOT NULL,
    description TEXT NOT NULL,
    frontmatter TEXT NOT NULL,
    files TEXT NOT NULL,
    commit_message TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, name, version),
    FOREIGN KEY (project_id, name) REFERENCES skills (project_id, name) ON DELETE CASCADE
);

CREATE TABLE skill_labels (
    project_id TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (project_id, name, label),
    FOREIGN KEY (project_id, name, version)
        REFERENCES skill_versions (project_id, name, version) ON DELETE CASCADE
);

-- Each text once per project, by the base64 of its SHA-256. It stays readable when the versions go that
-- named it: clients hold hashes.
CREATE TABLE skill_contents (
    project_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, sha256)
);

-- Lists of traces of one user or one name, newest first, without a look at the others.
CREATE INDEX traces_by_user ON traces (tenant, user_id, started_at) WHERE user_id IS NOT NULL;
CREATE INDEX traces_by_name ON traces (tenant, name, started_at) WHERE name IS NOT NULL;

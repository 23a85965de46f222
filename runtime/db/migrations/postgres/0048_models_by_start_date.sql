-- Prices of a model change: it may have several definitions of one name that begin at different dates.
ALTER TABLE models DROP CONSTRAINT models_project_id_name_key;
-- A definition without a date begins before all others.
CREATE UNIQUE INDEX models_by_name ON models (project_id, name, COALESCE(start_date, -9223372036854775807));

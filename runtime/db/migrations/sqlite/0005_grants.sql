-- Capabilities a version of an evaluator may use, as JSON: {"model":true,"trace":false}.

ALTER TABLE evaluator_versions ADD COLUMN grants TEXT NOT NULL DEFAULT '{}';

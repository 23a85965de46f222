-- Rules that wait for others: the ids of these as a JSON array, and the share of what the filter refuses for scores alone
-- that is scored all the same.
ALTER TABLE rules ADD COLUMN after_rules TEXT NOT NULL DEFAULT '[]';
ALTER TABLE rules ADD COLUMN audit DOUBLE PRECISION NOT NULL DEFAULT 0.02;
-- Made by that share.
ALTER TABLE executions ADD COLUMN is_audit SMALLINT NOT NULL DEFAULT 0;
-- Rules that have not ended with a target and matter to others, as a JSON array; empty where there are none.
ALTER TABLE watches ADD COLUMN waiting TEXT NOT NULL DEFAULT '';
-- The body names what a person or a client scored, and not what was written.
ALTER TABLE touched ADD COLUMN is_scored SMALLINT NOT NULL DEFAULT 0;

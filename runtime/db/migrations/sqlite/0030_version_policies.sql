-- Which version of its evaluator a rule uses: the newest where neither is set, else the pinned one, or the newest
-- other than the one that runs in the shadow.
ALTER TABLE assignments ADD COLUMN pinned_version INTEGER;
ALTER TABLE assignments ADD COLUMN shadow_version INTEGER;
-- The number of the version, where it runs in the shadow: its scores stand aside.
ALTER TABLE executions ADD COLUMN shadow INTEGER;

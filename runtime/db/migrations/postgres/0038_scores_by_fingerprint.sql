-- The scores that were made by exactly the same: evaluator, version, configuration, plug-in.
CREATE INDEX scores_by_fingerprint ON scores (project_id, fingerprint, timestamp, id)
    WHERE fingerprint IS NOT NULL;

-- The scores of one version of an evaluator, newest first. Versions with the same definition have the same fingerprint.
CREATE INDEX scores_by_version ON scores (project_id, evaluator_version_id, timestamp, id)
    WHERE evaluator_version_id IS NOT NULL;

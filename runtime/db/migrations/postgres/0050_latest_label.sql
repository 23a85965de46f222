-- The label `latest` moves with each version and cannot be protected.
DELETE FROM prompt_protected_labels WHERE label = 'latest';

-- Rules that evaluate complete targets at the firings of a cron schedule; NULL for those that evaluate them at once.
ALTER TABLE rules ADD COLUMN cron TEXT;
ALTER TABLE rules ADD COLUMN timezone TEXT;

-- The firing for which an execution waits or waited. It is due at it until its first attempt.
ALTER TABLE executions ADD COLUMN firing_at BIGINT;
CREATE INDEX executions_by_firing ON executions (project_id, rule_id, firing_at) WHERE firing_at IS NOT NULL;

-- The schedule for which executions of a rule wait, the end of its last window, and the time from which firings that no
-- window has are missed.
CREATE TABLE rule_schedules (
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    window_from BIGINT NOT NULL,
    counted_until BIGINT NOT NULL,
    PRIMARY KEY (project_id, rule_id)
);

-- What fired: the window of completed targets from `from_at` to `fired_at`, and the earlier firings in it.
CREATE TABLE rule_firings (
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    fired_at BIGINT NOT NULL,
    from_at BIGINT NOT NULL,
    noticed_at BIGINT NOT NULL,
    n_missed BIGINT NOT NULL,
    PRIMARY KEY (project_id, rule_id, fired_at)
);

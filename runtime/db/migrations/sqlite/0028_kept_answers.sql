-- Answers of providers that were paid for, until their execution has ended: an attempt that is made again uses them.
-- `call` counts the calls of an attempt, `request` is the SHA-256 of what the evaluator asked, `number` counts the
-- answers of the call: more than one where a reply was asked for again.
CREATE TABLE kept_answers (
    execution_id BLOB NOT NULL,
    call INTEGER NOT NULL,
    request BLOB NOT NULL,
    number INTEGER NOT NULL,
    project_id TEXT NOT NULL,
    method TEXT NOT NULL,
    body TEXT NOT NULL,
    kept_at BIGINT NOT NULL,
    PRIMARY KEY (execution_id, call, request, number)
) WITHOUT ROWID;
CREATE INDEX kept_answers_by_project ON kept_answers (project_id);
DROP TABLE kept_replies;

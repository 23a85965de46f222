-- What create and update events said, one row each, so that the observation they make together does not
-- depend on their order. An entity is a trace (0) or an observation (1). `body` is a compressed block.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant BIGINT NOT NULL,
    kind SMALLINT NOT NULL,
    entity TEXT NOT NULL,
    event_id TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX events_once ON events (tenant, kind, entity, event_id);

-- Notifications: one row for each target of an event, written in the transaction that causes it. `seq` is their order,
-- `since` when their time to be delivered began, `event_key` what several gateways may see happen and is told once.
CREATE TABLE outbox (
  seq         serial_key,
  id          TEXT NOT NULL UNIQUE,
  target      TEXT NOT NULL,
  type        TEXT NOT NULL,
  event_key   TEXT,
  data        TEXT NOT NULL,
  status      TEXT NOT NULL,
  attempts    BIGINT NOT NULL,
  error       TEXT,
  next_at     BIGINT NOT NULL,
  since       BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  finished_at BIGINT
);
CREATE UNIQUE INDEX outbox_by_key ON outbox (target, event_key);
CREATE INDEX outbox_pending ON outbox (target, seq) WHERE status = 'pending';
CREATE INDEX outbox_failed ON outbox (seq) WHERE status = 'failed';

-- Which gateway delivers to a target.
CREATE TABLE outbox_targets (
  name  TEXT PRIMARY KEY,
  owner TEXT
);

-- Sources that are down: a row for each gateway that finds it so, and one without a gateway once that was told.
CREATE TABLE sources_down (
  source  TEXT NOT NULL,
  gateway TEXT NOT NULL,
  PRIMARY KEY (source, gateway)
);

-- Who changed what. Each gateway writes a chain of its own: an entry's hash covers the hash of the one before.
CREATE TABLE audit (
  gateway TEXT NOT NULL,
  number  BIGINT NOT NULL,
  id      TEXT NOT NULL UNIQUE,
  at      BIGINT NOT NULL,
  actor   TEXT NOT NULL,
  action  TEXT NOT NULL,
  subject TEXT NOT NULL,
  before  TEXT NOT NULL,
  after   TEXT NOT NULL,
  hash    TEXT NOT NULL,
  PRIMARY KEY (gateway, number)
);
CREATE INDEX audit_actors ON audit (actor, id);
CREATE INDEX audit_actions ON audit (action, id);

-- How far each chain is, how much of it a later chain names, and the checkpoint where pruning has cut it.
CREATE TABLE audit_chains (
  id        TEXT PRIMARY KEY,
  length    BIGINT NOT NULL,
  head      TEXT NOT NULL,
  head_at   BIGINT NOT NULL,
  linked    BIGINT NOT NULL,
  cut       BIGINT NOT NULL,
  cut_hash  TEXT,
  cut_at    BIGINT,
  signed_by TEXT,
  signature TEXT
);

-- Calls, and everything that makes one settle and arrive exactly once. Times are milliseconds since 1970.
CREATE TABLE calls (
  id            TEXT PRIMARY KEY,
  run_id        TEXT NOT NULL,
  tool          TEXT NOT NULL,
  source        TEXT NOT NULL,
  tool_version  TEXT NOT NULL,
  arguments     TEXT NOT NULL,
  principal     TEXT NOT NULL,
  agent         TEXT,
  space_id      TEXT,
  chat_id       TEXT,
  cycle_id      TEXT,
  step          BIGINT,
  idx           BIGINT,
  status        TEXT NOT NULL,
  delivery      TEXT,
  result        TEXT,
  error_code    TEXT,
  error_message TEXT,
  first_reply   TEXT,
  idempotent    BIGINT NOT NULL DEFAULT 0,
  attempt       BIGINT NOT NULL DEFAULT 0,
  owner         TEXT,
  waiter        TEXT,
  sent_at       BIGINT,
  deadline      BIGINT,
  expires_at    BIGINT,
  timeout_ms    BIGINT NOT NULL,
  expires_in_ms BIGINT NOT NULL,
  created_at    BIGINT NOT NULL,
  finished_at   BIGINT,
  duration_ms   DOUBLE PRECISION,
  UNIQUE (cycle_id, step, idx)
);
CREATE INDEX calls_of_run ON calls (run_id);
CREATE INDEX calls_of_tool ON calls (tool, id);
CREATE INDEX calls_of_principal ON calls (principal, id);
CREATE INDEX calls_in_status ON calls (status, id);
CREATE INDEX calls_of_agent ON calls (agent, id) WHERE agent IS NOT NULL;
CREATE INDEX calls_by_deadline ON calls (deadline) WHERE status IN ('running', 'waiting');
CREATE INDEX calls_by_expiry ON calls (expires_at) WHERE status IN ('pending', 'pending_approval');

CREATE TABLE cycles (
  id         TEXT PRIMARY KEY,
  agent      TEXT NOT NULL,
  status     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  epoch      BIGINT NOT NULL,
  tries      BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX one_open_cycle_an_agent ON cycles (agent) WHERE status = 'open';

CREATE TABLE steps (
  cycle_id TEXT NOT NULL,
  n        BIGINT NOT NULL,
  message  TEXT NOT NULL,
  PRIMARY KEY (cycle_id, n)
);

CREATE TABLE inbox (
  seq        serial_key,
  event_id   TEXT NOT NULL,
  agent      TEXT NOT NULL,
  type       TEXT NOT NULL,
  status     TEXT NOT NULL,
  cycle_id   TEXT,
  not_before BIGINT NOT NULL DEFAULT 0,
  data       TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (agent, event_id)
);
CREATE INDEX inbox_waiting ON inbox (agent, seq) WHERE status = 'pending';

CREATE TABLE gateways (
  id          TEXT PRIMARY KEY,
  alive_until BIGINT NOT NULL,
  dead        BIGINT NOT NULL DEFAULT 0
);

-- A repeated request with the same key finds the call that the first one made.
CREATE TABLE idempotency (
  principal  TEXT NOT NULL,
  key        TEXT NOT NULL,
  digest     TEXT NOT NULL,
  call_id    TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (principal, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Browsers that signed in. Only a digest of the cookie is kept.
CREATE TABLE logins (
  digest     TEXT PRIMARY KEY,
  principal  TEXT NOT NULL,
  expires_at BIGINT NOT NULL
);

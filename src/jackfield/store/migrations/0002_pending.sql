-- Calls that somebody else answers: who was offered one, what people prefer, and tools that are kept here.
ALTER TABLE calls ADD COLUMN offered_to TEXT;
ALTER TABLE calls ADD COLUMN offered_by TEXT;
ALTER TABLE calls ADD COLUMN offers BIGINT NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN answered_by TEXT;
CREATE INDEX calls_to_offer ON calls (tool, id) WHERE status IN ('waiting', 'pending') AND offered_to IS NULL;
CREATE INDEX calls_offered ON calls (offered_to) WHERE status IN ('waiting', 'pending') AND offered_to IS NOT NULL;
CREATE INDEX calls_unsent ON calls (waiter)
  WHERE waiter IS NOT NULL AND agent IS NOT NULL AND delivery = 'inline' AND sent_at IS NULL;
CREATE INDEX calls_unclaimed ON calls (id) WHERE status = 'running' AND attempt = 0;

-- What one key wants of one tool, everywhere (chat_id '') or in one chat. A field that is null says nothing.
CREATE TABLE preferences (
  principal TEXT NOT NULL,
  chat_id   TEXT NOT NULL DEFAULT '',
  scenario  TEXT NOT NULL,
  tool      TEXT NOT NULL,
  enabled   BIGINT,
  approval  TEXT,
  PRIMARY KEY (principal, chat_id, scenario, tool)
);

-- Tools that an admin made over the API, in seed 003's shape.
CREATE TABLE tools (
  name       TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  created_by TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- Tools that a tool server declared, all of one source at once.
CREATE TABLE declarations (
  source      TEXT PRIMARY KEY,
  principal   TEXT NOT NULL,
  definitions TEXT NOT NULL,
  updated_at  BIGINT NOT NULL
);

-- One value for all gateways of this database, made by the first that needs it: the key that signs callback urls.
CREATE TABLE shared_values (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

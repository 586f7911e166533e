-- Spaces, what happens in them, and what agents keep in mind.
-- Whether a call is shown in its space: null, 'whole' or 'without_result'.
ALTER TABLE calls ADD COLUMN shown TEXT;

-- Whoever writes into a space takes its next number first and so holds this row until the commit: numbers become
-- visible in their order, without gap or repeat.
CREATE TABLE spaces (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  description TEXT NOT NULL,
  metadata    TEXT NOT NULL,
  last_seq    BIGINT NOT NULL DEFAULT 0,
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL
);

CREATE TABLE members (
  space_id  TEXT NOT NULL,
  entity_id TEXT NOT NULL,
  kind      TEXT NOT NULL,
  name      TEXT NOT NULL,
  joined_at BIGINT NOT NULL,
  PRIMARY KEY (space_id, entity_id)
);
CREATE INDEX members_by_entity ON members (entity_id);

CREATE TABLE space_messages (
  id          TEXT PRIMARY KEY,
  space_id    TEXT NOT NULL,
  seq         BIGINT NOT NULL,
  entity_id   TEXT NOT NULL,
  sender_name TEXT NOT NULL,
  sender_type TEXT NOT NULL,
  role        TEXT NOT NULL,
  content     TEXT NOT NULL,
  metadata    TEXT NOT NULL,
  run_id      TEXT,
  -- The cycle whose model is still writing the call that this shows.
  begun_by    TEXT,
  created_at  BIGINT NOT NULL,
  UNIQUE (space_id, seq)
);
CREATE INDEX space_messages_begun ON space_messages (begun_by) WHERE begun_by IS NOT NULL;

CREATE TABLE space_events (
  space_id   TEXT NOT NULL,
  seq        BIGINT NOT NULL,
  type       TEXT NOT NULL,
  data       TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (space_id, seq)
);
CREATE INDEX space_events_by_age ON space_events (created_at);

-- Agents that are at work in a space just now, by the run they are in.
CREATE TABLE presence (
  space_id   TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  agent      TEXT NOT NULL,
  agent_name TEXT NOT NULL,
  since      BIGINT NOT NULL,
  PRIMARY KEY (space_id, run_id)
);
CREATE INDEX presence_of_run ON presence (run_id);

-- What is being said right now, for the other gateways of this database.
CREATE TABLE live_streams (
  stream_id  TEXT PRIMARY KEY,
  space_id   TEXT NOT NULL,
  gateway    TEXT NOT NULL,
  kind       TEXT NOT NULL,
  -- 'open', 'done' or 'failed': how it ended, for those who are slow to read.
  state      TEXT NOT NULL,
  run_id     TEXT,
  agent      TEXT NOT NULL,
  agent_name TEXT NOT NULL,
  tool       TEXT,
  text       TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX live_in_space ON live_streams (space_id);

CREATE TABLE agents (
  id         TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  origin     TEXT NOT NULL,
  enabled    BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);

CREATE TABLE memories (
  agent      TEXT NOT NULL,
  key        TEXT NOT NULL,
  value      TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (agent, key)
);

CREATE TABLE goals (
  id          TEXT PRIMARY KEY,
  agent       TEXT NOT NULL,
  description TEXT NOT NULL,
  status      TEXT NOT NULL,
  priority    BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL
);
CREATE INDEX goals_of_agent ON goals (agent, id);

CREATE TABLE plans (
  id           TEXT PRIMARY KEY,
  agent        TEXT NOT NULL,
  name         TEXT NOT NULL,
  instruction  TEXT NOT NULL,
  cron         TEXT,
  time_zone    TEXT,
  scheduled_at BIGINT,
  next_run_at  BIGINT,
  status       TEXT NOT NULL,
  last_run_at  BIGINT,
  created_at   BIGINT NOT NULL,
  updated_at   BIGINT NOT NULL
);
CREATE INDEX plans_of_agent ON plans (agent, id);
CREATE INDEX plans_due ON plans (next_run_at) WHERE status = 'active' AND next_run_at IS NOT NULL;

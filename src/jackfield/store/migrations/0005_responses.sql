-- Responses: what was asked, what was answered, and where the conversation came from.
CREATE TABLE responses (
  id            TEXT PRIMARY KEY,
  principal     TEXT NOT NULL,
  status        TEXT NOT NULL,
  previous_id   TEXT,
  resource      TEXT NOT NULL,
  input         TEXT NOT NULL,
  output        TEXT NOT NULL,
  owner         TEXT NOT NULL,
  is_background BIGINT NOT NULL,
  stop_wanted   BIGINT NOT NULL DEFAULT 0,
  created_at    BIGINT NOT NULL,
  finished_at   BIGINT
);
CREATE INDEX responses_after ON responses (previous_id) WHERE previous_id IS NOT NULL;

-- The stream of a background response, many events a row, so that a reader can come back to it.
CREATE TABLE response_events (
  response_id TEXT NOT NULL,
  first       BIGINT NOT NULL,
  last        BIGINT NOT NULL,
  events      TEXT NOT NULL,
  PRIMARY KEY (response_id, first)
);

-- Whose a session is and which gateway it lives in, so that its caller can open it again when that gateway is gone.
CREATE TABLE sessions (
  id        TEXT PRIMARY KEY,
  owner     TEXT NOT NULL,
  gateway   TEXT NOT NULL,
  opened_at BIGINT NOT NULL,
  ended_at  BIGINT
);

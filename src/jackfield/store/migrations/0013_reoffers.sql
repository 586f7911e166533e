-- When the tool server that has a call went away, and under which of its offers somebody said that work has begun.
ALTER TABLE calls ADD COLUMN server_left_at BIGINT;
ALTER TABLE calls ADD COLUMN begun_offer BIGINT NOT NULL DEFAULT 0;
CREATE INDEX calls_left_by_server ON calls (server_left_at)
  WHERE server_left_at IS NOT NULL AND status IN ('waiting', 'pending');

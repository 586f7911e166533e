-- What each step asked a model and what it said, of every run that asks one: agents' cycles, responses and sessions.
-- `messages` is compressed JSON with what was new in the step (`runs/model_steps.py`). Pruned with the run.
CREATE TABLE model_steps (
  run_id        TEXT NOT NULL,
  n             BIGINT NOT NULL,
  model         TEXT NOT NULL,
  asked_at      BIGINT NOT NULL,
  first_at      BIGINT,
  answered_at   BIGINT NOT NULL,
  retries       BIGINT NOT NULL,
  finish        TEXT,
  error_code    TEXT,
  error_message TEXT,
  input_tokens  BIGINT,
  output_tokens BIGINT,
  cached_tokens BIGINT,
  cost          DOUBLE PRECISION,
  messages      BYTEA NOT NULL,
  PRIMARY KEY (run_id, n)
);
CREATE INDEX responses_of_principal ON responses (principal, id);

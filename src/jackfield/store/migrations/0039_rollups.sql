-- What calls came to, per minute and per hour, so that an overview of a day need not read every call.
CREATE INDEX calls_by_end ON calls (finished_at) WHERE finished_at IS NOT NULL;
CREATE TABLE rollups (
  span          BIGINT NOT NULL,  -- a minute or an hour, in milliseconds
  dimension     TEXT NOT NULL,    -- all, tool, source, principal, agent
  start_at      BIGINT NOT NULL,
  name          TEXT NOT NULL,
  source        TEXT NOT NULL,    -- of a tool, else empty
  outcome       TEXT NOT NULL,    -- a final status of calls; empty: of runs
  calls         BIGINT NOT NULL,
  durations     TEXT NOT NULL,    -- JSON: bucket → calls
  input_tokens  BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  PRIMARY KEY (span, dimension, start_at, name, source, outcome)
);
CREATE TABLE rollup_progress (
  id      TEXT PRIMARY KEY,
  next_at BIGINT NOT NULL         -- what ended before is in the rollups
);

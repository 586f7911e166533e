-- Results that are too large to travel with their call: the call's row holds a notice, the JSON text is here.
CREATE TABLE large_results (
  call_id    TEXT PRIMARY KEY,
  body       BYTEA NOT NULL,
  size       BIGINT NOT NULL,
  digest     TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

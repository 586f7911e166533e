-- Calls that wait for somebody to log in at their source: where, who, for what, how often so far, after which
-- attempt, and since when.
ALTER TABLE calls ADD COLUMN login_source TEXT;
ALTER TABLE calls ADD COLUMN login_principal TEXT;
ALTER TABLE calls ADD COLUMN login_scopes TEXT;
ALTER TABLE calls ADD COLUMN login_times BIGINT NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN login_attempt BIGINT NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN login_since BIGINT;
DROP INDEX calls_by_expiry;
CREATE INDEX calls_by_expiry ON calls (expires_at) WHERE status IN ('pending', 'pending_approval', 'pending_login');
CREATE INDEX calls_by_login ON calls (login_source, id) WHERE status = 'pending_login';

-- The same request again while its call waits for a login is the same call: found by a digest of what is asked.
CREATE TABLE login_joins (
  digest     TEXT PRIMARY KEY,
  call_id    TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX login_joins_of_call ON login_joins (call_id);

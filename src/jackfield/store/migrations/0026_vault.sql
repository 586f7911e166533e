-- What is secret and has to be read again, encrypted. `key_id` says with which key, so that keys can be changed.
CREATE TABLE vault (
  kind       TEXT NOT NULL,
  id         TEXT NOT NULL,
  key_id     TEXT NOT NULL,
  sealed     TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (kind, id)
);
CREATE INDEX vault_keys ON vault (key_id);

-- Logins at the servers behind the gateway; `principal` is empty for the one that all share. The tokens are in the
-- vault, under the kind 'connection'. Without tokens a row keeps what the server asked for.
CREATE TABLE connections (
  id               TEXT PRIMARY KEY,
  source           TEXT NOT NULL,
  principal        TEXT NOT NULL,
  is_connected     BIGINT NOT NULL,
  version          BIGINT NOT NULL,
  issuer           TEXT NOT NULL,
  scopes           TEXT NOT NULL,
  wanted           TEXT NOT NULL,
  expires_at       BIGINT,
  refreshing_by    TEXT,
  refreshing_until BIGINT,
  created_at       BIGINT NOT NULL,
  updated_at       BIGINT NOT NULL,
  UNIQUE (source, principal)
);

-- A login under way: from the link to the answer of the authorization server. The verifier is in the vault, under the
-- kind 'login_flow'.
CREATE TABLE login_flows (
  id           TEXT PRIMARY KEY,
  source       TEXT NOT NULL,
  principal    TEXT NOT NULL,
  asked_by     TEXT NOT NULL,
  state_digest TEXT UNIQUE,
  browser      TEXT,
  expires_at   BIGINT NOT NULL,
  created_at   BIGINT NOT NULL
);
CREATE INDEX login_flows_expiry ON login_flows (expires_at);

-- Clients of the built-in authorization server that registered themselves.
CREATE TABLE oauth_clients (
  id            TEXT PRIMARY KEY,
  secret_digest TEXT,
  metadata      TEXT NOT NULL,
  created_at    BIGINT NOT NULL,
  used_at       BIGINT
);

-- What people allowed clients. Codes and tokens of a grant are digests; all of them end with it.
CREATE TABLE oauth_grants (
  id          TEXT PRIMARY KEY,
  client_id   TEXT NOT NULL,
  client_name TEXT NOT NULL,
  client_auth TEXT, -- how one with a metadata document proves itself at the token endpoint; null: it is public, or was registered
  principal   TEXT NOT NULL,
  credential  TEXT NOT NULL,
  resource    TEXT NOT NULL,
  rights      TEXT NOT NULL,
  created_at  BIGINT NOT NULL,
  used_at     BIGINT,
  expires_at  BIGINT NOT NULL
);
CREATE INDEX oauth_grants_by_principal ON oauth_grants (principal);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);
CREATE INDEX oauth_grants_by_end ON oauth_grants (expires_at);

CREATE TABLE oauth_codes (
  digest       TEXT PRIMARY KEY,
  grant_id     TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  challenge    TEXT NOT NULL,
  expires_at   BIGINT NOT NULL,
  used_at      BIGINT
);
CREATE INDEX oauth_codes_by_grant ON oauth_codes (grant_id);
CREATE INDEX oauth_codes_by_end ON oauth_codes (expires_at);

-- A refresh token that was used stays until it would have expired: whoever brings it again has stolen it, or was robbed.
CREATE TABLE oauth_tokens (
  digest     TEXT PRIMARY KEY,
  grant_id   TEXT NOT NULL,
  kind       TEXT NOT NULL,
  scopes     TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  spent_at   BIGINT
);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id);
CREATE INDEX oauth_tokens_by_end ON oauth_tokens (expires_at);

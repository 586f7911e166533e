-- People who signed in with the OIDC provider, as they were at their last login. `id` is `user:<sub>`.
CREATE TABLE users (
  id            TEXT PRIMARY KEY,
  issuer        TEXT NOT NULL,
  name          TEXT NOT NULL,
  email         TEXT,
  roles         TEXT NOT NULL,
  sign_outs     BIGINT NOT NULL DEFAULT 0,
  signed_out_at BIGINT,
  tokens_since  BIGINT, -- the last time that they were signed out everywhere: older tokens of an issuer are worth nothing
  signed_in_at  BIGINT NOT NULL,
  created_at    BIGINT NOT NULL
);
CREATE INDEX logins_of_principal ON logins (principal);

-- Sign-ins that have begun: what the provider's answer must match. Each is used once, by the browser that began it.
CREATE TABLE sign_ins (
  state      TEXT PRIMARY KEY,
  browser    TEXT NOT NULL,
  issuer     TEXT NOT NULL,
  nonce      TEXT NOT NULL,
  verifier   TEXT NOT NULL,
  return_to  TEXT NOT NULL,
  expires_at BIGINT NOT NULL
);

-- How a client with a metadata document proves itself at the token endpoint; null: it is public, or was registered.
ALTER TABLE oauth_grants ADD COLUMN client_auth TEXT;

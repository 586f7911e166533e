-- The config in force at a gateway: a digest of each of its tables, without secrets. NULL: it has not said so yet.
ALTER TABLE gateways ADD COLUMN config TEXT;

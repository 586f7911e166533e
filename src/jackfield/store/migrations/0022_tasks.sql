-- What work that goes on at its owner says of itself, and what it asks, for whoever follows its call at any gateway.
ALTER TABLE operations ADD COLUMN said TEXT;
ALTER TABLE operations ADD COLUMN questions TEXT;
ALTER TABLE operations ADD COLUMN updated_at BIGINT;

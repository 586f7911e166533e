-- The definition that a person refused, by its digest; another one of the same tool is looked at anew.
ALTER TABLE pins ADD COLUMN refused TEXT;
ALTER TABLE pins ADD COLUMN refused_by TEXT;
ALTER TABLE pins ADD COLUMN refused_at BIGINT;

-- Who allowed or refused a call that needed it, when, and what was asked where an approval changed it.
ALTER TABLE calls ADD COLUMN decision TEXT;
ALTER TABLE calls ADD COLUMN decided_by TEXT;
ALTER TABLE calls ADD COLUMN decided_at BIGINT;
ALTER TABLE calls ADD COLUMN asked_arguments TEXT;

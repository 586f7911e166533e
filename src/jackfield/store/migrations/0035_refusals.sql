-- Refused calls are on record; the same refusal of one principal within a minute is one record that counts.
ALTER TABLE calls ADD COLUMN count BIGINT NOT NULL DEFAULT 1;
CREATE INDEX calls_refused ON calls (principal, created_at) WHERE status = 'refused';

-- Messages that their authors have edited: when last, and as a JSON list what they said before, the oldest first.
ALTER TABLE space_messages ADD COLUMN edited_at BIGINT;
ALTER TABLE space_messages ADD COLUMN earlier TEXT;

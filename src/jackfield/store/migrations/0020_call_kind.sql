-- What a call uses: a tool, a resource (`tool` is its URI then) or a prompt.
ALTER TABLE calls ADD COLUMN kind TEXT NOT NULL DEFAULT 'tool';
-- Reads of resources and prompts are few among calls; a list of them does not go through all the others.
CREATE INDEX calls_of_kind ON calls (kind, id) WHERE kind <> 'tool';

-- Who made an agent over the API: its calls of sources with logins are made with theirs.
ALTER TABLE agents ADD COLUMN owner TEXT;

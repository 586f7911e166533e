-- What ran in a session, so that it runs again when its caller opens it again without naming it.
ALTER TABLE sessions ADD COLUMN agent TEXT;

-- What a session has set: a log level, the resources whose changes it wants to hear of. A row is either the note that
-- the session was ended (as every row was before), or what it has set, as JSON.

ALTER TABLE sessions ADD COLUMN settings TEXT;

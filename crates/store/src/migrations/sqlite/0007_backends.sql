-- The backend that each task runs on, and the identity of the engine behind it (kind and what it is connected to), so that a
-- process claims and watches only what it is connected to. Rows of older programs have no identity until a connected backend of
-- that name adopts them.

ALTER TABLE tasks ADD COLUMN of_backend TEXT;
ALTER TABLE tasks ADD COLUMN identity TEXT;
UPDATE tasks SET of_backend = CASE WHEN json_valid(body) THEN json_extract(body, '$.backend') END;

-- Older programs may go on writing to this file and do not know the column.
CREATE TRIGGER tasks_of_backend AFTER INSERT ON tasks WHEN NEW.of_backend IS NULL AND json_valid(NEW.body)
BEGIN
    UPDATE tasks SET of_backend = json_extract(NEW.body, '$.backend') WHERE n = NEW.n;
END;

CREATE INDEX tasks_due_of_backend ON tasks (of_backend, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_due_of_owner ON tasks (of_backend, owner, due_at) WHERE due_at IS NOT NULL;

-- A task that has not ended does not expire: 9999-12-31T23:59:59Z.
UPDATE tasks SET expires_at = 253402300799000
WHERE CASE WHEN json_valid(body) THEN json_extract(body, '$.ended_at') IS NULL ELSE 0 END;

-- Old entries are found by their age: their numbers follow it only while no clock is set.
CREATE INDEX entries_by_age ON entries (at);

-- What the store as a whole knows of itself, one value for each name.
CREATE TABLE facts (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

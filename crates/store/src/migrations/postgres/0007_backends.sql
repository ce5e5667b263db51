-- The backend that each task runs on, and the identity of the engine behind it (kind and what it is connected to), so that a
-- process claims and watches only what it is connected to. Rows of older programs have no identity until a connected backend of
-- that name adopts them.

ALTER TABLE tasks ADD COLUMN identity text COLLATE "C";

-- A field of a row's body; null where the body is no JSON.
CREATE FUNCTION body_field(body text, field text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN body::json ->> field;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

UPDATE tasks SET of_backend = body_field(body, 'backend') WHERE of_backend IS NULL;

CREATE INDEX tasks_due_of_backend ON tasks (of_backend, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_due_of_owner ON tasks (of_backend, owner, due_at) WHERE due_at IS NOT NULL;

-- A task that has not ended does not expire: 9999-12-31T23:59:59Z.
UPDATE tasks SET expires_at = 253402300799000
WHERE body_field(body, 'backend') IS NOT NULL AND body_field(body, 'ended_at') IS NULL;

-- Old entries are found by their age: their numbers follow it only while no clock is set.
CREATE INDEX entries_by_age ON entries (at, n);

-- What the store as a whole knows of itself, one value for each name.
CREATE TABLE facts (
    name  text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

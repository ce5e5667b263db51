-- What receivers of notices are owed, and since when. It is due when it may be sent (again); whoever sends it moves that
-- moment on first, so that nobody else does. Nothing of it hangs on the task's row, which may expire before.

CREATE TABLE notices (
    id       TEXT NOT NULL,
    receiver TEXT NOT NULL,
    since    INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    -- Who sends it.
    holder   TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    body     TEXT NOT NULL,
    PRIMARY KEY (id, receiver)
) STRICT, WITHOUT ROWID;
CREATE INDEX notices_due ON notices (receiver, due_at);

-- The oldest program that works on this file, by the newest step that it knows: an older one may follow on a newer one
-- as long as the steps between only added something.
CREATE TABLE taskbridge_schema (oldest INTEGER NOT NULL) STRICT;
INSERT INTO taskbridge_schema (oldest) VALUES (2);

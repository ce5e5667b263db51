-- The newest message that carries each question to a client: its number, and until when its stream counts as open. Older
-- programs record it in the body of the task's row, and do not read this table.
CREATE TABLE deliveries (
    task    TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    -- The question's key within the task.
    key     TEXT NOT NULL,
    n       INTEGER NOT NULL,
    until   INTEGER NOT NULL,
    -- 1 when the client has handled it.
    over    INTEGER NOT NULL,
    -- Why the answer to it was refused.
    problem TEXT,
    PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;

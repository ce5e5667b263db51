-- What happened to each task: one entry for each write that changed something about it. Entries are kept for a time of
-- their own, and may outlive their task. They are written in the order of `n`, so that the oldest are the first.

CREATE TABLE entries (
    n       INTEGER PRIMARY KEY,
    task    TEXT NOT NULL,
    -- The version of the row that the write made.
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    -- Which process wrote it.
    replica TEXT NOT NULL,
    -- What happened, and which call to an engine led to it, as JSON.
    what    TEXT NOT NULL
) STRICT;

CREATE INDEX entries_of_task ON entries (task);

-- What happened to each task: one entry for each write that changed something about it. Entries are kept for a time of
-- their own, and may outlive their task. They are written nearly in the order of `n`, so that the oldest are the first.

CREATE TABLE entries (
    n       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task    text COLLATE "C" NOT NULL,
    -- The version of the row that the write made.
    version bigint NOT NULL,
    at      bigint NOT NULL,
    -- Which process wrote it.
    replica text COLLATE "C" NOT NULL,
    -- What happened, and which call to an engine led to it, as JSON.
    what    text COLLATE "C" NOT NULL
);

CREATE INDEX entries_of_task ON entries (task);

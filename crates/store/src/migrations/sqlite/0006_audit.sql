-- The audit log, if it is kept here: lines in the order in which they were written.
CREATE TABLE audit (
    n    INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    line TEXT NOT NULL
) STRICT;

-- The audit log, if it is kept here: lines in the order in which they were written.
CREATE TABLE audit (
    n    bigint NOT NULL CONSTRAINT audit_n PRIMARY KEY,
    at   bigint NOT NULL,
    line text NOT NULL
);

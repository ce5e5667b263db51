CREATE SCHEMA dumped;
CREATE FUNCTION dumped.moment(given bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT COALESCE(given, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint) $$;
CREATE TABLE dumped.entries (
    n bigint NOT NULL,
    task text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    at bigint NOT NULL,
    replica text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE dumped.entries ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dumped.entries_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dumped.groups (
    backend text NOT NULL COLLATE pg_catalog."C",
    grp text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    until bigint NOT NULL
);
CREATE TABLE dumped.history (
    tool text NOT NULL COLLATE pg_catalog."C",
    took text NOT NULL COLLATE pg_catalog."C",
    median bigint NOT NULL
);
CREATE TABLE dumped.keys (
    name text NOT NULL COLLATE pg_catalog."C",
    value bytea NOT NULL
);
CREATE TABLE dumped.notices (
    id text NOT NULL COLLATE pg_catalog."C",
    receiver text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    due_at bigint NOT NULL,
    holder text COLLATE pg_catalog."C",
    attempts integer DEFAULT 0 NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE dumped.once (
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE dumped.outputs (
    task text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE dumped.sessions (
    nonce text NOT NULL COLLATE pg_catalog."C",
    forget_after bigint NOT NULL,
    settings text COLLATE pg_catalog."C"
);
CREATE TABLE dumped.slots (
    slot text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE dumped.taskbridge_schema (
    single boolean DEFAULT true NOT NULL,
    steps integer NOT NULL,
    oldest integer NOT NULL,
    CONSTRAINT taskbridge_schema_single_check CHECK (single)
);
CREATE TABLE dumped.tasks (
    n bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    tool text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    expires_at bigint NOT NULL,
    due_at bigint,
    lease_until bigint,
    lease_holder text COLLATE pg_catalog."C",
    backend text COLLATE pg_catalog."C",
    grp text COLLATE pg_catalog."C",
    opened_at bigint,
    handle text COLLATE pg_catalog."C",
    closed boolean NOT NULL,
    session text COLLATE pg_catalog."C",
    line text COLLATE pg_catalog."C",
    digest text COLLATE pg_catalog."C",
    waiting_until bigint,
    body text NOT NULL COLLATE pg_catalog."C",
    of_backend text COLLATE pg_catalog."C",
    log_until bigint
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05');
ALTER TABLE dumped.tasks ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dumped.tasks_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, '54xu7wtua2qvonb3usfsgrexztoy5jkv', 1, 1795356009596, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, '54xu7wtua2qvonb3usfsgrexztoy5jkv', 2, 1795356009613, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"0.tb-iyfziwrj4tnz2hz6xj2lysh5l4"}],"call":{"to":"start","ms":6}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, '54xu7wtua2qvonb3usfsgrexztoy5jkv', 3, 1795356009736, 'vm.neztczmwlmlvmnvp', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, '7vtgjeiv4zh4vnn6asibfanz4dcnuyuq', 1, 1795356009754, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, '7vtgjeiv4zh4vnn6asibfanz4dcnuyuq', 2, 1795356009758, 'vm.neztczmwlmlvmnvp', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, '5oscb2ki2nfv4ttref4k7awg7bkr6mt7', 1, 1795356009777, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, '5oscb2ki2nfv4ttref4k7awg7bkr6mt7', 2, 1795356009786, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"1.tb-kzutvnxrmikzd55qbb2kh7gbea"}],"call":{"to":"start","ms":3}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, '5oscb2ki2nfv4ttref4k7awg7bkr6mt7', 3, 1795356009893, 'vm.neztczmwlmlvmnvp', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, 'glswpakhzgrpiju3butf5yc3xycop6fa', 1, 1795356009905, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, 'glswpakhzgrpiju3butf5yc3xycop6fa', 2, 1795356009909, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"2.tb-hef4te6rkhtedqpuog5a54njyq"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, 'glswpakhzgrpiju3butf5yc3xycop6fa', 3, 1795356010016, 'vm.neztczmwlmlvmnvp', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'l4wuryz46zr7qmcfad7xr4rnt44pu3d6', 1, 1795356010021, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'l4wuryz46zr7qmcfad7xr4rnt44pu3d6', 2, 1795356010023, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"3.tb-ncfvwhaqp7loe5btsfip4yuf44"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'l4wuryz46zr7qmcfad7xr4rnt44pu3d6', 3, 1795356010530, 'vm.neztczmwlmlvmnvp', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, 'jqfw7w7dufxsnk4uozrykrpshqm6jxdw', 1, 1795356010540, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'jqfw7w7dufxsnk4uozrykrpshqm6jxdw', 2, 1795356010549, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"4.tb-tndtlk4ypkgxxq5ozbt6oeflgu"}],"call":{"to":"start","ms":3}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, 'l4wuryz46zr7qmcfad7xr4rnt44pu3d6', 5, 1795356010551, 'vm.neztczmwlmlvmnvp', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'l4wuryz46zr7qmcfad7xr4rnt44pu3d6', 6, 1795356010554, 'vm.neztczmwlmlvmnvp', '{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, 'jqfw7w7dufxsnk4uozrykrpshqm6jxdw', 3, 1795356011053, 'vm.neztczmwlmlvmnvp', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, '6qlj3bmciqon5dio2nh67i6xgbn3a2sm', 1, 1795356011067, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, 'jqfw7w7dufxsnk4uozrykrpshqm6jxdw', 5, 1795356011077, 'vm.neztczmwlmlvmnvp', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'wabpxpnummuoyk32x5uqjyc55roezsyi', 1, 1795356011093, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'wabpxpnummuoyk32x5uqjyc55roezsyi', 2, 1795356011097, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"5.tb-7bibx2yophavqsvpu4bie25eie"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'lrtlztqo55cd3jj3ys653h2txsoqixbz', 1, 1795356011111, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 1, 1795356011130, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 2, 1795356011139, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"6.tb-sv2d2ym7m7kg5ahgqqd77ip4uy"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'xln7pnfcb6xngpn3agyfsh5eiklpplqz', 1, 1795356011144, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'xln7pnfcb6xngpn3agyfsh5eiklpplqz', 2, 1795356011147, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"7.tb-msv3sp2yofbhcx5wendn3gk2vy"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, 'xln7pnfcb6xngpn3agyfsh5eiklpplqz', 3, 1795356011249, 'vm.neztczmwlmlvmnvp', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 3, 1795356011252, 'vm.neztczmwlmlvmnvp', '{"what":[{"progress":{"done":114.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 1, 1795356011269, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 2, 1795356011272, 'vm.neztczmwlmlvmnvp', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, '4eu2gjtrffp2z5qkhscmhrhgibtccoxy', 1, 1795356011291, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, '4eu2gjtrffp2z5qkhscmhrhgibtccoxy', 2, 1795356011295, 'vm.neztczmwlmlvmnvp', '{"what":[{"accepted":"8.tb-zzidbsng2t36hpxciugqfds7k4"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 4, 1795356011483, 'vm.neztczmwlmlvmnvp', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 5, 1795356011486, 'vm.neztczmwlmlvmnvp', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 7, 1795356011937, 'vm.neztczmwlmlvmnvp', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 8, 1795356011939, 'vm.neztczmwlmlvmnvp', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 12, 1795356012132, 'vm.neztczmwlmlvmnvp', '{"what":[{"progress":{"done":996.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 10, 1795356012898, 'vm.neztczmwlmlvmnvp', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 11, 1795356012900, 'vm.neztczmwlmlvmnvp', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 23, 1795356013172, 'vm.neztczmwlmlvmnvp', '{"what":[{"progress":{"done":2037.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, '4eu2gjtrffp2z5qkhscmhrhgibtccoxy', 3, 1795356013549, 'vm.neztczmwlmlvmnvp', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 13, 1795356014946, 'vm.neztczmwlmlvmnvp', '{"what":[{"attempt":5}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (47, 'pkv6rkxwfzgkq2kmkh4xxxxpy4yl4fy2', 1, 1795356015564, 'vm.neztczmwlmlvmnvp', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 14, 1795356014949, 'vm.neztczmwlmlvmnvp', '{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (46, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 44, 1795356015206, 'vm.neztczmwlmlvmnvp', '{"what":[{"progress":{"done":4071.0,"total":3600000.0}}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.groups VALUES ('engine', '', 'vm.neztczmwlmlvmnvp', 1795356017117);
INSERT INTO dumped.keys VALUES ('seal', '\x373224981be501dd06185984d2781cff14ca6b9415017604261df535b1c99256');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', '4ed14f4ecaf6d40742ba4722eab1282ef95710d9dbb104497dba43265ecc61fd', 'glswpakhzgrpiju3butf5yc3xycop6fa');
INSERT INTO dumped.outputs VALUES ('54xu7wtua2qvonb3usfsgrexztoy5jkv', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('7vtgjeiv4zh4vnn6asibfanz4dcnuyuq', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('glswpakhzgrpiju3butf5yc3xycop6fa', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('yq2owppldouqtg2cpi25ri7o44', 4635540009578, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('y6hnsatkf3lgpuqlfxrft4gbhy', 4635540013558, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'wabpxpnummuoyk32x5uqjyc55roezsyi');
INSERT INTO dumped.slots VALUES ('tool:open', 's6q3a6ek2vcjzifvznbwzyuvzusq3saj');
INSERT INTO dumped.taskbridge_schema VALUES (true, 5, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, '54xu7wtua2qvonb3usfsgrexztoy5jkv', 'everyone', 'failed', 1795356009599, 3, 4635540009738, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"54xu7wtua2qvonb3usfsgrexztoy5jkv","owner":"everyone","tool":"failed","backend":"engine","key":"tb-iyfziwrj4tnz2hz6xj2lysh5l4","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356009599,"changed_at":1795356009738,"ended_at":1795356009738,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-iyfziwrj4tnz2hz6xj2lysh5l4"}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, '7vtgjeiv4zh4vnn6asibfanz4dcnuyuq', 'everyone', 'refused', 1795356009758, 2, 4635540009762, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"7vtgjeiv4zh4vnn6asibfanz4dcnuyuq","owner":"everyone","tool":"refused","backend":"engine","key":"tb-y3hqqisnojr4ymk3kexn66mzsi","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356009758,"changed_at":1795356009762,"ended_at":1795356009762,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, '5oscb2ki2nfv4ttref4k7awg7bkr6mt7', 'everyone', 'gone', 1795356009777, 3, 4635540009898, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"5oscb2ki2nfv4ttref4k7awg7bkr6mt7","owner":"everyone","tool":"gone","backend":"engine","key":"tb-kzutvnxrmikzd55qbb2kh7gbea","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356009777,"changed_at":1795356009898,"ended_at":1795356009898,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-kzutvnxrmikzd55qbb2kh7gbea"}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'glswpakhzgrpiju3butf5yc3xycop6fa', 'everyone', 'succeeded', 1795356009908, 3, 4635540010020, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"glswpakhzgrpiju3butf5yc3xycop6fa","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-hef4te6rkhtedqpuog5a54njyq","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356009908,"changed_at":1795356010020,"ended_at":1795356010020,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-hef4te6rkhtedqpuog5a54njyq"}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, 'jqfw7w7dufxsnk4uozrykrpshqm6jxdw', 'everyone', 'cancelling', 1795356010545, 5, 4635540011054, 1795356611077, NULL, NULL, 'engine', '', 1795356010552, '4.tb-tndtlk4ypkgxxq5ozbt6oeflgu', false, NULL, NULL, NULL, NULL, '{"id":"jqfw7w7dufxsnk4uozrykrpshqm6jxdw","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-tndtlk4ypkgxxq5ozbt6oeflgu","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356010545,"changed_at":1795356011054,"ended_at":1795356011054,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-tndtlk4ypkgxxq5ozbt6oeflgu","group":"","started_at":1795356010552}},"cancel":{"at":1795356011054,"taken":true,"attempts":0,"not_before":1795356611077},"due_at":1795356611077}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'l4wuryz46zr7qmcfad7xr4rnt44pu3d6', 'everyone', 'cancelled', 1795356010026, 6, 4635540010535, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"l4wuryz46zr7qmcfad7xr4rnt44pu3d6","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-ncfvwhaqp7loe5btsfip4yuf44","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356010026,"changed_at":1795356010535,"ended_at":1795356010535,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-ncfvwhaqp7loe5btsfip4yuf44"}},"cancel":{"at":1795356010535,"taken":true,"attempts":0,"not_before":1795356610557}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'xln7pnfcb6xngpn3agyfsh5eiklpplqz', 'everyone', 'asks', 1795356011144, 3, 7475724011144, 4635540011144, NULL, NULL, 'engine', '', 1795356011148, '7.tb-msv3sp2yofbhcx5wendn3gk2vy', false, 'yq2owppldouqtg2cpi25ri7o44', NULL, NULL, NULL, '{"id":"xln7pnfcb6xngpn3agyfsh5eiklpplqz","owner":"everyone","tool":"asks","backend":"engine","key":"tb-msv3sp2yofbhcx5wendn3gk2vy","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356011144,"changed_at":1795356011250,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-msv3sp2yofbhcx5wendn3gk2vy","group":"","started_at":1795356011148}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795356011250,"status":"open"}],"due_at":4635540011144}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 's6q3a6ek2vcjzifvznbwzyuvzusq3saj', 'everyone', 'open', 1795356011123, 47, 7475724011123, 4635540011123, NULL, NULL, 'engine', '', 1795356011134, '6.tb-sv2d2ym7m7kg5ahgqqd77ip4uy', false, 'yq2owppldouqtg2cpi25ri7o44', NULL, NULL, NULL, '{"id":"s6q3a6ek2vcjzifvznbwzyuvzusq3saj","owner":"everyone","tool":"open","backend":"engine","key":"tb-sv2d2ym7m7kg5ahgqqd77ip4uy","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795356011123,"changed_at":1795356015501,"state":"working","message":"step 4365 of 3600000","progress":{"done":4365.0,"total":3600000.0},"furthest":4365.0,"job":{"open":{"handle":"6.tb-sv2d2ym7m7kg5ahgqqd77ip4uy","group":"","started_at":1795356011134}},"due_at":4635540011123}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, '6qlj3bmciqon5dio2nh67i6xgbn3a2sm', 'everyone', 'waits_for_consent', 1795356011068, 1, 7475724011068, 4635540011068, NULL, NULL, NULL, NULL, NULL, NULL, false, 'yq2owppldouqtg2cpi25ri7o44', NULL, NULL, NULL, '{"id":"6qlj3bmciqon5dio2nh67i6xgbn3a2sm","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-rp7u43p5fdvr4bwz522cocqrhu","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356011068,"changed_at":1795356011068,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795356011068}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795356011068,"status":"open"}],"due_at":4635540011068}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'lrtlztqo55cd3jj3ys653h2txsoqixbz', 'everyone', 'queued', 1795356011106, 1, 7475724011106, 4635540011106, NULL, NULL, NULL, NULL, NULL, NULL, false, 'yq2owppldouqtg2cpi25ri7o44', '["group:narrow"]', NULL, NULL, '{"id":"lrtlztqo55cd3jj3ys653h2txsoqixbz","owner":"everyone","tool":"queued","backend":"engine","key":"tb-o5mb2n33egptjcrzbkbhvlydfq","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795356011106,"changed_at":1795356011106,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795356011106}},"due_at":4635540011106}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'wabpxpnummuoyk32x5uqjyc55roezsyi', 'everyone', 'holds', 1795356011086, 2, 7475724011086, 4635540011086, NULL, NULL, 'engine', '', 1795356011098, '5.tb-7bibx2yophavqsvpu4bie25eie', false, 'yq2owppldouqtg2cpi25ri7o44', NULL, NULL, NULL, '{"id":"wabpxpnummuoyk32x5uqjyc55roezsyi","owner":"everyone","tool":"holds","backend":"engine","key":"tb-7bibx2yophavqsvpu4bie25eie","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795356011086,"changed_at":1795356011086,"state":"working","job":{"open":{"handle":"5.tb-7bibx2yophavqsvpu4bie25eie","group":"","started_at":1795356011098}},"due_at":4635540011086}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 'pkv6rkxwfzgkq2kmkh4xxxxpy4yl4fy2', 'everyone', 'starting', 1795356015563, 1, 7475724015563, 1795356015563, 1795356017564, 'vm.neztczmwlmlvmnvp', NULL, NULL, NULL, NULL, false, 'yq2owppldouqtg2cpi25ri7o44', NULL, NULL, NULL, '{"id":"pkv6rkxwfzgkq2kmkh4xxxxpy4yl4fy2","owner":"everyone","tool":"starting","backend":"engine","key":"tb-ummrqyfq7ij5q75j6ydpayvyqi","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795356015563,"changed_at":1795356015563,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795356015563}},"due_at":1795356015563}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'ni6w6muurwkdtetjrv3gj7v2e5qlvwlr', 'everyone', 'pending', 1795356011270, 14, 7475724011270, 1795356019275, NULL, NULL, NULL, NULL, NULL, NULL, false, 'yq2owppldouqtg2cpi25ri7o44', NULL, NULL, NULL, '{"id":"ni6w6muurwkdtetjrv3gj7v2e5qlvwlr","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-cx2mvsynv7klud5fziucodwt6i","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356011270,"changed_at":1795356011272,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795356019275}},"trouble":{"since":1795356011272,"reason":"the simulated engine at 127.0.0.1:33289 cannot be reached"},"due_at":1795356019275}', 'elsewhere', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, '4eu2gjtrffp2z5qkhscmhrhgibtccoxy', 'everyone', 'abandoned', 1795356011284, 3, 7475724011284, 4635540011284, NULL, NULL, 'engine', '', 1795356011296, '8.tb-zzidbsng2t36hpxciugqfds7k4', false, 'yq2owppldouqtg2cpi25ri7o44', NULL, 'f4aa9f784adf6f1c63dacb70595116c072cc567c29f019817248807b12f6ce94', 1795356013553, '{"id":"4eu2gjtrffp2z5qkhscmhrhgibtccoxy","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-zzidbsng2t36hpxciugqfds7k4","origin":{"session":"yq2owppldouqtg2cpi25ri7o44"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356011284,"changed_at":1795356011284,"state":"working","job":{"open":{"handle":"8.tb-zzidbsng2t36hpxciugqfds7k4","group":"","started_at":1795356011296}},"undelivered":{"digest":"f4aa9f784adf6f1c63dacb70595116c072cc567c29f019817248807b12f6ce94","waiting_until":1795356013553},"due_at":4635540011284}', 'engine', NULL);
SELECT pg_catalog.setval('dumped.entries_n_seq', 47, true);
SELECT pg_catalog.setval('dumped.tasks_n_seq', 14, true);
ALTER TABLE ONLY dumped.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (n);
ALTER TABLE ONLY dumped.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (backend, grp);
ALTER TABLE ONLY dumped.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (tool);
ALTER TABLE ONLY dumped.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dumped.notices
    ADD CONSTRAINT notices_pkey PRIMARY KEY (id, receiver);
ALTER TABLE ONLY dumped.once
    ADD CONSTRAINT once_pkey PRIMARY KEY (scope, key);
ALTER TABLE ONLY dumped.outputs
    ADD CONSTRAINT outputs_pkey PRIMARY KEY (task);
ALTER TABLE ONLY dumped.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (nonce);
ALTER TABLE ONLY dumped.slots
    ADD CONSTRAINT slots_pkey PRIMARY KEY (slot, task);
ALTER TABLE ONLY dumped.taskbridge_schema
    ADD CONSTRAINT taskbridge_schema_pkey PRIMARY KEY (single);
ALTER TABLE ONLY dumped.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);
CREATE INDEX entries_of_task ON dumped.entries USING btree (task);
CREATE INDEX notices_due ON dumped.notices USING btree (receiver, due_at);
CREATE INDEX once_of_task ON dumped.once USING btree (task);
CREATE INDEX sessions_to_forget ON dumped.sessions USING btree (forget_after);
CREATE INDEX slots_of_task ON dumped.slots USING btree (task);
CREATE INDEX tasks_due ON dumped.tasks USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX tasks_followed ON dumped.tasks USING btree (backend, grp, log_until) WHERE (log_until IS NOT NULL);
CREATE INDEX tasks_of_owner ON dumped.tasks USING btree (owner, created_at, id);
CREATE INDEX tasks_of_session ON dumped.tasks USING btree (session, created_at, id) WHERE (session IS NOT NULL);
CREATE INDEX tasks_open ON dumped.tasks USING btree (backend, grp, opened_at) WHERE (backend IS NOT NULL);
CREATE INDEX tasks_to_purge ON dumped.tasks USING btree (expires_at) WHERE closed;
CREATE INDEX tasks_undelivered ON dumped.tasks USING btree (digest, waiting_until) WHERE (digest IS NOT NULL);
CREATE INDEX tasks_waiting ON dumped.tasks USING btree (line, created_at, id) WHERE (line IS NOT NULL);
ALTER TABLE ONLY dumped.once
    ADD CONSTRAINT once_task_fkey FOREIGN KEY (task) REFERENCES dumped.tasks(id) ON DELETE CASCADE;
ALTER TABLE ONLY dumped.outputs
    ADD CONSTRAINT outputs_task_fkey FOREIGN KEY (task) REFERENCES dumped.tasks(id) ON DELETE CASCADE;
ALTER TABLE ONLY dumped.slots
    ADD CONSTRAINT slots_task_fkey FOREIGN KEY (task) REFERENCES dumped.tasks(id) ON DELETE CASCADE;

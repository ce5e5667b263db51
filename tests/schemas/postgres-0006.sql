CREATE SCHEMA dumped;
CREATE FUNCTION dumped.moment(given bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT COALESCE(given, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint) $$;
CREATE TABLE dumped.audit (
    n bigint NOT NULL,
    at bigint NOT NULL,
    line text NOT NULL
);
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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, 'gzru4nl37vmkef4sgjwgg7ibpu4dzhe4', 1, 1795431746033, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, 'gzru4nl37vmkef4sgjwgg7ibpu4dzhe4', 2, 1795431746041, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"0.tb-3ocfvt3z5qrdigv4prfduyrrhq"}],"call":{"to":"start","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, 'gzru4nl37vmkef4sgjwgg7ibpu4dzhe4', 3, 1795431746170, 'vm.kl22cggwv5wrn4qz', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, 'inaap44fgw5vkxjh7peqwzjchxm3ih3t', 1, 1795431746225, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, 'inaap44fgw5vkxjh7peqwzjchxm3ih3t', 2, 1795431746236, 'vm.kl22cggwv5wrn4qz', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":5}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, 'phab7dyp6uczf2lxf5ejxczbnuuoxryb', 1, 1795431746301, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, 'phab7dyp6uczf2lxf5ejxczbnuuoxryb', 2, 1795431746309, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"1.tb-jaigepyheoxy2jsxetxkphrmjy"}],"call":{"to":"start","ms":5}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, 'phab7dyp6uczf2lxf5ejxczbnuuoxryb', 3, 1795431746417, 'vm.kl22cggwv5wrn4qz', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, 'f2u5oqy6mlmxermeggue4shpjiljp5an', 1, 1795431746435, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, 'f2u5oqy6mlmxermeggue4shpjiljp5an', 2, 1795431746438, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"2.tb-jxv4zxy4srk3dgwrb6lkh2dr7e"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, 'f2u5oqy6mlmxermeggue4shpjiljp5an', 3, 1795431746549, 'vm.kl22cggwv5wrn4qz', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, '4fslqqfi4376vqftnprnlqhhycnrcyz2', 1, 1795431746572, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, '4fslqqfi4376vqftnprnlqhhycnrcyz2', 2, 1795431746575, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"3.tb-ky77zjtvve2h3mu6iildkhfnzu"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, '4fslqqfi4376vqftnprnlqhhycnrcyz2', 3, 1795431747112, 'vm.kl22cggwv5wrn4qz', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, '4fslqqfi4376vqftnprnlqhhycnrcyz2', 5, 1795431747161, 'vm.kl22cggwv5wrn4qz', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":7}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'r45cyx35g7yjb34cex7hwqb3nvbwk7b5', 1, 1795431747160, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, 'r45cyx35g7yjb34cex7hwqb3nvbwk7b5', 2, 1795431747168, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"4.tb-lonnu6mnkvzi5jbas4pnulq3ha"}],"call":{"to":"start","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, '4fslqqfi4376vqftnprnlqhhycnrcyz2', 6, 1795431747168, 'vm.kl22cggwv5wrn4qz', '{"what":["job_over"],"call":{"to":"look","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, 'r45cyx35g7yjb34cex7hwqb3nvbwk7b5', 3, 1795431747675, 'vm.kl22cggwv5wrn4qz', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, 'r45cyx35g7yjb34cex7hwqb3nvbwk7b5', 5, 1795431747688, 'vm.kl22cggwv5wrn4qz', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":8}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, '6wuzazc3alzfs36q3pj5fvt63xezhlca', 1, 1795431747689, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, '2ii6lmlfheaif33d7zoqnbb33gxta66r', 1, 1795431747712, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, '2ii6lmlfheaif33d7zoqnbb33gxta66r', 2, 1795431747717, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"5.tb-qlf47ipqndxbr3laofxpha2hie"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'p5rctppzo3ghcpymex4cxmym5sg6rdhw', 1, 1795431747731, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, '7buaxi4pti6lazxn4e7utopojxb3joeq', 1, 1795431747751, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, '7buaxi4pti6lazxn4e7utopojxb3joeq', 2, 1795431747758, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"6.tb-lblmf257zcrmrnwoclwoqc3v2i"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'kpildsy3sulbysqaoxmiifmtuqalqxpc', 1, 1795431747763, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'kpildsy3sulbysqaoxmiifmtuqalqxpc', 2, 1795431747765, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"7.tb-egddodc3azvv5wptsc7koflnty"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, '7buaxi4pti6lazxn4e7utopojxb3joeq', 3, 1795431747865, 'vm.kl22cggwv5wrn4qz', '{"what":[{"progress":{"done":103.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'kpildsy3sulbysqaoxmiifmtuqalqxpc', 3, 1795431747865, 'vm.kl22cggwv5wrn4qz', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 1, 1795431747899, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 2, 1795431747912, 'vm.kl22cggwv5wrn4qz', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":4}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, '2zp572hvzj4vcwuaqsz6mehilk4dbztb', 1, 1795431747991, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, '2zp572hvzj4vcwuaqsz6mehilk4dbztb', 2, 1795431747994, 'vm.kl22cggwv5wrn4qz', '{"what":[{"accepted":"8.tb-4r36dh76z3gvyxefho4rdxwbwq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 4, 1795431748182, 'vm.kl22cggwv5wrn4qz', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 5, 1795431748185, 'vm.kl22cggwv5wrn4qz', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 7, 1795431748735, 'vm.kl22cggwv5wrn4qz', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 8, 1795431748741, 'vm.kl22cggwv5wrn4qz', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, '7buaxi4pti6lazxn4e7utopojxb3joeq', 12, 1795431748834, 'vm.kl22cggwv5wrn4qz', '{"what":[{"progress":{"done":1073.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, '7buaxi4pti6lazxn4e7utopojxb3joeq', 21, 1795431749758, 'vm.kl22cggwv5wrn4qz', '{"what":[{"progress":{"done":1999.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 10, 1795431749907, 'vm.kl22cggwv5wrn4qz', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 11, 1795431749909, 'vm.kl22cggwv5wrn4qz', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, '2zp572hvzj4vcwuaqsz6mehilk4dbztb', 3, 1795431750243, 'vm.kl22cggwv5wrn4qz', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, '7buaxi4pti6lazxn4e7utopojxb3joeq', 41, 1795431751788, 'vm.kl22cggwv5wrn4qz', '{"what":[{"progress":{"done":4029.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, 'hrlkqrjoz6m36m6ypas7wpxlcc3qifbm', 1, 1795431752281, 'vm.kl22cggwv5wrn4qz', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.groups VALUES ('engine', '', 'vm.kl22cggwv5wrn4qz', 1795431754235);
INSERT INTO dumped.keys VALUES ('seal', '\xd88de55de0ebe153aec65740ac249161434bd917b165d4e03b3b44f714fc08c8');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', 'b8a8fe5c23fafccb6cf546317afe9dc619f18f7592eb606cf82e2caa5532f65d', 'f2u5oqy6mlmxermeggue4shpjiljp5an');
INSERT INTO dumped.outputs VALUES ('gzru4nl37vmkef4sgjwgg7ibpu4dzhe4', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('inaap44fgw5vkxjh7peqwzjchxm3ih3t', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('f2u5oqy6mlmxermeggue4shpjiljp5an', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('ipvporogqhgvrearr3rjipeq7y', 4635615746004, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('vdptofbmn5qbnce6javcmcobey', 4635615750256, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', '2ii6lmlfheaif33d7zoqnbb33gxta66r');
INSERT INTO dumped.slots VALUES ('tool:open', '7buaxi4pti6lazxn4e7utopojxb3joeq');
INSERT INTO dumped.taskbridge_schema VALUES (true, 6, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 'gzru4nl37vmkef4sgjwgg7ibpu4dzhe4', 'everyone', 'failed', 1795431746037, 3, 4635615746176, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"gzru4nl37vmkef4sgjwgg7ibpu4dzhe4","owner":"everyone","tool":"failed","backend":"engine","key":"tb-3ocfvt3z5qrdigv4prfduyrrhq","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431746037,"changed_at":1795431746176,"ended_at":1795431746176,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-3ocfvt3z5qrdigv4prfduyrrhq"}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, 'inaap44fgw5vkxjh7peqwzjchxm3ih3t', 'everyone', 'refused', 1795431746232, 2, 4635615746239, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"inaap44fgw5vkxjh7peqwzjchxm3ih3t","owner":"everyone","tool":"refused","backend":"engine","key":"tb-fyjkpoxths5griyb42u2ja4jl4","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431746232,"changed_at":1795431746239,"ended_at":1795431746239,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'phab7dyp6uczf2lxf5ejxczbnuuoxryb', 'everyone', 'gone', 1795431746305, 3, 4635615746424, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"phab7dyp6uczf2lxf5ejxczbnuuoxryb","owner":"everyone","tool":"gone","backend":"engine","key":"tb-jaigepyheoxy2jsxetxkphrmjy","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431746305,"changed_at":1795431746424,"ended_at":1795431746424,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-jaigepyheoxy2jsxetxkphrmjy"}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'f2u5oqy6mlmxermeggue4shpjiljp5an', 'everyone', 'succeeded', 1795431746438, 3, 4635615746555, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"f2u5oqy6mlmxermeggue4shpjiljp5an","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-jxv4zxy4srk3dgwrb6lkh2dr7e","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431746438,"changed_at":1795431746555,"ended_at":1795431746555,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-jxv4zxy4srk3dgwrb6lkh2dr7e"}}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, '4fslqqfi4376vqftnprnlqhhycnrcyz2', 'everyone', 'cancelled', 1795431746572, 6, 4635615747107, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"4fslqqfi4376vqftnprnlqhhycnrcyz2","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-ky77zjtvve2h3mu6iildkhfnzu","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431746572,"changed_at":1795431747107,"ended_at":1795431747107,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-ky77zjtvve2h3mu6iildkhfnzu"}},"cancel":{"at":1795431747107,"taken":true,"attempts":0,"not_before":1795432347159}}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, '6wuzazc3alzfs36q3pj5fvt63xezhlca', 'everyone', 'waits_for_consent', 1795431747688, 1, 7475799747688, 4635615747688, NULL, NULL, NULL, NULL, NULL, NULL, false, 'ipvporogqhgvrearr3rjipeq7y', NULL, NULL, NULL, '{"id":"6wuzazc3alzfs36q3pj5fvt63xezhlca","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-oqjpbglved3kpnb2uh4dzaj6xa","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431747688,"changed_at":1795431747688,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795431747688}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795431747688,"status":"open"}],"due_at":4635615747688}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, 'r45cyx35g7yjb34cex7hwqb3nvbwk7b5', 'everyone', 'cancelling', 1795431747154, 5, 4635615747673, 1795432347687, NULL, NULL, 'engine', '', 1795431747167, '4.tb-lonnu6mnkvzi5jbas4pnulq3ha', false, NULL, NULL, NULL, NULL, '{"id":"r45cyx35g7yjb34cex7hwqb3nvbwk7b5","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-lonnu6mnkvzi5jbas4pnulq3ha","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431747154,"changed_at":1795431747673,"ended_at":1795431747673,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-lonnu6mnkvzi5jbas4pnulq3ha","group":"","started_at":1795431747167}},"cancel":{"at":1795431747673,"taken":true,"attempts":0,"not_before":1795432347687},"due_at":1795432347687}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, '2ii6lmlfheaif33d7zoqnbb33gxta66r', 'everyone', 'holds', 1795431747699, 2, 7475799747699, 4635615747699, NULL, NULL, 'engine', '', 1795431747714, '5.tb-qlf47ipqndxbr3laofxpha2hie', false, 'ipvporogqhgvrearr3rjipeq7y', NULL, NULL, NULL, '{"id":"2ii6lmlfheaif33d7zoqnbb33gxta66r","owner":"everyone","tool":"holds","backend":"engine","key":"tb-qlf47ipqndxbr3laofxpha2hie","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795431747699,"changed_at":1795431747699,"state":"working","job":{"open":{"handle":"5.tb-qlf47ipqndxbr3laofxpha2hie","group":"","started_at":1795431747714}},"due_at":4635615747699}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'p5rctppzo3ghcpymex4cxmym5sg6rdhw', 'everyone', 'queued', 1795431747719, 1, 7475799747719, 4635615747719, NULL, NULL, NULL, NULL, NULL, NULL, false, 'ipvporogqhgvrearr3rjipeq7y', '["group:narrow"]', NULL, NULL, '{"id":"p5rctppzo3ghcpymex4cxmym5sg6rdhw","owner":"everyone","tool":"queued","backend":"engine","key":"tb-ztgfp6tmhwdstnj724yxc7cqde","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795431747719,"changed_at":1795431747719,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795431747719}},"due_at":4635615747719}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'kpildsy3sulbysqaoxmiifmtuqalqxpc', 'everyone', 'asks', 1795431747761, 3, 7475799747761, 4635615747761, NULL, NULL, 'engine', '', 1795431747764, '7.tb-egddodc3azvv5wptsc7koflnty', false, 'ipvporogqhgvrearr3rjipeq7y', NULL, NULL, NULL, '{"id":"kpildsy3sulbysqaoxmiifmtuqalqxpc","owner":"everyone","tool":"asks","backend":"engine","key":"tb-egddodc3azvv5wptsc7koflnty","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431747761,"changed_at":1795431747862,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-egddodc3azvv5wptsc7koflnty","group":"","started_at":1795431747764}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795431747862,"status":"open"}],"due_at":4635615747761}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'wioxkuatvb6ccdsaagg3aqikhs4l2afu', 'everyone', 'pending', 1795431747897, 11, 7475799747897, 1795431752353, NULL, NULL, NULL, NULL, NULL, NULL, false, 'ipvporogqhgvrearr3rjipeq7y', NULL, NULL, NULL, '{"id":"wioxkuatvb6ccdsaagg3aqikhs4l2afu","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-nw75zoptggatt6abad2trkyhmi","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431747897,"changed_at":1795431747911,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":4,"not_before":1795431752353}},"trouble":{"since":1795431747911,"reason":"the simulated engine at 127.0.0.1:34127 cannot be reached"},"due_at":1795431752353}', 'elsewhere', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, '7buaxi4pti6lazxn4e7utopojxb3joeq', 'everyone', 'open', 1795431747744, 45, 7475799747744, 4635615747744, NULL, NULL, 'engine', '', 1795431747756, '6.tb-lblmf257zcrmrnwoclwoqc3v2i', false, 'ipvporogqhgvrearr3rjipeq7y', NULL, NULL, NULL, '{"id":"7buaxi4pti6lazxn4e7utopojxb3joeq","owner":"everyone","tool":"open","backend":"engine","key":"tb-lblmf257zcrmrnwoclwoqc3v2i","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795431747744,"changed_at":1795431752208,"state":"working","message":"step 4445 of 3600000","progress":{"done":4445.0,"total":3600000.0},"furthest":4445.0,"job":{"open":{"handle":"6.tb-lblmf257zcrmrnwoclwoqc3v2i","group":"","started_at":1795431747756}},"due_at":4635615747744}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, '2zp572hvzj4vcwuaqsz6mehilk4dbztb', 'everyone', 'abandoned', 1795431747980, 3, 7475799747980, 4635615747980, NULL, NULL, 'engine', '', 1795431747993, '8.tb-4r36dh76z3gvyxefho4rdxwbwq', false, 'ipvporogqhgvrearr3rjipeq7y', NULL, '0438bfe754d0070ddf0588da9d0952b145ecc040696ca396859d85b38cb67da0', 1795431750242, '{"id":"2zp572hvzj4vcwuaqsz6mehilk4dbztb","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-4r36dh76z3gvyxefho4rdxwbwq","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431747980,"changed_at":1795431747980,"state":"working","job":{"open":{"handle":"8.tb-4r36dh76z3gvyxefho4rdxwbwq","group":"","started_at":1795431747993}},"undelivered":{"digest":"0438bfe754d0070ddf0588da9d0952b145ecc040696ca396859d85b38cb67da0","waiting_until":1795431750242},"due_at":4635615747980}', 'engine', NULL);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 'hrlkqrjoz6m36m6ypas7wpxlcc3qifbm', 'everyone', 'starting', 1795431752279, 1, 7475799752279, 1795431752279, 1795431754281, 'vm.kl22cggwv5wrn4qz', NULL, NULL, NULL, NULL, false, 'ipvporogqhgvrearr3rjipeq7y', NULL, NULL, NULL, '{"id":"hrlkqrjoz6m36m6ypas7wpxlcc3qifbm","owner":"everyone","tool":"starting","backend":"engine","key":"tb-qneczvbcalijx2wygr4ksx57wq","origin":{"session":"ipvporogqhgvrearr3rjipeq7y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795431752279,"changed_at":1795431752279,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795431752279}},"due_at":1795431752279}', 'engine', NULL);
SELECT pg_catalog.setval('dumped.entries_n_seq', 45, true);
SELECT pg_catalog.setval('dumped.tasks_n_seq', 14, true);
ALTER TABLE ONLY dumped.audit
    ADD CONSTRAINT audit_n PRIMARY KEY (n);
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

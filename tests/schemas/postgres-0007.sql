CREATE SCHEMA dumped;
CREATE FUNCTION dumped.body_field(body text, field text) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN body::json ->> field;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
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
CREATE TABLE dumped.facts (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
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
    log_until bigint,
    identity text COLLATE pg_catalog."C"
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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, 'nphp2imo34fvmiizkpztyr4bameh2wvf', 1, 1795496195582, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, 'nphp2imo34fvmiizkpztyr4bameh2wvf', 2, 1795496195588, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"0.tb-2er2fm3ccq3nup2ezf6j5cfitm"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, 'nphp2imo34fvmiizkpztyr4bameh2wvf', 3, 1795496195701, 'vm.vmn4ituosgilfwn2', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, 'ana46pxkb6areczsbevjccge34cj3pyu', 1, 1795496195758, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, 'ana46pxkb6areczsbevjccge34cj3pyu', 2, 1795496195763, 'vm.vmn4ituosgilfwn2', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, 'dnlkyr2pguuob7krs33z6ryzulscwi24', 1, 1795496195767, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, 'dnlkyr2pguuob7krs33z6ryzulscwi24', 2, 1795496195770, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"1.tb-iv3z4xirsa25ywc555uoutvgzq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, 'dnlkyr2pguuob7krs33z6ryzulscwi24', 3, 1795496195875, 'vm.vmn4ituosgilfwn2', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, 'nlkvgulmkwk6yrv7imlyopionufizir3', 1, 1795496195887, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, 'nlkvgulmkwk6yrv7imlyopionufizir3', 2, 1795496195890, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"2.tb-awmfw37ngaiyjmnkb6isxdfbm4"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, 'nlkvgulmkwk6yrv7imlyopionufizir3', 3, 1795496195995, 'vm.vmn4ituosgilfwn2', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'm47lmtq7gqm447mk62tf3xsfo523md6v', 1, 1795496196005, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'm47lmtq7gqm447mk62tf3xsfo523md6v', 2, 1795496196008, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"3.tb-s3omf2ru24h4olcr5vz6uol6ym"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'm47lmtq7gqm447mk62tf3xsfo523md6v', 3, 1795496196516, 'vm.vmn4ituosgilfwn2', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, '5ysevwaaqarsmbtsmjtyquscv42hs7rx', 1, 1795496196520, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'm47lmtq7gqm447mk62tf3xsfo523md6v', 5, 1795496196525, 'vm.vmn4ituosgilfwn2', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, '5ysevwaaqarsmbtsmjtyquscv42hs7rx', 2, 1795496196526, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"4.tb-gphe7qqlxlj5abk6rbfk3fi3hq"}],"call":{"to":"start","ms":3}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'm47lmtq7gqm447mk62tf3xsfo523md6v', 6, 1795496196528, 'vm.vmn4ituosgilfwn2', '{"what":["job_over"],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, '5ysevwaaqarsmbtsmjtyquscv42hs7rx', 3, 1795496197027, 'vm.vmn4ituosgilfwn2', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, 'jfqvpyyfruzccoihonuyng3pzf6gdleo', 1, 1795496197031, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, '5ysevwaaqarsmbtsmjtyquscv42hs7rx', 5, 1795496197036, 'vm.vmn4ituosgilfwn2', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'yk4ou2d2nwlr6irxpybxek7hzm4vemfh', 1, 1795496197040, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'yk4ou2d2nwlr6irxpybxek7hzm4vemfh', 2, 1795496197044, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"5.tb-bzal3tlixu3xlccuyilribioma"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'pk6cy6sqekd5wxygdguhmnqmsiopfnq3', 1, 1795496197050, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 1, 1795496197059, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 2, 1795496197062, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"6.tb-w4yfy4xyqk5pv5rchw3cxf6hca"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'wiojmfo3j4fh6yo34klz2fnvqwke5twm', 1, 1795496197063, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'wiojmfo3j4fh6yo34klz2fnvqwke5twm', 2, 1795496197066, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"7.tb-kblxlmmpbs2rfdqqe7hjgbgdta"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, 'wiojmfo3j4fh6yo34klz2fnvqwke5twm', 3, 1795496197152, 'vm.vmn4ituosgilfwn2', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 3, 1795496197155, 'vm.vmn4ituosgilfwn2', '{"what":[{"progress":{"done":87.0,"total":3600000.0}}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 1, 1795496197179, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 2, 1795496197182, 'vm.vmn4ituosgilfwn2', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, 'mgl2ay2kvxcbjnwxfry6k6dp765kwa7r', 1, 1795496197193, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, 'mgl2ay2kvxcbjnwxfry6k6dp765kwa7r', 2, 1795496197196, 'vm.vmn4ituosgilfwn2', '{"what":[{"accepted":"8.tb-wnluhummxvutkwanag7b3sydme"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 4, 1795496197377, 'vm.vmn4ituosgilfwn2', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 5, 1795496197379, 'vm.vmn4ituosgilfwn2', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 7, 1795496197798, 'vm.vmn4ituosgilfwn2', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 8, 1795496197801, 'vm.vmn4ituosgilfwn2', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 13, 1795496198109, 'vm.vmn4ituosgilfwn2', '{"what":[{"progress":{"done":1046.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 10, 1795496198691, 'vm.vmn4ituosgilfwn2', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 11, 1795496198693, 'vm.vmn4ituosgilfwn2', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 24, 1795496199123, 'vm.vmn4ituosgilfwn2', '{"what":[{"progress":{"done":2060.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, 'mgl2ay2kvxcbjnwxfry6k6dp765kwa7r', 3, 1795496199447, 'vm.vmn4ituosgilfwn2', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 14, 1795496200601, 'vm.vmn4ituosgilfwn2', '{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (46, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 45, 1795496201104, 'vm.vmn4ituosgilfwn2', '{"what":[{"progress":{"done":4041.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 13, 1795496200599, 'vm.vmn4ituosgilfwn2', '{"what":[{"attempt":5}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (47, 'g6narvzd5iqkfiwmunslbbvffw45c5yl', 1, 1795496201459, 'vm.vmn4ituosgilfwn2', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.facts VALUES ('clock', '{"boot":"62840e9d-b1dc-464e-aa16-1b0110daf6fa","uptime":{"secs":20660,"nanos":111881210},"time":1795496195548,"held_until":null}');
INSERT INTO dumped.groups VALUES ('engine @ sim engine', '', 'vm.vmn4ituosgilfwn2', 1795496203064);
INSERT INTO dumped.keys VALUES ('seal', '\xe7a058abcb54924c15456c31bd56081e0355d1cf1d723ef7fbad28560670b009');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', '745ba7ad4c46fc4b919036925d22abb3bd7c94628bad170c950957daf4de7e4b', 'nlkvgulmkwk6yrv7imlyopionufizir3');
INSERT INTO dumped.outputs VALUES ('nphp2imo34fvmiizkpztyr4bameh2wvf', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('ana46pxkb6areczsbevjccge34cj3pyu', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('nlkvgulmkwk6yrv7imlyopionufizir3', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('gd6jzk3b7ezevdwdclneslb3du', 4635680195564, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('dmwrco4gkomzv2l7rphkq622e4', 4635680199451, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'yk4ou2d2nwlr6irxpybxek7hzm4vemfh');
INSERT INTO dumped.slots VALUES ('tool:open', 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp');
INSERT INTO dumped.taskbridge_schema VALUES (true, 7, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 'nphp2imo34fvmiizkpztyr4bameh2wvf', 'everyone', 'failed', 1795496195583, 3, 4635680195703, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"nphp2imo34fvmiizkpztyr4bameh2wvf","owner":"everyone","tool":"failed","backend":"engine","key":"tb-2er2fm3ccq3nup2ezf6j5cfitm","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496195583,"changed_at":1795496195703,"ended_at":1795496195703,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-2er2fm3ccq3nup2ezf6j5cfitm"}}}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, 'ana46pxkb6areczsbevjccge34cj3pyu', 'everyone', 'refused', 1795496195759, 2, 4635680195763, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"ana46pxkb6areczsbevjccge34cj3pyu","owner":"everyone","tool":"refused","backend":"engine","key":"tb-ahwtjngsyvzkxbtowneohhro3e","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496195759,"changed_at":1795496195763,"ended_at":1795496195763,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'dnlkyr2pguuob7krs33z6ryzulscwi24', 'everyone', 'gone', 1795496195770, 3, 4635680195878, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"dnlkyr2pguuob7krs33z6ryzulscwi24","owner":"everyone","tool":"gone","backend":"engine","key":"tb-iv3z4xirsa25ywc555uoutvgzq","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496195770,"changed_at":1795496195878,"ended_at":1795496195878,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-iv3z4xirsa25ywc555uoutvgzq"}}}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'nlkvgulmkwk6yrv7imlyopionufizir3', 'everyone', 'succeeded', 1795496195885, 3, 4635680195997, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"nlkvgulmkwk6yrv7imlyopionufizir3","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-awmfw37ngaiyjmnkb6isxdfbm4","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496195885,"changed_at":1795496195997,"ended_at":1795496195997,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-awmfw37ngaiyjmnkb6isxdfbm4"}}}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'm47lmtq7gqm447mk62tf3xsfo523md6v', 'everyone', 'cancelled', 1795496196008, 6, 4635680196518, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"m47lmtq7gqm447mk62tf3xsfo523md6v","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-s3omf2ru24h4olcr5vz6uol6ym","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496196008,"changed_at":1795496196518,"ended_at":1795496196518,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-s3omf2ru24h4olcr5vz6uol6ym"}},"cancel":{"at":1795496196518,"taken":true,"attempts":0,"not_before":1795496796528}}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, 'jfqvpyyfruzccoihonuyng3pzf6gdleo', 'everyone', 'waits_for_consent', 1795496197030, 1, 253402207200000, 4635680197030, NULL, NULL, NULL, NULL, NULL, NULL, false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, NULL, NULL, '{"id":"jfqvpyyfruzccoihonuyng3pzf6gdleo","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-gbgywqy4ivipnydvjr3que63ri","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496197030,"changed_at":1795496197030,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795496197030}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795496197030,"status":"open"}],"due_at":4635680197030}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, '5ysevwaaqarsmbtsmjtyquscv42hs7rx', 'everyone', 'cancelling', 1795496196523, 5, 4635680197026, 1795496797036, NULL, NULL, 'engine', '', 1795496196528, '4.tb-gphe7qqlxlj5abk6rbfk3fi3hq', false, NULL, NULL, NULL, NULL, '{"id":"5ysevwaaqarsmbtsmjtyquscv42hs7rx","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-gphe7qqlxlj5abk6rbfk3fi3hq","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496196523,"changed_at":1795496197026,"ended_at":1795496197026,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-gphe7qqlxlj5abk6rbfk3fi3hq","group":"","started_at":1795496196528}},"cancel":{"at":1795496197026,"taken":true,"attempts":0,"not_before":1795496797036},"due_at":1795496797036}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'yk4ou2d2nwlr6irxpybxek7hzm4vemfh', 'everyone', 'holds', 1795496197035, 2, 253402207200000, 4635680197043, NULL, NULL, 'engine', '', 1795496197043, '5.tb-bzal3tlixu3xlccuyilribioma', false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, NULL, NULL, '{"id":"yk4ou2d2nwlr6irxpybxek7hzm4vemfh","owner":"everyone","tool":"holds","backend":"engine","key":"tb-bzal3tlixu3xlccuyilribioma","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795496197035,"changed_at":1795496197035,"state":"working","job":{"open":{"handle":"5.tb-bzal3tlixu3xlccuyilribioma","group":"","started_at":1795496197043}},"due_at":4635680197043}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'pk6cy6sqekd5wxygdguhmnqmsiopfnq3', 'everyone', 'queued', 1795496197047, 1, 253402207200000, 4635680197047, NULL, NULL, NULL, NULL, NULL, NULL, false, 'gd6jzk3b7ezevdwdclneslb3du', '["group:narrow"]', NULL, NULL, '{"id":"pk6cy6sqekd5wxygdguhmnqmsiopfnq3","owner":"everyone","tool":"queued","backend":"engine","key":"tb-2rz2froiehuotmeqlfxletk56q","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795496197047,"changed_at":1795496197047,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795496197047}},"due_at":4635680197047}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp', 'everyone', 'open', 1795496197055, 48, 253402207200000, 4635680197061, NULL, NULL, 'engine', '', 1795496197061, '6.tb-w4yfy4xyqk5pv5rchw3cxf6hca', false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, NULL, NULL, '{"id":"gf6ym5ztnjgvcgwbx7bwxyjy3mcq2tjp","owner":"everyone","tool":"open","backend":"engine","key":"tb-w4yfy4xyqk5pv5rchw3cxf6hca","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795496197055,"changed_at":1795496201391,"state":"working","message":"step 4330 of 3600000","progress":{"done":4330.0,"total":3600000.0},"furthest":4330.0,"job":{"open":{"handle":"6.tb-w4yfy4xyqk5pv5rchw3cxf6hca","group":"","started_at":1795496197061}},"due_at":4635680197061}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'mgl2ay2kvxcbjnwxfry6k6dp765kwa7r', 'everyone', 'abandoned', 1795496197190, 3, 253402207200000, 4635680197196, NULL, NULL, 'engine', '', 1795496197196, '8.tb-wnluhummxvutkwanag7b3sydme', false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, 'ffc9c73fb9d414b2143e8d687dc7ae6cc821f66ae08aa265aef871c517c9461d', 1795496199447, '{"id":"mgl2ay2kvxcbjnwxfry6k6dp765kwa7r","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-wnluhummxvutkwanag7b3sydme","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496197190,"changed_at":1795496197190,"state":"working","job":{"open":{"handle":"8.tb-wnluhummxvutkwanag7b3sydme","group":"","started_at":1795496197196}},"undelivered":{"digest":"ffc9c73fb9d414b2143e8d687dc7ae6cc821f66ae08aa265aef871c517c9461d","waiting_until":1795496199447},"due_at":4635680197196}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'wiojmfo3j4fh6yo34klz2fnvqwke5twm', 'everyone', 'asks', 1795496197062, 3, 253402207200000, 4635680197064, NULL, NULL, 'engine', '', 1795496197064, '7.tb-kblxlmmpbs2rfdqqe7hjgbgdta', false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, NULL, NULL, '{"id":"wiojmfo3j4fh6yo34klz2fnvqwke5twm","owner":"everyone","tool":"asks","backend":"engine","key":"tb-kblxlmmpbs2rfdqqe7hjgbgdta","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496197062,"changed_at":1795496197151,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-kblxlmmpbs2rfdqqe7hjgbgdta","group":"","started_at":1795496197064}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795496197151,"status":"open"}],"due_at":4635680197064}', 'engine', NULL, 'sim engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'mvivm3w4q77grxdcs6fpgqpl2ygspxnv', 'everyone', 'pending', 1795496197178, 14, 253402207200000, 1795496204658, NULL, NULL, NULL, NULL, NULL, NULL, false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, NULL, NULL, '{"id":"mvivm3w4q77grxdcs6fpgqpl2ygspxnv","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-52byip5bqqllrlztby4jvo5gy4","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496197178,"changed_at":1795496197181,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795496204658}},"trouble":{"since":1795496197181,"reason":"the simulated engine at 127.0.0.1:44695 cannot be reached"},"due_at":1795496204658}', 'elsewhere', NULL, 'sim elsewhere');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 'g6narvzd5iqkfiwmunslbbvffw45c5yl', 'everyone', 'starting', 1795496201457, 1, 253402207200000, 1795496201457, 1795496203459, 'vm.vmn4ituosgilfwn2', NULL, NULL, NULL, NULL, false, 'gd6jzk3b7ezevdwdclneslb3du', NULL, NULL, NULL, '{"id":"g6narvzd5iqkfiwmunslbbvffw45c5yl","owner":"everyone","tool":"starting","backend":"engine","key":"tb-jxc5oehawwvw4yqp22uwsb2ql4","origin":{"session":"gd6jzk3b7ezevdwdclneslb3du"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795496201457,"changed_at":1795496201457,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795496201457}},"due_at":1795496201457}', 'engine', NULL, 'sim engine');
SELECT pg_catalog.setval('dumped.entries_n_seq', 47, true);
SELECT pg_catalog.setval('dumped.tasks_n_seq', 14, true);
ALTER TABLE ONLY dumped.audit
    ADD CONSTRAINT audit_n PRIMARY KEY (n);
ALTER TABLE ONLY dumped.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (n);
ALTER TABLE ONLY dumped.facts
    ADD CONSTRAINT facts_pkey PRIMARY KEY (name);
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
CREATE INDEX entries_by_age ON dumped.entries USING btree (at, n);
CREATE INDEX entries_of_task ON dumped.entries USING btree (task);
CREATE INDEX notices_due ON dumped.notices USING btree (receiver, due_at);
CREATE INDEX once_of_task ON dumped.once USING btree (task);
CREATE INDEX sessions_to_forget ON dumped.sessions USING btree (forget_after);
CREATE INDEX slots_of_task ON dumped.slots USING btree (task);
CREATE INDEX tasks_due ON dumped.tasks USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX tasks_due_of_backend ON dumped.tasks USING btree (of_backend, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX tasks_due_of_owner ON dumped.tasks USING btree (of_backend, owner, due_at) WHERE (due_at IS NOT NULL);
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

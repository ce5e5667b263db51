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
    body text NOT NULL COLLATE pg_catalog."C"
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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, 'd7hkhtqpgoz4o5mc3q7zzwbc3tw6rk7b', 1, 1795308365697, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, 'd7hkhtqpgoz4o5mc3q7zzwbc3tw6rk7b', 2, 1795308365724, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"0.tb-pzfdmqqxmd2ojstwjpfyfpr6ja"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, 'd7hkhtqpgoz4o5mc3q7zzwbc3tw6rk7b', 3, 1795308365844, 'vm.7gevlji2msmpgvpd', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, '7qqxuqcrzp7i554n4nq4gzni5uwjzo37', 1, 1795308365874, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, '7qqxuqcrzp7i554n4nq4gzni5uwjzo37', 2, 1795308365881, 'vm.7gevlji2msmpgvpd', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, 'zg27u4o7ishewf7maga6hsfkaejzx6pa', 1, 1795308365935, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, 'zg27u4o7ishewf7maga6hsfkaejzx6pa', 2, 1795308365940, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"1.tb-uukwenyexzrfyjv6qopydlk25u"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, 'zg27u4o7ishewf7maga6hsfkaejzx6pa', 3, 1795308366045, 'vm.7gevlji2msmpgvpd', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, '3trz634omaq7x673nbcnhcmonrdmek2n', 1, 1795308366054, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, '3trz634omaq7x673nbcnhcmonrdmek2n', 2, 1795308366058, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"2.tb-jnp3ucr2bslstzajb344u6rxka"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, '3trz634omaq7x673nbcnhcmonrdmek2n', 3, 1795308366162, 'vm.7gevlji2msmpgvpd', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'ezfjncgpdfrv4equilsgjnzrzaxirzxw', 1, 1795308366176, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'ezfjncgpdfrv4equilsgjnzrzaxirzxw', 2, 1795308366187, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"3.tb-g5hnuvvcmd3s6nvw2ba5ms3uoy"}],"call":{"to":"start","ms":9}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'ezfjncgpdfrv4equilsgjnzrzaxirzxw', 3, 1795308366690, 'vm.7gevlji2msmpgvpd', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, '5inkje7pl35adcoo5rxkcihcioaxpbqo', 1, 1795308366722, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'ezfjncgpdfrv4equilsgjnzrzaxirzxw', 5, 1795308366723, 'vm.7gevlji2msmpgvpd', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, '5inkje7pl35adcoo5rxkcihcioaxpbqo', 2, 1795308366743, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"4.tb-iru76xg3xolzk54u5fzcfojycq"}],"call":{"to":"start","ms":7}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'ezfjncgpdfrv4equilsgjnzrzaxirzxw', 6, 1795308366744, 'vm.7gevlji2msmpgvpd', '{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, '5inkje7pl35adcoo5rxkcihcioaxpbqo', 3, 1795308367255, 'vm.7gevlji2msmpgvpd', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, '36jrh3xpzonk7pfrpdwkygcbjr3nwfit', 1, 1795308367273, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, '5inkje7pl35adcoo5rxkcihcioaxpbqo', 5, 1795308367274, 'vm.7gevlji2msmpgvpd', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'btmfuvod4suu342ypq7lxhuatl4c5d4y', 1, 1795308367306, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'btmfuvod4suu342ypq7lxhuatl4c5d4y', 2, 1795308367338, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"5.tb-rmvnxodcq5622m5g7wcyygi3ga"}],"call":{"to":"start","ms":4}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, '3rpj4tawnjmmut26rk45uiwkxavx7up7', 1, 1795308367343, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 'wydcztrncthpzd3scb7x6eeequvj6gei', 1, 1795308367370, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 'wydcztrncthpzd3scb7x6eeequvj6gei', 2, 1795308367402, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"6.tb-44563lnd4fjputoe2lcbexbk7e"}],"call":{"to":"start","ms":6}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'i3yriyazsucfqgvwfdxdfqgzftnmm4wh', 1, 1795308367404, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'i3yriyazsucfqgvwfdxdfqgzftnmm4wh', 2, 1795308367418, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"7.tb-kj6mcvv2x7ln5znuhtotrrwmuq"}],"call":{"to":"start","ms":7}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, 'i3yriyazsucfqgvwfdxdfqgzftnmm4wh', 3, 1795308367552, 'vm.7gevlji2msmpgvpd', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'wydcztrncthpzd3scb7x6eeequvj6gei', 3, 1795308367552, 'vm.7gevlji2msmpgvpd', '{"what":[{"progress":{"done":125.0,"total":3600000.0}}],"call":{"to":"look","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, '7xweiirklkk7bouzegkdqr735bomntwr', 1, 1795308367579, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, '7xweiirklkk7bouzegkdqr735bomntwr', 2, 1795308367602, 'vm.7gevlji2msmpgvpd', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":12}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, 'l76wwq7nrprsfw24yrwmrjvwhwj6qstx', 1, 1795308367634, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, 'l76wwq7nrprsfw24yrwmrjvwhwj6qstx', 2, 1795308367637, 'vm.7gevlji2msmpgvpd', '{"what":[{"accepted":"8.tb-chifwilztlgs4arnw2log5g34q"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, '7xweiirklkk7bouzegkdqr735bomntwr', 4, 1795308367919, 'vm.7gevlji2msmpgvpd', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, '7xweiirklkk7bouzegkdqr735bomntwr', 5, 1795308367922, 'vm.7gevlji2msmpgvpd', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, '7xweiirklkk7bouzegkdqr735bomntwr', 7, 1795308368324, 'vm.7gevlji2msmpgvpd', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, '7xweiirklkk7bouzegkdqr735bomntwr', 8, 1795308368327, 'vm.7gevlji2msmpgvpd', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, 'wydcztrncthpzd3scb7x6eeequvj6gei', 10, 1795308368383, 'vm.7gevlji2msmpgvpd', '{"what":[{"progress":{"done":1002.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, '7xweiirklkk7bouzegkdqr735bomntwr', 10, 1795308369201, 'vm.7gevlji2msmpgvpd', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, '7xweiirklkk7bouzegkdqr735bomntwr', 11, 1795308369214, 'vm.7gevlji2msmpgvpd', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":9}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 'wydcztrncthpzd3scb7x6eeequvj6gei', 18, 1795308369391, 'vm.7gevlji2msmpgvpd', '{"what":[{"progress":{"done":2004.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, 'l76wwq7nrprsfw24yrwmrjvwhwj6qstx', 3, 1795308369876, 'vm.7gevlji2msmpgvpd', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (46, 'wydcztrncthpzd3scb7x6eeequvj6gei', 36, 1795308371407, 'vm.7gevlji2msmpgvpd', '{"what":[{"progress":{"done":4024.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, '7xweiirklkk7bouzegkdqr735bomntwr', 13, 1795308371044, 'vm.7gevlji2msmpgvpd', '{"what":[{"attempt":5}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, '7xweiirklkk7bouzegkdqr735bomntwr', 14, 1795308371050, 'vm.7gevlji2msmpgvpd', '{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (47, 'fbfsktshlfbupsz6rfyeepspqfne3tuz', 1, 1795308371899, 'vm.7gevlji2msmpgvpd', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.groups VALUES ('engine', '', 'vm.7gevlji2msmpgvpd', 1795308373246);
INSERT INTO dumped.keys VALUES ('seal', '\x635d9a25a08526b8a5397250d26db046b32e7d061a51ac1f8d32cc4f36e9cdbd');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', 'ca78583ffc53ead5340c33ef3e0c793419c15ca4af032a8feae79c198361a209', '3trz634omaq7x673nbcnhcmonrdmek2n');
INSERT INTO dumped.outputs VALUES ('d7hkhtqpgoz4o5mc3q7zzwbc3tw6rk7b', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('7qqxuqcrzp7i554n4nq4gzni5uwjzo37', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('3trz634omaq7x673nbcnhcmonrdmek2n', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('cur6hzavchkhkjy27hafx5hwdm', 4635492365656, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('ywwgiqdkgm246bjqla4bwhr4e4', 4635492369878, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'btmfuvod4suu342ypq7lxhuatl4c5d4y');
INSERT INTO dumped.slots VALUES ('tool:open', 'wydcztrncthpzd3scb7x6eeequvj6gei');
INSERT INTO dumped.taskbridge_schema VALUES (true, 2, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 'd7hkhtqpgoz4o5mc3q7zzwbc3tw6rk7b', 'everyone', 'failed', 1795308365691, 3, 4635492365850, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"d7hkhtqpgoz4o5mc3q7zzwbc3tw6rk7b","owner":"everyone","tool":"failed","backend":"engine","key":"tb-pzfdmqqxmd2ojstwjpfyfpr6ja","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308365691,"changed_at":1795308365850,"ended_at":1795308365850,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-pzfdmqqxmd2ojstwjpfyfpr6ja"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, '7qqxuqcrzp7i554n4nq4gzni5uwjzo37', 'everyone', 'refused', 1795308365881, 2, 4635492365886, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"7qqxuqcrzp7i554n4nq4gzni5uwjzo37","owner":"everyone","tool":"refused","backend":"engine","key":"tb-rxtwfkq4euwsf47rf6uypztc7m","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308365881,"changed_at":1795308365886,"ended_at":1795308365886,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'zg27u4o7ishewf7maga6hsfkaejzx6pa', 'everyone', 'gone', 1795308365942, 3, 4635492366051, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"zg27u4o7ishewf7maga6hsfkaejzx6pa","owner":"everyone","tool":"gone","backend":"engine","key":"tb-uukwenyexzrfyjv6qopydlk25u","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308365942,"changed_at":1795308366051,"ended_at":1795308366051,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-uukwenyexzrfyjv6qopydlk25u"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, '3trz634omaq7x673nbcnhcmonrdmek2n', 'everyone', 'succeeded', 1795308366058, 3, 4635492366169, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"3trz634omaq7x673nbcnhcmonrdmek2n","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-jnp3ucr2bslstzajb344u6rxka","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308366058,"changed_at":1795308366169,"ended_at":1795308366169,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-jnp3ucr2bslstzajb344u6rxka"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'ezfjncgpdfrv4equilsgjnzrzaxirzxw', 'everyone', 'cancelled', 1795308366182, 6, 4635492366687, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"ezfjncgpdfrv4equilsgjnzrzaxirzxw","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-g5hnuvvcmd3s6nvw2ba5ms3uoy","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308366182,"changed_at":1795308366687,"ended_at":1795308366687,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-g5hnuvvcmd3s6nvw2ba5ms3uoy"}},"cancel":{"at":1795308366687,"taken":true,"attempts":0,"not_before":1795308966717}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'i3yriyazsucfqgvwfdxdfqgzftnmm4wh', 'everyone', 'asks', 1795308367398, 3, 7475676367398, 4635492367398, NULL, NULL, 'engine', '', 1795308367414, '7.tb-kj6mcvv2x7ln5znuhtotrrwmuq', false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, NULL, NULL, '{"id":"i3yriyazsucfqgvwfdxdfqgzftnmm4wh","owner":"everyone","tool":"asks","backend":"engine","key":"tb-kj6mcvv2x7ln5znuhtotrrwmuq","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308367398,"changed_at":1795308367550,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-kj6mcvv2x7ln5znuhtotrrwmuq","group":"","started_at":1795308367414}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795308367550,"status":"open"}],"due_at":4635492367398}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'wydcztrncthpzd3scb7x6eeequvj6gei', 'everyone', 'open', 1795308367366, 40, 7475676367366, 4635492367366, NULL, NULL, 'engine', '', 1795308367384, '6.tb-44563lnd4fjputoe2lcbexbk7e', false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, NULL, NULL, '{"id":"wydcztrncthpzd3scb7x6eeequvj6gei","owner":"everyone","tool":"open","backend":"engine","key":"tb-44563lnd4fjputoe2lcbexbk7e","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795308367366,"changed_at":1795308371881,"state":"working","message":"step 4495 of 3600000","progress":{"done":4495.0,"total":3600000.0},"furthest":4495.0,"job":{"open":{"handle":"6.tb-44563lnd4fjputoe2lcbexbk7e","group":"","started_at":1795308367384}},"due_at":4635492367366}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, '36jrh3xpzonk7pfrpdwkygcbjr3nwfit', 'everyone', 'waits_for_consent', 1795308367272, 1, 7475676367272, 4635492367272, NULL, NULL, NULL, NULL, NULL, NULL, false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, NULL, NULL, '{"id":"36jrh3xpzonk7pfrpdwkygcbjr3nwfit","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-ru4w2n3n32iwh7n3h2r2rcdq5a","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308367272,"changed_at":1795308367272,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795308367272}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795308367272,"status":"open"}],"due_at":4635492367272}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, '5inkje7pl35adcoo5rxkcihcioaxpbqo', 'everyone', 'cancelling', 1795308366714, 5, 4635492367254, 1795308967272, NULL, NULL, 'engine', '', 1795308366742, '4.tb-iru76xg3xolzk54u5fzcfojycq', false, NULL, NULL, NULL, NULL, '{"id":"5inkje7pl35adcoo5rxkcihcioaxpbqo","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-iru76xg3xolzk54u5fzcfojycq","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308366714,"changed_at":1795308367254,"ended_at":1795308367254,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-iru76xg3xolzk54u5fzcfojycq","group":"","started_at":1795308366742}},"cancel":{"at":1795308367254,"taken":true,"attempts":0,"not_before":1795308967272},"due_at":1795308967272}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'btmfuvod4suu342ypq7lxhuatl4c5d4y', 'everyone', 'holds', 1795308367299, 2, 7475676367299, 4635492367299, NULL, NULL, 'engine', '', 1795308367327, '5.tb-rmvnxodcq5622m5g7wcyygi3ga', false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, NULL, NULL, '{"id":"btmfuvod4suu342ypq7lxhuatl4c5d4y","owner":"everyone","tool":"holds","backend":"engine","key":"tb-rmvnxodcq5622m5g7wcyygi3ga","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308367299,"changed_at":1795308367299,"state":"working","job":{"open":{"handle":"5.tb-rmvnxodcq5622m5g7wcyygi3ga","group":"","started_at":1795308367327}},"due_at":4635492367299}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, '3rpj4tawnjmmut26rk45uiwkxavx7up7', 'everyone', 'queued', 1795308367326, 1, 7475676367326, 4635492367326, NULL, NULL, NULL, NULL, NULL, NULL, false, 'cur6hzavchkhkjy27hafx5hwdm', '["group:narrow"]', NULL, NULL, '{"id":"3rpj4tawnjmmut26rk45uiwkxavx7up7","owner":"everyone","tool":"queued","backend":"engine","key":"tb-hu4drh2c3q2m6ffb7bmuadqyza","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308367326,"changed_at":1795308367326,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795308367326}},"due_at":4635492367326}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'l76wwq7nrprsfw24yrwmrjvwhwj6qstx', 'everyone', 'abandoned', 1795308367616, 3, 7475676367616, 4635492367616, NULL, NULL, 'engine', '', 1795308367636, '8.tb-chifwilztlgs4arnw2log5g34q', false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, '0b3dba40c841fee94424319e035cf5e3c131f229952fafc96df5f7f45022e4d4', 1795308369874, '{"id":"l76wwq7nrprsfw24yrwmrjvwhwj6qstx","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-chifwilztlgs4arnw2log5g34q","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308367616,"changed_at":1795308367616,"state":"working","job":{"open":{"handle":"8.tb-chifwilztlgs4arnw2log5g34q","group":"","started_at":1795308367636}},"undelivered":{"digest":"0b3dba40c841fee94424319e035cf5e3c131f229952fafc96df5f7f45022e4d4","waiting_until":1795308369874},"due_at":4635492367616}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 'fbfsktshlfbupsz6rfyeepspqfne3tuz', 'everyone', 'starting', 1795308371896, 1, 7475676371896, 1795308371896, 1795308373899, 'vm.7gevlji2msmpgvpd', NULL, NULL, NULL, NULL, false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, NULL, NULL, '{"id":"fbfsktshlfbupsz6rfyeepspqfne3tuz","owner":"everyone","tool":"starting","backend":"engine","key":"tb-uvw2uxlmpb6cj7fhe75f2qfxxe","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795308371896,"changed_at":1795308371896,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795308371896}},"due_at":1795308371896}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, '7xweiirklkk7bouzegkdqr735bomntwr', 'everyone', 'pending', 1795308367578, 14, 7475676367578, 1795308374933, NULL, NULL, NULL, NULL, NULL, NULL, false, 'cur6hzavchkhkjy27hafx5hwdm', NULL, NULL, NULL, '{"id":"7xweiirklkk7bouzegkdqr735bomntwr","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-jb4zc2cafatqzl43lt4at4chru","origin":{"session":"cur6hzavchkhkjy27hafx5hwdm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308367578,"changed_at":1795308367598,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795308374933}},"trouble":{"since":1795308367598,"reason":"the simulated engine at 127.0.0.1:38153 cannot be reached"},"due_at":1795308374933}');
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
CREATE INDEX once_of_task ON dumped.once USING btree (task);
CREATE INDEX sessions_to_forget ON dumped.sessions USING btree (forget_after);
CREATE INDEX slots_of_task ON dumped.slots USING btree (task);
CREATE INDEX tasks_due ON dumped.tasks USING btree (due_at) WHERE (due_at IS NOT NULL);
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

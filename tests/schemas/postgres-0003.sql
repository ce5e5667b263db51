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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, 'iiady2z3vdfczbykl5h2thdhbtbqst3f', 1, 1795309145152, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, 'iiady2z3vdfczbykl5h2thdhbtbqst3f', 2, 1795309145158, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"0.tb-nmgwvntrrkzkkntoybjkb2clsm"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, 'iiady2z3vdfczbykl5h2thdhbtbqst3f', 3, 1795309145266, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, 'pc3cbxpzphyu7btjikkoy2nz566mkzwc', 1, 1795309145271, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, 'pc3cbxpzphyu7btjikkoy2nz566mkzwc', 2, 1795309145275, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, 'lclu6hld3d5ekxpjgfxhgnzmkfru2mnm', 1, 1795309145278, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, 'lclu6hld3d5ekxpjgfxhgnzmkfru2mnm', 2, 1795309145282, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"1.tb-urqcaa4cu4ybk4girhikjwphhu"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, 'lclu6hld3d5ekxpjgfxhgnzmkfru2mnm', 3, 1795309145387, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, 'kn2ww7h7bh3jdsvn5slgqxucdlub2aiy', 1, 1795309145392, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, 'kn2ww7h7bh3jdsvn5slgqxucdlub2aiy', 2, 1795309145396, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"2.tb-ekmptpkmw5ws47q2rvaqowmdhq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, 'kn2ww7h7bh3jdsvn5slgqxucdlub2aiy', 3, 1795309145501, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'o7r3knfsatk3md24yryaitwszhtflg7o', 1, 1795309145562, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'o7r3knfsatk3md24yryaitwszhtflg7o', 2, 1795309145565, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"3.tb-yb5tvlxtra3k7d4kxo7mhhbf6e"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'o7r3knfsatk3md24yryaitwszhtflg7o', 3, 1795309146067, 'vm.qqcgd3miu3hdxlzk', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, '5ddfyqqijmrhgfi75bgiyptkvnjx6ky3', 1, 1795309146071, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, '5ddfyqqijmrhgfi75bgiyptkvnjx6ky3', 2, 1795309146074, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"4.tb-wbmzokoz5ereb6ak5flnfgxtne"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, 'o7r3knfsatk3md24yryaitwszhtflg7o', 5, 1795309146080, 'vm.qqcgd3miu3hdxlzk', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'o7r3knfsatk3md24yryaitwszhtflg7o', 6, 1795309146082, 'vm.qqcgd3miu3hdxlzk', '{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, '5ddfyqqijmrhgfi75bgiyptkvnjx6ky3', 3, 1795309146582, 'vm.qqcgd3miu3hdxlzk', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, 'yspsleexbjuybri52upbp5jc2d4xtber', 1, 1795309146586, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, '5ddfyqqijmrhgfi75bgiyptkvnjx6ky3', 5, 1795309146587, 'vm.qqcgd3miu3hdxlzk', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'm2cb3l7hpwxvejzelynxb6wmnotxyusg', 1, 1795309146606, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'm2cb3l7hpwxvejzelynxb6wmnotxyusg', 2, 1795309146610, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"5.tb-7qdru2riu67hvpbiyjbnued3wq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'byrh6expjrkxsmshuzqsnso7ellnopqp', 1, 1795309146622, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 1, 1795309146630, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 2, 1795309146634, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"6.tb-3ehqsniqvgqibgqoq4h3mgfxa4"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'ai7ou4shidyskiiqbdqbsxx7qthwkuoz', 1, 1795309146635, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'ai7ou4shidyskiiqbdqbsxx7qthwkuoz', 2, 1795309146639, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"7.tb-x3zz26ck4h3ekwck5dc3atm2o4"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, 'ai7ou4shidyskiiqbdqbsxx7qthwkuoz', 3, 1795309146739, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 3, 1795309146740, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"progress":{"done":103.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 1, 1795309146747, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 2, 1795309146749, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, 'kznqevgittb5jztpfoow4v5i7txzqmph', 1, 1795309146753, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, 'kznqevgittb5jztpfoow4v5i7txzqmph', 2, 1795309146756, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"accepted":"8.tb-knunlx764cpu7gyvagapwiwf6a"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 4, 1795309147009, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 5, 1795309147010, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 7, 1795309147557, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 8, 1795309147558, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 12, 1795309147708, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"progress":{"done":1072.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 21, 1795309148703, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"progress":{"done":2064.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 10, 1795309148706, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 11, 1795309148707, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, 'kznqevgittb5jztpfoow4v5i7txzqmph', 3, 1795309149009, 'vm.qqcgd3miu3hdxlzk', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 39, 1795309150631, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"progress":{"done":3995.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, '2syqgihwa6av6ftrtcsgluzrdxyw5cmc', 1, 1795309151027, 'vm.qqcgd3miu3hdxlzk', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.groups VALUES ('engine', '', 'vm.qqcgd3miu3hdxlzk', 1795309152637);
INSERT INTO dumped.keys VALUES ('seal', '\x634cb40f11427729a3f0e065be9f36b6c7a47367c820edbf39fd6c3f257c144f');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', '6c796ab2d7acda739af7095e14e88abb4e760e9481ea2d70a61f1bcd1c9bb673', 'kn2ww7h7bh3jdsvn5slgqxucdlub2aiy');
INSERT INTO dumped.outputs VALUES ('iiady2z3vdfczbykl5h2thdhbtbqst3f', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('pc3cbxpzphyu7btjikkoy2nz566mkzwc', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('kn2ww7h7bh3jdsvn5slgqxucdlub2aiy', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('qurckayvhbi4gjdrmwhcmbi4z4', 4635493145140, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('sv33pg7q5qo5qcbi6newdax4ha', 4635493149013, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'm2cb3l7hpwxvejzelynxb6wmnotxyusg');
INSERT INTO dumped.slots VALUES ('tool:open', 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z');
INSERT INTO dumped.taskbridge_schema VALUES (true, 3, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 'iiady2z3vdfczbykl5h2thdhbtbqst3f', 'everyone', 'failed', 1795309145155, 3, 4635493145271, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"iiady2z3vdfczbykl5h2thdhbtbqst3f","owner":"everyone","tool":"failed","backend":"engine","key":"tb-nmgwvntrrkzkkntoybjkb2clsm","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309145155,"changed_at":1795309145271,"ended_at":1795309145271,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-nmgwvntrrkzkkntoybjkb2clsm"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, 'pc3cbxpzphyu7btjikkoy2nz566mkzwc', 'everyone', 'refused', 1795309145277, 2, 4635493145280, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"pc3cbxpzphyu7btjikkoy2nz566mkzwc","owner":"everyone","tool":"refused","backend":"engine","key":"tb-kzugwv7mu76p76o2rdphoulnwi","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309145277,"changed_at":1795309145280,"ended_at":1795309145280,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'lclu6hld3d5ekxpjgfxhgnzmkfru2mnm', 'everyone', 'gone', 1795309145284, 3, 4635493145392, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"lclu6hld3d5ekxpjgfxhgnzmkfru2mnm","owner":"everyone","tool":"gone","backend":"engine","key":"tb-urqcaa4cu4ybk4girhikjwphhu","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309145284,"changed_at":1795309145392,"ended_at":1795309145392,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-urqcaa4cu4ybk4girhikjwphhu"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'kn2ww7h7bh3jdsvn5slgqxucdlub2aiy', 'everyone', 'succeeded', 1795309145396, 3, 4635493145505, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"kn2ww7h7bh3jdsvn5slgqxucdlub2aiy","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-ekmptpkmw5ws47q2rvaqowmdhq","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309145396,"changed_at":1795309145505,"ended_at":1795309145505,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-ekmptpkmw5ws47q2rvaqowmdhq"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'o7r3knfsatk3md24yryaitwszhtflg7o', 'everyone', 'cancelled', 1795309145566, 6, 4635493146072, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"o7r3knfsatk3md24yryaitwszhtflg7o","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-yb5tvlxtra3k7d4kxo7mhhbf6e","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309145566,"changed_at":1795309146072,"ended_at":1795309146072,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-yb5tvlxtra3k7d4kxo7mhhbf6e"}},"cancel":{"at":1795309146072,"taken":true,"attempts":0,"not_before":1795309746083}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'kznqevgittb5jztpfoow4v5i7txzqmph', 'everyone', 'abandoned', 1795309146754, 3, 7475677146754, 4635493146754, NULL, NULL, 'engine', '', 1795309146757, '8.tb-knunlx764cpu7gyvagapwiwf6a', false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, '43b71634645aa12cef75e0c92f764061c2ede69d2deba057fdab00fdcff13d03', 1795309149009, '{"id":"kznqevgittb5jztpfoow4v5i7txzqmph","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-knunlx764cpu7gyvagapwiwf6a","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309146754,"changed_at":1795309146754,"state":"working","job":{"open":{"handle":"8.tb-knunlx764cpu7gyvagapwiwf6a","group":"","started_at":1795309146757}},"undelivered":{"digest":"43b71634645aa12cef75e0c92f764061c2ede69d2deba057fdab00fdcff13d03","waiting_until":1795309149009},"due_at":4635493146754}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, '2syqgihwa6av6ftrtcsgluzrdxyw5cmc', 'everyone', 'starting', 1795309151025, 1, 7475677151025, 1795309151025, 1795309153027, 'vm.qqcgd3miu3hdxlzk', NULL, NULL, NULL, NULL, false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, NULL, NULL, '{"id":"2syqgihwa6av6ftrtcsgluzrdxyw5cmc","owner":"everyone","tool":"starting","backend":"engine","key":"tb-t2nnv5ofoonwqfggmtormawpju","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795309151025,"changed_at":1795309151025,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795309151025}},"due_at":1795309151025}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, 'yspsleexbjuybri52upbp5jc2d4xtber', 'everyone', 'waits_for_consent', 1795309146587, 1, 7475677146587, 4635493146587, NULL, NULL, NULL, NULL, NULL, NULL, false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, NULL, NULL, '{"id":"yspsleexbjuybri52upbp5jc2d4xtber","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-jyznujeguc4xz32pvlesii7ose","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309146587,"changed_at":1795309146587,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795309146587}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795309146587,"status":"open"}],"due_at":4635493146587}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, '5ddfyqqijmrhgfi75bgiyptkvnjx6ky3', 'everyone', 'cancelling', 1795309146076, 5, 4635493146580, 1795309746588, NULL, NULL, 'engine', '', 1795309146079, '4.tb-wbmzokoz5ereb6ak5flnfgxtne', false, NULL, NULL, NULL, NULL, '{"id":"5ddfyqqijmrhgfi75bgiyptkvnjx6ky3","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-wbmzokoz5ereb6ak5flnfgxtne","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309146076,"changed_at":1795309146580,"ended_at":1795309146580,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-wbmzokoz5ereb6ak5flnfgxtne","group":"","started_at":1795309146079}},"cancel":{"at":1795309146580,"taken":true,"attempts":0,"not_before":1795309746588},"due_at":1795309746588}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'm2cb3l7hpwxvejzelynxb6wmnotxyusg', 'everyone', 'holds', 1795309146604, 2, 7475677146604, 4635493146604, NULL, NULL, 'engine', '', 1795309146610, '5.tb-7qdru2riu67hvpbiyjbnued3wq', false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, NULL, NULL, '{"id":"m2cb3l7hpwxvejzelynxb6wmnotxyusg","owner":"everyone","tool":"holds","backend":"engine","key":"tb-7qdru2riu67hvpbiyjbnued3wq","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795309146604,"changed_at":1795309146604,"state":"working","job":{"open":{"handle":"5.tb-7qdru2riu67hvpbiyjbnued3wq","group":"","started_at":1795309146610}},"due_at":4635493146604}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'byrh6expjrkxsmshuzqsnso7ellnopqp', 'everyone', 'queued', 1795309146611, 1, 7475677146611, 4635493146611, NULL, NULL, NULL, NULL, NULL, NULL, false, 'qurckayvhbi4gjdrmwhcmbi4z4', '["group:narrow"]', NULL, NULL, '{"id":"byrh6expjrkxsmshuzqsnso7ellnopqp","owner":"everyone","tool":"queued","backend":"engine","key":"tb-a23xr63tvgkgtisjmkqgpbg374","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795309146611,"changed_at":1795309146611,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795309146611}},"due_at":4635493146611}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'ai7ou4shidyskiiqbdqbsxx7qthwkuoz', 'everyone', 'asks', 1795309146636, 3, 7475677146636, 4635493146636, NULL, NULL, 'engine', '', 1795309146641, '7.tb-x3zz26ck4h3ekwck5dc3atm2o4', false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, NULL, NULL, '{"id":"ai7ou4shidyskiiqbdqbsxx7qthwkuoz","owner":"everyone","tool":"asks","backend":"engine","key":"tb-x3zz26ck4h3ekwck5dc3atm2o4","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309146636,"changed_at":1795309146740,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-x3zz26ck4h3ekwck5dc3atm2o4","group":"","started_at":1795309146641}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795309146740,"status":"open"}],"due_at":4635493146636}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'qt24kl3cdrxlwhyrtwqxgdidt4mxakvn', 'everyone', 'pending', 1795309146748, 11, 7475677146748, 1795309151120, NULL, NULL, NULL, NULL, NULL, NULL, false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, NULL, NULL, '{"id":"qt24kl3cdrxlwhyrtwqxgdidt4mxakvn","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-4misb3kekkuy4vdbt75zhkkvji","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309146748,"changed_at":1795309146750,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":4,"not_before":1795309151120}},"trouble":{"since":1795309146750,"reason":"the simulated engine at 127.0.0.1:43289 cannot be reached"},"due_at":1795309151120}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'hbwu33xoq6hjsoa2ztmznlunmegcxt5z', 'everyone', 'open', 1795309146628, 42, 7475677146628, 4635493146628, NULL, NULL, 'engine', '', 1795309146635, '6.tb-3ehqsniqvgqibgqoq4h3mgfxa4', false, 'qurckayvhbi4gjdrmwhcmbi4z4', NULL, NULL, NULL, '{"id":"hbwu33xoq6hjsoa2ztmznlunmegcxt5z","owner":"everyone","tool":"open","backend":"engine","key":"tb-3ehqsniqvgqibgqoq4h3mgfxa4","origin":{"session":"qurckayvhbi4gjdrmwhcmbi4z4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795309146628,"changed_at":1795309150981,"state":"working","message":"step 4345 of 3600000","progress":{"done":4345.0,"total":3600000.0},"furthest":4345.0,"job":{"open":{"handle":"6.tb-3ehqsniqvgqibgqoq4h3mgfxa4","group":"","started_at":1795309146635}},"due_at":4635493146628}');
SELECT pg_catalog.setval('dumped.entries_n_seq', 45, true);
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

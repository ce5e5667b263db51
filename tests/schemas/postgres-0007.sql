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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, '3zpynsbwyvobaoha5vbixi5aiq6xyrea', 1, 1795495032253, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, '3zpynsbwyvobaoha5vbixi5aiq6xyrea', 2, 1795495032264, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"0.tb-dipwzo36dze5easxtnz6hesexq"}],"call":{"to":"start","ms":4}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, '3zpynsbwyvobaoha5vbixi5aiq6xyrea', 3, 1795495032382, 'vm.elt3eflj4iz4hsrx', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, 'kus7ziu5jez2yaw6krhyzldkey4ejpsp', 1, 1795495032439, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, 'kus7ziu5jez2yaw6krhyzldkey4ejpsp', 2, 1795495032447, 'vm.elt3eflj4iz4hsrx', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, 'loymzpbgb3i7eomyoyipngjtv7ewksxm', 1, 1795495032454, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, 'loymzpbgb3i7eomyoyipngjtv7ewksxm', 2, 1795495032461, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"1.tb-hgzti6fwerausy6q3aekrrhuxq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, 'loymzpbgb3i7eomyoyipngjtv7ewksxm', 3, 1795495032570, 'vm.elt3eflj4iz4hsrx', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, 'ms6g2rubv6l3f2zdaf2qtzy67s7ct2at', 1, 1795495032581, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, 'ms6g2rubv6l3f2zdaf2qtzy67s7ct2at', 2, 1795495032587, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"2.tb-74wyrxffuwlmrrtt7cu67wfhoi"}],"call":{"to":"start","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, 'ms6g2rubv6l3f2zdaf2qtzy67s7ct2at', 3, 1795495032692, 'vm.elt3eflj4iz4hsrx', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'utnaeher5tidlqm2c6p3dm55e5rruee6', 1, 1795495032699, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'utnaeher5tidlqm2c6p3dm55e5rruee6', 2, 1795495032703, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"3.tb-qh5tuyb2akcixah5kc75r5e25i"}],"call":{"to":"start","ms":2}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'utnaeher5tidlqm2c6p3dm55e5rruee6', 3, 1795495033205, 'vm.elt3eflj4iz4hsrx', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, 'ghqeiolk2aszl73hcy7exz7oronfihzr', 1, 1795495033216, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'utnaeher5tidlqm2c6p3dm55e5rruee6', 5, 1795495033225, 'vm.elt3eflj4iz4hsrx', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, 'ghqeiolk2aszl73hcy7exz7oronfihzr', 3, 1795495033229, 'vm.elt3eflj4iz4hsrx', '{"what":[{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'utnaeher5tidlqm2c6p3dm55e5rruee6', 6, 1795495033229, 'vm.elt3eflj4iz4hsrx', '{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, 'ghqeiolk2aszl73hcy7exz7oronfihzr', 4, 1795495033230, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"4.tb-n4ujzzznpr72hfyltas43dzeka"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, 'ghqeiolk2aszl73hcy7exz7oronfihzr', 5, 1795495033727, 'vm.elt3eflj4iz4hsrx', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, 'ytvhl6apquzphhbpz56bk4odswazqkho', 1, 1795495033735, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'ghqeiolk2aszl73hcy7exz7oronfihzr', 7, 1795495033746, 'vm.elt3eflj4iz4hsrx', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'hhwfeows2rdo4gbqnn3yu5vrsjnktesj', 1, 1795495033752, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'hhwfeows2rdo4gbqnn3yu5vrsjnktesj', 2, 1795495033758, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"5.tb-y3qbl4szkbjeyo24gyi3swozou"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 'id3uzque5ovfyuer7ea2w2m6gxmfgaxn', 1, 1795495033763, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 1, 1795495033775, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 2, 1795495033777, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"6.tb-wa6cp47e72ubhe4c5ipsbpu5ry"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'glxfk2isaiv2ixmez3iqohba567daskq', 1, 1795495033782, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, 'glxfk2isaiv2ixmez3iqohba567daskq', 2, 1795495033784, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"7.tb-wpmuv4ldgba5hxqqb5z6otk65m"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'glxfk2isaiv2ixmez3iqohba567daskq', 3, 1795495033884, 'vm.elt3eflj4iz4hsrx', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 3, 1795495033886, 'vm.elt3eflj4iz4hsrx', '{"what":[{"progress":{"done":104.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 1, 1795495033898, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 2, 1795495033901, 'vm.elt3eflj4iz4hsrx', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, 'bxnd7t3svp3yk7m22bejgcjwyxkdn7bc', 1, 1795495033908, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'bxnd7t3svp3yk7m22bejgcjwyxkdn7bc', 2, 1795495033910, 'vm.elt3eflj4iz4hsrx', '{"what":[{"accepted":"8.tb-my7pqyqzfgauee65iv6bmoqweu"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 4, 1795495034139, 'vm.elt3eflj4iz4hsrx', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 5, 1795495034141, 'vm.elt3eflj4iz4hsrx', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 7, 1795495034641, 'vm.elt3eflj4iz4hsrx', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 8, 1795495034642, 'vm.elt3eflj4iz4hsrx', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 13, 1795495034850, 'vm.elt3eflj4iz4hsrx', '{"what":[{"progress":{"done":1072.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 10, 1795495035701, 'vm.elt3eflj4iz4hsrx', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 11, 1795495035703, 'vm.elt3eflj4iz4hsrx', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 23, 1795495035808, 'vm.elt3eflj4iz4hsrx', '{"what":[{"progress":{"done":2030.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 43, 1795495037781, 'vm.elt3eflj4iz4hsrx', '{"what":[{"progress":{"done":4001.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (46, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 13, 1795495037944, 'vm.elt3eflj4iz4hsrx', '{"what":[{"attempt":5}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (48, 's2fmi3ocpjhmcgcm76p5jz3ii3aswweu', 1, 1795495038177, 'vm.elt3eflj4iz4hsrx', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, 'bxnd7t3svp3yk7m22bejgcjwyxkdn7bc', 3, 1795495036163, 'vm.elt3eflj4iz4hsrx', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (47, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 14, 1795495037947, 'vm.elt3eflj4iz4hsrx', '{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.facts VALUES ('clock', '{"boot":"62840e9d-b1dc-464e-aa16-1b0110daf6fa","uptime":{"secs":19496,"nanos":772135742},"time":1795495032209,"held_until":null}');
INSERT INTO dumped.groups VALUES ('engine @ sim 127.0.0.1:45247', '', 'vm.elt3eflj4iz4hsrx', 1795495039750);
INSERT INTO dumped.keys VALUES ('seal', '\xf864bb44178a3deb2790b0775cda10da208fadc37fe43c07f015029b5f332375');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', 'd2fd9d7f3c1be4ef56afb43d3def477bbee313c8f10c4f3b5dc81efe739901ea', 'ms6g2rubv6l3f2zdaf2qtzy67s7ct2at');
INSERT INTO dumped.outputs VALUES ('3zpynsbwyvobaoha5vbixi5aiq6xyrea', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('kus7ziu5jez2yaw6krhyzldkey4ejpsp', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('ms6g2rubv6l3f2zdaf2qtzy67s7ct2at', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('fydwlnkpppe2yrzv3pim5rc5c4', 4635679032243, '{"level":"error","ready":true}');
INSERT INTO dumped.sessions VALUES ('6zdymlrcebh3e4dbptzbyedx7a', 4635679036167, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'hhwfeows2rdo4gbqnn3yu5vrsjnktesj');
INSERT INTO dumped.slots VALUES ('tool:open', 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5');
INSERT INTO dumped.taskbridge_schema VALUES (true, 7, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, '3zpynsbwyvobaoha5vbixi5aiq6xyrea', 'everyone', 'failed', 1795495032256, 3, 4635679032385, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"3zpynsbwyvobaoha5vbixi5aiq6xyrea","owner":"everyone","tool":"failed","backend":"engine","key":"tb-dipwzo36dze5easxtnz6hesexq","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495032256,"changed_at":1795495032385,"ended_at":1795495032385,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-dipwzo36dze5easxtnz6hesexq"}}}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, 'kus7ziu5jez2yaw6krhyzldkey4ejpsp', 'everyone', 'refused', 1795495032442, 2, 4635679032447, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"kus7ziu5jez2yaw6krhyzldkey4ejpsp","owner":"everyone","tool":"refused","backend":"engine","key":"tb-msgcamggptzafnkve4lvus5s5u","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495032442,"changed_at":1795495032447,"ended_at":1795495032447,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'loymzpbgb3i7eomyoyipngjtv7ewksxm', 'everyone', 'gone', 1795495032457, 3, 4635679032568, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"loymzpbgb3i7eomyoyipngjtv7ewksxm","owner":"everyone","tool":"gone","backend":"engine","key":"tb-hgzti6fwerausy6q3aekrrhuxq","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495032457,"changed_at":1795495032568,"ended_at":1795495032568,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-hgzti6fwerausy6q3aekrrhuxq"}}}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'ms6g2rubv6l3f2zdaf2qtzy67s7ct2at', 'everyone', 'succeeded', 1795495032580, 3, 4635679032695, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"ms6g2rubv6l3f2zdaf2qtzy67s7ct2at","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-74wyrxffuwlmrrtt7cu67wfhoi","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495032580,"changed_at":1795495032695,"ended_at":1795495032695,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-74wyrxffuwlmrrtt7cu67wfhoi"}}}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'utnaeher5tidlqm2c6p3dm55e5rruee6', 'everyone', 'cancelled', 1795495032703, 6, 4635679033209, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"utnaeher5tidlqm2c6p3dm55e5rruee6","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-qh5tuyb2akcixah5kc75r5e25i","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495032703,"changed_at":1795495033209,"ended_at":1795495033209,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-qh5tuyb2akcixah5kc75r5e25i"}},"cancel":{"at":1795495033209,"taken":true,"attempts":0,"not_before":1795495633228}}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, 'ytvhl6apquzphhbpz56bk4odswazqkho', 'everyone', 'waits_for_consent', 1795495033733, 1, 253402207200000, 4635679033733, NULL, NULL, NULL, NULL, NULL, NULL, false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, NULL, NULL, '{"id":"ytvhl6apquzphhbpz56bk4odswazqkho","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-7dho7xxixzckwwbotmigqb46me","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495033733,"changed_at":1795495033733,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795495033733}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795495033733,"status":"open"}],"due_at":4635679033733}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, 'ghqeiolk2aszl73hcy7exz7oronfihzr', 'everyone', 'cancelling', 1795495033218, 7, 4635679033726, 1795495633743, NULL, NULL, 'engine', '', 1795495033234, '4.tb-n4ujzzznpr72hfyltas43dzeka', false, NULL, NULL, NULL, NULL, '{"id":"ghqeiolk2aszl73hcy7exz7oronfihzr","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-n4ujzzznpr72hfyltas43dzeka","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495033218,"changed_at":1795495033726,"ended_at":1795495033726,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-n4ujzzznpr72hfyltas43dzeka","group":"","started_at":1795495033234}},"cancel":{"at":1795495033726,"taken":true,"attempts":0,"not_before":1795495633743},"due_at":1795495633743}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, '6g7wcgalp3nhl2ikjonqqkizbm4dvfo6', 'everyone', 'pending', 1795495033897, 14, 253402207200000, 1795495042674, NULL, NULL, NULL, NULL, NULL, NULL, false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, NULL, NULL, '{"id":"6g7wcgalp3nhl2ikjonqqkizbm4dvfo6","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-bctzoajcf2h46fz6fcquuzhw2m","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495033897,"changed_at":1795495033899,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795495042674}},"trouble":{"since":1795495033899,"reason":"the simulated engine at 127.0.0.1:44339 cannot be reached"},"due_at":1795495042674}', 'elsewhere', NULL, 'sim 127.0.0.1:44339');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'hhwfeows2rdo4gbqnn3yu5vrsjnktesj', 'everyone', 'holds', 1795495033748, 2, 253402207200000, 4635679033755, NULL, NULL, 'engine', '', 1795495033755, '5.tb-y3qbl4szkbjeyo24gyi3swozou', false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, NULL, NULL, '{"id":"hhwfeows2rdo4gbqnn3yu5vrsjnktesj","owner":"everyone","tool":"holds","backend":"engine","key":"tb-y3qbl4szkbjeyo24gyi3swozou","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795495033748,"changed_at":1795495033748,"state":"working","job":{"open":{"handle":"5.tb-y3qbl4szkbjeyo24gyi3swozou","group":"","started_at":1795495033755}},"due_at":4635679033755}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'id3uzque5ovfyuer7ea2w2m6gxmfgaxn', 'everyone', 'queued', 1795495033758, 1, 253402207200000, 4635679033758, NULL, NULL, NULL, NULL, NULL, NULL, false, 'fydwlnkpppe2yrzv3pim5rc5c4', '["group:narrow"]', NULL, NULL, '{"id":"id3uzque5ovfyuer7ea2w2m6gxmfgaxn","owner":"everyone","tool":"queued","backend":"engine","key":"tb-obo4oyz3i5vog25n2u2vompoj4","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795495033758,"changed_at":1795495033758,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795495033758}},"due_at":4635679033758}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5', 'everyone', 'open', 1795495033770, 47, 253402207200000, 4635679033776, NULL, NULL, 'engine', '', 1795495033776, '6.tb-wa6cp47e72ubhe4c5ipsbpu5ry', false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, NULL, NULL, '{"id":"ocdgoyidrc5pfmjnx2l6oxqgi2pn7lf5","owner":"everyone","tool":"open","backend":"engine","key":"tb-wa6cp47e72ubhe4c5ipsbpu5ry","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795495033770,"changed_at":1795495038173,"state":"working","message":"step 4392 of 3600000","progress":{"done":4392.0,"total":3600000.0},"furthest":4392.0,"job":{"open":{"handle":"6.tb-wa6cp47e72ubhe4c5ipsbpu5ry","group":"","started_at":1795495033776}},"due_at":4635679033776}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'glxfk2isaiv2ixmez3iqohba567daskq', 'everyone', 'asks', 1795495033781, 3, 253402207200000, 4635679033783, NULL, NULL, 'engine', '', 1795495033783, '7.tb-wpmuv4ldgba5hxqqb5z6otk65m', false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, NULL, NULL, '{"id":"glxfk2isaiv2ixmez3iqohba567daskq","owner":"everyone","tool":"asks","backend":"engine","key":"tb-wpmuv4ldgba5hxqqb5z6otk65m","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495033781,"changed_at":1795495033883,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-wpmuv4ldgba5hxqqb5z6otk65m","group":"","started_at":1795495033783}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795495033883,"status":"open"}],"due_at":4635679033783}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'bxnd7t3svp3yk7m22bejgcjwyxkdn7bc', 'everyone', 'abandoned', 1795495033905, 3, 253402207200000, 4635679033909, NULL, NULL, 'engine', '', 1795495033909, '8.tb-my7pqyqzfgauee65iv6bmoqweu', false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, '426dafa0e94c09802d2644906535c35e760d53d00345acdd8ce77606fefacf95', 1795495036162, '{"id":"bxnd7t3svp3yk7m22bejgcjwyxkdn7bc","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-my7pqyqzfgauee65iv6bmoqweu","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495033905,"changed_at":1795495033905,"state":"working","job":{"open":{"handle":"8.tb-my7pqyqzfgauee65iv6bmoqweu","group":"","started_at":1795495033909}},"undelivered":{"digest":"426dafa0e94c09802d2644906535c35e760d53d00345acdd8ce77606fefacf95","waiting_until":1795495036162},"due_at":4635679033909}', 'engine', NULL, 'sim 127.0.0.1:45247');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 's2fmi3ocpjhmcgcm76p5jz3ii3aswweu', 'everyone', 'starting', 1795495038177, 1, 253402207200000, 1795495038177, 1795495040177, 'vm.elt3eflj4iz4hsrx', NULL, NULL, NULL, NULL, false, 'fydwlnkpppe2yrzv3pim5rc5c4', NULL, NULL, NULL, '{"id":"s2fmi3ocpjhmcgcm76p5jz3ii3aswweu","owner":"everyone","tool":"starting","backend":"engine","key":"tb-ty4ize74vcsyeyb3mcleu5zbmu","origin":{"session":"fydwlnkpppe2yrzv3pim5rc5c4"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795495038177,"changed_at":1795495038177,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795495038177}},"due_at":1795495038177}', 'engine', NULL, 'sim 127.0.0.1:45247');
SELECT pg_catalog.setval('dumped.entries_n_seq', 48, true);
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

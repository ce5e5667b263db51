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
    identity text COLLATE pg_catalog."C",
    bytes bigint DEFAULT 0 NOT NULL
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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, 'mntmuoeb654vk6jd6cvwod5n3fd2qugd', 1, 1795663245301, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, 'mntmuoeb654vk6jd6cvwod5n3fd2qugd', 2, 1795663245321, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"0.tb-wp7fu2gvrrct5hykssyfpy6hpi"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, 'mntmuoeb654vk6jd6cvwod5n3fd2qugd', 3, 1795663245454, 'vm.asekpohvzkcchtqw', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, '4lfl7yingf6apqwg45gj767kbdrc6nuw', 1, 1795663245530, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, '4lfl7yingf6apqwg45gj767kbdrc6nuw', 2, 1795663245549, 'vm.asekpohvzkcchtqw', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, '7egaw62oapumxnlaxbgzyah63rdp6nde', 1, 1795663245601, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, '7egaw62oapumxnlaxbgzyah63rdp6nde', 2, 1795663245615, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"1.tb-zaeqfxfu4r66ipia767mrmotgi"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, '7egaw62oapumxnlaxbgzyah63rdp6nde', 3, 1795663245747, 'vm.asekpohvzkcchtqw', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, 'uhlqx63mdwlne7dakgwykhzcybchmieu', 1, 1795663245809, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, 'uhlqx63mdwlne7dakgwykhzcybchmieu', 2, 1795663245811, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"2.tb-64bz3o2j6q6zbavnezd6waad5m"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, 'uhlqx63mdwlne7dakgwykhzcybchmieu', 3, 1795663245918, 'vm.asekpohvzkcchtqw', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":3}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'nruezcckttnufya3ylsw7l376qdulizt', 1, 1795663245957, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'nruezcckttnufya3ylsw7l376qdulizt', 2, 1795663245975, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"3.tb-6wbzu3oom36nsxta53a5kdrgeu"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'nruezcckttnufya3ylsw7l376qdulizt', 3, 1795663246507, 'vm.asekpohvzkcchtqw', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, 'nw3ty6sgtmt5a6jnumqnqa7dwcex7222', 1, 1795663246522, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'nw3ty6sgtmt5a6jnumqnqa7dwcex7222', 3, 1795663246542, 'vm.asekpohvzkcchtqw', '{"what":[{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, 'nw3ty6sgtmt5a6jnumqnqa7dwcex7222', 4, 1795663246549, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"4.tb-amqdok3adw2oyzkcr36d4irukq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'nruezcckttnufya3ylsw7l376qdulizt', 5, 1795663246550, 'vm.asekpohvzkcchtqw', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, 'nruezcckttnufya3ylsw7l376qdulizt', 6, 1795663246561, 'vm.asekpohvzkcchtqw', '{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, 'nw3ty6sgtmt5a6jnumqnqa7dwcex7222', 5, 1795663247097, 'vm.asekpohvzkcchtqw', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, 'nw3ty6sgtmt5a6jnumqnqa7dwcex7222', 7, 1795663247153, 'vm.asekpohvzkcchtqw', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'g43mwft6echacumuqaod7rbcdbetsq5u', 1, 1795663247222, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'oz2rpzbx4i43chguxeaxuy4ne7xzm4xf', 1, 1795663247301, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'oz2rpzbx4i43chguxeaxuy4ne7xzm4xf', 2, 1795663247313, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"5.tb-v2thn6zs4vwj6wma5tv6n6jlo4"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 'a25pghcjn6gcqwzkojwuzzeu7ndkmemk', 1, 1795663247345, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 1, 1795663247379, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 2, 1795663247411, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"6.tb-cdvfnx735eb3mjplqmqavwzfrm"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, '5mh3zhwudjoax6wfzadvnjns5umcrpdz', 1, 1795663247434, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, '5mh3zhwudjoax6wfzadvnjns5umcrpdz', 2, 1795663247438, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"7.tb-rv4rwvw24drpz43pzbreo35cza"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 3, 1795663247518, 'vm.asekpohvzkcchtqw', '{"what":[{"progress":{"done":102.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, '5mh3zhwudjoax6wfzadvnjns5umcrpdz', 3, 1795663247553, 'vm.asekpohvzkcchtqw', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, 'rugspgu5k2tuhoft322db34mt7rep7cb', 1, 1795663247641, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, 'rugspgu5k2tuhoft322db34mt7rep7cb', 2, 1795663247665, 'vm.asekpohvzkcchtqw', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":23}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, 'fzcgcrq5ixax5l7jaw66cj754cskkvdq', 1, 1795663247729, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'fzcgcrq5ixax5l7jaw66cj754cskkvdq', 2, 1795663247761, 'vm.asekpohvzkcchtqw', '{"what":[{"accepted":"8.tb-qguhqaklptk2jf2tg7fmyvsfty"}],"call":{"to":"start","ms":15}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, 'rugspgu5k2tuhoft322db34mt7rep7cb', 4, 1795663247882, 'vm.asekpohvzkcchtqw', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, 'rugspgu5k2tuhoft322db34mt7rep7cb', 5, 1795663247889, 'vm.asekpohvzkcchtqw', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, 'rugspgu5k2tuhoft322db34mt7rep7cb', 7, 1795663248352, 'vm.asekpohvzkcchtqw', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, 'rugspgu5k2tuhoft322db34mt7rep7cb', 8, 1795663248365, 'vm.asekpohvzkcchtqw', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":11}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 10, 1795663248442, 'vm.asekpohvzkcchtqw', '{"what":[{"progress":{"done":1029.0,"total":3600000.0}}],"call":{"to":"look","ms":16}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, 'rugspgu5k2tuhoft322db34mt7rep7cb', 10, 1795663249305, 'vm.asekpohvzkcchtqw', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 'rugspgu5k2tuhoft322db34mt7rep7cb', 11, 1795663249361, 'vm.asekpohvzkcchtqw', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":18}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 18, 1795663249440, 'vm.asekpohvzkcchtqw', '{"what":[{"progress":{"done":2022.0,"total":3600000.0}}],"call":{"to":"look","ms":16}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, 'fzcgcrq5ixax5l7jaw66cj754cskkvdq', 3, 1795663250029, 'vm.asekpohvzkcchtqw', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, 'rugspgu5k2tuhoft322db34mt7rep7cb', 13, 1795663251291, 'vm.asekpohvzkcchtqw', '{"what":[{"attempt":5}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (46, 'rugspgu5k2tuhoft322db34mt7rep7cb', 14, 1795663251309, 'vm.asekpohvzkcchtqw', '{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":14}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (47, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 36, 1795663251452, 'vm.asekpohvzkcchtqw', '{"what":[{"progress":{"done":4040.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (48, '3oove33qsi2tci3mcgo5mvzyk7c6c6er', 1, 1795663252052, 'vm.asekpohvzkcchtqw', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.facts VALUES ('clock', '{"boot":"d576e444-3b1b-47df-984b-c87d1947e232","uptime":{"secs":41340,"nanos":298389990},"time":1795663245102,"held_until":null}');
INSERT INTO dumped.groups VALUES ('engine @ sim engine', '', 'vm.asekpohvzkcchtqw', 1795663253597);
INSERT INTO dumped.keys VALUES ('seal', '\x99aea6a92028b80ea00ac6b50a9b03d170e9ed2e84a13f05140108cea43eb646');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', '70ba940131accb8f791f5a7aff211127914823df1edf73f1f3bcdee45ab1b709', 'uhlqx63mdwlne7dakgwykhzcybchmieu');
INSERT INTO dumped.outputs VALUES ('mntmuoeb654vk6jd6cvwod5n3fd2qugd', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('4lfl7yingf6apqwg45gj767kbdrc6nuw', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('uhlqx63mdwlne7dakgwykhzcybchmieu', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('opne7nvdwjb7w2db3s7ysoj37y', 4635847245196, '{"level":"error","ready":true}');
INSERT INTO dumped.sessions VALUES ('ijvfemi77shwk4vlead3o5j4va', 4635847250027, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'oz2rpzbx4i43chguxeaxuy4ne7xzm4xf');
INSERT INTO dumped.slots VALUES ('tool:open', 'nomhcbonsxo37i2bkkaalz3r332olt7l');
INSERT INTO dumped.taskbridge_schema VALUES (true, 8, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 'mntmuoeb654vk6jd6cvwod5n3fd2qugd', 'everyone', 'failed', 1795663245316, 3, 4635847245467, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"mntmuoeb654vk6jd6cvwod5n3fd2qugd","owner":"everyone","tool":"failed","backend":"engine","key":"tb-wp7fu2gvrrct5hykssyfpy6hpi","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663245316,"changed_at":1795663245467,"ended_at":1795663245467,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-wp7fu2gvrrct5hykssyfpy6hpi"}}}', 'engine', NULL, 'sim engine', 692);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, '4lfl7yingf6apqwg45gj767kbdrc6nuw', 'everyone', 'refused', 1795663245548, 2, 4635847245550, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"4lfl7yingf6apqwg45gj767kbdrc6nuw","owner":"everyone","tool":"refused","backend":"engine","key":"tb-ti3mghzqyeusdrg7pmqihm6xpm","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663245548,"changed_at":1795663245550,"ended_at":1795663245550,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}', 'engine', NULL, 'sim engine', 653);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, '7egaw62oapumxnlaxbgzyah63rdp6nde', 'everyone', 'gone', 1795663245608, 3, 4635847245760, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"7egaw62oapumxnlaxbgzyah63rdp6nde","owner":"everyone","tool":"gone","backend":"engine","key":"tb-zaeqfxfu4r66ipia767mrmotgi","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663245608,"changed_at":1795663245760,"ended_at":1795663245760,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-zaeqfxfu4r66ipia767mrmotgi"}}}', 'engine', NULL, 'sim engine', 688);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'uhlqx63mdwlne7dakgwykhzcybchmieu', 'everyone', 'succeeded', 1795663245824, 3, 4635847245936, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"uhlqx63mdwlne7dakgwykhzcybchmieu","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-64bz3o2j6q6zbavnezd6waad5m","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663245824,"changed_at":1795663245936,"ended_at":1795663245936,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-64bz3o2j6q6zbavnezd6waad5m"}}}', 'engine', NULL, 'sim engine', 699);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'nruezcckttnufya3ylsw7l376qdulizt', 'everyone', 'cancelled', 1795663245970, 6, 4635847246508, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"nruezcckttnufya3ylsw7l376qdulizt","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-6wbzu3oom36nsxta53a5kdrgeu","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663245970,"changed_at":1795663246508,"ended_at":1795663246508,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-6wbzu3oom36nsxta53a5kdrgeu"}},"cancel":{"at":1795663246508,"taken":true,"attempts":0,"not_before":1795663846544}}', 'engine', NULL, 'sim engine', 744);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, 'nw3ty6sgtmt5a6jnumqnqa7dwcex7222', 'everyone', 'cancelling', 1795663246523, 7, 4635847247095, 1795663847148, NULL, NULL, 'engine', '', 1795663246544, '4.tb-amqdok3adw2oyzkcr36d4irukq', false, NULL, NULL, NULL, NULL, '{"id":"nw3ty6sgtmt5a6jnumqnqa7dwcex7222","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-amqdok3adw2oyzkcr36d4irukq","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663246523,"changed_at":1795663247095,"ended_at":1795663247095,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-amqdok3adw2oyzkcr36d4irukq","group":"","started_at":1795663246544}},"cancel":{"at":1795663247095,"taken":true,"attempts":0,"not_before":1795663847148},"due_at":1795663847148}', 'engine', NULL, 'sim engine', 703);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, 'g43mwft6echacumuqaod7rbcdbetsq5u', 'everyone', 'waits_for_consent', 1795663247223, 1, 253402207200000, 4635847247223, NULL, NULL, NULL, NULL, NULL, NULL, false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, NULL, NULL, '{"id":"g43mwft6echacumuqaod7rbcdbetsq5u","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-ktikonlhabfoyi5ltsvcl2ykuy","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663247223,"changed_at":1795663247223,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795663247223}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795663247223,"status":"open"}],"due_at":4635847247223}', 'engine', NULL, 'sim engine', 848);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'fzcgcrq5ixax5l7jaw66cj754cskkvdq', 'everyone', 'abandoned', 1795663247716, 3, 253402207200000, 4635847247745, NULL, NULL, 'engine', '', 1795663247745, '8.tb-qguhqaklptk2jf2tg7fmyvsfty', false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, '918e51363e1078a7c237a6beb9200fc97194d2217a1cf4ecbf543511fbeab341', 1795663250028, '{"id":"fzcgcrq5ixax5l7jaw66cj754cskkvdq","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-qguhqaklptk2jf2tg7fmyvsfty","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663247716,"changed_at":1795663247716,"state":"working","job":{"open":{"handle":"8.tb-qguhqaklptk2jf2tg7fmyvsfty","group":"","started_at":1795663247745}},"undelivered":{"digest":"918e51363e1078a7c237a6beb9200fc97194d2217a1cf4ecbf543511fbeab341","waiting_until":1795663250028},"due_at":4635847247745}', 'engine', NULL, 'sim engine', 789);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, '3oove33qsi2tci3mcgo5mvzyk7c6c6er', 'everyone', 'starting', 1795663252052, 1, 253402207200000, 1795663252052, 1795663254052, 'vm.asekpohvzkcchtqw', NULL, NULL, NULL, NULL, false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, NULL, NULL, '{"id":"3oove33qsi2tci3mcgo5mvzyk7c6c6er","owner":"everyone","tool":"starting","backend":"engine","key":"tb-xnxbmzxx3ysbeg6najqmdypm7u","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795663252052,"changed_at":1795663252052,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795663252052}},"due_at":1795663252052}', 'engine', NULL, 'sim engine', 688);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'oz2rpzbx4i43chguxeaxuy4ne7xzm4xf', 'everyone', 'holds', 1795663247293, 2, 253402207200000, 4635847247302, NULL, NULL, 'engine', '', 1795663247302, '5.tb-v2thn6zs4vwj6wma5tv6n6jlo4', false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, NULL, NULL, '{"id":"oz2rpzbx4i43chguxeaxuy4ne7xzm4xf","owner":"everyone","tool":"holds","backend":"engine","key":"tb-v2thn6zs4vwj6wma5tv6n6jlo4","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795663247293,"changed_at":1795663247293,"state":"working","job":{"open":{"handle":"5.tb-v2thn6zs4vwj6wma5tv6n6jlo4","group":"","started_at":1795663247302}},"due_at":4635847247302}', 'engine', NULL, 'sim engine', 688);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'a25pghcjn6gcqwzkojwuzzeu7ndkmemk', 'everyone', 'queued', 1795663247327, 1, 253402207200000, 4635847247327, NULL, NULL, NULL, NULL, NULL, NULL, false, 'opne7nvdwjb7w2db3s7ysoj37y', '["group:narrow"]', NULL, NULL, '{"id":"a25pghcjn6gcqwzkojwuzzeu7ndkmemk","owner":"everyone","tool":"queued","backend":"engine","key":"tb-hx54lemzompl5szvgtaw74g3e4","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795663247327,"changed_at":1795663247327,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795663247327}},"due_at":4635847247327}', 'engine', NULL, 'sim engine', 709);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'nomhcbonsxo37i2bkkaalz3r332olt7l', 'everyone', 'open', 1795663247376, 41, 253402207200000, 4635847247410, NULL, NULL, 'engine', '', 1795663247410, '6.tb-cdvfnx735eb3mjplqmqavwzfrm', false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, NULL, NULL, '{"id":"nomhcbonsxo37i2bkkaalz3r332olt7l","owner":"everyone","tool":"open","backend":"engine","key":"tb-cdvfnx735eb3mjplqmqavwzfrm","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795663247376,"changed_at":1795663252005,"state":"working","message":"step 4590 of 3600000","progress":{"done":4590.0,"total":3600000.0},"furthest":4590.0,"job":{"open":{"handle":"6.tb-cdvfnx735eb3mjplqmqavwzfrm","group":"","started_at":1795663247410}},"due_at":4635847247410}', 'engine', NULL, 'sim engine', 700);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, '5mh3zhwudjoax6wfzadvnjns5umcrpdz', 'everyone', 'asks', 1795663247432, 3, 253402207200000, 4635847247437, NULL, NULL, 'engine', '', 1795663247437, '7.tb-rv4rwvw24drpz43pzbreo35cza', false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, NULL, NULL, '{"id":"5mh3zhwudjoax6wfzadvnjns5umcrpdz","owner":"everyone","tool":"asks","backend":"engine","key":"tb-rv4rwvw24drpz43pzbreo35cza","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663247432,"changed_at":1795663247545,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-rv4rwvw24drpz43pzbreo35cza","group":"","started_at":1795663247437}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795663247545,"status":"open"}],"due_at":4635847247437}', 'engine', NULL, 'sim engine', 712);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'rugspgu5k2tuhoft322db34mt7rep7cb', 'everyone', 'pending', 1795663247622, 14, 253402207200000, 1795663255472, NULL, NULL, NULL, NULL, NULL, NULL, false, 'opne7nvdwjb7w2db3s7ysoj37y', NULL, NULL, NULL, '{"id":"rugspgu5k2tuhoft322db34mt7rep7cb","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-vpuiuvwcsefmtjfkn3zfgmlake","origin":{"session":"opne7nvdwjb7w2db3s7ysoj37y"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663247622,"changed_at":1795663247664,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795663255472}},"trouble":{"since":1795663247664,"reason":"the simulated engine at 127.0.0.1:42253 cannot be reached"},"due_at":1795663255472}', 'elsewhere', NULL, 'sim elsewhere', 683);
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
CREATE INDEX tasks_of_owner ON dumped.tasks USING btree (owner, created_at, id) INCLUDE (bytes);
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

CREATE SCHEMA dumped;
CREATE FUNCTION dumped.moment(given bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT COALESCE(given, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint) $$;
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
INSERT INTO dumped.groups VALUES ('engine', '', 'zihfglwwki2aw36hj7ywnpbj5i', 1795308174148);
INSERT INTO dumped.keys VALUES ('seal', '\xd22e692348e242a0186350a3f9c3e030a9abff94ad66ade3354962a39cf718c7');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', 'e64132d0231f5365cd10bee4508da3492b3d03a109e9bbd6f6dcb400c04280f1', 'lnn5o364c2in2x4p7qsjdy5p5j2r7gr3');
INSERT INTO dumped.outputs VALUES ('s55nh4j27ie6yowohhco45trosck46jg', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('xqp5lgmtplkqychlwujgia2vlckia47w', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('lnn5o364c2in2x4p7qsjdy5p5j2r7gr3', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('g6usa4qlyfr3rg5mqhakal7xma', 4635492166544, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('wyj2ssgnygb4xb6553n2wftlqi', 4635492170802, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', '7kvayk47svd5towiyz43eg6riecu7dgi');
INSERT INTO dumped.slots VALUES ('tool:open', 'ca42s5z4p4a6wagqar4srq7kailverer');
INSERT INTO dumped.taskbridge_schema VALUES (true, 1, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 's55nh4j27ie6yowohhco45trosck46jg', 'everyone', 'failed', 1795308166556, 3, 4635492166696, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"s55nh4j27ie6yowohhco45trosck46jg","owner":"everyone","tool":"failed","backend":"engine","key":"tb-d2yiogky7mqj62brrhaq6ksjti","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308166556,"changed_at":1795308166696,"ended_at":1795308166696,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-d2yiogky7mqj62brrhaq6ksjti"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, 'xqp5lgmtplkqychlwujgia2vlckia47w', 'everyone', 'refused', 1795308166766, 2, 4635492166784, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"xqp5lgmtplkqychlwujgia2vlckia47w","owner":"everyone","tool":"refused","backend":"engine","key":"tb-lk3kqvpdu6wcaopn5dervebcve","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308166766,"changed_at":1795308166784,"ended_at":1795308166784,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'v5ki6jrzdhtf63njgvy2ftnuoyyiyh6i', 'everyone', 'gone', 1795308166867, 3, 4635492167005, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"v5ki6jrzdhtf63njgvy2ftnuoyyiyh6i","owner":"everyone","tool":"gone","backend":"engine","key":"tb-ecflalvazty3mptu5wrzziunlu","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308166867,"changed_at":1795308167005,"ended_at":1795308167005,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-ecflalvazty3mptu5wrzziunlu"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, 'lnn5o364c2in2x4p7qsjdy5p5j2r7gr3', 'everyone', 'succeeded', 1795308167053, 3, 4635492167239, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"lnn5o364c2in2x4p7qsjdy5p5j2r7gr3","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-47iundxbyyp3bzlsrgdgfixoku","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308167053,"changed_at":1795308167239,"ended_at":1795308167239,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-47iundxbyyp3bzlsrgdgfixoku"}}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'kicxydfyqfxxurvxmmimm66ducpa74hk', 'everyone', 'cancelled', 1795308167300, 6, 4635492167794, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"kicxydfyqfxxurvxmmimm66ducpa74hk","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-bp6hk6hx7ihsfhhyxmnslglyue","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308167300,"changed_at":1795308167794,"ended_at":1795308167794,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-bp6hk6hx7ihsfhhyxmnslglyue"}},"cancel":{"at":1795308167794,"taken":true,"attempts":0,"not_before":1795308767805}}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'qcxea4x2qzbz6yvwepskz6p54l65ebdz', 'everyone', 'abandoned', 1795308168532, 3, 7475676168532, 4635492168532, NULL, NULL, 'engine', '', 1795308168539, '8.tb-h2ut5eofjwmbxzqie4tnjersxm', false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, '9d9c593d5b3b75ce4b62b22b958137dfc3702353e74f269ec02aabdbbff7a27e', 1795308170798, '{"id":"qcxea4x2qzbz6yvwepskz6p54l65ebdz","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-h2ut5eofjwmbxzqie4tnjersxm","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308168532,"changed_at":1795308168532,"state":"working","job":{"open":{"handle":"8.tb-h2ut5eofjwmbxzqie4tnjersxm","group":"","started_at":1795308168539}},"undelivered":{"digest":"9d9c593d5b3b75ce4b62b22b958137dfc3702353e74f269ec02aabdbbff7a27e","waiting_until":1795308170798},"due_at":4635492168532}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 'dbscifwltexvfxr7blyfuucrqkcfrfdw', 'everyone', 'starting', 1795308172811, 1, 7475676172811, 1795308172811, 1795308174812, 'zihfglwwki2aw36hj7ywnpbj5i', NULL, NULL, NULL, NULL, false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, NULL, NULL, '{"id":"dbscifwltexvfxr7blyfuucrqkcfrfdw","owner":"everyone","tool":"starting","backend":"engine","key":"tb-uepxinel2vuhapwu4epfg2trtu","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795308172811,"changed_at":1795308172811,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795308172811}},"due_at":1795308172811}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, 'ukezkb22wut5yqgzvz3qipy2fa5k73kp', 'everyone', 'cancelling', 1795308167806, 5, 4635492168323, 1795308768331, NULL, NULL, 'engine', '', 1795308167809, '4.tb-uftctha44ofb7ykclh4bezfxkm', false, NULL, NULL, NULL, NULL, '{"id":"ukezkb22wut5yqgzvz3qipy2fa5k73kp","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-uftctha44ofb7ykclh4bezfxkm","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308167806,"changed_at":1795308168323,"ended_at":1795308168323,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-uftctha44ofb7ykclh4bezfxkm","group":"","started_at":1795308167809}},"cancel":{"at":1795308168323,"taken":true,"attempts":0,"not_before":1795308768331},"due_at":1795308768331}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, 'gbygvibv4anzxzuzb3dhl6uhxmenlnfj', 'everyone', 'waits_for_consent', 1795308168333, 1, 7475676168333, 4635492168333, NULL, NULL, NULL, NULL, NULL, NULL, false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, NULL, NULL, '{"id":"gbygvibv4anzxzuzb3dhl6uhxmenlnfj","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-qpkjp6eeueoq6fqzkr2g52youm","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308168333,"changed_at":1795308168333,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795308168333}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795308168333,"status":"open"}],"due_at":4635492168333}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, '7kvayk47svd5towiyz43eg6riecu7dgi', 'everyone', 'holds', 1795308168339, 2, 7475676168339, 4635492168339, NULL, NULL, 'engine', '', 1795308168344, '5.tb-fpcarkow6jqfmyn64hlgptqreq', false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, NULL, NULL, '{"id":"7kvayk47svd5towiyz43eg6riecu7dgi","owner":"everyone","tool":"holds","backend":"engine","key":"tb-fpcarkow6jqfmyn64hlgptqreq","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308168339,"changed_at":1795308168339,"state":"working","job":{"open":{"handle":"5.tb-fpcarkow6jqfmyn64hlgptqreq","group":"","started_at":1795308168344}},"due_at":4635492168339}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'ovavm57nwcllicfrytrtsxst672jgvkv', 'everyone', 'queued', 1795308168345, 1, 7475676168345, 4635492168345, NULL, NULL, NULL, NULL, NULL, NULL, false, 'g6usa4qlyfr3rg5mqhakal7xma', '["group:narrow"]', NULL, NULL, '{"id":"ovavm57nwcllicfrytrtsxst672jgvkv","owner":"everyone","tool":"queued","backend":"engine","key":"tb-ztznj457vefqvtam4n5wk7r3lu","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308168345,"changed_at":1795308168345,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795308168345}},"due_at":4635492168345}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'kznzsbrmhgfmghznmqtjs6hae26w6hsh', 'everyone', 'asks', 1795308168357, 3, 7475676168357, 4635492168357, NULL, NULL, 'engine', '', 1795308168361, '7.tb-tevdqxwyvgbdzlpnkcbyl4bhl4', false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, NULL, NULL, '{"id":"kznzsbrmhgfmghznmqtjs6hae26w6hsh","owner":"everyone","tool":"asks","backend":"engine","key":"tb-tevdqxwyvgbdzlpnkcbyl4bhl4","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308168357,"changed_at":1795308168468,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-tevdqxwyvgbdzlpnkcbyl4bhl4","group":"","started_at":1795308168361}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795308168468,"status":"open"}],"due_at":4635492168357}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'wnwfrndtis44irgufnxtaluqzsupcr5z', 'everyone', 'pending', 1795308168472, 14, 7475676168472, 1795308177467, NULL, NULL, NULL, NULL, NULL, NULL, false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, NULL, NULL, '{"id":"wnwfrndtis44irgufnxtaluqzsupcr5z","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-3m66wjsqinuzibm7rzuzmf3jte","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308168472,"changed_at":1795308168476,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795308177467}},"trouble":{"since":1795308168476,"reason":"the simulated engine at 127.0.0.1:33803 cannot be reached"},"due_at":1795308177467}');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'ca42s5z4p4a6wagqar4srq7kailverer', 'everyone', 'open', 1795308168351, 42, 7475676168351, 4635492168351, NULL, NULL, 'engine', '', 1795308168356, '6.tb-3hx6oh7wmtvb5hxfbhedqqhqge', false, 'g6usa4qlyfr3rg5mqhakal7xma', NULL, NULL, NULL, '{"id":"ca42s5z4p4a6wagqar4srq7kailverer","owner":"everyone","tool":"open","backend":"engine","key":"tb-3hx6oh7wmtvb5hxfbhedqqhqge","origin":{"session":"g6usa4qlyfr3rg5mqhakal7xma"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795308168351,"changed_at":1795308172718,"state":"working","message":"step 4351 of 3600000","progress":{"done":4351.0,"total":3600000.0},"furthest":4351.0,"job":{"open":{"handle":"6.tb-3hx6oh7wmtvb5hxfbhedqqhqge","group":"","started_at":1795308168356}},"due_at":4635492168351}');
SELECT pg_catalog.setval('dumped.tasks_n_seq', 14, true);
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

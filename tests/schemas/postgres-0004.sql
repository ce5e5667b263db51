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
    of_backend text COLLATE pg_catalog."C"
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
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (1, 'fzasq25hqnxtmodmnfjihjhowsa3ljz4', 1, 1795310063003, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (2, 'fzasq25hqnxtmodmnfjihjhowsa3ljz4', 2, 1795310063010, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"0.tb-gqylybut52fyb6g3qw7y3ze2ue"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (3, 'fzasq25hqnxtmodmnfjihjhowsa3ljz4', 3, 1795310063122, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"ended":"failed"}],"call":{"to":"look","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (4, '7byb6l6odkej43kmi5szvrr3uuvabbpf', 1, 1795310063128, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (5, '7byb6l6odkej43kmi5szvrr3uuvabbpf', 2, 1795310063132, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (6, 'qj6m6wmiy6iq533xni3rumpq524rqb3r', 1, 1795310063139, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (7, 'qj6m6wmiy6iq533xni3rumpq524rqb3r', 2, 1795310063144, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"1.tb-aq3pxc5wz7attzfdnfwgo7zfei"}],"call":{"to":"start","ms":1}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (8, 'qj6m6wmiy6iq533xni3rumpq524rqb3r', 3, 1795310063248, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (9, '73nba57mttmqlg2tvhhz6ha5okx4ertr', 1, 1795310063256, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (10, '73nba57mttmqlg2tvhhz6ha5okx4ertr', 2, 1795310063260, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"2.tb-cerdg56jtdgfyemzc2j3p2i44u"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (11, '73nba57mttmqlg2tvhhz6ha5okx4ertr', 3, 1795310063366, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (12, 'dknxemfpriewxnt7sqoas5azesmgv36o', 1, 1795310063373, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (13, 'dknxemfpriewxnt7sqoas5azesmgv36o', 2, 1795310063377, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"3.tb-huqttmjrmruwmhltvxfq5sa6li"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (14, 'dknxemfpriewxnt7sqoas5azesmgv36o', 3, 1795310063878, 'vm.hrqdmp3uskyfhpqp', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (15, 'dknxemfpriewxnt7sqoas5azesmgv36o', 5, 1795310063887, 'vm.hrqdmp3uskyfhpqp', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (16, 'dknxemfpriewxnt7sqoas5azesmgv36o', 6, 1795310063889, 'vm.hrqdmp3uskyfhpqp', '{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (17, 'q36in3syu3k5kqz46oznrkjetkqokrqc', 1, 1795310063890, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (18, 'q36in3syu3k5kqz46oznrkjetkqokrqc', 2, 1795310063892, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"4.tb-5w233ojd7amxyjfpgjvn44yasa"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (19, 'q36in3syu3k5kqz46oznrkjetkqokrqc', 3, 1795310064398, 'vm.hrqdmp3uskyfhpqp', '{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (20, 'msjc2pnybgnxf62ndyr4m2z6ejb2ejih', 1, 1795310064401, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (21, 'q36in3syu3k5kqz46oznrkjetkqokrqc', 5, 1795310064405, 'vm.hrqdmp3uskyfhpqp', '{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (22, 'l6y5orfkxbj4ffdmscafklwst3s4wysi', 1, 1795310064414, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (23, 'l6y5orfkxbj4ffdmscafklwst3s4wysi', 2, 1795310064418, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"5.tb-z37cn7645dean25zoprss7ctwi"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (24, 'pimywz5i7alxbcm7nzr3s2o2h2jj4zur', 1, 1795310064426, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (25, 'stazy3jlloya6utpwqlsweugkozltiwt', 1, 1795310064434, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (26, 'stazy3jlloya6utpwqlsweugkozltiwt', 2, 1795310064440, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"6.tb-okw4m35luimhiw5ywlh7hfruy4"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (27, 'v2yoopnxyuoapeigyrd23g6gatfmb3of', 1, 1795310064441, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (28, 'v2yoopnxyuoapeigyrd23g6gatfmb3of', 2, 1795310064445, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"7.tb-l2vgperkeiw2acwuz3lonwiwiq"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (29, 'v2yoopnxyuoapeigyrd23g6gatfmb3of', 3, 1795310064545, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (30, 'stazy3jlloya6utpwqlsweugkozltiwt', 3, 1795310064545, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"progress":{"done":103.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (31, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 1, 1795310064561, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (32, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 2, 1795310064563, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (33, 'zgtngyplyzhpmuhnf3laykr4mz4aon4r', 1, 1795310064569, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (34, 'zgtngyplyzhpmuhnf3laykr4mz4aon4r', 2, 1795310064571, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"accepted":"8.tb-47e66efftyk2z4u7lp4em56dwe"}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (35, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 4, 1795310064778, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"attempt":2}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (36, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 5, 1795310064779, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (37, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 7, 1795310065236, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"attempt":3}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (38, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 8, 1795310065238, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (39, 'stazy3jlloya6utpwqlsweugkozltiwt', 12, 1795310065438, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"progress":{"done":997.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (40, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 10, 1795310066210, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"attempt":4}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (41, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 11, 1795310066212, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (42, 'stazy3jlloya6utpwqlsweugkozltiwt', 22, 1795310066479, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"progress":{"done":2037.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (43, 'zgtngyplyzhpmuhnf3laykr4mz4aon4r', 3, 1795310066827, 'vm.hrqdmp3uskyfhpqp', '{"what":["caller_gone"]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (44, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 13, 1795310068280, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"attempt":5}]}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (45, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 14, 1795310068282, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (46, 'stazy3jlloya6utpwqlsweugkozltiwt', 40, 1795310068451, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"progress":{"done":4010.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO dumped.entries OVERRIDING SYSTEM VALUE VALUES (47, 'qsz4nuirnv6iwqzv52i25rc7auhjww2x', 1, 1795310068838, 'vm.hrqdmp3uskyfhpqp', '{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
INSERT INTO dumped.groups VALUES ('engine', '', 'vm.hrqdmp3uskyfhpqp', 1795310070486);
INSERT INTO dumped.keys VALUES ('seal', '\xdf21b9a49240d50c20059974ce18622e4eecd76819c4922070c69e87c83b1ef6');
INSERT INTO dumped.once VALUES ('owner:everyone', 'the key of then', '83cde8446fd41e7b64c39f6c75a5ae722d5079d5bcc191d4825b52297343749f', '73nba57mttmqlg2tvhhz6ha5okx4ertr');
INSERT INTO dumped.outputs VALUES ('fzasq25hqnxtmodmnfjihjhowsa3ljz4', '{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO dumped.outputs VALUES ('7byb6l6odkej43kmi5szvrr3uuvabbpf', '{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO dumped.outputs VALUES ('73nba57mttmqlg2tvhhz6ha5okx4ertr', '{"content":[{"type":"text","text":"kept from then"}]}');
INSERT INTO dumped.sessions VALUES ('6tc4npqiq2lknd6pgzspc4xqlu', 4635494062984, '{"level":"error"}');
INSERT INTO dumped.sessions VALUES ('h6cztvcgwk4tdcnxtu3dagub2m', 4635494066831, NULL);
INSERT INTO dumped.slots VALUES ('group:narrow', 'l6y5orfkxbj4ffdmscafklwst3s4wysi');
INSERT INTO dumped.slots VALUES ('tool:open', 'stazy3jlloya6utpwqlsweugkozltiwt');
INSERT INTO dumped.taskbridge_schema VALUES (true, 4, 1);
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (1, 'fzasq25hqnxtmodmnfjihjhowsa3ljz4', 'everyone', 'failed', 1795310063005, 3, 4635494063123, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"fzasq25hqnxtmodmnfjihjhowsa3ljz4","owner":"everyone","tool":"failed","backend":"engine","key":"tb-gqylybut52fyb6g3qw7y3ze2ue","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310063005,"changed_at":1795310063123,"ended_at":1795310063123,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-gqylybut52fyb6g3qw7y3ze2ue"}}}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (2, '7byb6l6odkej43kmi5szvrr3uuvabbpf', 'everyone', 'refused', 1795310063130, 2, 4635494063134, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"7byb6l6odkej43kmi5szvrr3uuvabbpf","owner":"everyone","tool":"refused","backend":"engine","key":"tb-ihammjfdsijyabzbbftpvmlro4","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310063130,"changed_at":1795310063134,"ended_at":1795310063134,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (3, 'qj6m6wmiy6iq533xni3rumpq524rqb3r', 'everyone', 'gone', 1795310063141, 3, 4635494063250, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"qj6m6wmiy6iq533xni3rumpq524rqb3r","owner":"everyone","tool":"gone","backend":"engine","key":"tb-aq3pxc5wz7attzfdnfwgo7zfei","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310063141,"changed_at":1795310063250,"ended_at":1795310063250,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-aq3pxc5wz7attzfdnfwgo7zfei"}}}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (4, '73nba57mttmqlg2tvhhz6ha5okx4ertr', 'everyone', 'succeeded', 1795310063257, 3, 4635494063368, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"73nba57mttmqlg2tvhhz6ha5okx4ertr","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-cerdg56jtdgfyemzc2j3p2i44u","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310063257,"changed_at":1795310063368,"ended_at":1795310063368,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-cerdg56jtdgfyemzc2j3p2i44u"}}}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (5, 'dknxemfpriewxnt7sqoas5azesmgv36o', 'everyone', 'cancelled', 1795310063375, 6, 4635494063881, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, '{"id":"dknxemfpriewxnt7sqoas5azesmgv36o","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-huqttmjrmruwmhltvxfq5sa6li","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310063375,"changed_at":1795310063881,"ended_at":1795310063881,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-huqttmjrmruwmhltvxfq5sa6li"}},"cancel":{"at":1795310063881,"taken":true,"attempts":0,"not_before":1795310663890}}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (7, 'msjc2pnybgnxf62ndyr4m2z6ejb2ejih', 'everyone', 'waits_for_consent', 1795310064401, 1, 7475678064401, 4635494064401, NULL, NULL, NULL, NULL, NULL, NULL, false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, NULL, NULL, '{"id":"msjc2pnybgnxf62ndyr4m2z6ejb2ejih","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-iphyskwuoxfhzbxtjhawexley4","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310064401,"changed_at":1795310064401,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795310064401}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795310064401,"status":"open"}],"due_at":4635494064401}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (9, 'pimywz5i7alxbcm7nzr3s2o2h2jj4zur', 'everyone', 'queued', 1795310064419, 1, 7475678064419, 4635494064419, NULL, NULL, NULL, NULL, NULL, NULL, false, '6tc4npqiq2lknd6pgzspc4xqlu', '["group:narrow"]', NULL, NULL, '{"id":"pimywz5i7alxbcm7nzr3s2o2h2jj4zur","owner":"everyone","tool":"queued","backend":"engine","key":"tb-tap6ot52fndcx6ovbjxitizdy4","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795310064419,"changed_at":1795310064419,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795310064419}},"due_at":4635494064419}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (6, 'q36in3syu3k5kqz46oznrkjetkqokrqc', 'everyone', 'cancelling', 1795310063888, 5, 4635494064395, 1795310664404, NULL, NULL, 'engine', '', 1795310063895, '4.tb-5w233ojd7amxyjfpgjvn44yasa', false, NULL, NULL, NULL, NULL, '{"id":"q36in3syu3k5kqz46oznrkjetkqokrqc","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-5w233ojd7amxyjfpgjvn44yasa","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310063888,"changed_at":1795310064395,"ended_at":1795310064395,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-5w233ojd7amxyjfpgjvn44yasa","group":"","started_at":1795310063895}},"cancel":{"at":1795310064395,"taken":true,"attempts":0,"not_before":1795310664404},"due_at":1795310664404}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (8, 'l6y5orfkxbj4ffdmscafklwst3s4wysi', 'everyone', 'holds', 1795310064405, 2, 7475678064405, 4635494064405, NULL, NULL, 'engine', '', 1795310064417, '5.tb-z37cn7645dean25zoprss7ctwi', false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, NULL, NULL, '{"id":"l6y5orfkxbj4ffdmscafklwst3s4wysi","owner":"everyone","tool":"holds","backend":"engine","key":"tb-z37cn7645dean25zoprss7ctwi","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795310064405,"changed_at":1795310064405,"state":"working","job":{"open":{"handle":"5.tb-z37cn7645dean25zoprss7ctwi","group":"","started_at":1795310064417}},"due_at":4635494064405}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (11, 'v2yoopnxyuoapeigyrd23g6gatfmb3of', 'everyone', 'asks', 1795310064441, 3, 7475678064441, 4635494064441, NULL, NULL, 'engine', '', 1795310064444, '7.tb-l2vgperkeiw2acwuz3lonwiwiq', false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, NULL, NULL, '{"id":"v2yoopnxyuoapeigyrd23g6gatfmb3of","owner":"everyone","tool":"asks","backend":"engine","key":"tb-l2vgperkeiw2acwuz3lonwiwiq","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310064441,"changed_at":1795310064544,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-l2vgperkeiw2acwuz3lonwiwiq","group":"","started_at":1795310064444}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795310064544,"status":"open"}],"due_at":4635494064441}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (10, 'stazy3jlloya6utpwqlsweugkozltiwt', 'everyone', 'open', 1795310064432, 43, 7475678064432, 4635494064432, NULL, NULL, 'engine', '', 1795310064439, '6.tb-okw4m35luimhiw5ywlh7hfruy4', false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, NULL, NULL, '{"id":"stazy3jlloya6utpwqlsweugkozltiwt","owner":"everyone","tool":"open","backend":"engine","key":"tb-okw4m35luimhiw5ywlh7hfruy4","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795310064432,"changed_at":1795310068772,"state":"working","message":"step 4332 of 3600000","progress":{"done":4332.0,"total":3600000.0},"furthest":4332.0,"job":{"open":{"handle":"6.tb-okw4m35luimhiw5ywlh7hfruy4","group":"","started_at":1795310064439}},"due_at":4635494064432}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (13, 'zgtngyplyzhpmuhnf3laykr4mz4aon4r', 'everyone', 'abandoned', 1795310064567, 3, 7475678064567, 4635494064567, NULL, NULL, 'engine', '', 1795310064571, '8.tb-47e66efftyk2z4u7lp4em56dwe', false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, 'c80c8460ac940b68eee93618603f783e76ea074947f0c3fa61e7b8713c0f8166', 1795310066823, '{"id":"zgtngyplyzhpmuhnf3laykr4mz4aon4r","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-47e66efftyk2z4u7lp4em56dwe","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310064567,"changed_at":1795310064567,"state":"working","job":{"open":{"handle":"8.tb-47e66efftyk2z4u7lp4em56dwe","group":"","started_at":1795310064571}},"undelivered":{"digest":"c80c8460ac940b68eee93618603f783e76ea074947f0c3fa61e7b8713c0f8166","waiting_until":1795310066823},"due_at":4635494064567}', 'engine');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (12, 'poed75jsjrmwxfyhaeo3k4u5qekedhab', 'everyone', 'pending', 1795310064561, 14, 7475678064561, 1795310072663, NULL, NULL, NULL, NULL, NULL, NULL, false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, NULL, NULL, '{"id":"poed75jsjrmwxfyhaeo3k4u5qekedhab","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-kwjsanw5sbqqxkyavguslmzlly","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795310064561,"changed_at":1795310064563,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795310072663}},"trouble":{"since":1795310064563,"reason":"the simulated engine at 127.0.0.1:37289 cannot be reached"},"due_at":1795310072663}', 'elsewhere');
INSERT INTO dumped.tasks OVERRIDING SYSTEM VALUE VALUES (14, 'qsz4nuirnv6iwqzv52i25rc7auhjww2x', 'everyone', 'starting', 1795310068837, 1, 7475678068837, 1795310068837, 1795310070838, 'vm.hrqdmp3uskyfhpqp', NULL, NULL, NULL, NULL, false, '6tc4npqiq2lknd6pgzspc4xqlu', NULL, NULL, NULL, '{"id":"qsz4nuirnv6iwqzv52i25rc7auhjww2x","owner":"everyone","tool":"starting","backend":"engine","key":"tb-chay3tb5iz7sjhoxlgcgvgfskm","origin":{"session":"6tc4npqiq2lknd6pgzspc4xqlu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795310068837,"changed_at":1795310068837,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795310068837}},"due_at":1795310068837}', 'engine');
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

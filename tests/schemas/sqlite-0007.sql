PRAGMA application_id = 1952543595;
PRAGMA user_version = 7;
BEGIN TRANSACTION;
CREATE TABLE audit (
    n    INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    line TEXT NOT NULL
) STRICT;
CREATE TABLE entries (
    n       INTEGER PRIMARY KEY,
    task    TEXT NOT NULL,
    -- The version of the row that the write made.
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    -- Which process wrote it.
    replica TEXT NOT NULL,
    -- What happened, and which call to an engine led to it, as JSON.
    what    TEXT NOT NULL
) STRICT;
INSERT INTO "entries" VALUES(1,'dnssp6cbj3t7c5sx74vqm2mctbsjqila',1,1795496187955,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'dnssp6cbj3t7c5sx74vqm2mctbsjqila',2,1795496187970,'vm.5d46xt5ituckalda','{"what":[{"accepted":"0.tb-whga33z2qicctvs64sfdbdj7om"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(3,'dnssp6cbj3t7c5sx74vqm2mctbsjqila',3,1795496188075,'vm.5d46xt5ituckalda','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(4,'27bd33y5hertf7s2uhmckpliakhfj3nz',1,1795496188124,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'27bd33y5hertf7s2uhmckpliakhfj3nz',2,1795496188129,'vm.5d46xt5ituckalda','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":3}}');
INSERT INTO "entries" VALUES(6,'lsbbqgnjmxblj75xf2uwizgkpvudp4d3',1,1795496188182,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'lsbbqgnjmxblj75xf2uwizgkpvudp4d3',2,1795496188196,'vm.5d46xt5ituckalda','{"what":[{"accepted":"1.tb-rtbqyocafs7ubrebvvrtb6lkf4"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(8,'lsbbqgnjmxblj75xf2uwizgkpvudp4d3',3,1795496188300,'vm.5d46xt5ituckalda','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(9,'tdo37wxk5jfu47ifqxu4atkymqxonzn3',1,1795496188345,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'tdo37wxk5jfu47ifqxu4atkymqxonzn3',2,1795496188360,'vm.5d46xt5ituckalda','{"what":[{"accepted":"2.tb-oivoah34dkrpgs2wucfis3jj5q"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(11,'tdo37wxk5jfu47ifqxu4atkymqxonzn3',3,1795496188463,'vm.5d46xt5ituckalda','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(12,'woskqy3yhjxxnsfla2bzuvtil3mguhfw',1,1795496188510,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'woskqy3yhjxxnsfla2bzuvtil3mguhfw',2,1795496188524,'vm.5d46xt5ituckalda','{"what":[{"accepted":"3.tb-k7zwhlynuwjr6nhjlbpbxw7ttq"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(14,'woskqy3yhjxxnsfla2bzuvtil3mguhfw',3,1795496189015,'vm.5d46xt5ituckalda','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'fkutng6o2amz6swlbae5cet4dy4wt2sr',1,1795496189022,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(16,'woskqy3yhjxxnsfla2bzuvtil3mguhfw',5,1795496189033,'vm.5d46xt5ituckalda','{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO "entries" VALUES(17,'fkutng6o2amz6swlbae5cet4dy4wt2sr',2,1795496189033,'vm.5d46xt5ituckalda','{"what":[{"accepted":"4.tb-yflikqg5ctog4we5iofgjahina"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(18,'woskqy3yhjxxnsfla2bzuvtil3mguhfw',6,1795496189051,'vm.5d46xt5ituckalda','{"what":["job_over"],"call":{"to":"look","ms":14}}');
INSERT INTO "entries" VALUES(19,'fkutng6o2amz6swlbae5cet4dy4wt2sr',3,1795496189526,'vm.5d46xt5ituckalda','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(20,'3hov7oo5yjilwkvlja6lhqcvdow5ahe7',1,1795496189530,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(21,'fkutng6o2amz6swlbae5cet4dy4wt2sr',5,1795496189533,'vm.5d46xt5ituckalda','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(22,'mzxvi5a4qazjpktx2mbxxq46qj3cjyfo',1,1795496189533,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(23,'mzxvi5a4qazjpktx2mbxxq46qj3cjyfo',2,1795496189535,'vm.5d46xt5ituckalda','{"what":[{"accepted":"5.tb-soakx66dhq4hfgzs6ozlxmfx2a"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(24,'b4txovzlljygpx22jmlbwwcg5iitdybc',1,1795496189536,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(25,'bwbwn77dgv2cnoz4sqchshaumucaobx6',1,1795496189539,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(26,'bwbwn77dgv2cnoz4sqchshaumucaobx6',2,1795496189542,'vm.5d46xt5ituckalda','{"what":[{"accepted":"6.tb-bac4wrxjzm7imsbmsxmm5xvl4y"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(27,'5gur3p3blzpcdwroqzylak7wimxzwjhn',1,1795496189542,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(28,'5gur3p3blzpcdwroqzylak7wimxzwjhn',2,1795496189559,'vm.5d46xt5ituckalda','{"what":[{"accepted":"7.tb-2ltebq62iqsdxhqarf7dyk73qe"}],"call":{"to":"start","ms":4}}');
INSERT INTO "entries" VALUES(29,'bwbwn77dgv2cnoz4sqchshaumucaobx6',3,1795496189637,'vm.5d46xt5ituckalda','{"what":[{"progress":{"done":95.0,"total":3600000.0}}],"call":{"to":"look","ms":1}}');
INSERT INTO "entries" VALUES(30,'5gur3p3blzpcdwroqzylak7wimxzwjhn',3,1795496189663,'vm.5d46xt5ituckalda','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(31,'likwm7dyrefnfejkil2mtwxnslrxj3dh',1,1795496189713,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(32,'likwm7dyrefnfejkil2mtwxnslrxj3dh',2,1795496189717,'vm.5d46xt5ituckalda','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(33,'5fxsbadyisc6rg5elufl5cp6ov35wcr2',1,1795496189787,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(34,'5fxsbadyisc6rg5elufl5cp6ov35wcr2',2,1795496189801,'vm.5d46xt5ituckalda','{"what":[{"accepted":"8.tb-6bm6yztzr3ypjen6qwbvxlqvvy"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(35,'likwm7dyrefnfejkil2mtwxnslrxj3dh',4,1795496189999,'vm.5d46xt5ituckalda','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(36,'likwm7dyrefnfejkil2mtwxnslrxj3dh',5,1795496190011,'vm.5d46xt5ituckalda','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(37,'bwbwn77dgv2cnoz4sqchshaumucaobx6',12,1795496190554,'vm.5d46xt5ituckalda','{"what":[{"progress":{"done":1013.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(38,'likwm7dyrefnfejkil2mtwxnslrxj3dh',7,1795496190596,'vm.5d46xt5ituckalda','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(39,'likwm7dyrefnfejkil2mtwxnslrxj3dh',8,1795496190608,'vm.5d46xt5ituckalda','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(40,'bwbwn77dgv2cnoz4sqchshaumucaobx6',23,1795496191612,'vm.5d46xt5ituckalda','{"what":[{"progress":{"done":2070.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(41,'likwm7dyrefnfejkil2mtwxnslrxj3dh',10,1795496191849,'vm.5d46xt5ituckalda','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(42,'likwm7dyrefnfejkil2mtwxnslrxj3dh',11,1795496191862,'vm.5d46xt5ituckalda','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(43,'5fxsbadyisc6rg5elufl5cp6ov35wcr2',3,1795496192038,'vm.5d46xt5ituckalda','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(44,'likwm7dyrefnfejkil2mtwxnslrxj3dh',13,1795496193479,'vm.5d46xt5ituckalda','{"what":[{"attempt":5}]}');
INSERT INTO "entries" VALUES(45,'likwm7dyrefnfejkil2mtwxnslrxj3dh',14,1795496193492,'vm.5d46xt5ituckalda','{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(46,'bwbwn77dgv2cnoz4sqchshaumucaobx6',43,1795496193623,'vm.5d46xt5ituckalda','{"what":[{"progress":{"done":4081.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(47,'mpwfpyc73w7rkltxuc5fwj3oobyrkcax',1,1795496194046,'vm.5d46xt5ituckalda','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE facts (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "facts" VALUES('clock','{"boot":"62840e9d-b1dc-464e-aa16-1b0110daf6fa","uptime":{"secs":20652,"nanos":497807690},"time":1795496187930,"held_until":null}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine @ sim engine','','vm.5d46xt5ituckalda',1795496195426);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'184AED552C15DB584421469BD094AE8852FD7EE2E42C1BD179A59B3B5AE36432');
CREATE TABLE notices (
    id       TEXT NOT NULL,
    receiver TEXT NOT NULL,
    since    INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    -- Who sends it.
    holder   TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    body     TEXT NOT NULL,
    PRIMARY KEY (id, receiver)
) STRICT, WITHOUT ROWID;
CREATE TABLE once (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest TEXT NOT NULL,
    task   TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "once" VALUES('owner:everyone','the key of then','210420e7aa98fa2d4da6e3ef30b31852c1f49bdcdd90faa956c075d3da07fab2','tdo37wxk5jfu47ifqxu4atkymqxonzn3');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('dnssp6cbj3t7c5sx74vqm2mctbsjqila','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('27bd33y5hertf7s2uhmckpliakhfj3nz','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('tdo37wxk5jfu47ifqxu4atkymqxonzn3','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('2ihyozwoayvoa2kdf47vhqtrpm',4635680187950,'{"level":"error"}');
INSERT INTO "sessions" VALUES('sxvdujxdumud2azg5wzql7olyu',4635680192040,NULL);
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('tool:open','bwbwn77dgv2cnoz4sqchshaumucaobx6');
INSERT INTO "slots" VALUES('group:narrow','mzxvi5a4qazjpktx2mbxxq46qj3cjyfo');
CREATE TABLE taskbridge_schema (oldest INTEGER NOT NULL) STRICT;
INSERT INTO "taskbridge_schema" VALUES(2);
CREATE TABLE tasks (
    n             INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    owner         TEXT NOT NULL,
    tool          TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    due_at        INTEGER,
    lease_until   INTEGER,
    lease_holder  TEXT,
    -- Set while the job is open.
    backend       TEXT,
    grp           TEXT,
    opened_at     INTEGER,
    handle        TEXT,
    -- 1 when the job is known to run no more.
    closed        INTEGER NOT NULL,
    -- The session that the call came from, until the task has ended.
    session       TEXT,
    -- The slots that the row waits for, as sorted JSON, while it waits.
    line          TEXT,
    -- Set while nobody has been given the answer to a plain call.
    digest        TEXT,
    waiting_until INTEGER,
    body          TEXT NOT NULL
, log_until INTEGER, of_backend TEXT, identity TEXT) STRICT;
INSERT INTO "tasks" VALUES(1,'dnssp6cbj3t7c5sx74vqm2mctbsjqila','everyone','failed',1795496187954,3,4635680188074,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"dnssp6cbj3t7c5sx74vqm2mctbsjqila","owner":"everyone","tool":"failed","backend":"engine","key":"tb-whga33z2qicctvs64sfdbdj7om","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496187954,"changed_at":1795496188074,"ended_at":1795496188074,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-whga33z2qicctvs64sfdbdj7om"}}}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(2,'27bd33y5hertf7s2uhmckpliakhfj3nz','everyone','refused',1795496188123,2,4635680188128,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"27bd33y5hertf7s2uhmckpliakhfj3nz","owner":"everyone","tool":"refused","backend":"engine","key":"tb-nqkjnuwg3a7vcsyxpw3k5u7ll4","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496188123,"changed_at":1795496188128,"ended_at":1795496188128,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(3,'lsbbqgnjmxblj75xf2uwizgkpvudp4d3','everyone','gone',1795496188181,3,4635680188299,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"lsbbqgnjmxblj75xf2uwizgkpvudp4d3","owner":"everyone","tool":"gone","backend":"engine","key":"tb-rtbqyocafs7ubrebvvrtb6lkf4","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496188181,"changed_at":1795496188299,"ended_at":1795496188299,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-rtbqyocafs7ubrebvvrtb6lkf4"}}}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(4,'tdo37wxk5jfu47ifqxu4atkymqxonzn3','everyone','succeeded',1795496188345,3,4635680188463,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"tdo37wxk5jfu47ifqxu4atkymqxonzn3","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-oivoah34dkrpgs2wucfis3jj5q","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496188345,"changed_at":1795496188463,"ended_at":1795496188463,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-oivoah34dkrpgs2wucfis3jj5q"}}}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(5,'woskqy3yhjxxnsfla2bzuvtil3mguhfw','everyone','cancelled',1795496188509,6,4635680189013,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"woskqy3yhjxxnsfla2bzuvtil3mguhfw","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-k7zwhlynuwjr6nhjlbpbxw7ttq","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496188509,"changed_at":1795496189013,"ended_at":1795496189013,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-k7zwhlynuwjr6nhjlbpbxw7ttq"}},"cancel":{"at":1795496189013,"taken":true,"attempts":0,"not_before":1795496789021}}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(6,'fkutng6o2amz6swlbae5cet4dy4wt2sr','everyone','cancelling',1795496189020,5,4635680189525,1795496789530,NULL,NULL,'engine','',1795496189023,'4.tb-yflikqg5ctog4we5iofgjahina',0,NULL,NULL,NULL,NULL,'{"id":"fkutng6o2amz6swlbae5cet4dy4wt2sr","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-yflikqg5ctog4we5iofgjahina","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496189020,"changed_at":1795496189525,"ended_at":1795496189525,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-yflikqg5ctog4we5iofgjahina","group":"","started_at":1795496189023}},"cancel":{"at":1795496189525,"taken":true,"attempts":0,"not_before":1795496789530},"due_at":1795496789530}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(7,'3hov7oo5yjilwkvlja6lhqcvdow5ahe7','everyone','waits_for_consent',1795496189529,1,253402207200000,4635680189529,NULL,NULL,NULL,NULL,NULL,NULL,0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,NULL,NULL,'{"id":"3hov7oo5yjilwkvlja6lhqcvdow5ahe7","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-zkld7e7bgkx5277xflqnfbknfu","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496189529,"changed_at":1795496189529,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795496189529}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795496189529,"status":"open"}],"due_at":4635680189529}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(8,'mzxvi5a4qazjpktx2mbxxq46qj3cjyfo','everyone','holds',1795496189531,2,253402207200000,4635680189534,NULL,NULL,'engine','',1795496189534,'5.tb-soakx66dhq4hfgzs6ozlxmfx2a',0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,NULL,NULL,'{"id":"mzxvi5a4qazjpktx2mbxxq46qj3cjyfo","owner":"everyone","tool":"holds","backend":"engine","key":"tb-soakx66dhq4hfgzs6ozlxmfx2a","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795496189531,"changed_at":1795496189531,"state":"working","job":{"open":{"handle":"5.tb-soakx66dhq4hfgzs6ozlxmfx2a","group":"","started_at":1795496189534}},"due_at":4635680189534}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(9,'b4txovzlljygpx22jmlbwwcg5iitdybc','everyone','queued',1795496189534,1,253402207200000,4635680189534,NULL,NULL,NULL,NULL,NULL,NULL,0,'2ihyozwoayvoa2kdf47vhqtrpm','["group:narrow"]',NULL,NULL,'{"id":"b4txovzlljygpx22jmlbwwcg5iitdybc","owner":"everyone","tool":"queued","backend":"engine","key":"tb-yrobggmbz23rz6lu2i5chlvqea","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795496189534,"changed_at":1795496189534,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795496189534}},"due_at":4635680189534}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(10,'bwbwn77dgv2cnoz4sqchshaumucaobx6','everyone','open',1795496189538,47,253402207200000,4635680189540,NULL,NULL,'engine','',1795496189540,'6.tb-bac4wrxjzm7imsbmsxmm5xvl4y',0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,NULL,NULL,'{"id":"bwbwn77dgv2cnoz4sqchshaumucaobx6","owner":"everyone","tool":"open","backend":"engine","key":"tb-bac4wrxjzm7imsbmsxmm5xvl4y","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795496189538,"changed_at":1795496194026,"state":"working","message":"step 4485 of 3600000","progress":{"done":4485.0,"total":3600000.0},"furthest":4485.0,"job":{"open":{"handle":"6.tb-bac4wrxjzm7imsbmsxmm5xvl4y","group":"","started_at":1795496189540}},"due_at":4635680189540}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(11,'5gur3p3blzpcdwroqzylak7wimxzwjhn','everyone','asks',1795496189541,3,253402207200000,4635680189546,NULL,NULL,'engine','',1795496189546,'7.tb-2ltebq62iqsdxhqarf7dyk73qe',0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,NULL,NULL,'{"id":"5gur3p3blzpcdwroqzylak7wimxzwjhn","owner":"everyone","tool":"asks","backend":"engine","key":"tb-2ltebq62iqsdxhqarf7dyk73qe","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496189541,"changed_at":1795496189662,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-2ltebq62iqsdxhqarf7dyk73qe","group":"","started_at":1795496189546}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795496189662,"status":"open"}],"due_at":4635680189546}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(12,'likwm7dyrefnfejkil2mtwxnslrxj3dh','everyone','pending',1795496189711,14,253402207200000,1795496196986,NULL,NULL,NULL,NULL,NULL,NULL,0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,NULL,NULL,'{"id":"likwm7dyrefnfejkil2mtwxnslrxj3dh","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-cup6v4io3gvzoirqeyspwazn6m","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496189711,"changed_at":1795496189715,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795496196986}},"trouble":{"since":1795496189715,"reason":"the simulated engine at 127.0.0.1:36741 cannot be reached"},"due_at":1795496196986}',NULL,'elsewhere','sim elsewhere');
INSERT INTO "tasks" VALUES(13,'5fxsbadyisc6rg5elufl5cp6ov35wcr2','everyone','abandoned',1795496189780,3,253402207200000,4635680189789,NULL,NULL,'engine','',1795496189789,'8.tb-6bm6yztzr3ypjen6qwbvxlqvvy',0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,'8834dea45efc103f736455c1fedd21a0f97592c611b4bf41bb62b41de5014712',1795496192037,'{"id":"5fxsbadyisc6rg5elufl5cp6ov35wcr2","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-6bm6yztzr3ypjen6qwbvxlqvvy","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795496189780,"changed_at":1795496189780,"state":"working","job":{"open":{"handle":"8.tb-6bm6yztzr3ypjen6qwbvxlqvvy","group":"","started_at":1795496189789}},"undelivered":{"digest":"8834dea45efc103f736455c1fedd21a0f97592c611b4bf41bb62b41de5014712","waiting_until":1795496192037},"due_at":4635680189789}',NULL,'engine','sim engine');
INSERT INTO "tasks" VALUES(14,'mpwfpyc73w7rkltxuc5fwj3oobyrkcax','everyone','starting',1795496194044,1,253402207200000,1795496194044,1795496196046,'vm.5d46xt5ituckalda',NULL,NULL,NULL,NULL,0,'2ihyozwoayvoa2kdf47vhqtrpm',NULL,NULL,NULL,'{"id":"mpwfpyc73w7rkltxuc5fwj3oobyrkcax","owner":"everyone","tool":"starting","backend":"engine","key":"tb-dqn2tr7ytk6vdis3m6s6po7lau","origin":{"session":"2ihyozwoayvoa2kdf47vhqtrpm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795496194044,"changed_at":1795496194044,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795496194044}},"due_at":1795496194044}',NULL,'engine','sim engine');
CREATE INDEX tasks_of_owner ON tasks (owner, created_at, id);
CREATE INDEX tasks_due ON tasks (due_at, lease_until) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_open ON tasks (backend, grp, opened_at) WHERE backend IS NOT NULL;
CREATE INDEX tasks_of_session ON tasks (session, created_at, id) WHERE session IS NOT NULL;
CREATE INDEX tasks_waiting ON tasks (line, created_at, id) WHERE line IS NOT NULL;
CREATE INDEX tasks_undelivered ON tasks (digest, waiting_until) WHERE digest IS NOT NULL;
CREATE INDEX tasks_to_purge ON tasks (expires_at) WHERE closed = 1;
CREATE INDEX slots_of_task ON slots (task);
CREATE INDEX once_of_task ON once (task);
CREATE INDEX sessions_to_forget ON sessions (forget_after);
CREATE INDEX entries_of_task ON entries (task);
CREATE INDEX notices_due ON notices (receiver, due_at);
CREATE INDEX tasks_followed ON tasks (backend, grp, log_until) WHERE log_until IS NOT NULL;
CREATE TRIGGER tasks_of_backend AFTER INSERT ON tasks WHEN NEW.of_backend IS NULL AND json_valid(NEW.body)
BEGIN
    UPDATE tasks SET of_backend = json_extract(NEW.body, '$.backend') WHERE n = NEW.n;
END;
CREATE INDEX tasks_due_of_backend ON tasks (of_backend, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_due_of_owner ON tasks (of_backend, owner, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX entries_by_age ON entries (at);
COMMIT;

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
INSERT INTO "entries" VALUES(1,'ocn4nzlcaiv2wttnm7ei63ymnxgdasuh',1,1795495025229,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'ocn4nzlcaiv2wttnm7ei63ymnxgdasuh',2,1795495025249,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"0.tb-ufgladucau5cpp5ytnlvnvb6jq"}],"call":{"to":"start","ms":4}}');
INSERT INTO "entries" VALUES(3,'ocn4nzlcaiv2wttnm7ei63ymnxgdasuh',3,1795495025357,'vm.u7gvs3mrpd3y63i6','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(4,'j44jkyaoktxntw2jiv2d6yjwwgsahna5',1,1795495025400,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'j44jkyaoktxntw2jiv2d6yjwwgsahna5',2,1795495025418,'vm.u7gvs3mrpd3y63i6','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(6,'wnsojpnsvtpqvkpc2xiqnxfq3kpy5ecx',1,1795495025483,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'wnsojpnsvtpqvkpc2xiqnxfq3kpy5ecx',2,1795495025497,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"1.tb-xesolx7yihhpmdfqmw5zhdlaqu"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(8,'wnsojpnsvtpqvkpc2xiqnxfq3kpy5ecx',3,1795495025599,'vm.u7gvs3mrpd3y63i6','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(9,'rxwrxogksds2opper7vag3sfkssomoe7',1,1795495025646,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'rxwrxogksds2opper7vag3sfkssomoe7',2,1795495025662,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"2.tb-kr73ld5rlbthdrsvwvc3v2vmau"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(11,'rxwrxogksds2opper7vag3sfkssomoe7',3,1795495025769,'vm.u7gvs3mrpd3y63i6','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":1}}');
INSERT INTO "entries" VALUES(12,'v7p3zf2obgzvcrksuhctedqafpiucd5a',1,1795495025825,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'v7p3zf2obgzvcrksuhctedqafpiucd5a',2,1795495025828,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"3.tb-6vebudys3kwqecbntmvuce5azq"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(14,'v7p3zf2obgzvcrksuhctedqafpiucd5a',3,1795495026330,'vm.u7gvs3mrpd3y63i6','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'vq2vjibgafhprohspsh6yzb4baqeg6ca',1,1795495026335,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}}]}');
INSERT INTO "entries" VALUES(16,'v7p3zf2obgzvcrksuhctedqafpiucd5a',5,1795495026337,'vm.u7gvs3mrpd3y63i6','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(17,'vq2vjibgafhprohspsh6yzb4baqeg6ca',3,1795495026338,'vm.u7gvs3mrpd3y63i6','{"what":[{"attempt":1}]}');
INSERT INTO "entries" VALUES(18,'v7p3zf2obgzvcrksuhctedqafpiucd5a',6,1795495026340,'vm.u7gvs3mrpd3y63i6','{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(19,'vq2vjibgafhprohspsh6yzb4baqeg6ca',4,1795495026351,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"4.tb-bafjhwj5a3tmojeyixv2pf4emi"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(20,'vq2vjibgafhprohspsh6yzb4baqeg6ca',5,1795495026839,'vm.u7gvs3mrpd3y63i6','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(21,'vq2vjibgafhprohspsh6yzb4baqeg6ca',7,1795495026843,'vm.u7gvs3mrpd3y63i6','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(22,'strl3ykhrlparq2tr6pczhgminhbnvbc',1,1795495026843,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(23,'pwddeckrkfrbspg2uwsrctbsamqx56ka',1,1795495026848,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(24,'pwddeckrkfrbspg2uwsrctbsamqx56ka',2,1795495026851,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"5.tb-b7qv3c4ppfs4zmtvofdnpsaieq"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(25,'kz3bfwzned2rnvhefe3fne4at5isugax',1,1795495026852,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(26,'vobtchkktwpqxephqchhod3eabtm7i2t',1,1795495026855,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(27,'oofg3fuwsbvmpu3dpuaxhnjfnny3j25v',1,1795495026857,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(28,'vobtchkktwpqxephqchhod3eabtm7i2t',2,1795495026868,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"6.tb-ram4mcuzinqlqojesrzvhglxi4"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(29,'oofg3fuwsbvmpu3dpuaxhnjfnny3j25v',2,1795495026868,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"7.tb-2bb3we7iuvd2kfggzmccve7xmi"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(30,'oofg3fuwsbvmpu3dpuaxhnjfnny3j25v',3,1795495026955,'vm.u7gvs3mrpd3y63i6','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(31,'vobtchkktwpqxephqchhod3eabtm7i2t',3,1795495026955,'vm.u7gvs3mrpd3y63i6','{"what":[{"progress":{"done":96.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(32,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',1,1795495026966,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(33,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',2,1795495026969,'vm.u7gvs3mrpd3y63i6','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(34,'d2qnt4josg77rsqstm2lbiz6wuyfg3ol',1,1795495027022,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(35,'d2qnt4josg77rsqstm2lbiz6wuyfg3ol',2,1795495027036,'vm.u7gvs3mrpd3y63i6','{"what":[{"accepted":"8.tb-r5gtmgs4o4o72iht2ao66yhgnm"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(36,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',4,1795495027275,'vm.u7gvs3mrpd3y63i6','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(37,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',5,1795495027287,'vm.u7gvs3mrpd3y63i6','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(38,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',7,1795495027665,'vm.u7gvs3mrpd3y63i6','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(39,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',8,1795495027678,'vm.u7gvs3mrpd3y63i6','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(40,'vobtchkktwpqxephqchhod3eabtm7i2t',13,1795495027902,'vm.u7gvs3mrpd3y63i6','{"what":[{"progress":{"done":1044.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(41,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',10,1795495028505,'vm.u7gvs3mrpd3y63i6','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(42,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',11,1795495028517,'vm.u7gvs3mrpd3y63i6','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(43,'vobtchkktwpqxephqchhod3eabtm7i2t',24,1795495028910,'vm.u7gvs3mrpd3y63i6','{"what":[{"progress":{"done":2052.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(44,'d2qnt4josg77rsqstm2lbiz6wuyfg3ol',3,1795495029276,'vm.u7gvs3mrpd3y63i6','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(45,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',13,1795495030312,'vm.u7gvs3mrpd3y63i6','{"what":[{"attempt":5}]}');
INSERT INTO "entries" VALUES(46,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf',14,1795495030325,'vm.u7gvs3mrpd3y63i6','{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(47,'vobtchkktwpqxephqchhod3eabtm7i2t',45,1795495030878,'vm.u7gvs3mrpd3y63i6','{"what":[{"progress":{"done":4020.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(48,'oku37nxwg2hhskzrrundtktxcnpxuvpq',1,1795495031285,'vm.u7gvs3mrpd3y63i6','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE facts (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "facts" VALUES('clock','{"boot":"62840e9d-b1dc-464e-aa16-1b0110daf6fa","uptime":{"secs":19489,"nanos":768602067},"time":1795495025201,"held_until":null}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine @ sim 127.0.0.1:45777','','vm.u7gvs3mrpd3y63i6',1795495032710);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'4CDE647B800652258D4C9D386214CCC70CB4B7AF590A61B19D9E38D195301141');
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
INSERT INTO "once" VALUES('owner:everyone','the key of then','db75a8c81b9226e456e79b74de950793e6cc7337c96317220997ca34cd8606ec','rxwrxogksds2opper7vag3sfkssomoe7');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('ocn4nzlcaiv2wttnm7ei63ymnxgdasuh','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('j44jkyaoktxntw2jiv2d6yjwwgsahna5','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('rxwrxogksds2opper7vag3sfkssomoe7','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('5zj3mgfatgbks4pzac653o2hvi',4635679029279,NULL);
INSERT INTO "sessions" VALUES('cmlhhxnvy2fdhu7odppocv5jbu',4635679025224,'{"level":"error"}');
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('group:narrow','pwddeckrkfrbspg2uwsrctbsamqx56ka');
INSERT INTO "slots" VALUES('tool:open','vobtchkktwpqxephqchhod3eabtm7i2t');
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
INSERT INTO "tasks" VALUES(1,'ocn4nzlcaiv2wttnm7ei63ymnxgdasuh','everyone','failed',1795495025228,3,4635679025357,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"ocn4nzlcaiv2wttnm7ei63ymnxgdasuh","owner":"everyone","tool":"failed","backend":"engine","key":"tb-ufgladucau5cpp5ytnlvnvb6jq","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495025228,"changed_at":1795495025357,"ended_at":1795495025357,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-ufgladucau5cpp5ytnlvnvb6jq"}}}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(2,'j44jkyaoktxntw2jiv2d6yjwwgsahna5','everyone','refused',1795495025399,2,4635679025417,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"j44jkyaoktxntw2jiv2d6yjwwgsahna5","owner":"everyone","tool":"refused","backend":"engine","key":"tb-jgffsibekvga2s4w5vthn5nu7q","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495025399,"changed_at":1795495025417,"ended_at":1795495025417,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(3,'wnsojpnsvtpqvkpc2xiqnxfq3kpy5ecx','everyone','gone',1795495025482,3,4635679025599,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"wnsojpnsvtpqvkpc2xiqnxfq3kpy5ecx","owner":"everyone","tool":"gone","backend":"engine","key":"tb-xesolx7yihhpmdfqmw5zhdlaqu","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495025482,"changed_at":1795495025599,"ended_at":1795495025599,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-xesolx7yihhpmdfqmw5zhdlaqu"}}}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(4,'rxwrxogksds2opper7vag3sfkssomoe7','everyone','succeeded',1795495025645,3,4635679025768,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"rxwrxogksds2opper7vag3sfkssomoe7","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-kr73ld5rlbthdrsvwvc3v2vmau","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495025645,"changed_at":1795495025768,"ended_at":1795495025768,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-kr73ld5rlbthdrsvwvc3v2vmau"}}}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(5,'v7p3zf2obgzvcrksuhctedqafpiucd5a','everyone','cancelled',1795495025824,6,4635679026329,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"v7p3zf2obgzvcrksuhctedqafpiucd5a","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-6vebudys3kwqecbntmvuce5azq","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495025824,"changed_at":1795495026329,"ended_at":1795495026329,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-6vebudys3kwqecbntmvuce5azq"}},"cancel":{"at":1795495026329,"taken":true,"attempts":0,"not_before":1795495626335}}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(6,'vq2vjibgafhprohspsh6yzb4baqeg6ca','everyone','cancelling',1795495026334,7,4635679026838,1795495626841,NULL,NULL,'engine','',1795495026339,'4.tb-bafjhwj5a3tmojeyixv2pf4emi',0,NULL,NULL,NULL,NULL,'{"id":"vq2vjibgafhprohspsh6yzb4baqeg6ca","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-bafjhwj5a3tmojeyixv2pf4emi","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495026334,"changed_at":1795495026838,"ended_at":1795495026838,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-bafjhwj5a3tmojeyixv2pf4emi","group":"","started_at":1795495026339}},"cancel":{"at":1795495026838,"taken":true,"attempts":0,"not_before":1795495626841},"due_at":1795495626841}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(7,'strl3ykhrlparq2tr6pczhgminhbnvbc','everyone','waits_for_consent',1795495026843,1,253402207200000,4635679026843,NULL,NULL,NULL,NULL,NULL,NULL,0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,NULL,NULL,'{"id":"strl3ykhrlparq2tr6pczhgminhbnvbc","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-2lrv3xytiz6egu6bfbnec72t4a","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495026843,"changed_at":1795495026843,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795495026843}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795495026843,"status":"open"}],"due_at":4635679026843}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(8,'pwddeckrkfrbspg2uwsrctbsamqx56ka','everyone','holds',1795495026847,2,253402207200000,4635679026849,NULL,NULL,'engine','',1795495026849,'5.tb-b7qv3c4ppfs4zmtvofdnpsaieq',0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,NULL,NULL,'{"id":"pwddeckrkfrbspg2uwsrctbsamqx56ka","owner":"everyone","tool":"holds","backend":"engine","key":"tb-b7qv3c4ppfs4zmtvofdnpsaieq","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795495026847,"changed_at":1795495026847,"state":"working","job":{"open":{"handle":"5.tb-b7qv3c4ppfs4zmtvofdnpsaieq","group":"","started_at":1795495026849}},"due_at":4635679026849}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(9,'kz3bfwzned2rnvhefe3fne4at5isugax','everyone','queued',1795495026850,1,253402207200000,4635679026850,NULL,NULL,NULL,NULL,NULL,NULL,0,'cmlhhxnvy2fdhu7odppocv5jbu','["group:narrow"]',NULL,NULL,'{"id":"kz3bfwzned2rnvhefe3fne4at5isugax","owner":"everyone","tool":"queued","backend":"engine","key":"tb-cuo5fmekbuefkvt5pvbshvy55a","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795495026850,"changed_at":1795495026850,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795495026850}},"due_at":4635679026850}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(10,'vobtchkktwpqxephqchhod3eabtm7i2t','everyone','open',1795495026854,49,253402207200000,4635679026857,NULL,NULL,'engine','',1795495026857,'6.tb-ram4mcuzinqlqojesrzvhglxi4',0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,NULL,NULL,'{"id":"vobtchkktwpqxephqchhod3eabtm7i2t","owner":"everyone","tool":"open","backend":"engine","key":"tb-ram4mcuzinqlqojesrzvhglxi4","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795495026854,"changed_at":1795495031262,"state":"working","message":"step 4405 of 3600000","progress":{"done":4405.0,"total":3600000.0},"furthest":4405.0,"job":{"open":{"handle":"6.tb-ram4mcuzinqlqojesrzvhglxi4","group":"","started_at":1795495026857}},"due_at":4635679026857}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(11,'oofg3fuwsbvmpu3dpuaxhnjfnny3j25v','everyone','asks',1795495026857,3,253402207200000,4635679026859,NULL,NULL,'engine','',1795495026859,'7.tb-2bb3we7iuvd2kfggzmccve7xmi',0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,NULL,NULL,'{"id":"oofg3fuwsbvmpu3dpuaxhnjfnny3j25v","owner":"everyone","tool":"asks","backend":"engine","key":"tb-2bb3we7iuvd2kfggzmccve7xmi","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495026857,"changed_at":1795495026954,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-2bb3we7iuvd2kfggzmccve7xmi","group":"","started_at":1795495026859}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795495026954,"status":"open"}],"due_at":4635679026859}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(12,'n7t4x6f2fjhfl3pdqt45gebvv274ckdf','everyone','pending',1795495026965,14,253402207200000,1795495034173,NULL,NULL,NULL,NULL,NULL,NULL,0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,NULL,NULL,'{"id":"n7t4x6f2fjhfl3pdqt45gebvv274ckdf","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-dae2uxl7qlf3njhyd7o5d3cpr4","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495026965,"changed_at":1795495026968,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795495034173}},"trouble":{"since":1795495026968,"reason":"the simulated engine at 127.0.0.1:39715 cannot be reached"},"due_at":1795495034173}',NULL,'elsewhere','sim 127.0.0.1:39715');
INSERT INTO "tasks" VALUES(13,'d2qnt4josg77rsqstm2lbiz6wuyfg3ol','everyone','abandoned',1795495027021,3,253402207200000,4635679027025,NULL,NULL,'engine','',1795495027025,'8.tb-r5gtmgs4o4o72iht2ao66yhgnm',0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,'aaee82baaac4226b8300a081684094ec9c6680d05bb0397ac1137ede5649bda2',1795495029275,'{"id":"d2qnt4josg77rsqstm2lbiz6wuyfg3ol","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-r5gtmgs4o4o72iht2ao66yhgnm","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795495027021,"changed_at":1795495027021,"state":"working","job":{"open":{"handle":"8.tb-r5gtmgs4o4o72iht2ao66yhgnm","group":"","started_at":1795495027025}},"undelivered":{"digest":"aaee82baaac4226b8300a081684094ec9c6680d05bb0397ac1137ede5649bda2","waiting_until":1795495029275},"due_at":4635679027025}',NULL,'engine','sim 127.0.0.1:45777');
INSERT INTO "tasks" VALUES(14,'oku37nxwg2hhskzrrundtktxcnpxuvpq','everyone','starting',1795495031284,1,253402207200000,1795495031284,1795495033285,'vm.u7gvs3mrpd3y63i6',NULL,NULL,NULL,NULL,0,'cmlhhxnvy2fdhu7odppocv5jbu',NULL,NULL,NULL,'{"id":"oku37nxwg2hhskzrrundtktxcnpxuvpq","owner":"everyone","tool":"starting","backend":"engine","key":"tb-t752nomjtwolo4feb5nju2wh3e","origin":{"session":"cmlhhxnvy2fdhu7odppocv5jbu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795495031284,"changed_at":1795495031284,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795495031284}},"due_at":1795495031284}',NULL,'engine','sim 127.0.0.1:45777');
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

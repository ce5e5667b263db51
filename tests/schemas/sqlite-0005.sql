PRAGMA application_id = 1952543595;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
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
INSERT INTO "entries" VALUES(1,'gfagwypinimudbndj56gkyvgctlp6ufr',1,1795356000885,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'gfagwypinimudbndj56gkyvgctlp6ufr',2,1795356000909,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"0.tb-z42s3ffdcxbwx6jnufocoljgsq"}],"call":{"to":"start","ms":5}}');
INSERT INTO "entries" VALUES(3,'gfagwypinimudbndj56gkyvgctlp6ufr',3,1795356001027,'vm.atmo2ezbshkvh2nw','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(4,'3dycydoaqchvg7v6xk2ssdt2nfefa6d7',1,1795356001066,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'3dycydoaqchvg7v6xk2ssdt2nfefa6d7',2,1795356001070,'vm.atmo2ezbshkvh2nw','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(6,'kheerd6ji3ay5wxdx4lhk56yxxmileys',1,1795356001127,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'kheerd6ji3ay5wxdx4lhk56yxxmileys',2,1795356001181,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"1.tb-j7wqazixdirnq4qo2mzulom2y4"}],"call":{"to":"start","ms":2}}');
INSERT INTO "entries" VALUES(8,'kheerd6ji3ay5wxdx4lhk56yxxmileys',3,1795356001291,'vm.atmo2ezbshkvh2nw','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":2}}');
INSERT INTO "entries" VALUES(9,'ak34cbgzayrq3p6x2eausetxzq62ifev',1,1795356001345,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'ak34cbgzayrq3p6x2eausetxzq62ifev',2,1795356001373,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"2.tb-xn5sbattzafxecizkkux4fh4d4"}],"call":{"to":"start","ms":8}}');
INSERT INTO "entries" VALUES(11,'ak34cbgzayrq3p6x2eausetxzq62ifev',3,1795356001494,'vm.atmo2ezbshkvh2nw','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(12,'gdrtb6nfqazf6hmpd2nv36v3of2akcxn',1,1795356001527,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'gdrtb6nfqazf6hmpd2nv36v3of2akcxn',3,1795356001998,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"3.tb-voe57eyz5mzwhreyhrdo33gnlq"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(14,'gdrtb6nfqazf6hmpd2nv36v3of2akcxn',4,1795356002481,'vm.atmo2ezbshkvh2nw','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'ut4l3glzhsmvblatwsvhjmqvulfejq4w',1,1795356002747,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(16,'gdrtb6nfqazf6hmpd2nv36v3of2akcxn',6,1795356002760,'vm.atmo2ezbshkvh2nw','{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO "entries" VALUES(17,'ut4l3glzhsmvblatwsvhjmqvulfejq4w',2,1795356002760,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"4.tb-aikyxzvqhtrmkp5da4dctahyky"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(18,'gdrtb6nfqazf6hmpd2nv36v3of2akcxn',7,1795356002766,'vm.atmo2ezbshkvh2nw','{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(19,'ut4l3glzhsmvblatwsvhjmqvulfejq4w',3,1795356003257,'vm.atmo2ezbshkvh2nw','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(20,'ut4l3glzhsmvblatwsvhjmqvulfejq4w',5,1795356003274,'vm.atmo2ezbshkvh2nw','{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO "entries" VALUES(21,'miwoh2ybuh6ipyxxs3cma6khlezxjeyz',1,1795356003274,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(22,'jkmwqtf4qqjilrcupbga5z44g2n37jnm',1,1795356003317,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(23,'jkmwqtf4qqjilrcupbga5z44g2n37jnm',2,1795356003332,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"5.tb-gvwjvnhaai4owj7dmencttafei"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(24,'gbnqtmxh46l6zo5fkcb5qnts4vcxqmqs',1,1795356003337,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(25,'2mq7djgixi4gf4epdfgzaor6kx3xi22e',1,1795356003340,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(26,'2mq7djgixi4gf4epdfgzaor6kx3xi22e',2,1795356003344,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"6.tb-u3tfc4m4zhsf5jbn56alc6eu4i"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(27,'eaq4gtf2betnigokgjtpkja2ijg5ykrp',1,1795356003344,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(28,'eaq4gtf2betnigokgjtpkja2ijg5ykrp',2,1795356003350,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"7.tb-lvkrgdcpoufjva64f4hscyvyny"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(29,'2mq7djgixi4gf4epdfgzaor6kx3xi22e',3,1795356003448,'vm.atmo2ezbshkvh2nw','{"what":[{"progress":{"done":104.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(30,'eaq4gtf2betnigokgjtpkja2ijg5ykrp',3,1795356003450,'vm.atmo2ezbshkvh2nw','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(31,'hbybuq2sxkx5pvezayficshakmz2njak',1,1795356003466,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(32,'hbybuq2sxkx5pvezayficshakmz2njak',2,1795356003468,'vm.atmo2ezbshkvh2nw','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(33,'uboxfp7tp5njduvhnwsafp7zjqc2av5r',1,1795356003475,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(34,'uboxfp7tp5njduvhnwsafp7zjqc2av5r',2,1795356003489,'vm.atmo2ezbshkvh2nw','{"what":[{"accepted":"8.tb-sehb7ervx4jlbd3wfvcnp2t6ci"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(35,'hbybuq2sxkx5pvezayficshakmz2njak',4,1795356003750,'vm.atmo2ezbshkvh2nw','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(36,'hbybuq2sxkx5pvezayficshakmz2njak',5,1795356003763,'vm.atmo2ezbshkvh2nw','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(37,'hbybuq2sxkx5pvezayficshakmz2njak',7,1795356004345,'vm.atmo2ezbshkvh2nw','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(38,'hbybuq2sxkx5pvezayficshakmz2njak',8,1795356004347,'vm.atmo2ezbshkvh2nw','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(39,'2mq7djgixi4gf4epdfgzaor6kx3xi22e',9,1795356004368,'vm.atmo2ezbshkvh2nw','{"what":[{"progress":{"done":1023.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(40,'2mq7djgixi4gf4epdfgzaor6kx3xi22e',12,1795356005363,'vm.atmo2ezbshkvh2nw','{"what":[{"progress":{"done":2015.0,"total":3600000.0}}],"call":{"to":"look","ms":3}}');
INSERT INTO "entries" VALUES(41,'hbybuq2sxkx5pvezayficshakmz2njak',10,1795356005599,'vm.atmo2ezbshkvh2nw','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(42,'hbybuq2sxkx5pvezayficshakmz2njak',11,1795356005618,'vm.atmo2ezbshkvh2nw','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(43,'uboxfp7tp5njduvhnwsafp7zjqc2av5r',3,1795356005742,'vm.atmo2ezbshkvh2nw','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(44,'hbybuq2sxkx5pvezayficshakmz2njak',13,1795356007220,'vm.atmo2ezbshkvh2nw','{"what":[{"attempt":5}]}');
INSERT INTO "entries" VALUES(45,'hbybuq2sxkx5pvezayficshakmz2njak',14,1795356007233,'vm.atmo2ezbshkvh2nw','{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(46,'2mq7djgixi4gf4epdfgzaor6kx3xi22e',30,1795356007392,'vm.atmo2ezbshkvh2nw','{"what":[{"progress":{"done":4048.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(47,'buttvf6uui7cx7ziif735y624ue5furr',1,1795356007770,'vm.atmo2ezbshkvh2nw','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine','','vm.atmo2ezbshkvh2nw',1795356009268);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'9E7DE22FD72443482C46E9B4DAEC44CD019DE8E61A037AC4B8EC76DF78939020');
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
INSERT INTO "once" VALUES('owner:everyone','the key of then','23718408dd3ee48ee472ec561280cf4ad359414fcfa0a230854c651e4e811df5','ak34cbgzayrq3p6x2eausetxzq62ifev');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('gfagwypinimudbndj56gkyvgctlp6ufr','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('3dycydoaqchvg7v6xk2ssdt2nfefa6d7','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('ak34cbgzayrq3p6x2eausetxzq62ifev','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('jx42vfzmo77f4n4xcmibuna3hu',4635540000877,'{"level":"error"}');
INSERT INTO "sessions" VALUES('ur5hvfpouwrafef4drdq7yrnzi',4635540005748,NULL);
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('tool:open','2mq7djgixi4gf4epdfgzaor6kx3xi22e');
INSERT INTO "slots" VALUES('group:narrow','jkmwqtf4qqjilrcupbga5z44g2n37jnm');
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
, log_until INTEGER) STRICT;
INSERT INTO "tasks" VALUES(1,'gfagwypinimudbndj56gkyvgctlp6ufr','everyone','failed',1795356000883,3,4635540001026,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"gfagwypinimudbndj56gkyvgctlp6ufr","owner":"everyone","tool":"failed","backend":"engine","key":"tb-z42s3ffdcxbwx6jnufocoljgsq","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356000883,"changed_at":1795356001026,"ended_at":1795356001026,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-z42s3ffdcxbwx6jnufocoljgsq"}}}',NULL);
INSERT INTO "tasks" VALUES(2,'3dycydoaqchvg7v6xk2ssdt2nfefa6d7','everyone','refused',1795356001065,2,4635540001069,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"3dycydoaqchvg7v6xk2ssdt2nfefa6d7","owner":"everyone","tool":"refused","backend":"engine","key":"tb-pqvqnz4b5zclqhw7o7qg4qqgla","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356001065,"changed_at":1795356001069,"ended_at":1795356001069,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}',NULL);
INSERT INTO "tasks" VALUES(3,'kheerd6ji3ay5wxdx4lhk56yxxmileys','everyone','gone',1795356001126,3,4635540001290,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"kheerd6ji3ay5wxdx4lhk56yxxmileys","owner":"everyone","tool":"gone","backend":"engine","key":"tb-j7wqazixdirnq4qo2mzulom2y4","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356001126,"changed_at":1795356001290,"ended_at":1795356001290,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-j7wqazixdirnq4qo2mzulom2y4"}}}',NULL);
INSERT INTO "tasks" VALUES(4,'ak34cbgzayrq3p6x2eausetxzq62ifev','everyone','succeeded',1795356001342,3,4635540001493,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"ak34cbgzayrq3p6x2eausetxzq62ifev","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-xn5sbattzafxecizkkux4fh4d4","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356001342,"changed_at":1795356001493,"ended_at":1795356001493,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-xn5sbattzafxecizkkux4fh4d4"}}}',NULL);
INSERT INTO "tasks" VALUES(5,'gdrtb6nfqazf6hmpd2nv36v3of2akcxn','everyone','cancelled',1795356001526,7,4635540002480,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"gdrtb6nfqazf6hmpd2nv36v3of2akcxn","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-voe57eyz5mzwhreyhrdo33gnlq","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356001526,"changed_at":1795356002480,"ended_at":1795356002480,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-voe57eyz5mzwhreyhrdo33gnlq"}},"cancel":{"at":1795356002480,"taken":true,"attempts":0,"not_before":1795356602748}}',NULL);
INSERT INTO "tasks" VALUES(6,'ut4l3glzhsmvblatwsvhjmqvulfejq4w','everyone','cancelling',1795356002739,5,4635540003257,1795356603272,NULL,NULL,'engine','',1795356002751,'4.tb-aikyxzvqhtrmkp5da4dctahyky',0,NULL,NULL,NULL,NULL,'{"id":"ut4l3glzhsmvblatwsvhjmqvulfejq4w","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-aikyxzvqhtrmkp5da4dctahyky","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356002739,"changed_at":1795356003257,"ended_at":1795356003257,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-aikyxzvqhtrmkp5da4dctahyky","group":"","started_at":1795356002751}},"cancel":{"at":1795356003257,"taken":true,"attempts":0,"not_before":1795356603272},"due_at":1795356603272}',NULL);
INSERT INTO "tasks" VALUES(7,'miwoh2ybuh6ipyxxs3cma6khlezxjeyz','everyone','waits_for_consent',1795356003273,1,7475724003273,4635540003273,NULL,NULL,NULL,NULL,NULL,NULL,0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,NULL,NULL,'{"id":"miwoh2ybuh6ipyxxs3cma6khlezxjeyz","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-w2nzlvjazlzefunf7mgaimshcq","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356003273,"changed_at":1795356003273,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795356003273}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795356003273,"status":"open"}],"due_at":4635540003273}',NULL);
INSERT INTO "tasks" VALUES(8,'jkmwqtf4qqjilrcupbga5z44g2n37jnm','everyone','holds',1795356003316,2,7475724003316,4635540003316,NULL,NULL,'engine','',1795356003322,'5.tb-gvwjvnhaai4owj7dmencttafei',0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,NULL,NULL,'{"id":"jkmwqtf4qqjilrcupbga5z44g2n37jnm","owner":"everyone","tool":"holds","backend":"engine","key":"tb-gvwjvnhaai4owj7dmencttafei","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795356003316,"changed_at":1795356003316,"state":"working","job":{"open":{"handle":"5.tb-gvwjvnhaai4owj7dmencttafei","group":"","started_at":1795356003322}},"due_at":4635540003316}',NULL);
INSERT INTO "tasks" VALUES(9,'gbnqtmxh46l6zo5fkcb5qnts4vcxqmqs','everyone','queued',1795356003332,1,7475724003332,4635540003332,NULL,NULL,NULL,NULL,NULL,NULL,0,'jx42vfzmo77f4n4xcmibuna3hu','["group:narrow"]',NULL,NULL,'{"id":"gbnqtmxh46l6zo5fkcb5qnts4vcxqmqs","owner":"everyone","tool":"queued","backend":"engine","key":"tb-b752ulggujh5hfcflaky7n5jba","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795356003332,"changed_at":1795356003332,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795356003332}},"due_at":4635540003332}',NULL);
INSERT INTO "tasks" VALUES(10,'2mq7djgixi4gf4epdfgzaor6kx3xi22e','everyone','open',1795356003340,33,7475724003340,4635540003340,NULL,NULL,'engine','',1795356003343,'6.tb-u3tfc4m4zhsf5jbn56alc6eu4i',0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,NULL,NULL,'{"id":"2mq7djgixi4gf4epdfgzaor6kx3xi22e","owner":"everyone","tool":"open","backend":"engine","key":"tb-u3tfc4m4zhsf5jbn56alc6eu4i","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795356003340,"changed_at":1795356007706,"state":"working","message":"step 4362 of 3600000","progress":{"done":4362.0,"total":3600000.0},"furthest":4362.0,"job":{"open":{"handle":"6.tb-u3tfc4m4zhsf5jbn56alc6eu4i","group":"","started_at":1795356003343}},"due_at":4635540003340}',NULL);
INSERT INTO "tasks" VALUES(11,'eaq4gtf2betnigokgjtpkja2ijg5ykrp','everyone','asks',1795356003344,3,7475724003344,4635540003344,NULL,NULL,'engine','',1795356003346,'7.tb-lvkrgdcpoufjva64f4hscyvyny',0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,NULL,NULL,'{"id":"eaq4gtf2betnigokgjtpkja2ijg5ykrp","owner":"everyone","tool":"asks","backend":"engine","key":"tb-lvkrgdcpoufjva64f4hscyvyny","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356003344,"changed_at":1795356003449,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-lvkrgdcpoufjva64f4hscyvyny","group":"","started_at":1795356003346}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795356003449,"status":"open"}],"due_at":4635540003344}',NULL);
INSERT INTO "tasks" VALUES(12,'hbybuq2sxkx5pvezayficshakmz2njak','everyone','pending',1795356003466,14,7475724003466,1795356010703,NULL,NULL,NULL,NULL,NULL,NULL,0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,NULL,NULL,'{"id":"hbybuq2sxkx5pvezayficshakmz2njak","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-uevjq56j2levnicckf7dx3xfae","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356003466,"changed_at":1795356003468,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795356010703}},"trouble":{"since":1795356003468,"reason":"the simulated engine at 127.0.0.1:36105 cannot be reached"},"due_at":1795356010703}',NULL);
INSERT INTO "tasks" VALUES(13,'uboxfp7tp5njduvhnwsafp7zjqc2av5r','everyone','abandoned',1795356003475,3,7475724003475,4635540003475,NULL,NULL,'engine','',1795356003477,'8.tb-sehb7ervx4jlbd3wfvcnp2t6ci',0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,'1e5da1125b50e2853fd32627000ac4175e0d55a81a0468fe0342edb183f0ebc6',1795356005739,'{"id":"uboxfp7tp5njduvhnwsafp7zjqc2av5r","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-sehb7ervx4jlbd3wfvcnp2t6ci","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795356003475,"changed_at":1795356003475,"state":"working","job":{"open":{"handle":"8.tb-sehb7ervx4jlbd3wfvcnp2t6ci","group":"","started_at":1795356003477}},"undelivered":{"digest":"1e5da1125b50e2853fd32627000ac4175e0d55a81a0468fe0342edb183f0ebc6","waiting_until":1795356005739},"due_at":4635540003475}',NULL);
INSERT INTO "tasks" VALUES(14,'buttvf6uui7cx7ziif735y624ue5furr','everyone','starting',1795356007765,1,7475724007765,1795356007765,1795356009770,'vm.atmo2ezbshkvh2nw',NULL,NULL,NULL,NULL,0,'jx42vfzmo77f4n4xcmibuna3hu',NULL,NULL,NULL,'{"id":"buttvf6uui7cx7ziif735y624ue5furr","owner":"everyone","tool":"starting","backend":"engine","key":"tb-2x3itox47rilbfj5nzotmyzkmi","origin":{"session":"jx42vfzmo77f4n4xcmibuna3hu"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795356007765,"changed_at":1795356007765,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795356007765}},"due_at":1795356007765}',NULL);
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
COMMIT;

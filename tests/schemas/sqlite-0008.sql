PRAGMA application_id = 1952543595;
PRAGMA user_version = 8;
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
INSERT INTO "entries" VALUES(1,'qczk5wxmehlv7qctoyqmaayquq4rdkcz',1,1795663234227,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'qczk5wxmehlv7qctoyqmaayquq4rdkcz',2,1795663234253,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"0.tb-elwwv76lijch2uocbox4zrdeiu"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(3,'qczk5wxmehlv7qctoyqmaayquq4rdkcz',3,1795663234361,'vm.hzn5et6dzqag7lrg','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(4,'cwufujmx3fcc3cmf2aprjjvqgg7pwazo',1,1795663234454,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'cwufujmx3fcc3cmf2aprjjvqgg7pwazo',2,1795663234485,'vm.hzn5et6dzqag7lrg','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":11}}');
INSERT INTO "entries" VALUES(6,'vq5fboycrrawlnzlhp7xgeg3ipo7q32c',1,1795663234491,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'vq5fboycrrawlnzlhp7xgeg3ipo7q32c',2,1795663234532,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"1.tb-25dyamfejxadg2qto2tmiojc5q"}],"call":{"to":"start","ms":3}}');
INSERT INTO "entries" VALUES(8,'vq5fboycrrawlnzlhp7xgeg3ipo7q32c',3,1795663234650,'vm.hzn5et6dzqag7lrg','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":3}}');
INSERT INTO "entries" VALUES(9,'g6ovzkapni6ekhvyxd7krcfuttudu557',1,1795663234704,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'g6ovzkapni6ekhvyxd7krcfuttudu557',2,1795663234781,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"2.tb-ggy6ysy7o7i4vba4cxx3b5xewu"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(11,'g6ovzkapni6ekhvyxd7krcfuttudu557',3,1795663234912,'vm.hzn5et6dzqag7lrg','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":7}}');
INSERT INTO "entries" VALUES(12,'6uly2vaf2qjzl5a2sxgu64yqxommxtzt',1,1795663235032,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'6uly2vaf2qjzl5a2sxgu64yqxommxtzt',2,1795663235085,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"3.tb-u5ny66lh7xdztz55dwji4hxmqe"}],"call":{"to":"start","ms":21}}');
INSERT INTO "entries" VALUES(14,'6uly2vaf2qjzl5a2sxgu64yqxommxtzt',3,1795663235570,'vm.hzn5et6dzqag7lrg','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus',1,1795663235580,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}}]}');
INSERT INTO "entries" VALUES(16,'6uly2vaf2qjzl5a2sxgu64yqxommxtzt',5,1795663235601,'vm.hzn5et6dzqag7lrg','{"what":["cancel_taken"],"call":{"to":"cancel","ms":3}}');
INSERT INTO "entries" VALUES(17,'nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus',3,1795663235629,'vm.hzn5et6dzqag7lrg','{"what":[{"attempt":1}]}');
INSERT INTO "entries" VALUES(18,'6uly2vaf2qjzl5a2sxgu64yqxommxtzt',6,1795663235629,'vm.hzn5et6dzqag7lrg','{"what":["job_over"],"call":{"to":"look","ms":3}}');
INSERT INTO "entries" VALUES(19,'nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus',4,1795663235642,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"4.tb-aksj76pkkxcsc3m27usttsqjye"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(20,'nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus',5,1795663236144,'vm.hzn5et6dzqag7lrg','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(21,'d43mm2gl6koeuit6jujsrsjpwwotnno4',1,1795663236180,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(22,'nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus',7,1795663236196,'vm.hzn5et6dzqag7lrg','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(23,'yhgmpobll3v4yc2sl43u3bzkpexmzwsh',1,1795663236222,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(24,'yhgmpobll3v4yc2sl43u3bzkpexmzwsh',2,1795663236228,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"5.tb-jliwfku3wicmonxvx5yeyb35wy"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(25,'6sjjm6jctu5za6xzbawaxsvmnjdmeyfm',1,1795663236241,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(26,'w7ey4qc2lc3e554ezo674e7v44svvrzj',1,1795663236246,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(27,'w7ey4qc2lc3e554ezo674e7v44svvrzj',2,1795663236258,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"6.tb-3b63uj4du4memzporoawxx5pyq"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(28,'e5b3nc6q73b2q556ljhujy4u2t46a2el',1,1795663236282,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(29,'e5b3nc6q73b2q556ljhujy4u2t46a2el',2,1795663236296,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"7.tb-j5erno7eg46ra4rhu6lpqumpcq"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(30,'w7ey4qc2lc3e554ezo674e7v44svvrzj',3,1795663236335,'vm.hzn5et6dzqag7lrg','{"what":[{"progress":{"done":87.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(31,'e5b3nc6q73b2q556ljhujy4u2t46a2el',3,1795663236428,'vm.hzn5et6dzqag7lrg','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":1}}');
INSERT INTO "entries" VALUES(32,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',1,1795663236524,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(33,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',2,1795663236549,'vm.hzn5et6dzqag7lrg','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":12}}');
INSERT INTO "entries" VALUES(34,'o6shewttepcmn3jlzti2crolwca5ogmk',1,1795663236614,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(35,'o6shewttepcmn3jlzti2crolwca5ogmk',2,1795663236633,'vm.hzn5et6dzqag7lrg','{"what":[{"accepted":"8.tb-6pnwsfencnjqho4c2evof6jkiq"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(36,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',4,1795663236855,'vm.hzn5et6dzqag7lrg','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(37,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',5,1795663236913,'vm.hzn5et6dzqag7lrg','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(38,'w7ey4qc2lc3e554ezo674e7v44svvrzj',11,1795663237313,'vm.hzn5et6dzqag7lrg','{"what":[{"progress":{"done":1059.0,"total":3600000.0}}],"call":{"to":"look","ms":5}}');
INSERT INTO "entries" VALUES(39,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',7,1795663237494,'vm.hzn5et6dzqag7lrg','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(40,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',8,1795663237517,'vm.hzn5et6dzqag7lrg','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(41,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',10,1795663238273,'vm.hzn5et6dzqag7lrg','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(42,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',11,1795663238300,'vm.hzn5et6dzqag7lrg','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":4}}');
INSERT INTO "entries" VALUES(43,'w7ey4qc2lc3e554ezo674e7v44svvrzj',20,1795663238349,'vm.hzn5et6dzqag7lrg','{"what":[{"progress":{"done":2101.0,"total":3600000.0}}],"call":{"to":"look","ms":16}}');
INSERT INTO "entries" VALUES(44,'o6shewttepcmn3jlzti2crolwca5ogmk',3,1795663238872,'vm.hzn5et6dzqag7lrg','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(45,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',13,1795663239957,'vm.hzn5et6dzqag7lrg','{"what":[{"attempt":5}]}');
INSERT INTO "entries" VALUES(46,'xp3t2iopabrnxyf2izym2uiqkoa5gebo',14,1795663239988,'vm.hzn5et6dzqag7lrg','{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":2}}');
INSERT INTO "entries" VALUES(47,'w7ey4qc2lc3e554ezo674e7v44svvrzj',35,1795663240275,'vm.hzn5et6dzqag7lrg','{"what":[{"progress":{"done":4026.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(48,'rg774ulexn2s7gye3eqdk6sux6n3s4oz',1,1795663240933,'vm.hzn5et6dzqag7lrg','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE facts (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "facts" VALUES('clock','{"boot":"d576e444-3b1b-47df-984b-c87d1947e232","uptime":{"secs":41329,"nanos":317247714},"time":1795663234102,"held_until":null}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine @ sim engine','','vm.hzn5et6dzqag7lrg',1795663242689);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'8F75709C2AA9E369C0E1283DBAD4B712DAEAD8FC859F69C649368914FA71A563');
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
INSERT INTO "once" VALUES('owner:everyone','the key of then','2878008072245c49e1049f8a80b7c2a4510fbb50ee09802c75ad33e63c61a39a','g6ovzkapni6ekhvyxd7krcfuttudu557');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('qczk5wxmehlv7qctoyqmaayquq4rdkcz','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('cwufujmx3fcc3cmf2aprjjvqgg7pwazo','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('g6ovzkapni6ekhvyxd7krcfuttudu557','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('gy3evtm65a365tnfnu7f3uibpe',4635847238904,NULL);
INSERT INTO "sessions" VALUES('r34b3ccg6garviomkphjx3g3ra',4635847234221,'{"level":"error"}');
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('tool:open','w7ey4qc2lc3e554ezo674e7v44svvrzj');
INSERT INTO "slots" VALUES('group:narrow','yhgmpobll3v4yc2sl43u3bzkpexmzwsh');
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
, log_until INTEGER, of_backend TEXT, identity TEXT, bytes INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "tasks" VALUES(1,'qczk5wxmehlv7qctoyqmaayquq4rdkcz','everyone','failed',1795663234226,3,4635847234361,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"qczk5wxmehlv7qctoyqmaayquq4rdkcz","owner":"everyone","tool":"failed","backend":"engine","key":"tb-elwwv76lijch2uocbox4zrdeiu","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663234226,"changed_at":1795663234361,"ended_at":1795663234361,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-elwwv76lijch2uocbox4zrdeiu"}}}',NULL,'engine','sim engine',692);
INSERT INTO "tasks" VALUES(2,'cwufujmx3fcc3cmf2aprjjvqgg7pwazo','everyone','refused',1795663234453,2,4635847234485,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"cwufujmx3fcc3cmf2aprjjvqgg7pwazo","owner":"everyone","tool":"refused","backend":"engine","key":"tb-jekp4gvbqx6qqvmtz3qailquw4","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663234453,"changed_at":1795663234485,"ended_at":1795663234485,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}',NULL,'engine','sim engine',653);
INSERT INTO "tasks" VALUES(3,'vq5fboycrrawlnzlhp7xgeg3ipo7q32c','everyone','gone',1795663234491,3,4635847234650,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"vq5fboycrrawlnzlhp7xgeg3ipo7q32c","owner":"everyone","tool":"gone","backend":"engine","key":"tb-25dyamfejxadg2qto2tmiojc5q","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663234491,"changed_at":1795663234650,"ended_at":1795663234650,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-25dyamfejxadg2qto2tmiojc5q"}}}',NULL,'engine','sim engine',688);
INSERT INTO "tasks" VALUES(4,'g6ovzkapni6ekhvyxd7krcfuttudu557','everyone','succeeded',1795663234704,3,4635847234909,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"g6ovzkapni6ekhvyxd7krcfuttudu557","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-ggy6ysy7o7i4vba4cxx3b5xewu","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663234704,"changed_at":1795663234909,"ended_at":1795663234909,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-ggy6ysy7o7i4vba4cxx3b5xewu"}}}',NULL,'engine','sim engine',699);
INSERT INTO "tasks" VALUES(5,'6uly2vaf2qjzl5a2sxgu64yqxommxtzt','everyone','cancelled',1795663235029,6,4635847235569,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"6uly2vaf2qjzl5a2sxgu64yqxommxtzt","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-u5ny66lh7xdztz55dwji4hxmqe","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663235029,"changed_at":1795663235569,"ended_at":1795663235569,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-u5ny66lh7xdztz55dwji4hxmqe"}},"cancel":{"at":1795663235569,"taken":true,"attempts":0,"not_before":1795663835586}}',NULL,'engine','sim engine',744);
INSERT INTO "tasks" VALUES(6,'nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus','everyone','cancelling',1795663235574,7,4635847236143,1795663836180,NULL,NULL,'engine','',1795663235629,'4.tb-aksj76pkkxcsc3m27usttsqjye',0,NULL,NULL,NULL,NULL,'{"id":"nqbxklmjl2ghkvwbgmkwdmwx4j4mqaus","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-aksj76pkkxcsc3m27usttsqjye","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663235574,"changed_at":1795663236143,"ended_at":1795663236143,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-aksj76pkkxcsc3m27usttsqjye","group":"","started_at":1795663235629}},"cancel":{"at":1795663236143,"taken":true,"attempts":0,"not_before":1795663836180},"due_at":1795663836180}',NULL,'engine','sim engine',703);
INSERT INTO "tasks" VALUES(7,'d43mm2gl6koeuit6jujsrsjpwwotnno4','everyone','waits_for_consent',1795663236170,1,253402207200000,4635847236170,NULL,NULL,NULL,NULL,NULL,NULL,0,'r34b3ccg6garviomkphjx3g3ra',NULL,NULL,NULL,'{"id":"d43mm2gl6koeuit6jujsrsjpwwotnno4","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-s5hrkl65tewnh6ms3rs5opfihy","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663236170,"changed_at":1795663236170,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795663236170}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795663236170,"status":"open"}],"due_at":4635847236170}',NULL,'engine','sim engine',848);
INSERT INTO "tasks" VALUES(8,'yhgmpobll3v4yc2sl43u3bzkpexmzwsh','everyone','holds',1795663236197,2,253402207200000,4635847236225,NULL,NULL,'engine','',1795663236225,'5.tb-jliwfku3wicmonxvx5yeyb35wy',0,'r34b3ccg6garviomkphjx3g3ra',NULL,NULL,NULL,'{"id":"yhgmpobll3v4yc2sl43u3bzkpexmzwsh","owner":"everyone","tool":"holds","backend":"engine","key":"tb-jliwfku3wicmonxvx5yeyb35wy","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795663236197,"changed_at":1795663236197,"state":"working","job":{"open":{"handle":"5.tb-jliwfku3wicmonxvx5yeyb35wy","group":"","started_at":1795663236225}},"due_at":4635847236225}',NULL,'engine','sim engine',688);
INSERT INTO "tasks" VALUES(9,'6sjjm6jctu5za6xzbawaxsvmnjdmeyfm','everyone','queued',1795663236225,1,253402207200000,4635847236225,NULL,NULL,NULL,NULL,NULL,NULL,0,'r34b3ccg6garviomkphjx3g3ra','["group:narrow"]',NULL,NULL,'{"id":"6sjjm6jctu5za6xzbawaxsvmnjdmeyfm","owner":"everyone","tool":"queued","backend":"engine","key":"tb-skm5xqxmvlz7gnr4yaqftpzlhq","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795663236225,"changed_at":1795663236225,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795663236225}},"due_at":4635847236225}',NULL,'engine','sim engine',709);
INSERT INTO "tasks" VALUES(10,'w7ey4qc2lc3e554ezo674e7v44svvrzj','everyone','open',1795663236245,40,253402207200000,4635847236247,NULL,NULL,'engine','',1795663236247,'6.tb-3b63uj4du4memzporoawxx5pyq',0,'r34b3ccg6garviomkphjx3g3ra',NULL,NULL,NULL,'{"id":"w7ey4qc2lc3e554ezo674e7v44svvrzj","owner":"everyone","tool":"open","backend":"engine","key":"tb-3b63uj4du4memzporoawxx5pyq","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795663236245,"changed_at":1795663240884,"state":"working","message":"step 4637 of 3600000","progress":{"done":4637.0,"total":3600000.0},"furthest":4637.0,"job":{"open":{"handle":"6.tb-3b63uj4du4memzporoawxx5pyq","group":"","started_at":1795663236247}},"due_at":4635847236247}',NULL,'engine','sim engine',700);
INSERT INTO "tasks" VALUES(11,'e5b3nc6q73b2q556ljhujy4u2t46a2el','everyone','asks',1795663236281,3,253402207200000,4635847236285,NULL,NULL,'engine','',1795663236285,'7.tb-j5erno7eg46ra4rhu6lpqumpcq',0,'r34b3ccg6garviomkphjx3g3ra',NULL,NULL,NULL,'{"id":"e5b3nc6q73b2q556ljhujy4u2t46a2el","owner":"everyone","tool":"asks","backend":"engine","key":"tb-j5erno7eg46ra4rhu6lpqumpcq","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663236281,"changed_at":1795663236427,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-j5erno7eg46ra4rhu6lpqumpcq","group":"","started_at":1795663236285}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795663236427,"status":"open"}],"due_at":4635847236285}',NULL,'engine','sim engine',712);
INSERT INTO "tasks" VALUES(12,'xp3t2iopabrnxyf2izym2uiqkoa5gebo','everyone','pending',1795663236512,14,253402207200000,1795663243516,NULL,NULL,NULL,NULL,NULL,NULL,0,'r34b3ccg6garviomkphjx3g3ra',NULL,NULL,NULL,'{"id":"xp3t2iopabrnxyf2izym2uiqkoa5gebo","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-wojtb6oj4sqq73s7m5ng7j6lwq","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663236512,"changed_at":1795663236548,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795663243516}},"trouble":{"since":1795663236548,"reason":"the simulated engine at 127.0.0.1:37183 cannot be reached"},"due_at":1795663243516}',NULL,'elsewhere','sim elsewhere',683);
INSERT INTO "tasks" VALUES(13,'o6shewttepcmn3jlzti2crolwca5ogmk','everyone','abandoned',1795663236590,3,253402207200000,4635847236617,NULL,NULL,'engine','',1795663236617,'8.tb-6pnwsfencnjqho4c2evof6jkiq',0,'r34b3ccg6garviomkphjx3g3ra',NULL,'c2a710f1eec7445914f96b424bc45a391d57e57d21c5b5f3dfee20c7b8937b1d',1795663238857,'{"id":"o6shewttepcmn3jlzti2crolwca5ogmk","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-6pnwsfencnjqho4c2evof6jkiq","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795663236590,"changed_at":1795663236590,"state":"working","job":{"open":{"handle":"8.tb-6pnwsfencnjqho4c2evof6jkiq","group":"","started_at":1795663236617}},"undelivered":{"digest":"c2a710f1eec7445914f96b424bc45a391d57e57d21c5b5f3dfee20c7b8937b1d","waiting_until":1795663238857},"due_at":4635847236617}',NULL,'engine','sim engine',789);
INSERT INTO "tasks" VALUES(14,'rg774ulexn2s7gye3eqdk6sux6n3s4oz','everyone','starting',1795663240932,1,253402207200000,1795663240932,1795663242933,'vm.hzn5et6dzqag7lrg',NULL,NULL,NULL,NULL,0,'r34b3ccg6garviomkphjx3g3ra',NULL,NULL,NULL,'{"id":"rg774ulexn2s7gye3eqdk6sux6n3s4oz","owner":"everyone","tool":"starting","backend":"engine","key":"tb-6yrlmhxvtmdozmzmuzplkvc5iy","origin":{"session":"r34b3ccg6garviomkphjx3g3ra"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"outcome_grace":{"secs":900,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795663240932,"changed_at":1795663240932,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795663240932}},"due_at":1795663240932}',NULL,'engine','sim engine',688);
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
CREATE INDEX tasks_of_owner ON tasks (owner, created_at, id, bytes);
COMMIT;

PRAGMA application_id = 1952543595;
PRAGMA user_version = 4;
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
INSERT INTO "entries" VALUES(1,'tn5wiydjcczqkhiwx7q3ycdfor7j26l6',1,1795309011247,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'tn5wiydjcczqkhiwx7q3ycdfor7j26l6',2,1795309011265,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"0.tb-f7m5szn5nqwycao3upwt4eftn4"}],"call":{"to":"start","ms":4}}');
INSERT INTO "entries" VALUES(3,'tn5wiydjcczqkhiwx7q3ycdfor7j26l6',3,1795309011438,'vm.vocyrsrscfbxx55w','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(4,'33jwqbwvgeaevj7vyrwxaplva55comxy',1,1795309011519,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'33jwqbwvgeaevj7vyrwxaplva55comxy',2,1795309011540,'vm.vocyrsrscfbxx55w','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(6,'ee5wlv3edbiffjtf3s5j3f5qdilezynk',1,1795309011614,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'ee5wlv3edbiffjtf3s5j3f5qdilezynk',2,1795309011635,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"1.tb-3tmolevf65t2y7qbjwn443uxaq"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(8,'ee5wlv3edbiffjtf3s5j3f5qdilezynk',3,1795309011767,'vm.vocyrsrscfbxx55w','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":4}}');
INSERT INTO "entries" VALUES(9,'7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c',1,1795309011827,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c',2,1795309011866,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"2.tb-3dwuzic5r24x43hocuhluiieru"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(11,'7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c',3,1795309011995,'vm.vocyrsrscfbxx55w','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(12,'7fwhuchvj6mff5mbwjkm2dyatvpdgoj6',1,1795309012028,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'7fwhuchvj6mff5mbwjkm2dyatvpdgoj6',2,1795309012054,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"3.tb-ufdmsr62amntqbh5qvoqgn53jm"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(14,'7fwhuchvj6mff5mbwjkm2dyatvpdgoj6',3,1795309012550,'vm.vocyrsrscfbxx55w','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'5nfvfohebdhczcr5zke6csdycjaebgia',1,1795309012578,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(16,'7fwhuchvj6mff5mbwjkm2dyatvpdgoj6',5,1795309012614,'vm.vocyrsrscfbxx55w','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(17,'5nfvfohebdhczcr5zke6csdycjaebgia',2,1795309012614,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"4.tb-63iqocja4izrmatkpuux23vtfa"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(18,'7fwhuchvj6mff5mbwjkm2dyatvpdgoj6',6,1795309012653,'vm.vocyrsrscfbxx55w','{"what":["job_over"],"call":{"to":"look","ms":18}}');
INSERT INTO "entries" VALUES(19,'5nfvfohebdhczcr5zke6csdycjaebgia',3,1795309013118,'vm.vocyrsrscfbxx55w','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(20,'b4whcr5ccok543ljfeorjdgedco7bw5h',1,1795309013162,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(21,'5nfvfohebdhczcr5zke6csdycjaebgia',5,1795309013177,'vm.vocyrsrscfbxx55w','{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO "entries" VALUES(22,'3ce7tvld5saijgn4bsmzgvoqe4xj6gma',1,1795309013177,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(23,'3ce7tvld5saijgn4bsmzgvoqe4xj6gma',2,1795309013197,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"5.tb-4hmm3l5rg23qzih3c4t7liispi"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(24,'wt4fukiteccp6vs6hovp5sa2tpn74it5',1,1795309013211,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(25,'c4pnry6ctdqa2bb2ayqpebiu5acobepx',1,1795309013263,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(26,'c4pnry6ctdqa2bb2ayqpebiu5acobepx',2,1795309013278,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"6.tb-z4u5aeqrcy5xb37xbatualhevy"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(27,'qus77hy7z5wtbfvs7wzznvr54iq527x7',1,1795309013278,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(28,'qus77hy7z5wtbfvs7wzznvr54iq527x7',2,1795309013291,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"7.tb-wtwhqf6kjcg2oigrso4yofuqiu"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(29,'c4pnry6ctdqa2bb2ayqpebiu5acobepx',3,1795309013402,'vm.vocyrsrscfbxx55w','{"what":[{"progress":{"done":115.0,"total":3600000.0}}],"call":{"to":"look","ms":9}}');
INSERT INTO "entries" VALUES(30,'qus77hy7z5wtbfvs7wzznvr54iq527x7',3,1795309013402,'vm.vocyrsrscfbxx55w','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":9}}');
INSERT INTO "entries" VALUES(31,'m3y2jngms5vobgvlvonbgijcqgnpyooh',1,1795309013447,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(32,'m3y2jngms5vobgvlvonbgijcqgnpyooh',2,1795309013452,'vm.vocyrsrscfbxx55w','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":4}}');
INSERT INTO "entries" VALUES(33,'fnzwztaykoninybkrklrwi2wjuj6qzwv',1,1795309013534,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(34,'fnzwztaykoninybkrklrwi2wjuj6qzwv',2,1795309013549,'vm.vocyrsrscfbxx55w','{"what":[{"accepted":"8.tb-l3fqfrwmo3g5bq5swpnil2brcm"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(35,'m3y2jngms5vobgvlvonbgijcqgnpyooh',4,1795309013743,'vm.vocyrsrscfbxx55w','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(36,'m3y2jngms5vobgvlvonbgijcqgnpyooh',5,1795309013761,'vm.vocyrsrscfbxx55w','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(37,'c4pnry6ctdqa2bb2ayqpebiu5acobepx',10,1795309014270,'vm.vocyrsrscfbxx55w','{"what":[{"progress":{"done":1001.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(38,'m3y2jngms5vobgvlvonbgijcqgnpyooh',7,1795309014310,'vm.vocyrsrscfbxx55w','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(39,'m3y2jngms5vobgvlvonbgijcqgnpyooh',8,1795309014321,'vm.vocyrsrscfbxx55w','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(40,'c4pnry6ctdqa2bb2ayqpebiu5acobepx',20,1795309015318,'vm.vocyrsrscfbxx55w','{"what":[{"progress":{"done":2052.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(41,'m3y2jngms5vobgvlvonbgijcqgnpyooh',10,1795309015490,'vm.vocyrsrscfbxx55w','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(42,'m3y2jngms5vobgvlvonbgijcqgnpyooh',11,1795309015505,'vm.vocyrsrscfbxx55w','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(43,'fnzwztaykoninybkrklrwi2wjuj6qzwv',3,1795309015807,'vm.vocyrsrscfbxx55w','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(44,'c4pnry6ctdqa2bb2ayqpebiu5acobepx',38,1795309017325,'vm.vocyrsrscfbxx55w','{"what":[{"progress":{"done":4059.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(45,'q4qygz46g4c27vlmj7mh67x2wzwoay6z',1,1795309017902,'vm.vocyrsrscfbxx55w','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine','','vm.vocyrsrscfbxx55w',1795309019610);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'F2EC4EB5AFE3712932856E4FD2C5D69248D895D9931EA8E70D2E265BD80729EB');
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
INSERT INTO "once" VALUES('owner:everyone','the key of then','848f00563a1e852059803e0c00bca7dd7ca55590decfc079726b8af90c40a733','7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('tn5wiydjcczqkhiwx7q3ycdfor7j26l6','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('33jwqbwvgeaevj7vyrwxaplva55comxy','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('rwwbytsyeqerd7wkit4cnxol3m',4635493015882,NULL);
INSERT INTO "sessions" VALUES('z7lheitneyjndx3hgn4yxcim4e',4635493011230,'{"level":"error"}');
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('group:narrow','3ce7tvld5saijgn4bsmzgvoqe4xj6gma');
INSERT INTO "slots" VALUES('tool:open','c4pnry6ctdqa2bb2ayqpebiu5acobepx');
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
) STRICT;
INSERT INTO "tasks" VALUES(1,'tn5wiydjcczqkhiwx7q3ycdfor7j26l6','everyone','failed',1795309011246,3,4635493011435,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"tn5wiydjcczqkhiwx7q3ycdfor7j26l6","owner":"everyone","tool":"failed","backend":"engine","key":"tb-f7m5szn5nqwycao3upwt4eftn4","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309011246,"changed_at":1795309011435,"ended_at":1795309011435,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-f7m5szn5nqwycao3upwt4eftn4"}}}');
INSERT INTO "tasks" VALUES(2,'33jwqbwvgeaevj7vyrwxaplva55comxy','everyone','refused',1795309011518,2,4635493011539,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"33jwqbwvgeaevj7vyrwxaplva55comxy","owner":"everyone","tool":"refused","backend":"engine","key":"tb-h6lc5iobcejcxz4n7lupahkwmq","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309011518,"changed_at":1795309011539,"ended_at":1795309011539,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}');
INSERT INTO "tasks" VALUES(3,'ee5wlv3edbiffjtf3s5j3f5qdilezynk','everyone','gone',1795309011610,3,4635493011762,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"ee5wlv3edbiffjtf3s5j3f5qdilezynk","owner":"everyone","tool":"gone","backend":"engine","key":"tb-3tmolevf65t2y7qbjwn443uxaq","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309011610,"changed_at":1795309011762,"ended_at":1795309011762,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-3tmolevf65t2y7qbjwn443uxaq"}}}');
INSERT INTO "tasks" VALUES(4,'7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c','everyone','succeeded',1795309011826,3,4635493011994,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"7z6emzfpnpkqkrmqyqfrmu2gvr5e6g5c","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-3dwuzic5r24x43hocuhluiieru","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309011826,"changed_at":1795309011994,"ended_at":1795309011994,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-3dwuzic5r24x43hocuhluiieru"}}}');
INSERT INTO "tasks" VALUES(5,'7fwhuchvj6mff5mbwjkm2dyatvpdgoj6','everyone','cancelled',1795309012027,6,4635493012544,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"7fwhuchvj6mff5mbwjkm2dyatvpdgoj6","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-ufdmsr62amntqbh5qvoqgn53jm","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309012027,"changed_at":1795309012544,"ended_at":1795309012544,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-ufdmsr62amntqbh5qvoqgn53jm"}},"cancel":{"at":1795309012544,"taken":true,"attempts":0,"not_before":1795309612594}}');
INSERT INTO "tasks" VALUES(6,'5nfvfohebdhczcr5zke6csdycjaebgia','everyone','cancelling',1795309012567,5,4635493013104,1795309613175,NULL,NULL,'engine','',1795309012603,'4.tb-63iqocja4izrmatkpuux23vtfa',0,NULL,NULL,NULL,NULL,'{"id":"5nfvfohebdhczcr5zke6csdycjaebgia","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-63iqocja4izrmatkpuux23vtfa","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309012567,"changed_at":1795309013104,"ended_at":1795309013104,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-63iqocja4izrmatkpuux23vtfa","group":"","started_at":1795309012603}},"cancel":{"at":1795309013104,"taken":true,"attempts":0,"not_before":1795309613175},"due_at":1795309613175}');
INSERT INTO "tasks" VALUES(7,'b4whcr5ccok543ljfeorjdgedco7bw5h','everyone','waits_for_consent',1795309013160,1,7475677013160,4635493013160,NULL,NULL,NULL,NULL,NULL,NULL,0,'z7lheitneyjndx3hgn4yxcim4e',NULL,NULL,NULL,'{"id":"b4whcr5ccok543ljfeorjdgedco7bw5h","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-mzetfyo7tjqoo5pqjut57vsdea","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309013160,"changed_at":1795309013160,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795309013160}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795309013160,"status":"open"}],"due_at":4635493013160}');
INSERT INTO "tasks" VALUES(8,'3ce7tvld5saijgn4bsmzgvoqe4xj6gma','everyone','holds',1795309013176,2,7475677013176,4635493013176,NULL,NULL,'engine','',1795309013195,'5.tb-4hmm3l5rg23qzih3c4t7liispi',0,'z7lheitneyjndx3hgn4yxcim4e',NULL,NULL,NULL,'{"id":"3ce7tvld5saijgn4bsmzgvoqe4xj6gma","owner":"everyone","tool":"holds","backend":"engine","key":"tb-4hmm3l5rg23qzih3c4t7liispi","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795309013176,"changed_at":1795309013176,"state":"working","job":{"open":{"handle":"5.tb-4hmm3l5rg23qzih3c4t7liispi","group":"","started_at":1795309013195}},"due_at":4635493013176}');
INSERT INTO "tasks" VALUES(9,'wt4fukiteccp6vs6hovp5sa2tpn74it5','everyone','queued',1795309013197,1,7475677013197,4635493013197,NULL,NULL,NULL,NULL,NULL,NULL,0,'z7lheitneyjndx3hgn4yxcim4e','["group:narrow"]',NULL,NULL,'{"id":"wt4fukiteccp6vs6hovp5sa2tpn74it5","owner":"everyone","tool":"queued","backend":"engine","key":"tb-w5qlirdt3al6wqt4cxbqberb4u","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795309013197,"changed_at":1795309013197,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795309013197}},"due_at":4635493013197}');
INSERT INTO "tasks" VALUES(10,'c4pnry6ctdqa2bb2ayqpebiu5acobepx','everyone','open',1795309013262,43,7475677013262,4635493013262,NULL,NULL,'engine','',1795309013265,'6.tb-z4u5aeqrcy5xb37xbatualhevy',0,'z7lheitneyjndx3hgn4yxcim4e',NULL,NULL,NULL,'{"id":"c4pnry6ctdqa2bb2ayqpebiu5acobepx","owner":"everyone","tool":"open","backend":"engine","key":"tb-z4u5aeqrcy5xb37xbatualhevy","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795309013262,"changed_at":1795309017854,"state":"working","message":"step 4588 of 3600000","progress":{"done":4588.0,"total":3600000.0},"furthest":4588.0,"job":{"open":{"handle":"6.tb-z4u5aeqrcy5xb37xbatualhevy","group":"","started_at":1795309013265}},"due_at":4635493013262}');
INSERT INTO "tasks" VALUES(11,'qus77hy7z5wtbfvs7wzznvr54iq527x7','everyone','asks',1795309013274,3,7475677013274,4635493013274,NULL,NULL,'engine','',1795309013280,'7.tb-wtwhqf6kjcg2oigrso4yofuqiu',0,'z7lheitneyjndx3hgn4yxcim4e',NULL,NULL,NULL,'{"id":"qus77hy7z5wtbfvs7wzznvr54iq527x7","owner":"everyone","tool":"asks","backend":"engine","key":"tb-wtwhqf6kjcg2oigrso4yofuqiu","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309013274,"changed_at":1795309013390,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-wtwhqf6kjcg2oigrso4yofuqiu","group":"","started_at":1795309013280}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795309013390,"status":"open"}],"due_at":4635493013274}');
INSERT INTO "tasks" VALUES(12,'m3y2jngms5vobgvlvonbgijcqgnpyooh','everyone','pending',1795309013446,11,7475677013446,1795309017967,NULL,NULL,NULL,NULL,NULL,NULL,0,'z7lheitneyjndx3hgn4yxcim4e',NULL,NULL,NULL,'{"id":"m3y2jngms5vobgvlvonbgijcqgnpyooh","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-tg2kxgfif3wrx3frxns5kumxiq","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309013446,"changed_at":1795309013452,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":4,"not_before":1795309017967}},"trouble":{"since":1795309013452,"reason":"the simulated engine at 127.0.0.1:37025 cannot be reached"},"due_at":1795309017967}');
INSERT INTO "tasks" VALUES(13,'fnzwztaykoninybkrklrwi2wjuj6qzwv','everyone','abandoned',1795309013531,3,7475677013531,4635493013531,NULL,NULL,'engine','',1795309013535,'8.tb-l3fqfrwmo3g5bq5swpnil2brcm',0,'z7lheitneyjndx3hgn4yxcim4e',NULL,'fbd74beff19dafcb541701a26ff194ca8d30513f611d18ba0c4e138efb4a2eca',1795309015806,'{"id":"fnzwztaykoninybkrklrwi2wjuj6qzwv","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-l3fqfrwmo3g5bq5swpnil2brcm","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795309013531,"changed_at":1795309013531,"state":"working","job":{"open":{"handle":"8.tb-l3fqfrwmo3g5bq5swpnil2brcm","group":"","started_at":1795309013535}},"undelivered":{"digest":"fbd74beff19dafcb541701a26ff194ca8d30513f611d18ba0c4e138efb4a2eca","waiting_until":1795309015806},"due_at":4635493013531}');
INSERT INTO "tasks" VALUES(14,'q4qygz46g4c27vlmj7mh67x2wzwoay6z','everyone','starting',1795309017898,1,7475677017898,1795309017898,1795309019902,'vm.vocyrsrscfbxx55w',NULL,NULL,NULL,NULL,0,'z7lheitneyjndx3hgn4yxcim4e',NULL,NULL,NULL,'{"id":"q4qygz46g4c27vlmj7mh67x2wzwoay6z","owner":"everyone","tool":"starting","backend":"engine","key":"tb-salfhmyjd3t36ppcuzayktxchu","origin":{"session":"z7lheitneyjndx3hgn4yxcim4e"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795309017898,"changed_at":1795309017898,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795309017898}},"due_at":1795309017898}');
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
COMMIT;

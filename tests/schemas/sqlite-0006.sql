PRAGMA application_id = 1952543595;
PRAGMA user_version = 6;
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
INSERT INTO "entries" VALUES(1,'mpl4624vaxpatcy7e36a5usuhjvv6wpo',1,1795431738316,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'mpl4624vaxpatcy7e36a5usuhjvv6wpo',2,1795431738337,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"0.tb-mejupyqxzz5j5fthstdd6lrnja"}],"call":{"to":"start","ms":2}}');
INSERT INTO "entries" VALUES(3,'mpl4624vaxpatcy7e36a5usuhjvv6wpo',3,1795431738445,'vm.fv6auvf4dwjdkrfb','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(4,'mvmgcagkgocr23x7n3f54usybfxtngx5',1,1795431738500,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'mvmgcagkgocr23x7n3f54usybfxtngx5',2,1795431738505,'vm.fv6auvf4dwjdkrfb','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":2}}');
INSERT INTO "entries" VALUES(6,'hleyx2qaie6gpq6hintr5rz7vixw2mdf',1,1795431738559,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'hleyx2qaie6gpq6hintr5rz7vixw2mdf',2,1795431738579,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"1.tb-co6q2exu3x3r3p3axt6rtem5cu"}],"call":{"to":"start","ms":2}}');
INSERT INTO "entries" VALUES(8,'hleyx2qaie6gpq6hintr5rz7vixw2mdf',3,1795431738687,'vm.fv6auvf4dwjdkrfb','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(9,'clqcpch4s2xz7bd262aworkq3fnhwply',1,1795431738732,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'clqcpch4s2xz7bd262aworkq3fnhwply',2,1795431738749,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"2.tb-j52ztcmaie53qomgrqinqqnllq"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(11,'clqcpch4s2xz7bd262aworkq3fnhwply',3,1795431738853,'vm.fv6auvf4dwjdkrfb','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(12,'23lfqvhmvuvr6yijnsq6vrd7kziurpb5',1,1795431738915,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'23lfqvhmvuvr6yijnsq6vrd7kziurpb5',2,1795431738929,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"3.tb-5rn3uau55iylcm22hk2uukzjey"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(14,'23lfqvhmvuvr6yijnsq6vrd7kziurpb5',3,1795431739421,'vm.fv6auvf4dwjdkrfb','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'byzi3j5umqbkjkd2rf43x55vsjagpi6w',1,1795431739426,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(16,'23lfqvhmvuvr6yijnsq6vrd7kziurpb5',5,1795431739438,'vm.fv6auvf4dwjdkrfb','{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO "entries" VALUES(17,'byzi3j5umqbkjkd2rf43x55vsjagpi6w',2,1795431739438,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"4.tb-j6nldyx3dcp4soh7wh7revnbme"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(18,'23lfqvhmvuvr6yijnsq6vrd7kziurpb5',6,1795431739445,'vm.fv6auvf4dwjdkrfb','{"what":["job_over"],"call":{"to":"look","ms":4}}');
INSERT INTO "entries" VALUES(19,'byzi3j5umqbkjkd2rf43x55vsjagpi6w',3,1795431739934,'vm.fv6auvf4dwjdkrfb','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(20,'byzi3j5umqbkjkd2rf43x55vsjagpi6w',5,1795431739942,'vm.fv6auvf4dwjdkrfb','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(21,'h6zpaonpn2cx63ta3nh6pxwdatnh7f2v',1,1795431739942,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(22,'adfqf2itnjhsqzmrcqrub3rcrtntw7yl',1,1795431739953,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(23,'adfqf2itnjhsqzmrcqrub3rcrtntw7yl',2,1795431739957,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"5.tb-gze5jn6kldqasgvn47onvltz4m"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(24,'35cfn4xbt4syjebmqyjgi2mcqq6dwl3t',1,1795431739960,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(25,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp',1,1795431739963,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(26,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp',2,1795431739970,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"6.tb-fs6euv5kopiqmfig77jjwf7klu"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(27,'ohtmga3t4gijr4amr7c32lz3w2xsyq6o',1,1795431739970,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(28,'ohtmga3t4gijr4amr7c32lz3w2xsyq6o',2,1795431739985,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"7.tb-6ut62qvemgpckkxh3md7nqvsha"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(29,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp',3,1795431740078,'vm.fv6auvf4dwjdkrfb','{"what":[{"progress":{"done":107.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(30,'ohtmga3t4gijr4amr7c32lz3w2xsyq6o',3,1795431740078,'vm.fv6auvf4dwjdkrfb','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(31,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',1,1795431740083,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(32,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',2,1795431740089,'vm.fv6auvf4dwjdkrfb','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(33,'sfv6vb6l4lg6ltijjsjqwptmm2fh2gzp',1,1795431740102,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(34,'sfv6vb6l4lg6ltijjsjqwptmm2fh2gzp',2,1795431740116,'vm.fv6auvf4dwjdkrfb','{"what":[{"accepted":"8.tb-m2x2inhfngbehyfvhqooezltje"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(35,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',4,1795431740379,'vm.fv6auvf4dwjdkrfb','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(36,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',5,1795431740393,'vm.fv6auvf4dwjdkrfb','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(37,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',7,1795431740983,'vm.fv6auvf4dwjdkrfb','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(38,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',8,1795431740998,'vm.fv6auvf4dwjdkrfb','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(39,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp',13,1795431741056,'vm.fv6auvf4dwjdkrfb','{"what":[{"progress":{"done":1086.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(40,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',10,1795431741751,'vm.fv6auvf4dwjdkrfb','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(41,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',11,1795431741764,'vm.fv6auvf4dwjdkrfb','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(42,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp',23,1795431742028,'vm.fv6auvf4dwjdkrfb','{"what":[{"progress":{"done":2058.0,"total":3600000.0}}],"call":{"to":"look","ms":3}}');
INSERT INTO "entries" VALUES(43,'sfv6vb6l4lg6ltijjsjqwptmm2fh2gzp',3,1795431742357,'vm.fv6auvf4dwjdkrfb','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(44,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',13,1795431743408,'vm.fv6auvf4dwjdkrfb','{"what":[{"attempt":5}]}');
INSERT INTO "entries" VALUES(45,'puzoyshvyzya6lvisbgxqa2bgxuxh77z',14,1795431743424,'vm.fv6auvf4dwjdkrfb','{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(46,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp',44,1795431743999,'vm.fv6auvf4dwjdkrfb','{"what":[{"progress":{"done":4029.0,"total":3600000.0}}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(47,'lmpyhra65wucc462v5aplpjafno2trga',1,1795431744368,'vm.fv6auvf4dwjdkrfb','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine','','vm.fv6auvf4dwjdkrfb',1795431745808);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'115321B0BBC595DC8EEDF5A6FA361B90A1B081ED23265B300F183940E21D08E4');
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
INSERT INTO "once" VALUES('owner:everyone','the key of then','d6dde33133afdedfe61db9347625be82e057cd61bc5ce4f0e7651b54641ec8a0','clqcpch4s2xz7bd262aworkq3fnhwply');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('mpl4624vaxpatcy7e36a5usuhjvv6wpo','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('mvmgcagkgocr23x7n3f54usybfxtngx5','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('clqcpch4s2xz7bd262aworkq3fnhwply','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('mgscdb2p5o6mvkkl7swqcffnkm',4635615738309,'{"level":"error"}');
INSERT INTO "sessions" VALUES('sfdgxvtx32gupxugs2eebcvgkm',4635615742362,NULL);
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('group:narrow','adfqf2itnjhsqzmrcqrub3rcrtntw7yl');
INSERT INTO "slots" VALUES('tool:open','jvybq3zuv37xwaj2qambtjqkjmwjtkyp');
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
INSERT INTO "tasks" VALUES(1,'mpl4624vaxpatcy7e36a5usuhjvv6wpo','everyone','failed',1795431738315,3,4635615738444,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"mpl4624vaxpatcy7e36a5usuhjvv6wpo","owner":"everyone","tool":"failed","backend":"engine","key":"tb-mejupyqxzz5j5fthstdd6lrnja","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431738315,"changed_at":1795431738444,"ended_at":1795431738444,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-mejupyqxzz5j5fthstdd6lrnja"}}}',NULL);
INSERT INTO "tasks" VALUES(2,'mvmgcagkgocr23x7n3f54usybfxtngx5','everyone','refused',1795431738495,2,4635615738504,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"mvmgcagkgocr23x7n3f54usybfxtngx5","owner":"everyone","tool":"refused","backend":"engine","key":"tb-l7ut6lpdxsgte4gtvsxd34swnu","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431738495,"changed_at":1795431738504,"ended_at":1795431738504,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}',NULL);
INSERT INTO "tasks" VALUES(3,'hleyx2qaie6gpq6hintr5rz7vixw2mdf','everyone','gone',1795431738558,3,4635615738687,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"hleyx2qaie6gpq6hintr5rz7vixw2mdf","owner":"everyone","tool":"gone","backend":"engine","key":"tb-co6q2exu3x3r3p3axt6rtem5cu","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431738558,"changed_at":1795431738687,"ended_at":1795431738687,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-co6q2exu3x3r3p3axt6rtem5cu"}}}',NULL);
INSERT INTO "tasks" VALUES(4,'clqcpch4s2xz7bd262aworkq3fnhwply','everyone','succeeded',1795431738732,3,4635615738853,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"clqcpch4s2xz7bd262aworkq3fnhwply","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-j52ztcmaie53qomgrqinqqnllq","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431738732,"changed_at":1795431738853,"ended_at":1795431738853,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-j52ztcmaie53qomgrqinqqnllq"}}}',NULL);
INSERT INTO "tasks" VALUES(5,'23lfqvhmvuvr6yijnsq6vrd7kziurpb5','everyone','cancelled',1795431738915,6,4635615739420,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"23lfqvhmvuvr6yijnsq6vrd7kziurpb5","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-5rn3uau55iylcm22hk2uukzjey","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431738915,"changed_at":1795431739420,"ended_at":1795431739420,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-5rn3uau55iylcm22hk2uukzjey"}},"cancel":{"at":1795431739420,"taken":true,"attempts":0,"not_before":1795432339426}}',NULL);
INSERT INTO "tasks" VALUES(6,'byzi3j5umqbkjkd2rf43x55vsjagpi6w','everyone','cancelling',1795431739426,5,4635615739933,1795432339940,NULL,NULL,'engine','',1795431739429,'4.tb-j6nldyx3dcp4soh7wh7revnbme',0,NULL,NULL,NULL,NULL,'{"id":"byzi3j5umqbkjkd2rf43x55vsjagpi6w","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-j6nldyx3dcp4soh7wh7revnbme","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431739426,"changed_at":1795431739933,"ended_at":1795431739933,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-j6nldyx3dcp4soh7wh7revnbme","group":"","started_at":1795431739429}},"cancel":{"at":1795431739933,"taken":true,"attempts":0,"not_before":1795432339940},"due_at":1795432339940}',NULL);
INSERT INTO "tasks" VALUES(7,'h6zpaonpn2cx63ta3nh6pxwdatnh7f2v','everyone','waits_for_consent',1795431739941,1,7475799739941,4635615739941,NULL,NULL,NULL,NULL,NULL,NULL,0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,NULL,NULL,'{"id":"h6zpaonpn2cx63ta3nh6pxwdatnh7f2v","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-agwdgvl3z6xapusvsxpc2bd5pe","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431739941,"changed_at":1795431739941,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795431739941}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795431739941,"status":"open"}],"due_at":4635615739941}',NULL);
INSERT INTO "tasks" VALUES(8,'adfqf2itnjhsqzmrcqrub3rcrtntw7yl','everyone','holds',1795431739952,2,7475799739952,4635615739952,NULL,NULL,'engine','',1795431739956,'5.tb-gze5jn6kldqasgvn47onvltz4m',0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,NULL,NULL,'{"id":"adfqf2itnjhsqzmrcqrub3rcrtntw7yl","owner":"everyone","tool":"holds","backend":"engine","key":"tb-gze5jn6kldqasgvn47onvltz4m","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795431739952,"changed_at":1795431739952,"state":"working","job":{"open":{"handle":"5.tb-gze5jn6kldqasgvn47onvltz4m","group":"","started_at":1795431739956}},"due_at":4635615739952}',NULL);
INSERT INTO "tasks" VALUES(9,'35cfn4xbt4syjebmqyjgi2mcqq6dwl3t','everyone','queued',1795431739956,1,7475799739956,4635615739956,NULL,NULL,NULL,NULL,NULL,NULL,0,'mgscdb2p5o6mvkkl7swqcffnkm','["group:narrow"]',NULL,NULL,'{"id":"35cfn4xbt4syjebmqyjgi2mcqq6dwl3t","owner":"everyone","tool":"queued","backend":"engine","key":"tb-55p3cqcftmhlvl2nilvn2mt2vy","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795431739956,"changed_at":1795431739956,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795431739956}},"due_at":4635615739956}',NULL);
INSERT INTO "tasks" VALUES(10,'jvybq3zuv37xwaj2qambtjqkjmwjtkyp','everyone','open',1795431739962,47,7475799739962,4635615739962,NULL,NULL,'engine','',1795431739969,'6.tb-fs6euv5kopiqmfig77jjwf7klu',0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,NULL,NULL,'{"id":"jvybq3zuv37xwaj2qambtjqkjmwjtkyp","owner":"everyone","tool":"open","backend":"engine","key":"tb-fs6euv5kopiqmfig77jjwf7klu","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795431739962,"changed_at":1795431744281,"state":"working","message":"step 4312 of 3600000","progress":{"done":4312.0,"total":3600000.0},"furthest":4312.0,"job":{"open":{"handle":"6.tb-fs6euv5kopiqmfig77jjwf7klu","group":"","started_at":1795431739969}},"due_at":4635615739962}',NULL);
INSERT INTO "tasks" VALUES(11,'ohtmga3t4gijr4amr7c32lz3w2xsyq6o','everyone','asks',1795431739968,3,7475799739968,4635615739968,NULL,NULL,'engine','',1795431739972,'7.tb-6ut62qvemgpckkxh3md7nqvsha',0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,NULL,NULL,'{"id":"ohtmga3t4gijr4amr7c32lz3w2xsyq6o","owner":"everyone","tool":"asks","backend":"engine","key":"tb-6ut62qvemgpckkxh3md7nqvsha","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431739968,"changed_at":1795431740077,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-6ut62qvemgpckkxh3md7nqvsha","group":"","started_at":1795431739972}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795431740077,"status":"open"}],"due_at":4635615739968}',NULL);
INSERT INTO "tasks" VALUES(12,'puzoyshvyzya6lvisbgxqa2bgxuxh77z','everyone','pending',1795431740082,14,7475799740082,1795431746972,NULL,NULL,NULL,NULL,NULL,NULL,0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,NULL,NULL,'{"id":"puzoyshvyzya6lvisbgxqa2bgxuxh77z","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-57uuxpnn23vymvasd3h3zp3o34","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431740082,"changed_at":1795431740089,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795431746972}},"trouble":{"since":1795431740089,"reason":"the simulated engine at 127.0.0.1:46649 cannot be reached"},"due_at":1795431746972}',NULL);
INSERT INTO "tasks" VALUES(13,'sfv6vb6l4lg6ltijjsjqwptmm2fh2gzp','everyone','abandoned',1795431740100,3,7475799740100,4635615740100,NULL,NULL,'engine','',1795431740103,'8.tb-m2x2inhfngbehyfvhqooezltje',0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,'f6e835b565cd3b60128451b62923e08db67265ce8c296621bf7a1ac5f7428b74',1795431742356,'{"id":"sfv6vb6l4lg6ltijjsjqwptmm2fh2gzp","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-m2x2inhfngbehyfvhqooezltje","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795431740100,"changed_at":1795431740100,"state":"working","job":{"open":{"handle":"8.tb-m2x2inhfngbehyfvhqooezltje","group":"","started_at":1795431740103}},"undelivered":{"digest":"f6e835b565cd3b60128451b62923e08db67265ce8c296621bf7a1ac5f7428b74","waiting_until":1795431742356},"due_at":4635615740100}',NULL);
INSERT INTO "tasks" VALUES(14,'lmpyhra65wucc462v5aplpjafno2trga','everyone','starting',1795431744367,1,7475799744367,1795431744367,1795431746368,'vm.fv6auvf4dwjdkrfb',NULL,NULL,NULL,NULL,0,'mgscdb2p5o6mvkkl7swqcffnkm',NULL,NULL,NULL,'{"id":"lmpyhra65wucc462v5aplpjafno2trga","owner":"everyone","tool":"starting","backend":"engine","key":"tb-2pp5as2jetzhy5ger7tl2hujy4","origin":{"session":"mgscdb2p5o6mvkkl7swqcffnkm"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795431744367,"changed_at":1795431744367,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795431744367}},"due_at":1795431744367}',NULL);
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

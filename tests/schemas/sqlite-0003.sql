PRAGMA application_id = 1952543595;
PRAGMA user_version = 3;
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
INSERT INTO "entries" VALUES(1,'koqkhwrc3rdk7uort2ucgz46g6kcttxo',1,1795308355339,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"failed","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(2,'koqkhwrc3rdk7uort2ucgz46g6kcttxo',2,1795308355400,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"0.tb-x5kmi7ze4a76ws2tezsexqinpa"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(3,'koqkhwrc3rdk7uort2ucgz46g6kcttxo',3,1795308355555,'vm.xytnfiquy3tjrrmw','{"what":[{"ended":"failed"}],"call":{"to":"look","ms":9}}');
INSERT INTO "entries" VALUES(4,'v3ct5bxreq4dlhghqjq7y7zxvgquaj7r',1,1795308355620,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"refused","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(5,'v3ct5bxreq4dlhghqjq7y7zxvgquaj7r',2,1795308355671,'vm.xytnfiquy3tjrrmw','{"what":[{"start_failed":{"attempt":1,"kind":"rejected"}},{"ended":"failed"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(6,'x2zd7agjgpsdiapwgaerqmhmpqe7f375',1,1795308355726,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"gone","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(7,'x2zd7agjgpsdiapwgaerqmhmpqe7f375',2,1795308355759,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"1.tb-mxlvoi5u6ghneig64xsb3ovgma"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(8,'x2zd7agjgpsdiapwgaerqmhmpqe7f375',3,1795308355890,'vm.xytnfiquy3tjrrmw','{"what":[{"ended":"broken"}],"call":{"to":"look","ms":14}}');
INSERT INTO "entries" VALUES(9,'ye2cl4lcen7jnudcq4x2t2wfhi3rdygb',1,1795308355996,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"succeeded","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(10,'ye2cl4lcen7jnudcq4x2t2wfhi3rdygb',2,1795308356042,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"2.tb-cuew2a2vod6qgapbb2mwbtkyfy"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(11,'ye2cl4lcen7jnudcq4x2t2wfhi3rdygb',3,1795308356235,'vm.xytnfiquy3tjrrmw','{"what":[{"ended":"succeeded"}],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(12,'liwmkn3zauiehwobaecj7czgbwqosoea',1,1795308356300,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"cancelled","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(13,'liwmkn3zauiehwobaecj7czgbwqosoea',2,1795308356461,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"3.tb-iwih7utyw7ojp3btziiv3vt5fe"}],"call":{"to":"start","ms":14}}');
INSERT INTO "entries" VALUES(14,'liwmkn3zauiehwobaecj7czgbwqosoea',3,1795308356961,'vm.xytnfiquy3tjrrmw','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(15,'2d2v7qsxzd4nq5jzji6fqyzjea5oqdjn',1,1795308357007,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"cancelling","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(16,'liwmkn3zauiehwobaecj7czgbwqosoea',5,1795308357023,'vm.xytnfiquy3tjrrmw','{"what":["cancel_taken"],"call":{"to":"cancel","ms":1}}');
INSERT INTO "entries" VALUES(17,'2d2v7qsxzd4nq5jzji6fqyzjea5oqdjn',2,1795308357023,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"4.tb-zxfi5qk7kefutmucwsrqtpxqre"}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(18,'liwmkn3zauiehwobaecj7czgbwqosoea',6,1795308357040,'vm.xytnfiquy3tjrrmw','{"what":["job_over"],"call":{"to":"look","ms":0}}');
INSERT INTO "entries" VALUES(19,'2d2v7qsxzd4nq5jzji6fqyzjea5oqdjn',3,1795308357526,'vm.xytnfiquy3tjrrmw','{"what":["cancel_wished",{"ended":"cancelled"}]}');
INSERT INTO "entries" VALUES(20,'arj5re4pd5dzeavrpodrzp42ewskzh2u',1,1795308357572,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"waits_for_consent","backend":"engine"}},{"asked":"q1"}]}');
INSERT INTO "entries" VALUES(21,'2d2v7qsxzd4nq5jzji6fqyzjea5oqdjn',5,1795308357586,'vm.xytnfiquy3tjrrmw','{"what":["cancel_taken"],"call":{"to":"cancel","ms":0}}');
INSERT INTO "entries" VALUES(22,'p2eh4gk5crwo45334kmjfeesjjq3nbal',1,1795308357586,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"holds","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(23,'p2eh4gk5crwo45334kmjfeesjjq3nbal',2,1795308357614,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"5.tb-vcz752awdtwhi62yonq24yu7q4"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(24,'ifwpzaqvnqlxkhqn4y5il3dkigzvw2p2',1,1795308357668,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"queued","backend":"engine"}},"queued"]}');
INSERT INTO "entries" VALUES(25,'j3pcvjwdxm4c6be6izeaym5j7onaslm4',1,1795308357742,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"open","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(26,'hlmempi42m5xtsrmt6dnupyqy2q5y7xl',1,1795308357767,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"asks","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(27,'j3pcvjwdxm4c6be6izeaym5j7onaslm4',2,1795308357777,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"6.tb-3grnmgz37yjiuxg2es5puiac6y"}],"call":{"to":"start","ms":4}}');
INSERT INTO "entries" VALUES(28,'hlmempi42m5xtsrmt6dnupyqy2q5y7xl',2,1795308357777,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"7.tb-rleh6zvaon3jxspm4eyjw3siiu"}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(29,'hlmempi42m5xtsrmt6dnupyqy2q5y7xl',3,1795308357918,'vm.xytnfiquy3tjrrmw','{"what":[{"asked":"q1"}],"call":{"to":"look","ms":8}}');
INSERT INTO "entries" VALUES(30,'j3pcvjwdxm4c6be6izeaym5j7onaslm4',3,1795308357918,'vm.xytnfiquy3tjrrmw','{"what":[{"progress":{"done":126.0,"total":3600000.0}}],"call":{"to":"look","ms":8}}');
INSERT INTO "entries" VALUES(31,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',1,1795308358058,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"pending","backend":"elsewhere"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(32,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',2,1795308358068,'vm.xytnfiquy3tjrrmw','{"what":[{"start_failed":{"attempt":1,"kind":"unavailable"}}],"call":{"to":"start","ms":1}}');
INSERT INTO "entries" VALUES(33,'faxaw67dbk3vqodrfzkzpa7hvjxr6pmk',1,1795308358164,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"abandoned","backend":"engine"}},{"attempt":1}]}');
INSERT INTO "entries" VALUES(34,'faxaw67dbk3vqodrfzkzpa7hvjxr6pmk',2,1795308358217,'vm.xytnfiquy3tjrrmw','{"what":[{"accepted":"8.tb-5ripobchkeowsdz7s6ncw5i3ii"}],"call":{"to":"start","ms":3}}');
INSERT INTO "entries" VALUES(35,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',4,1795308358294,'vm.xytnfiquy3tjrrmw','{"what":[{"attempt":2}]}');
INSERT INTO "entries" VALUES(36,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',5,1795308358308,'vm.xytnfiquy3tjrrmw','{"what":[{"start_failed":{"attempt":2,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(37,'j3pcvjwdxm4c6be6izeaym5j7onaslm4',9,1795308358762,'vm.xytnfiquy3tjrrmw','{"what":[{"progress":{"done":991.0,"total":3600000.0}}],"call":{"to":"look","ms":3}}');
INSERT INTO "entries" VALUES(38,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',7,1795308358794,'vm.xytnfiquy3tjrrmw','{"what":[{"attempt":3}]}');
INSERT INTO "entries" VALUES(39,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',8,1795308358813,'vm.xytnfiquy3tjrrmw','{"what":[{"start_failed":{"attempt":3,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(40,'j3pcvjwdxm4c6be6izeaym5j7onaslm4',18,1795308359719,'vm.xytnfiquy3tjrrmw','{"what":[{"progress":{"done":1950.0,"total":3600000.0}}],"call":{"to":"look","ms":1}}');
INSERT INTO "entries" VALUES(41,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',10,1795308360036,'vm.xytnfiquy3tjrrmw','{"what":[{"attempt":4}]}');
INSERT INTO "entries" VALUES(42,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',11,1795308360068,'vm.xytnfiquy3tjrrmw','{"what":[{"start_failed":{"attempt":4,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(43,'faxaw67dbk3vqodrfzkzpa7hvjxr6pmk',3,1795308360497,'vm.xytnfiquy3tjrrmw','{"what":["caller_gone"]}');
INSERT INTO "entries" VALUES(44,'j3pcvjwdxm4c6be6izeaym5j7onaslm4',33,1795308361739,'vm.xytnfiquy3tjrrmw','{"what":[{"progress":{"done":3966.0,"total":3600000.0}}],"call":{"to":"look","ms":5}}');
INSERT INTO "entries" VALUES(45,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',13,1795308362205,'vm.xytnfiquy3tjrrmw','{"what":[{"attempt":5}]}');
INSERT INTO "entries" VALUES(46,'6amnb4letmt2bmczs7uxe3y6hdtw6crw',14,1795308362235,'vm.xytnfiquy3tjrrmw','{"what":[{"start_failed":{"attempt":5,"kind":"unavailable"}}],"call":{"to":"start","ms":0}}');
INSERT INTO "entries" VALUES(47,'pf55tppm3jthbud5owz2vjtusqkjikmy',1,1795308362528,'vm.xytnfiquy3tjrrmw','{"what":[{"created":{"owner":"everyone","tool":"starting","backend":"engine"}},{"attempt":1}]}');
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine','','vm.xytnfiquy3tjrrmw',1795308364390);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'E9ED5FFF4C280365A6AF648CC86FA42A0C21FE400BD3651A0EF733CB31B6F718');
CREATE TABLE once (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest TEXT NOT NULL,
    task   TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "once" VALUES('owner:everyone','the key of then','09abfbed538fae8fa0469611d032286303948f986b770ec7f426fb5034beea43','ye2cl4lcen7jnudcq4x2t2wfhi3rdygb');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('koqkhwrc3rdk7uort2ucgz46g6kcttxo','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('v3ct5bxreq4dlhghqjq7y7zxvgquaj7r','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('ye2cl4lcen7jnudcq4x2t2wfhi3rdygb','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('iokv3jwfxtjwdmyb6mwfiju3ka',4635492360502,NULL);
INSERT INTO "sessions" VALUES('rsu3qujobfb6brq3jajpgsrrnq',4635492355335,'{"level":"error"}');
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('tool:open','j3pcvjwdxm4c6be6izeaym5j7onaslm4');
INSERT INTO "slots" VALUES('group:narrow','p2eh4gk5crwo45334kmjfeesjjq3nbal');
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
INSERT INTO "tasks" VALUES(1,'koqkhwrc3rdk7uort2ucgz46g6kcttxo','everyone','failed',1795308355338,3,4635492355553,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"koqkhwrc3rdk7uort2ucgz46g6kcttxo","owner":"everyone","tool":"failed","backend":"engine","key":"tb-x5kmi7ze4a76ws2tezsexqinpa","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308355338,"changed_at":1795308355553,"ended_at":1795308355553,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-x5kmi7ze4a76ws2tezsexqinpa"}}}');
INSERT INTO "tasks" VALUES(2,'v3ct5bxreq4dlhghqjq7y7zxvgquaj7r','everyone','refused',1795308355619,2,4635492355670,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"v3ct5bxreq4dlhghqjq7y7zxvgquaj7r","owner":"everyone","tool":"refused","backend":"engine","key":"tb-w56n2y472cyfyppf3l6azpyiv4","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308355619,"changed_at":1795308355670,"ended_at":1795308355670,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}');
INSERT INTO "tasks" VALUES(3,'x2zd7agjgpsdiapwgaerqmhmpqe7f375','everyone','gone',1795308355723,3,4635492355884,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"x2zd7agjgpsdiapwgaerqmhmpqe7f375","owner":"everyone","tool":"gone","backend":"engine","key":"tb-mxlvoi5u6ghneig64xsb3ovgma","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308355723,"changed_at":1795308355884,"ended_at":1795308355884,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-mxlvoi5u6ghneig64xsb3ovgma"}}}');
INSERT INTO "tasks" VALUES(4,'ye2cl4lcen7jnudcq4x2t2wfhi3rdygb','everyone','succeeded',1795308355995,3,4635492356234,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"ye2cl4lcen7jnudcq4x2t2wfhi3rdygb","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-cuew2a2vod6qgapbb2mwbtkyfy","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308355995,"changed_at":1795308356234,"ended_at":1795308356234,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-cuew2a2vod6qgapbb2mwbtkyfy"}}}');
INSERT INTO "tasks" VALUES(5,'liwmkn3zauiehwobaecj7czgbwqosoea','everyone','cancelled',1795308356298,6,4635492356954,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"liwmkn3zauiehwobaecj7czgbwqosoea","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-iwih7utyw7ojp3btziiv3vt5fe","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308356298,"changed_at":1795308356954,"ended_at":1795308356954,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-iwih7utyw7ojp3btziiv3vt5fe"}},"cancel":{"at":1795308356954,"taken":true,"attempts":0,"not_before":1795308957012}}');
INSERT INTO "tasks" VALUES(6,'2d2v7qsxzd4nq5jzji6fqyzjea5oqdjn','everyone','cancelling',1795308357004,5,4635492357525,1795308957575,NULL,NULL,'engine','',1795308357013,'4.tb-zxfi5qk7kefutmucwsrqtpxqre',0,NULL,NULL,NULL,NULL,'{"id":"2d2v7qsxzd4nq5jzji6fqyzjea5oqdjn","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-zxfi5qk7kefutmucwsrqtpxqre","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308357004,"changed_at":1795308357525,"ended_at":1795308357525,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-zxfi5qk7kefutmucwsrqtpxqre","group":"","started_at":1795308357013}},"cancel":{"at":1795308357525,"taken":true,"attempts":0,"not_before":1795308957575},"due_at":1795308957575}');
INSERT INTO "tasks" VALUES(7,'arj5re4pd5dzeavrpodrzp42ewskzh2u','everyone','waits_for_consent',1795308357572,1,7475676357572,4635492357572,NULL,NULL,NULL,NULL,NULL,NULL,0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,NULL,NULL,'{"id":"arj5re4pd5dzeavrpodrzp42ewskzh2u","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-u7zfb5hrw7bowkq7ugu5lnfzru","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308357572,"changed_at":1795308357572,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795308357572}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795308357572,"status":"open"}],"due_at":4635492357572}');
INSERT INTO "tasks" VALUES(8,'p2eh4gk5crwo45334kmjfeesjjq3nbal','everyone','holds',1795308357576,2,7475676357576,4635492357576,NULL,NULL,'engine','',1795308357600,'5.tb-vcz752awdtwhi62yonq24yu7q4',0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,NULL,NULL,'{"id":"p2eh4gk5crwo45334kmjfeesjjq3nbal","owner":"everyone","tool":"holds","backend":"engine","key":"tb-vcz752awdtwhi62yonq24yu7q4","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308357576,"changed_at":1795308357576,"state":"working","job":{"open":{"handle":"5.tb-vcz752awdtwhi62yonq24yu7q4","group":"","started_at":1795308357600}},"due_at":4635492357576}');
INSERT INTO "tasks" VALUES(9,'ifwpzaqvnqlxkhqn4y5il3dkigzvw2p2','everyone','queued',1795308357607,1,7475676357607,4635492357607,NULL,NULL,NULL,NULL,NULL,NULL,0,'rsu3qujobfb6brq3jajpgsrrnq','["group:narrow"]',NULL,NULL,'{"id":"ifwpzaqvnqlxkhqn4y5il3dkigzvw2p2","owner":"everyone","tool":"queued","backend":"engine","key":"tb-6ncod5vnlioe66yz5mz6tiagwq","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308357607,"changed_at":1795308357607,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795308357607}},"due_at":4635492357607}');
INSERT INTO "tasks" VALUES(10,'j3pcvjwdxm4c6be6izeaym5j7onaslm4','everyone','open',1795308357718,39,7475676357718,4635492357718,NULL,NULL,'engine','',1795308357767,'6.tb-3grnmgz37yjiuxg2es5puiac6y',0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,NULL,NULL,'{"id":"j3pcvjwdxm4c6be6izeaym5j7onaslm4","owner":"everyone","tool":"open","backend":"engine","key":"tb-3grnmgz37yjiuxg2es5puiac6y","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795308357718,"changed_at":1795308362438,"state":"working","message":"step 4670 of 3600000","progress":{"done":4670.0,"total":3600000.0},"furthest":4670.0,"job":{"open":{"handle":"6.tb-3grnmgz37yjiuxg2es5puiac6y","group":"","started_at":1795308357767}},"due_at":4635492357718}');
INSERT INTO "tasks" VALUES(11,'hlmempi42m5xtsrmt6dnupyqy2q5y7xl','everyone','asks',1795308357766,3,7475676357766,4635492357766,NULL,NULL,'engine','',1795308357775,'7.tb-rleh6zvaon3jxspm4eyjw3siiu',0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,NULL,NULL,'{"id":"hlmempi42m5xtsrmt6dnupyqy2q5y7xl","owner":"everyone","tool":"asks","backend":"engine","key":"tb-rleh6zvaon3jxspm4eyjw3siiu","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308357766,"changed_at":1795308357899,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-rleh6zvaon3jxspm4eyjw3siiu","group":"","started_at":1795308357775}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795308357899,"status":"open"}],"due_at":4635492357766}');
INSERT INTO "tasks" VALUES(12,'6amnb4letmt2bmczs7uxe3y6hdtw6crw','everyone','pending',1795308358054,14,7475676358054,1795308366765,NULL,NULL,NULL,NULL,NULL,NULL,0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,NULL,NULL,'{"id":"6amnb4letmt2bmczs7uxe3y6hdtw6crw","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-3msuuclqzvhzakkxntlcnyafnm","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308358054,"changed_at":1795308358068,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795308366765}},"trouble":{"since":1795308358068,"reason":"the simulated engine at 127.0.0.1:45513 cannot be reached"},"due_at":1795308366765}');
INSERT INTO "tasks" VALUES(13,'faxaw67dbk3vqodrfzkzpa7hvjxr6pmk','everyone','abandoned',1795308358158,3,7475676358158,4635492358158,NULL,NULL,'engine','',1795308358206,'8.tb-5ripobchkeowsdz7s6ncw5i3ii',0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,'49eb833acc64e7500e9d613a8bb8cfae2055488b2cf79fee8a1d55b2d979b278',1795308360432,'{"id":"faxaw67dbk3vqodrfzkzpa7hvjxr6pmk","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-5ripobchkeowsdz7s6ncw5i3ii","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308358158,"changed_at":1795308358158,"state":"working","job":{"open":{"handle":"8.tb-5ripobchkeowsdz7s6ncw5i3ii","group":"","started_at":1795308358206}},"undelivered":{"digest":"49eb833acc64e7500e9d613a8bb8cfae2055488b2cf79fee8a1d55b2d979b278","waiting_until":1795308360432},"due_at":4635492358158}');
INSERT INTO "tasks" VALUES(14,'pf55tppm3jthbud5owz2vjtusqkjikmy','everyone','starting',1795308362527,1,7475676362527,1795308362527,1795308364528,'vm.xytnfiquy3tjrrmw',NULL,NULL,NULL,NULL,0,'rsu3qujobfb6brq3jajpgsrrnq',NULL,NULL,NULL,'{"id":"pf55tppm3jthbud5owz2vjtusqkjikmy","owner":"everyone","tool":"starting","backend":"engine","key":"tb-yafettudntc6ptlf5rgxov4cri","origin":{"session":"rsu3qujobfb6brq3jajpgsrrnq"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795308362527,"changed_at":1795308362527,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795308362527}},"due_at":1795308362527}');
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
COMMIT;

PRAGMA application_id = 1952543595;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('engine','','5h4is6ylnbbmqr7ctwlcxkiwsy',1795308162745);
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('seal',X'CB8C239C1C0535C58AD0F3A87B3F126767AB888883E763BC90688F5363575D9E');
CREATE TABLE once (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest TEXT NOT NULL,
    task   TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "once" VALUES('owner:everyone','the key of then','c165ae689228fe6d313e7ceec90d5a7cf0a687d04951fe13609333edb9b0586e','xi5wgdmsuwxjjc6yjbpftdtulgva4gjb');
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO "outputs" VALUES('gzuk5lw4vgi5l37hcteqln2eyujbnuva','{"content":[{"type":"text","text":"failed then"}]}');
INSERT INTO "outputs" VALUES('bkzfvropwyiy4jqmbv2ikn4qtmcglrle','{"content":[{"type":"text","text":"refused then"}]}');
INSERT INTO "outputs" VALUES('xi5wgdmsuwxjjc6yjbpftdtulgva4gjb','{"content":[{"type":"text","text":"kept from then"}]}');
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
, settings TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('7jknvz6nzi5h3hah3aox2akrhi',4635492159293,NULL);
INSERT INTO "sessions" VALUES('ozvscibdbngmwhs622elbbiwhe',4635492155179,'{"level":"error"}');
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
INSERT INTO "slots" VALUES('group:narrow','nibbdb7bcbmkx4bjuqb4ux5kl6acogow');
INSERT INTO "slots" VALUES('tool:open','segyflxmx2wylqp6omwlr23gjkojeokt');
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
INSERT INTO "tasks" VALUES(1,'gzuk5lw4vgi5l37hcteqln2eyujbnuva','everyone','failed',1795308155183,3,4635492155315,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"gzuk5lw4vgi5l37hcteqln2eyujbnuva","owner":"everyone","tool":"failed","backend":"engine","key":"tb-eg6p5mawobi67eh24pk4advbmu","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308155183,"changed_at":1795308155315,"ended_at":1795308155315,"state":{"ended":"failed"},"message":"failed then","job":{"closed":{"handle":"0.tb-eg6p5mawobi67eh24pk4advbmu"}}}');
INSERT INTO "tasks" VALUES(2,'bkzfvropwyiy4jqmbv2ikn4qtmcglrle','everyone','refused',1795308155366,2,4635492155379,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"bkzfvropwyiy4jqmbv2ikn4qtmcglrle","owner":"everyone","tool":"refused","backend":"engine","key":"tb-eu3zlo76kfvfepbuq3i7vgk2ia","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308155366,"changed_at":1795308155379,"ended_at":1795308155379,"state":{"ended":"failed"},"message":"refused then","job":{"closed":{}}}');
INSERT INTO "tasks" VALUES(3,'o677s6ymfk3d6uaop3eibd5cmem26lhk','everyone','gone',1795308155432,3,4635492155555,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"o677s6ymfk3d6uaop3eibd5cmem26lhk","owner":"everyone","tool":"gone","backend":"engine","key":"tb-onooqs3o3ic7cwxnuwsbakb43e","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308155432,"changed_at":1795308155555,"ended_at":1795308155555,"state":{"ended":"broken"},"message":"the engine no longer knows the job, so its end is not known","job":{"closed":{"handle":"1.tb-onooqs3o3ic7cwxnuwsbakb43e"}}}');
INSERT INTO "tasks" VALUES(4,'xi5wgdmsuwxjjc6yjbpftdtulgva4gjb','everyone','succeeded',1795308155601,3,4635492155730,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"xi5wgdmsuwxjjc6yjbpftdtulgva4gjb","owner":"everyone","tool":"succeeded","backend":"engine","key":"tb-nylvido6u6ddnb5a2aot442fw4","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":604800,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308155601,"changed_at":1795308155730,"ended_at":1795308155730,"state":{"ended":"succeeded"},"message":"succeeded","job":{"closed":{"handle":"2.tb-nylvido6u6ddnb5a2aot442fw4"}}}');
INSERT INTO "tasks" VALUES(5,'fu4mkitu2iik7jdrm7eyoraftizs2xz2','everyone','cancelled',1795308155781,6,4635492156291,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,'{"id":"fu4mkitu2iik7jdrm7eyoraftizs2xz2","owner":"everyone","tool":"cancelled","backend":"engine","key":"tb-quxwqzeucrabvyssumjhvevoiy","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308155781,"changed_at":1795308156291,"ended_at":1795308156291,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"closed":{"handle":"3.tb-quxwqzeucrabvyssumjhvevoiy"}},"cancel":{"at":1795308156291,"taken":true,"attempts":0,"not_before":1795308756297}}');
INSERT INTO "tasks" VALUES(6,'hhynprq3eembduxar22ly64cxdgbqalx','everyone','cancelling',1795308156294,5,4635492156798,1795308756804,NULL,NULL,'engine','',1795308156297,'4.tb-67orbokt4v7cknknh4tht325xq',0,NULL,NULL,NULL,NULL,'{"id":"hhynprq3eembduxar22ly64cxdgbqalx","owner":"everyone","tool":"cancelling","backend":"engine","key":"tb-67orbokt4v7cknknh4tht325xq","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308156294,"changed_at":1795308156798,"ended_at":1795308156798,"state":{"ended":"cancelled"},"message":"cancelled by request","job":{"open":{"handle":"4.tb-67orbokt4v7cknknh4tht325xq","group":"","started_at":1795308156297}},"cancel":{"at":1795308156798,"taken":true,"attempts":0,"not_before":1795308756804},"due_at":1795308756804}');
INSERT INTO "tasks" VALUES(7,'yxm2xl3q4qfew3wdserxhkd7ll2dqgww','everyone','waits_for_consent',1795308156801,1,7475676156801,4635492156801,NULL,NULL,NULL,NULL,NULL,NULL,0,'ozvscibdbngmwhs622elbbiwhe',NULL,NULL,NULL,'{"id":"yxm2xl3q4qfew3wdserxhkd7ll2dqgww","owner":"everyone","tool":"waits_for_consent","backend":"engine","key":"tb-uvrvcer33r46ax3jo2drcmqzce","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308156801,"changed_at":1795308156801,"state":"input_required","job":{"pending":{"spec":{"target":{},"arguments":{}},"queued":false,"attempts":0,"not_before":1795308156801}},"questions":[{"key":"q1","question":{"id":"confirm","message":"Go on?","schema":{"properties":{},"type":"object"}},"asker":"confirm","at":1795308156801,"status":"open"}],"due_at":4635492156801}');
INSERT INTO "tasks" VALUES(8,'nibbdb7bcbmkx4bjuqb4ux5kl6acogow','everyone','holds',1795308156806,2,7475676156806,4635492156806,NULL,NULL,'engine','',1795308156812,'5.tb-kuhsf2pa3bg5p2sjcmxdougj2a',0,'ozvscibdbngmwhs622elbbiwhe',NULL,NULL,NULL,'{"id":"nibbdb7bcbmkx4bjuqb4ux5kl6acogow","owner":"everyone","tool":"holds","backend":"engine","key":"tb-kuhsf2pa3bg5p2sjcmxdougj2a","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308156806,"changed_at":1795308156806,"state":"working","job":{"open":{"handle":"5.tb-kuhsf2pa3bg5p2sjcmxdougj2a","group":"","started_at":1795308156812}},"due_at":4635492156806}');
INSERT INTO "tasks" VALUES(9,'tyvupzdns7wllk7gmmr2yynq5gzlc6qu','everyone','queued',1795308156812,1,7475676156812,4635492156812,NULL,NULL,NULL,NULL,NULL,NULL,0,'ozvscibdbngmwhs622elbbiwhe','["group:narrow"]',NULL,NULL,'{"id":"tyvupzdns7wllk7gmmr2yynq5gzlc6qu","owner":"everyone","tool":"queued","backend":"engine","key":"tb-t4yx74q2c4l24g6tqhjckxx234","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["group:narrow"],"created_at":1795308156812,"changed_at":1795308156812,"state":"working","job":{"pending":{"spec":{"target":{"text":"let in after all"},"arguments":{}},"queued":true,"attempts":0,"not_before":1795308156812}},"due_at":4635492156812}');
INSERT INTO "tasks" VALUES(10,'segyflxmx2wylqp6omwlr23gjkojeokt','everyone','open',1795308156815,48,7475676156815,4635492156815,NULL,NULL,'engine','',1795308156835,'6.tb-xxpilg322u3ecjhjiy275hwacm',0,'ozvscibdbngmwhs622elbbiwhe',NULL,NULL,NULL,'{"id":"segyflxmx2wylqp6omwlr23gjkojeokt","owner":"everyone","tool":"open","backend":"engine","key":"tb-xxpilg322u3ecjhjiy275hwacm","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"slots":["tool:open"],"created_at":1795308156815,"changed_at":1795308161289,"state":"working","message":"step 4454 of 3600000","progress":{"done":4454.0,"total":3600000.0},"furthest":4454.0,"job":{"open":{"handle":"6.tb-xxpilg322u3ecjhjiy275hwacm","group":"","started_at":1795308156835}},"due_at":4635492156815}');
INSERT INTO "tasks" VALUES(11,'hxz23vfpmamjp77d7nhhcyqfazgr4jy7','everyone','asks',1795308156817,3,7475676156817,4635492156817,NULL,NULL,'engine','',1795308156835,'7.tb-w2fzggfj7qy2o5rxxfky52unfq',0,'ozvscibdbngmwhs622elbbiwhe',NULL,NULL,NULL,'{"id":"hxz23vfpmamjp77d7nhhcyqfazgr4jy7","owner":"everyone","tool":"asks","backend":"engine","key":"tb-w2fzggfj7qy2o5rxxfky52unfq","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308156817,"changed_at":1795308156963,"state":"input_required","message":"waiting for an answer","job":{"open":{"handle":"7.tb-w2fzggfj7qy2o5rxxfky52unfq","group":"","started_at":1795308156835}},"questions":[{"key":"q1","question":{"id":"q1","message":"How many?","schema":{"properties":{},"type":"object"}},"asker":"job","at":1795308156963,"status":"open"}],"due_at":4635492156817}');
INSERT INTO "tasks" VALUES(12,'4ysxicb3f33kyb6f3fwpkpfb4gfw6yuw','everyone','pending',1795308156978,14,7475676156978,1795308164447,NULL,NULL,NULL,NULL,NULL,NULL,0,'ozvscibdbngmwhs622elbbiwhe',NULL,NULL,NULL,'{"id":"4ysxicb3f33kyb6f3fwpkpfb4gfw6yuw","owner":"everyone","tool":"pending","backend":"elsewhere","key":"tb-om4x5yziik7hz6n3fvddmkg24q","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308156978,"changed_at":1795308156982,"state":"working","job":{"pending":{"spec":{"target":{"text":"started after all"},"arguments":{}},"queued":false,"attempts":5,"not_before":1795308164447}},"trouble":{"since":1795308156982,"reason":"the simulated engine at 127.0.0.1:36795 cannot be reached"},"due_at":1795308164447}');
INSERT INTO "tasks" VALUES(13,'5yz6vbcr5o3w22yiemmtl73nagsqybbt','everyone','abandoned',1795308157036,3,7475676157036,4635492157036,NULL,NULL,'engine','',1795308157040,'8.tb-7oibzc2kgz6wxwidqsk425hhqa',0,'ozvscibdbngmwhs622elbbiwhe',NULL,'5ad2a1e8c259711f9981531b4c079764f8c6debeaf90e78143c9f525ca56ceb4',1795308159290,'{"id":"5yz6vbcr5o3w22yiemmtl73nagsqybbt","owner":"everyone","tool":"abandoned","backend":"engine","key":"tb-7oibzc2kgz6wxwidqsk425hhqa","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":300,"nanos":0},"settle_window":{"secs":120,"nanos":0}},"created_at":1795308157036,"changed_at":1795308157036,"state":"working","job":{"open":{"handle":"8.tb-7oibzc2kgz6wxwidqsk425hhqa","group":"","started_at":1795308157040}},"undelivered":{"digest":"5ad2a1e8c259711f9981531b4c079764f8c6debeaf90e78143c9f525ca56ceb4","waiting_until":1795308159290},"due_at":4635492157036}');
INSERT INTO "tasks" VALUES(14,'5s5c7kqmto6ciltno5mn65svgcqnybwv','everyone','starting',1795308161298,1,7475676161298,1795308161298,1795308163299,'5h4is6ylnbbmqr7ctwlcxkiwsy',NULL,NULL,NULL,NULL,0,'ozvscibdbngmwhs622elbbiwhe',NULL,NULL,NULL,'{"id":"5s5c7kqmto6ciltno5mn65svgcqnybwv","owner":"everyone","tool":"starting","backend":"engine","key":"tb-iv3zvdu4gniilg64nlpyifujfq","origin":{"session":"ozvscibdbngmwhs622elbbiwhe"},"terms":{"ttl":{"secs":2840184000,"nanos":0},"keep_result":{"secs":2840184000,"nanos":0},"max_runtime":{"secs":2840184000,"nanos":0},"on_expiry":"cancel","start_within":{"secs":2840184000,"nanos":0},"settle_window":{"secs":2840184000,"nanos":0}},"created_at":1795308161298,"changed_at":1795308161298,"state":"working","job":{"starting":{"spec":{"target":{"text":"started after all"},"arguments":{}},"attempts":1,"not_before":1795308161298}},"due_at":1795308161298}');
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
COMMIT;

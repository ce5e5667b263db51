// An adapter that is served over HTTP, for the tests: `service_sample.mjs OPTIONS`, which are JSON.

import { once } from "node:events";

import { Config, GONE, serveHttp } from "taskbridge-adapter";

const connect = (config, _, host) => {
  if (!config.size) throw new Config("config.size is missing");
  return {
    once: "key",
    has: ["changed"],
    start: (job) => job.key,
    find: () => null,
    observe: () => GONE,
    cancel: (handle) => host.changed(handle),
  };
};
const server = serveHttp({ name: "sample", connect }, { port: 0, ...JSON.parse(process.argv[2]) });
if (!server.listening) await once(server, "listening");
console.log(server.address().port);

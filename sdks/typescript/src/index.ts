// Write a taskbridge adapter in TypeScript or JavaScript: `serve({ name, connect })`.

export type {
  Adapter, Answer, AnswerOutcome, Definition, Finding, Host, InputFile, Job, Json, LogText, Part, Person, Soon, Started,
  Subject, Tool,
} from "./adapter.js";
export {
  AdapterError, Config, Denied, Limited, Rejected, Unavailable, Uncertain, Unsupported, type Kind, type More,
} from "./errors.js";
export {
  cancelled, failed, GONE, queued, running, succeeded,
  type Artifact, type Content, type Details, type Note, type Observation, type Output, type Question, type State,
} from "./observation.js";
export { serve } from "./serve.js";
export { serveHttp, type ServiceOptions } from "./service.js";

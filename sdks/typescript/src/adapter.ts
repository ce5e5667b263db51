// What a user writes: an adapter, and what its methods get and return. Types only.

import type { Artifact, Observation } from "./observation.js";

/** An object of JSON. */
export type Json = Record<string, unknown>;

/** The person for whom a job is started, answered or cancelled. Issuer and subject together are unique. */
export interface Person {
  name: string;
  issuer?: string;
  subject?: string;
  client?: string;
  tenant?: string;
  groups?: string[];
}

/** A file that the caller sent in place of the argument `parameter`. `name` has no path, but check it again. */
export interface InputFile {
  parameter: string;
  name: string;
  data: Uint8Array;
}

/** A job to start, or to find. `key` is random, and the same for every attempt at this job. */
export interface Job<Target = Json, Arguments = Json> {
  key: string;
  uuid: string;
  target: Target;
  arguments: Arguments;
  /** An earlier attempt may have reached the engine. */
  mayExist: boolean;
  /** The time of the first attempt, in milliseconds since 1970 by the server's clock. */
  firstAttemptAt?: number;
  files: InputFile[];
  trace?: { parent: string; state?: string };
  onBehalfOf?: Person;
}

/** A job that the engine has accepted. `first` is its state, if the engine said that already. */
export interface Started {
  handle: string;
  first?: Observation;
}

/** A job to poll. For one that nobody watches, spend no call of the engine on progress or messages alone. */
export interface Subject {
  handle: string;
  watched: boolean;
  ageMs: number;
}

/** The answer to a question. */
export interface Answer {
  action: "accept" | "decline" | "cancel";
  content?: Json;
}

/** What became of an answer. */
export type AnswerOutcome = "accepted" | "too_late" | "not_allowed";

/** The end of a log. `cut` says that text was left out. */
export interface LogText {
  text: string;
  cut: boolean;
}

/** A part of a file, from the offset that was asked for, and the size of the whole. */
export interface Part {
  data: Uint8Array;
  size: number;
  mimeType?: string;
}

/** A tool that the engine offers. */
export interface Tool {
  name: string;
  target: Json;
  input_schema: Json;
  title?: string;
  description?: string;
  more?: Json;
}

/** The result of a check. A fault has a `fix`. */
export interface Finding {
  what: string;
  verdict: "ok" | "warning" | "fault";
  says: string;
  fix?: string;
}

/** The server, as an adapter sees it. */
export interface Host {
  /** Name of the backend in the config. */
  readonly name: string;
  /** Time after which the server gives a call up. Set the timeouts of clients below it. */
  readonly callLimitMs: number;
  readonly stateDir: string;
  readonly configDir: string;
  /** Hints that these jobs may have changed. The adapter must have `changed` in `has`. */
  changed(...handles: string[]): void;
  /** Writes a line to the server's log. */
  note(text: string, level?: "debug" | "info" | "warning" | "error"): void;
}

/** Something that a method may return now or later. */
export type Soon<T> = T | Promise<T>;

/** One connection to an engine. A method that is optional is an ability. */
export interface Adapter {
  /** `key`: a second start under a key returns the first job. `none`: it would start a second job. */
  readonly once: "key" | "none";
  /** How long the engine remembers a key, if not as long as the job. */
  readonly keyLastsMs?: number;
  /** What the adapter is connected to, without credentials; it stays the same for ever. */
  readonly identity?: string;
  readonly startLagMs?: number;
  /** The group of a job is the part of its handle before this text: one `observeAll` has jobs of one group. */
  readonly groupSeparator?: string;
  readonly listLagMs?: number;
  readonly has?: readonly ("files" | "changed" | "notes")[];
  /** Returns the handle when the engine has accepted the job. */
  start(job: Job): Soon<string | Started>;
  /** Searches for the job of a key, and starts nothing. */
  find(job: Job): Soon<string | Started | null | undefined>;
  /** Polls one job. Write this, or `observeAll` if the engine can report on many jobs at a time. */
  observe?(handle: string): Soon<Observation | null | undefined>;
  /** Returns one result for each job, in order: an `Error` for a job that could not be polled. */
  observeAll?(jobs: Subject[]): Soon<(Observation | Error | null | undefined)[]>;
  /** Asks the engine to stop a job. It succeeds for a job that has ended or is unknown. */
  cancel(handle: string, by?: Person): Soon<void>;
  answer?(handle: string, question: string, answer: Answer, by?: Person): Soon<AnswerOutcome>;
  /** Returns the log. A text is searched and cut by the SDK. */
  log?(handle: string, wanted: { maxBytes: number; search?: string }): Soon<string | LogText>;
  /** Returns a whole file, or a part of it. */
  artifact?(
    handle: string,
    name: string,
    wanted: { offset: number; maxBytes: number },
  ): Soon<Uint8Array | Part | null | undefined>;
  discover?(): Soon<Tool[]>;
  checkUp?(tools: { tool: string; target: Json; parameters?: string[] }[]): Soon<Finding[]>;
  forget?(handle: string): Soon<void>;
  /** Closes connections at the end. */
  close?(): Soon<void>;
}

/** What `serve` needs: how to connect, and what `taskbridge adapter describe` shows. */
export interface Definition {
  name: string;
  version?: string;
  /** JSON Schemas of the backend's fields in the config, and of a tool's target. */
  schemas?: { config?: Json; target?: Json };
  /** Names of the secrets that the adapter expects. */
  secrets?: readonly string[];
  /** Connects. Throw `Config` for a wrong config, with the name of the field. */
  connect(config: Json, secrets: Record<string, string>, host: Host): Soon<Adapter>;
}

export type { Artifact };

// What an adapter says of a job: its state, output, progress, questions and notes. Plain data in the shapes of the
// wire. A function for each state makes the common case one call.

import { oneLine } from "./errors.js";

/** The largest output of a job, in bytes of JSON. What is larger belongs into a file of the engine. */
export const MOST_OUTPUT = 1024 * 1024;
/** The deepest nesting of data, and the most values: the server reads at most 128 levels and 400,000 values. */
const MOST_DEPTH = 64;
const MOST_VALUES = 100_000;

/** A file that a job left. `name` is a relative path with `/` and without `..`. */
export interface Artifact {
  name: string;
  mime_type?: string;
  size?: number;
}

/** A block of content, as in MCP. */
export type Content = { type: "text"; text: string } | { type: string; [member: string]: unknown };

/** The result of a job. `raw` has the indexes of blocks that the job printed: the server may shorten those. */
export interface Output {
  content?: Content[];
  structured?: unknown;
  raw?: number[];
  artifacts?: Artifact[];
}

/** A question that a job waits for. Exactly one of `schema` (a form) and `url` (a page to visit) is set. */
export interface Question {
  id: string;
  message: string;
  schema?: Record<string, unknown>;
  url?: string;
}

/** A message of a job. `n` is the same in every observation, and rises. */
export interface Note {
  n: number;
  level: "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";
  data: unknown;
}

/** The state of a job. */
export type State = "queued" | "running" | "gone" | { succeeded: Output } | { failed: Output } | { cancelled: Output };

/** The state of a job, as one poll saw it. `since` is in milliseconds since 1970. */
export interface Observation {
  state: State;
  message?: string;
  progress?: { done: number; total?: number };
  since?: number;
  questions?: Question[];
  notes?: Note[];
  log_bytes?: number;
  /** The new handle, if the engine has renamed the job: in each poll by the old one. */
  renamed_to?: string;
  /** Address of the job in the engine's own pages, for people. It begins with `https://`. */
  link?: string;
}

/** What else an observation of a running job can say. */
export type Details = Omit<Observation, "state">;

/** The engine does not know the job. Never use it for a fault: throw. */
export const GONE: Observation = { state: "gone" };

/** The engine accepted the job, and it does not run yet. */
export function queued(details: Details = {}): Observation {
  return { ...cleaned(details), state: "queued" };
}

/** The job runs, or waits for an answer to one of its `questions`. */
export function running(details: Details = {}): Observation {
  return { ...cleaned(details), state: "running" };
}

/** The job succeeded. `result` is a text, data, or nothing. */
export function succeeded(result?: unknown, more: Output = {}): Observation {
  return { state: { succeeded: output(result, more) } };
}

/** The job ran and failed. `message` is the reason in one line; `result` is what else there is to show. */
export function failed(message: string, result: unknown = message, more: Output = {}): Observation {
  return { state: { failed: output(result, more) }, message: oneLine(message) || "the job failed" };
}

/** The job was cancelled before it ended by itself. */
export function cancelled(result?: unknown): Observation {
  return { state: { cancelled: output(result, {}) } };
}

function cleaned(details: Details): Details {
  return details.message === undefined ? details : { ...details, message: oneLine(details.message) };
}

function output(result: unknown, more: Output): Output {
  const made = { ...result_blocks(result), ...more };
  const size = Buffer.byteLength(JSON.stringify(made));
  if (size <= MOST_OUTPUT) return made;
  return text(`the output has ${size} bytes, and at most ${MOST_OUTPUT} can be returned: read it in the engine`);
}

function result_blocks(result: unknown): Output {
  if (result === undefined || result === null) return {};
  if (typeof result === "string") return text(result);
  let shown: string | undefined;
  try {
    shown = JSON.stringify(result, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
  } catch {
    // Such as an object that contains itself.
  }
  if (shown === undefined) return text(String(result));
  const structured: unknown = JSON.parse(shown);
  const { depth, count } = measure(structured);
  return depth > MOST_DEPTH || count > MOST_VALUES ? text(shown) : { ...text(shown), structured };
}

function text(text: string): Output {
  return { content: [{ type: "text", text }] };
}

/** Returns how deep arrays and objects are nested, and how many values there are: level by level, without a stack. */
export function measure(value: unknown): { depth: number; count: number } {
  const inner = (of: unknown[]) => of.filter((each): each is object => typeof each === "object" && each !== null);
  let [depth, count] = [0, 1];
  for (let level = inner([value]); level.length; depth += 1) {
    const values = level.flatMap((each) => Object.values(each) as unknown[]);
    count += values.length;
    level = inner(values);
  }
  return { depth, count };
}

// The kinds of failure that taskbridge distinguishes, as errors. Every other error is reported as `unavailable` or,
// from a first start, as `uncertain`. This module must not decide on retries: the server does that by the kind.

/** The kind of a failure: it tells the server what to do next. */
export type Kind = "rejected" | "denied" | "config" | "limited" | "unavailable" | "uncertain" | "unsupported";

/** The JSON-RPC code of a failure with a kind. Codes of JSON-RPC itself are protocol errors. */
const FAILURE = -32000;
/** The longest message, in characters. */
const MOST_MESSAGE = 2000;

/** More about a failure: the wait before the next attempt, and whether a later attempt cannot learn more. */
export interface More {
  afterMs?: number;
  final?: boolean;
}

/** A failed call. The message reaches people, also the caller of a tool: it must not contain a secret. */
export class AdapterError extends Error {
  readonly data: { after_ms?: number; final?: boolean };

  constructor(
    readonly kind: Kind,
    message: string,
    { afterMs, final = false }: More = {},
  ) {
    super(message);
    this.name = new.target.name;
    this.data = { ...(afterMs === undefined ? {} : { after_ms: Math.round(afterMs) }), ...(final ? { final } : {}) };
  }
}

/** The engine understood the request and refused it. The task ends as failed, with this message. */
export class Rejected extends AdapterError {
  constructor(message: string, more?: More) {
    super("rejected", message, more);
  }
}

/** The engine does not accept the credentials, or they lack a permission. */
export class Denied extends AdapterError {
  constructor(message: string, more?: More) {
    super("denied", message, more);
  }
}

/** The deployment is wrong: a member of the config or of a target is missing, or unknown to the engine. */
export class Config extends AdapterError {
  constructor(message: string, more?: More) {
    super("config", message, more);
  }
}

/** The engine asks for patience. After a start it means that nothing has started. */
export class Limited extends AdapterError {
  constructor(message: string, more?: More) {
    super("limited", message, more);
  }
}

/** The engine cannot be reached now. Thrown by a first start, it promises that nothing has started. */
export class Unavailable extends AdapterError {
  constructor(message: string, more?: More) {
    super("unavailable", message, more);
  }
}

/** A start may have taken effect: the server searches for the job. With `final`, no search can ever find it. */
export class Uncertain extends AdapterError {
  constructor(message: string, more?: More) {
    super("uncertain", message, more);
  }
}

/** Only for `cancel`: the engine has no way to stop this job. */
export class Unsupported extends AdapterError {
  constructor(message: string, more?: More) {
    super("unsupported", message, more);
  }
}

/** A message that is not valid in the protocol. */
export class ProtocolError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** The error object of JSON-RPC. */
export interface WireError {
  code: number;
  message: string;
  data?: { kind: Kind; after_ms?: number; final?: boolean };
}

/** Returns the text in one line without control characters. */
export function oneLine(text: string): string {
  const line = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ").replace(/\s+/g, " ").trim();
  return line.length <= MOST_MESSAGE ? line : `${line.slice(0, MOST_MESSAGE - 3)}...`;
}

/**
 * Returns the error object for something that was thrown. What went wrong in a first start may have gone wrong after
 * the engine took the job, so nobody may assume that nothing started.
 */
export function toWire(thrown: unknown, firstStart = false): WireError {
  if (thrown instanceof ProtocolError) return { code: thrown.code, message: oneLine(thrown.message) };
  if (thrown instanceof AdapterError) {
    const message = oneLine(thrown.message) || thrown.kind;
    return { code: FAILURE, message, data: { kind: thrown.kind, ...thrown.data } };
  }
  const kind = firstStart ? "uncertain" : "unavailable";
  return { code: FAILURE, message: oneLine(String(thrown)) || kind, data: { kind } };
}

/**
 * Requests below the client library, which the tasks extension needs in 2026-07-28: the library itself takes no result
 * that says `task`. The transport is the library's own, and so are the headers. It must not build or change messages
 * beyond giving each an id of its own.
 */

export class RawWire {
  #transport;
  #waiting = new Map();
  #sent = 0;

  /** Stands between a connected transport and its client. */
  constructor(transport) {
    this.#transport = transport;
    const forClient = transport.onmessage;
    transport.onmessage = (message, extra) => {
      const waiting = this.#waiting.get(message.id);
      if (waiting === undefined || message.method !== undefined) return forClient(message, extra);
      this.#waiting.delete(message.id);
      waiting(message);
    };
  }

  dispatch = async ({ method, params }, { signal, context } = {}) => {
    const id = `raw-${(this.#sent += 1)}`;
    const answered = new Promise((done) => this.#waiting.set(id, done));
    const message = { jsonrpc: "2.0", id, method, params };
    await this.#transport.send(message, { headers: context?.headers, requestSignal: signal });
    const aborted = new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)));
    const answer = await Promise.race([answered, aborted]);
    return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
  };
}

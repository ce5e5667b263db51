/**
 * HTTP faults for the end-to-end scenarios of `client.mjs`.
 *
 * A `Wire` stands in for `fetch` under the client library and changes what the library can see of
 * the network: no GET stream, or one response stream that breaks. It must not build, read or change
 * MCP messages; it looks at a request's method name only to choose the stream to break.
 */

/**
 * Passes requests on, and applies the faults it was made with.
 *
 * `listen: false` answers 405 to the GET stream, as a server without one does, so that everything
 * must travel on the streams of requests. `cut: "tasks/result"` breaks the first response stream of
 * that method after its first event. `resumed` keeps the `Last-Event-ID` values the library sent.
 */
export class Wire {
  constructor({ listen = true, cut } = {}) {
    this.listen = listen;
    this.cut = cut;
    this.resumed = [];
  }

  fetch = async (url, init = {}) => {
    const lastEventId = new Headers(init.headers).get("last-event-id");
    if (lastEventId !== null) this.resumed.push(lastEventId);
    else if (init.method === "GET" && !this.listen) return new Response(null, { status: 405 });
    const response = await fetch(url, init);
    if (this.cut === undefined || methodOf(init) !== this.cut) return response;
    this.cut = undefined;
    return new Response(firstEventOnly(response.body), { status: response.status, headers: response.headers });
  };
}

/** Gives the first whole event of an event stream, then fails as a lost connection does. */
function firstEventOnly(whole) {
  const reader = whole.pipeThrough(new TextDecoderStream()).getReader();
  let given = false;
  const pull = async (controller) => {
    if (given) {
      await reader.cancel();
      return controller.error(new TypeError("the connection was cut on purpose"));
    }
    let seen = "";
    // A blank line ends an event. Nothing behind it gets through.
    while (!seen.includes("\n\n")) {
      const { value, done } = await reader.read();
      if (done) return controller.close();
      seen += value;
    }
    given = true;
    controller.enqueue(new TextEncoder().encode(seen.slice(0, seen.indexOf("\n\n") + 2)));
  };
  // Without a queue of its own, the stream fails only after the first event was taken from it.
  return new ReadableStream({ pull }, { highWaterMark: 0 });
}

/** The JSON-RPC method of a POST, or nothing for a response or a request without a body. */
function methodOf(init) {
  return init.method === "POST" ? JSON.parse(init.body).method : undefined;
}

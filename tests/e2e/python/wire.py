"""HTTP faults for the end-to-end scenarios of `client.py`.

A `Wire` sits under the client library's own HTTP client and changes what the library can see of the
network: no GET stream, or one response stream that breaks. It must not build, read or change MCP
messages; it looks at a request's method name only to choose the stream to break.
"""

import json
from collections.abc import AsyncIterator

import httpx

# The library's own defaults: 30 s to connect and write, 5 min of silence on a stream.
TIMEOUT = httpx.Timeout(30.0, read=300.0)


class Wire(httpx.AsyncBaseTransport):
    """Passes requests on, and applies the faults it was made with.

    `listen=False` answers 405 to the GET stream, as a server without one does, so that everything
    must travel on the streams of requests. `cut="tasks/result"` breaks the first response stream of
    that method after its first event. `resumed` keeps the `Last-Event-ID` values the library sent.
    """

    def __init__(self, *, listen: bool = True, cut: str | None = None) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self._listen = listen
        self._cut = cut
        self.resumed: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        last_event_id = request.headers.get("last-event-id")
        if last_event_id is not None:
            self.resumed.append(last_event_id)
        elif request.method == "GET" and not self._listen:
            return httpx.Response(405, request=request)
        response = await self._inner.handle_async_request(request)
        if self._cut is not None and method_of(request) == self._cut:
            self._cut = None
            response.stream = BrokenStream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class BrokenStream(httpx.AsyncByteStream):
    """Gives the first whole event of an event stream, then fails as a lost connection does."""

    def __init__(self, whole: httpx.AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = b""
        async for chunk in self._whole:
            seen += chunk
            # A blank line ends an event. Nothing behind it gets through.
            head, end, _ = seen.partition(b"\n\n")
            if end:
                yield head + end
                raise httpx.ReadError("the connection was cut on purpose")

    async def aclose(self) -> None:
        await self._whole.aclose()


def method_of(request: httpx.Request) -> str | None:
    """The JSON-RPC method of a POST, or nothing for a response or a request without a body."""
    return json.loads(request.content).get("method") if request.method == "POST" else None

"""Carries the protocol over HTTP: each POST is one message, and its reply is the answer. It must not know what a method
does, and must not use a body before its sender is proven."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac as hmac_digest
import json
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .calls import MOST_IN, Calls, encode, not_json

SESSION = "Taskbridge-Session"
# How much the clocks of the server and of this machine may differ, in seconds.
SKEW = 300
# Backends whose adapters are kept. The one that was not used for the longest time is closed.
MOST_SESSIONS = 64
# For how long a request may be on its way, in seconds.
READING = 30


def serve_http(
    kind: type,
    *,
    port: int,
    host: str = "127.0.0.1",
    bearer: str | None = None,
    hmac: str | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
) -> None:
    """Runs the adapter as a service until SIGTERM or SIGINT.

    `bearer` or `hmac` is the secret that `auth` in taskbridge's config has. `certificate` and `key` are PEM files for
    TLS, which another machine needs.
    """
    prove = _prover(bearer, hmac)
    asyncio.run(_Service(kind, prove).serve((host, port), certificate, key))


class _Service:
    """The adapters of all backends that use this service, by session."""

    def __init__(self, kind: type, prove: Any) -> None:
        self._kind, self.prove = kind, prove
        # A session is named by its config and a secret of this process, so that equal backends share an adapter, and no
        # name survives a restart.
        self._seal = os.urandom(32)
        self._sessions: dict[str, Calls] = {}
        self._results: dict[str, dict[str, Any]] = {}

    async def serve(self, address: tuple[str, int], certificate: Any, key: Any) -> None:
        self.loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._turns: dict[str, asyncio.Lock] = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, over.set)
        service = self

        class Handler(_Handler):
            pass

        Handler.service = service
        with ThreadingHTTPServer(address, Handler) as server:
            server.daemon_threads = True
            if certificate is not None:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(certificate, key)
                # Each handshake is made on the thread of its connection.
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, daemon=True, name="http").start()
            scheme = "https" if certificate is not None else "http"
            print(f"serving on {scheme}://{address[0]}:{server.server_port}/", file=sys.stderr, flush=True)
            await over.wait()
            for calls in self._sessions.values():
                await calls.close()
            sys.stdout.flush()
            sys.stderr.flush()
            # A call that still runs on a thread would keep the program alive. Its job goes on in the engine.
            os._exit(0)

    async def answer(self, message: Any, session: str | None) -> tuple[dict[str, Any] | None, str | None]:
        """Returns the reply, and the session that began. The reply is `None` if there is no such session."""
        method = message.get("method") if isinstance(message, dict) else None
        if method == "initialize":
            return await self._begin(message)
        if method == "describe":
            return await Calls(self._kind, _note).answer(message), None
        calls = self._sessions.pop(session or "", None)
        if calls is None:
            return None, None
        # The last in the order is the one that was used last.
        self._sessions[str(session)] = calls
        return await calls.answer(message), None

    async def _begin(self, message: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        params = json.dumps(message.get("params"), sort_keys=True).encode()
        session = hmac_digest.new(self._seal, params, hashlib.sha256).hexdigest()
        async with self._turns.setdefault(session, asyncio.Lock()):
            if session in self._sessions:
                return {"id": message.get("id"), "result": self._results[session]}, session
            calls = Calls(self._kind, _note)
            reply = await calls.answer(message)
            if reply is not None and "result" in reply:
                self._sessions[session], self._results[session] = calls, reply["result"]
                await self._forget()
            else:
                del self._turns[session]
            return reply, session

    async def _forget(self) -> None:
        while len(self._sessions) > MOST_SESSIONS:
            oldest = next(iter(self._sessions))
            calls = self._sessions.pop(oldest)
            del self._results[oldest]
            self._turns.pop(oldest, None)
            await calls.close()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine in the loop of the adapters, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


class _Handler(BaseHTTPRequestHandler):
    service: _Service
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "taskbridge-adapter", ""
    timeout = READING

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not _is_number(length) or int(length) > MOST_IN:
            # The body cannot be skipped, so the connection ends.
            self.close_connection = True
            return self._reply(413 if _is_number(length) else 411)
        body = self.rfile.read(int(length))
        if not self.service.prove(self.headers, body):
            return self._reply(401)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            return self._reply(200, encode(not_json(error)) or b"")
        reply, session = self.service.wait(self.service.answer(message, self.headers.get(SESSION)))
        if reply is None:
            return self._reply(404)
        self._reply(200, encode(reply) or b"", session)

    def _reply(self, status: int, body: bytes = b"", session: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if session is not None:
            self.send_header(SESSION, session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged: there is one for each poll."""


def _note(method: str, params: dict[str, Any]) -> None:
    # The server cannot be reached from here. A hint may be lost, and a note is a line of the log of this service.
    if method == "note":
        print(f"{params['level']}: {params['text']}", file=sys.stderr)


def _prover(bearer: str | None, hmac: str | None) -> Any:
    """Returns the function that checks the sender of a request by its headers and body."""
    if (bearer is None) == (hmac is None):
        raise ValueError("pass either bearer or hmac: the secret that `auth` in taskbridge's config has")
    if bearer is not None:
        expected = f"Bearer {bearer}".encode()
        return lambda headers, _: hmac_digest.compare_digest(headers.get("Authorization", "").encode(), expected)
    assert hmac is not None
    key = base64.b64decode(hmac.removeprefix("whsec_"), validate=True)
    if not hmac.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ValueError("hmac must be whsec_ and 24 to 64 random bytes in Base64")
    return lambda headers, body: _is_signed(key, headers, body)


def _is_signed(key: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    """Verifies a signature by the Standard Webhooks scheme, and its time."""
    id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _is_number(at) or abs(time.time() - int(at)) > SKEW:
        return False
    signed = hmac_digest.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(signed)
    given = headers.get("webhook-signature", "").encode()
    return any([hmac_digest.compare_digest(each, expected) for each in given.split(b" ")])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20

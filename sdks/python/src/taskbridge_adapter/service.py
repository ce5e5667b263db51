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
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from email.message import Message
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
# A signature covers the body, so a body is read before its sender is proven. A longer body than this has to share
# MOST_UNPROVEN bytes with the others that are on their way.
SMALL, MOST_UNPROVEN = 64 * 1024, 4 * MOST_IN
# Hints that wait for the next reply. More are lost.
MOST_HINTS = 1000


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
    proof = _Bearer(bearer) if hmac is None else _Signature(hmac)
    if (bearer is None) == (hmac is None):
        raise ValueError("pass either bearer or hmac: the secret that `auth` in taskbridge's config has")
    asyncio.run(_Service(kind, proof).serve((host, port), certificate, key))


class _Session:
    """The adapter of one config, and its hints, which the next reply takes along."""

    def __init__(self, kind: type) -> None:
        self.calls = Calls(kind, self._notify)
        self.result: dict[str, Any] = {}
        # A dictionary keeps the order, and each handle once.
        self._hints: dict[str, None] = {}

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        if method == "changed":
            self._hints |= dict.fromkeys(params["jobs"][: max(0, MOST_HINTS - len(self._hints))])
        else:
            _note(method, params)

    async def answer(self, message: Any) -> dict[str, Any] | None:
        reply = await self.calls.answer(message)
        if reply is not None and self._hints:
            hints, self._hints = self._hints, {}
            reply["changed"] = list(hints)
        return reply


class _Service:
    """The adapters of all backends that use this service, by session."""

    def __init__(self, kind: type, proof: _Bearer | _Signature) -> None:
        self._kind, self.proof, self.unproven = kind, proof, _Unproven()
        # A session is named by its config and a secret of this process, so that equal backends share an adapter, and no
        # name survives a restart.
        self._seal = os.urandom(32)
        self._sessions: dict[str, _Session] = {}

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
            for session in self._sessions.values():
                await session.calls.close()
            sys.stdout.flush()
            sys.stderr.flush()
            # A call that still runs on a thread would keep the program alive. Its job goes on in the engine.
            os._exit(0)

    async def answer(self, message: Any, name: str | None) -> tuple[dict[str, Any] | None, str | None]:
        """Returns the reply, and the session that began. The reply is `None` if there is no such session."""
        method = message.get("method") if isinstance(message, dict) else None
        if method == "initialize":
            return await self._begin(message)
        if method == "describe":
            return await Calls(self._kind, _note).answer(message), None
        session = self._sessions.pop(name or "", None)
        if session is None:
            return None, None
        # The last in the order is the one that was used last.
        self._sessions[str(name)] = session
        return await session.answer(message), None

    async def _begin(self, message: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        params = json.dumps(message.get("params"), sort_keys=True).encode()
        name = hmac_digest.new(self._seal, params, hashlib.sha256).hexdigest()
        async with self._turns.setdefault(name, asyncio.Lock()):
            if name in self._sessions:
                return {"id": message.get("id"), "result": self._sessions[name].result}, name
            session = _Session(self._kind)
            reply = await session.answer(message)
            if reply is not None and "result" in reply:
                self._sessions[name], session.result = session, reply["result"]
                await self._forget()
            else:
                del self._turns[name]
            return reply, name

    async def _forget(self) -> None:
        while len(self._sessions) > MOST_SESSIONS:
            oldest = next(iter(self._sessions))
            session = self._sessions.pop(oldest)
            self._turns.pop(oldest, None)
            await session.calls.close()

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
        # What the headers refuse is not kept.
        if not self.service.proof.may_prove(self.headers):
            return self._refuse(401, int(length))
        with self.service.unproven.reserve(int(length)) as is_reserved:
            if not is_reserved:
                return self._refuse(429, int(length))
            body = self.rfile.read(int(length))
            if not self.service.proof.proves(self.headers, body):
                return self._reply(401)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            return self._reply(200, encode(not_json(error)) or b"")
        reply, session = self.service.wait(self.service.answer(message, self.headers.get(SESSION)))
        if reply is None:
            return self._reply(404)
        self._reply(200, encode(reply) or b"", session)

    def _refuse(self, status: int, length: int) -> None:
        """Replies at once, and drops the body: a connection that is closed before its body is read loses the reply."""
        self.close_connection = True
        self._reply(status)
        while length > 0 and (part := self.rfile.read(min(length, SMALL))):
            length -= len(part)

    def _reply(self, status: int, body: bytes = b"", session: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "1")
        if session is not None:
            self.send_header(SESSION, session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged: there is one for each poll."""


def _note(method: str, params: dict[str, Any]) -> None:
    # The server cannot be reached from here, so a note is a line of the log of this service.
    if method == "note":
        print(f"{params['level']}: {params['text']}", file=sys.stderr)


class _Unproven:
    """The long bodies that are read before their senders are proven."""

    def __init__(self) -> None:
        self._lock, self._bytes = threading.Lock(), 0

    @contextmanager
    def reserve(self, length: int) -> Iterator[bool]:
        """Yields whether a body of this length may be read now."""
        size = length if length > SMALL else 0
        with self._lock:
            is_reserved = self._bytes + size <= MOST_UNPROVEN
            self._bytes += size if is_reserved else 0
        try:
            yield is_reserved
        finally:
            with self._lock:
                self._bytes -= size if is_reserved else 0


class _Bearer:
    """A proof by a token."""

    def __init__(self, token: str | None) -> None:
        self._expected = f"Bearer {token}".encode()

    def may_prove(self, headers: Message) -> bool:
        return hmac_digest.compare_digest(headers.get("Authorization", "").encode(), self._expected)

    def proves(self, headers: Message, body: bytes) -> bool:
        return self.may_prove(headers)


class _Signature:
    """A proof by a signature of the Standard Webhooks scheme, which covers the time and the body."""

    def __init__(self, secret: str) -> None:
        self._key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        if not secret.startswith("whsec_") or not 24 <= len(self._key) <= 64:
            raise ValueError("hmac must be whsec_ and 24 to 64 random bytes in Base64")

    def may_prove(self, headers: Message) -> bool:
        """Checks what needs no body: the time, and that there is a signature."""
        at = headers.get("webhook-timestamp", "")
        return _is_number(at) and abs(time.time() - int(at)) <= SKEW and bool(headers.get("webhook-signature"))

    def proves(self, headers: Message, body: bytes) -> bool:
        signed = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
        expected = b"v1," + base64.b64encode(hmac_digest.new(self._key, signed, hashlib.sha256).digest())
        given = headers.get("webhook-signature", "").encode()
        return any([hmac_digest.compare_digest(each, expected) for each in given.split(b" ")])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20

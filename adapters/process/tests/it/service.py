"""The test adapter as a service: `service.py [CERTIFICATE KEY]` prints its port. Each POST is one message.

The engine and its methods are those of `engine.py`. A mode "METHOD:FAULT" in the config makes it hostile on the level of
HTTP. It must not depend on anything but Python.
"""

import collections
import json
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import engine
import wire

TOKEN = "Bearer b-secret"
state = {"sessions": 0, "known": set()}
# The hints that go along with the next answer.
hints = collections.deque()


def keep_hints(data):
    message = json.loads(data)
    if message["method"] == "changed":
        hints.extend(message["params"]["jobs"])


def take_hints():
    taken = []
    while True:
        try:
            taken.append(hints.popleft())
        except IndexError:
            return taken


wire.send = keep_hints


def reply_to(call):
    method = call.get("method")
    try:
        if method not in engine.METHODS:
            return {"error": {"code": -32601, "message": "unknown method"}}
        return {"result": engine.METHODS[method](call.get("params", {}))}
    except engine.Fault as error:
        return {"error": {"code": -32000, "message": str(error), "data": {"kind": error.kind}}}
    except Exception as error:
        return {"error": {"code": -32000, "message": repr(error)}}


# Redirects, none of which may be followed.
REDIRECTS = {
    "redirect": (307, "/other"),
    "redirect_to_get": (303, "/other"),
    "redirect_for_ever": (308, "/adapter"),
    "redirect_to_metadata": (302, "http://169.254.169.254/latest/meta-data"),
    "redirect_to_file": (301, "file:///etc/passwd"),
}

# Replies on the level of bytes.
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: %(size)d\r\n"
RAW = {
    "wrong_type": OK + b"Content-Type: text/html\r\n" + LENGTH + b"\r\n%(body)s",
    "until_close": OK + b"Connection: close\r\n\r\n%(body)s",
    "old_version": b"HTTP/1.0 200 OK\r\n\r\n%(body)s",
    "early_hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + LENGTH + b"\r\n%(body)s",
    "short_length": OK + b"Content-Length: %(short)d\r\n\r\n%(body)s",
    "two_lengths": OK + LENGTH + b"Content-Length: 7\r\n\r\n%(body)s",
    "text_length": OK + b"Content-Length: many\r\n\r\n%(body)s",
    "bad_chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n%(body)s\r\n0\r\n\r\n",
    "endless_chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\n%(body)s",
    "no_http": b"SSH-2.0-OpenSSH_9.2p1\r\n%(body)s",
    "odd_version": b"HTTP/9.9 200 OK\r\n" + LENGTH + b"\r\n%(body)s",
    "text_status": b"HTTP/1.1 OK 200\r\n" + LENGTH + b"\r\n%(body)s",
    "long_header": OK + b"X: " + b"x" * 2000000 + b"\r\n" + LENGTH + b"\r\n%(body)s",
    "many_headers": OK + b"X: x\r\n" * 20000 + LENGTH + b"\r\n%(body)s",
    "byte_order_mark": OK + b"Connection: close\r\n\r\n\xef\xbb\xbf%(body)s",
    "invalid_utf8": OK + b'Connection: close\r\n\r\n{"jsonrpc":"2.0","\xff":1}',
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n%(body)s",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != TOKEN:
            return self.send(401, b"")
        call = json.loads(body)
        headers = {}
        if call["method"] == "initialize":
            engine.here["config"] = call["params"]["config"]
            engine.here["folder"] = call["params"]["config"].get("folder")
            state["sessions"] += 1
            session = str(state["sessions"])
            state["known"].add(session)
            headers["Taskbridge-Session"] = session
        elif call["method"] != "describe" and self.headers.get("Taskbridge-Session") not in state["known"]:
            return self.send(404, b"")
        fault = engine.fault_of(call["method"])
        if fault:
            return self.apply(fault, call, headers)
        self.answer(call, headers)

    def answer(self, call, headers=(), **more):
        message = {"jsonrpc": "2.0", "id": call["id"]} | reply_to(call) | more
        if changed := take_hints():
            message["changed"] = changed
        self.send(200, json.dumps(message).encode(), headers)

    def send(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def apply(self, fault, call, headers):
        self.close_connection = True
        work = lambda: reply_to(call)
        if fault.startswith("status_"):
            # Those that say that nothing was done.
            if fault not in ("status_401", "status_403", "status_404", "status_429"):
                work()
            return self.send(int(fault[7:]), b"<html>no JSON</html>", {"Retry-After": "0"})
        if fault in REDIRECTS:
            work()
            status, location = REDIRECTS[fault]
            return self.send(status, b"", {"Location": location})
        if fault == "wait_of_an_age":
            return self.send(429, b"", {"Retry-After": "9" * 30})
        if fault == "wait_as_date":
            return self.send(429, b"", {"Retry-After": "Fri, 31 Dec 2999 23:59:59 GMT"})
        if fault == "forget_sessions":
            state["known"].clear()
            return self.send(404, b"")
        if fault == "close_before":
            return
        if fault == "never":
            work()
            return time.sleep(120)
        if fault == "late":
            time.sleep(5)
            return self.answer(call, headers)
        if fault == "pretty":
            message = {"jsonrpc": "2.0", "id": call["id"]} | work()
            return self.send(200, json.dumps(message, indent=2).encode() + b"\r\n", headers)
        if fault == "members":
            return self.answer(call, headers, more={"a": [1, 2]}, trace="x")
        message = json.dumps({"jsonrpc": "2.0", "id": call["id"]} | work()).encode()
        if fault == "chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for byte in message:
                self.wfile.write(b"1\r\n%c\r\n" % byte)
            return self.wfile.write(b"0\r\n\r\n")
        bodies = {
            "close_after": None,
            "empty": b"",
            "html": b"<html>hello</html>",
            "array": b"[" + message + b"]",
            "two": message + b"\n" + message,
            "other_id": message.replace(b'"id": %d' % call["id"], b'"id": %d' % (call["id"] + 7)),
            "text_id": message.replace(b'"id": %d' % call["id"], b'"id": "%d"' % call["id"]),
            "notification": b'{"jsonrpc":"2.0","method":"changed","params":{"jobs":["a"]}}',
            "request": b'{"jsonrpc":"2.0","id":1,"method":"give_me_a_task"}',
            "deep": b"[" * 100000,
            "binary": bytes(range(256)),
            "nan": b'{"jsonrpc":"2.0","id":%d,"result":NaN}' % call["id"],
            "wrong": b'{"jsonrpc":"2.0","id":%d,"result":[[]]}' % call["id"],
            "gzip": None,
        }
        if fault in RAW:
            return self.wfile.write(RAW[fault] % {b"size": len(message), b"short": len(message) - 5, b"body": message})
        if fault == "slow_headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            try:
                for _ in range(1200):
                    self.wfile.write(b"x")
                    time.sleep(0.1)
            except OSError:
                pass
            return
        if fault == "zip_bomb":
            import gzip

            bomb = gzip.compress(b" " * (1 << 26))
            return self.send(200, bomb, {"Content-Encoding": "gzip"})
        if fault == "half":
            self.send_response(200)
            self.send_header("Content-Length", str(len(message) + 100))
            self.end_headers()
            return self.wfile.write(message)
        if fault in ("huge", "huge_unsaid"):
            self.send_response(200)
            if fault == "huge":
                self.send_header("Content-Length", str(1 << 30))
            self.end_headers()
            try:
                for _ in range(1024):
                    self.wfile.write(b" " * (1 << 20))
            except OSError:
                return
            return
        if fault == "slow":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            try:
                for _ in range(1200):
                    self.wfile.write(b" ")
                    time.sleep(0.1)
            except OSError:
                return
            return
        if fault == "gzip":
            import gzip

            return self.send(200, gzip.compress(message), {"Content-Encoding": "gzip"})
        if bodies[fault] is not None:
            self.send(200, bodies[fault], headers)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def main():
    server = Server(("127.0.0.1", 0), Handler)
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_port, flush=True)
    # The test ends it by closing its standard input.
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


main()

"""Forwards `/ingress/..` and `/admin/..` to two ports of 127.0.0.1, as a reverse proxy in front of Restate does.

    python proxy.py PORT INGRESS ADMIN
"""

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Headers of a connection, not of a message.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}
TIMEOUT = 600


class Proxy(BaseHTTPRequestHandler):
    ports: dict[str, int] = {}

    def forward(self) -> None:
        name, _, rest = self.path[1:].partition("/")
        if name not in self.ports:
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        engine = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=TIMEOUT)
        try:
            engine.request(self.command, f"/{rest}", body, headers)
            reply = engine.getresponse()
            content = reply.read()
        finally:
            engine.close()
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = forward


Proxy.ports = {"ingress": int(sys.argv[2]), "admin": int(sys.argv[3])}
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Proxy).serve_forever()

"""Google's APIs of Workflows, the token endpoint of a service account, and the addresses of callbacks.

    python server.py PORT FOLDER

The Workflow Executions API is at 127.0.0.1, and the Workflows API at localhost, since Google's have two hosts.
FOLDER/workflows has the workflows: NAME.yaml, and other fields of the resource in NAME.json. What is put there is
deployed. FOLDER/key.json is the key of the service account. Each request or reply that does not fit Google's discovery
documents is a line of FOLDER/violations. A filter of executions has only what these documents show.
"""

import json
import re
import secrets
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from contract import Contract, Violation
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from executions import Execution, timestamp
from google.auth import jwt

PROJECT, NUMBER = "test-project", "123456789012"
EMAIL = "bridge@test-project.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_SECONDS = 3600
WORDS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 500: "INTERNAL"}


class Refusal(Exception):
    def __init__(self, code, message, status=None):
        super().__init__(message)
        self.code, self.status = code, status or WORDS[code]


class Google:
    """What all requests share."""

    def __init__(self, folder, port):
        self.folder, self.port, self.lock = folder, port, threading.Lock()
        self.contracts = {"127.0.0.1": Contract("executions"), "localhost": Contract("workflows")}
        self.executions = {}
        self.tokens = {}
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        encoding = serialization.Encoding.PEM
        form = serialization.PrivateFormat.PKCS8
        pem = key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
        public = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.certificates = {"key-1": public}
        account = {"type": "service_account", "client_email": EMAIL, "private_key_id": "key-1", "private_key": pem}
        (folder / "key.json").write_text(json.dumps(account))

    def violated(self, what):
        with self.lock, (self.folder / "violations").open("a") as file:
            file.write(f"{what}\n")

    def token(self, form):
        """A token for a statement (RFC 7523) that the key of the service account has signed."""
        if form.get("grant_type") != [GRANT]:
            raise Refusal(400, "unsupported_grant_type")
        try:
            claims = jwt.decode(form["assertion"][0], certs=self.certificates, clock_skew_in_seconds=10)
        except ValueError as error:
            raise Refusal(400, f"invalid_grant: {error}") from error
        # The port is that of the proxy before this server.
        is_ours = re.fullmatch(r"http://127\.0\.0\.1:\d+/token", claims["aud"]) and claims["iss"] == EMAIL
        if not is_ours or claims["exp"] - claims["iat"] > 3600 or claims["scope"] != SCOPE:
            raise Refusal(400, "invalid_grant: Invalid JWT")
        token = f"ya29.{secrets.token_urlsafe(32)}"
        self.tokens[token] = time.monotonic() + TOKEN_SECONDS
        return {"access_token": token, "expires_in": TOKEN_SECONDS, "token_type": "Bearer"}

    def check_token(self, header):
        if self.tokens.get((header or "").removeprefix("Bearer "), 0) < time.monotonic():
            raise Refusal(401, "Request had invalid authentication credentials. Expected OAuth 2 access token.")

    # ------------------------------------------------------------------------------------------------ the methods

    def call(self, method, names, query, body):
        """The reply of a method of the discovery documents."""
        name = method.id.partition(".projects.locations.workflows")[2]
        if names["projectsId"] not in (PROJECT, NUMBER) or names["locationsId"] != "us-central1":
            raise Refusal(404, "Requested entity was not found.")
        api = "executions" if method.id.startswith("workflowexecutions") else "workflows"
        function = getattr(self, f"{api}_{name.strip('.').replace('.', '_')}", None)
        if not function:
            raise Violation(f"the stand-in does not have {method.id}")
        return function(names, query, body)

    def parent(self, names):
        return f"projects/{NUMBER}/locations/us-central1/workflows/{names['workflowsId']}"

    def workflow(self, path):
        more = path.with_suffix(".json")
        deployed = timestamp(datetime.fromtimestamp(path.stat().st_mtime, UTC))
        return {
            "name": f"projects/{PROJECT}/locations/us-central1/workflows/{path.stem}", "state": "ACTIVE",
            "revisionId": "000001-a4d", "createTime": deployed, "updateTime": deployed,
            **(json.loads(more.read_text()) if more.exists() else {}),
        }

    def workflow_file(self, names):
        path = self.folder / "workflows" / f"{names['workflowsId']}.yaml"
        if not path.exists():
            raise Refusal(404, f"Requested entity was not found: {names['workflowsId']}.")
        return path

    def execution(self, names):
        execution = self.executions.get(f"{self.parent(names)}/executions/{names['executionsId']}")
        if not execution:
            raise Refusal(404, "Requested entity was not found.")
        return execution

    def workflows_list(self, _names, query, _body):
        found = [self.workflow(path) for path in sorted((self.folder / "workflows").glob("*.yaml"))]
        return page("workflows", found, query, 500)

    def workflows_get(self, names, _query, _body):
        path = self.workflow_file(names)
        return {**self.workflow(path), "sourceContents": path.read_text()}

    def executions_executions_create(self, names, _query, body):
        self.workflow_file(names)
        for part in [text for label in body.get("labels", {}).items() for text in label]:
            if not re.fullmatch(r"[a-z0-9_-]{1,63}", part):
                raise Refusal(400, f"the label {part} is not valid")
        if len(body.get("argument", "")) > 32 * 1024:
            raise Refusal(400, "argument size exceeds 32 KB")
        environment = {"GOOGLE_CLOUD_PROJECT_ID": PROJECT, "GOOGLE_CLOUD_WORKFLOW_ID": names["workflowsId"]}
        host = f"http://127.0.0.1:{self.port}"
        with self.lock:
            execution = Execution(self.folder, self.parent(names), body, environment, host)
            self.executions[execution.name] = execution
        return execution.full()

    def executions_executions_get(self, names, query, _body):
        execution = self.execution(names)
        return execution.basic() if query.get("view") == ["BASIC"] else execution.full()

    def executions_executions_list(self, names, query, _body):
        self.workflow_file(names)
        with self.lock:
            found = [one for one in self.executions.values() if one.parent == self.parent(names)]
        found.sort(key=lambda one: one.create_time, reverse=True)
        if "filter" in query:
            found = [one for one in found if fits(query["filter"][0], one.full())]
        if query.get("view") == ["FULL"]:
            return page("executions", [one.full() for one in found], query, 100)
        return page("executions", [one.basic() for one in found], query, 1000)

    def executions_executions_cancel(self, names, _query, _body):
        execution = self.execution(names)
        if not execution.cancel():
            raise Refusal(400, "The execution has already ended.", "FAILED_PRECONDITION")
        return execution.full()

    def executions_executions_callbacks_list(self, names, query, _body):
        return page("callbacks", self.execution(names).open_callbacks(), query, 100)

    def executions_executions_stepEntries_list(self, names, query, _body):  # noqa: N802
        entries = self.execution(names).entries()
        return {**page("stepEntries", entries, query, 1000), "totalSize": len(entries)}


def fits(text, execution):
    """Whether an execution fits a filter (AIP-160): what the descriptions of its fields show, joined by OR."""
    for term in text.split(" OR "):
        found = re.fullmatch(r'(state|createTime)(=|>)"([^"]+)"', term)
        if not found or (found[1] == "state") != (found[2] == "="):
            raise Violation(f"no document shows this filter: {text}")
        value = execution[found[1]]
        if value == found[3] if found[2] == "=" else value > found[3]:
            return True
    return False


def page(name, items, query, most):
    """One page of a list. The token of the next is the number of items before it."""
    size = min(int(query.get("pageSize", ["100"])[0]) or 100, most)
    begin = int(query.get("pageToken", ["0"])[0])
    reply = {name: items[begin : begin + size]} if items[begin : begin + size] else {}
    return reply | ({"nextPageToken": str(begin + size)} if begin + size < len(items) else {})


def part(value, mask):
    """The fields of a reply that a mask such as `a,b(c,d)` names. A field that is not there is left out."""
    if isinstance(value, list):
        return [part(item, mask) for item in value]
    fields = {}
    for name, inner in re.findall(r"(\w+)(?:\(([^()]*)\))?", mask):
        if name in value:
            fields[name] = part(value[name], inner) if inner else value[name]
    return fields


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    google: Google

    def do_GET(self):  # noqa: N802
        self.answer("GET")

    def do_POST(self):  # noqa: N802
        self.answer("POST")

    def answer(self, verb):
        text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        try:
            code, reply = 200, self.reply(verb, text)
        except Refusal as refusal:
            code = refusal.code
            reply = {"error": {"code": code, "message": str(refusal), "status": refusal.status}}
        except Violation as violation:
            self.google.violated(violation)
            code, reply = 400, {"error": {"code": 400, "message": str(violation), "status": "INVALID_ARGUMENT"}}
        except Exception:
            self.google.violated(traceback.format_exc())
            code, reply = 500, {"error": {"code": 500, "message": "Internal error encountered.", "status": "INTERNAL"}}
        content = json.dumps(reply).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json; charset=UTF-8")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def reply(self, verb, text):
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query, keep_blank_values=True)
        if path == "/ready":
            return {}
        if path == "/all":
            # For the tests: all executions.
            return [execution.full() for execution in list(self.google.executions.values())]
        if (verb, path) == ("POST", "/token"):
            return self.google.token(parse_qs(text))
        self.google.check_token(self.headers.get("authorization"))
        contract = self.google.contracts.get(self.headers.get("host", "").partition(":")[0])
        if not contract:
            raise Violation(f"no API has the host {self.headers.get('host')}")
        body = json.loads(text) if text else None
        if text and self.headers.get_content_type() != "application/json":
            raise Violation(f"{verb} {path}: the content type is {self.headers.get_content_type()}")
        if found := re.fullmatch(r"/v1/(projects/.*/executions/[^/:]+)/callbacks/([^/:]+)", path):
            # No document has these addresses: https://cloud.google.com/workflows/docs/creating-callback-endpoints
            execution = self.google.executions.get(found[1])
            if not execution or not execution.receive(found[2], verb, body):
                raise Refusal(404, "Requested entity was not found.")
            return {}
        method, names = contract.match(verb, path)
        contract.check_request(method, query, body)
        reply = self.google.call(method, names, query, body)
        contract.check_reply(method, reply)
        return part(reply, query["fields"][0]) if "fields" in query else reply

    def log_message(self, *_arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    Handler.google = Google(folder, port)
    Server(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()

"""[`Contract`]: requests and replies, held against Google's discovery documents. It must not know what they mean."""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

DOCUMENTS = {"executions": "workflowexecutions.v1.json", "workflows": "workflows.v1.json"}
FORMATS = {
    "google-datetime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z",
    "google-duration": r"\d+(\.\d{1,9})?s",
    "int64": r"-?\d+",
}


class Violation(Exception):
    """What a document does not allow."""


@dataclass
class Method:
    id: str
    path: re.Pattern[str]
    parameters: dict[str, dict[str, Any]]
    request: str | None
    response: str | None


def methods(resources, shared):
    for resource in resources.values():
        for method in resource.get("methods", {}).values():
            # What the last part of a path may not have is the sign of a custom method, such as `:cancel`.
            path = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/:]+)", re.escape(method["flatPath"]))
            own = {name: of for name, of in method["parameters"].items() if of["location"] == "query"}
            yield method["httpMethod"], Method(
                method["id"], re.compile("/" + path), shared | own,
                method.get("request", {}).get("$ref"), method.get("response", {}).get("$ref"),
            )
        yield from methods(resource.get("resources", {}), shared)


class Contract:
    def __init__(self, api: str):
        folder = files("googleapiclient") / "discovery_cache/documents"
        document = json.loads((folder / DOCUMENTS[api]).read_text())
        self.schemas = document["schemas"]
        self.methods = list(methods(document["resources"], document["parameters"]))

    def match(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        for of, method in self.methods:
            if of == verb and (found := method.path.fullmatch(path)):
                return method, found.groupdict()
        raise Violation(f"no method has {verb} {path}")

    def check_request(self, method: Method, query: dict[str, list[str]], body: Any) -> None:
        for name, values in query.items():
            if name not in method.parameters:
                raise Violation(f"{method.id} has no parameter {name}")
            of = method.parameters[name]
            if len(values) > 1 and not of.get("repeated"):
                raise Violation(f"{method.id}: {name} is given {len(values)} times")
            for value in values:
                self._check_text(f"{method.id}: {name}", of, value)
        if (body is None) != (method.request is None):
            raise Violation(f"{method.id}: the body is {json.dumps(body)}")
        if method.request:
            self.check(f"{method.id}: body", {"$ref": method.request}, body, is_request=True)

    def check_reply(self, method: Method, body: Any) -> None:
        self.check(f"{method.id}: reply", {"$ref": method.response}, body)

    def check(self, place: str, schema: dict[str, Any], value: Any, is_request: bool = False) -> None:
        if name := schema.get("$ref"):
            schema = self.schemas[name]
        kind = schema["type"]
        if kind == "object":
            if not isinstance(value, dict):
                raise Violation(f"{place} is no object: {json.dumps(value)}")
            for name, item in value.items():
                of = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
                if of is None:
                    raise Violation(f"{place} has no field {name}")
                if is_request and of.get("readOnly"):
                    raise Violation(f"{place}.{name} is for output only")
                self.check(f"{place}.{name}", of, item, is_request)
        elif kind == "array":
            if not isinstance(value, list):
                raise Violation(f"{place} is no list: {json.dumps(value)}")
            for at, item in enumerate(value):
                self.check(f"{place}[{at}]", schema["items"], item, is_request)
        elif kind == "string":
            if not isinstance(value, str):
                raise Violation(f"{place} is no text: {json.dumps(value)}")
            self._check_text(place, schema, value)
        elif kind in ("integer", "number", "boolean"):
            python = {"integer": int, "number": (int, float), "boolean": bool}[kind]
            if not isinstance(value, python) or (kind != "boolean" and isinstance(value, bool)):
                raise Violation(f"{place} is no {kind}: {json.dumps(value)}")
        elif kind != "any":
            raise Violation(f"{place} has the unknown type {kind}")

    @staticmethod
    def _check_text(place: str, schema: dict[str, Any], value: str) -> None:
        """Checks a text, or a parameter, which is one."""
        pattern = {"integer": r"-?\d+", "boolean": "true|false"}.get(schema["type"])
        pattern = pattern or FORMATS.get(schema.get("format", ""))
        if pattern and not re.fullmatch(pattern, value):
            raise Violation(f"{place} does not have its format: {value!r}")
        if "enum" in schema and value not in schema["enum"]:
            raise Violation(f"{place} is none of its values: {value!r}")

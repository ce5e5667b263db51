"""Write a taskbridge adapter in Python: a class with `start`, `find`, `observe` and `cancel`, and `serve(YourClass)`."""

from .calls import Host
from .errors import AdapterError, Config, Denied, Limited, Rejected, Unavailable, Uncertain, Unsupported
from .model import Answer, Fields, Handle, InputFile, Job, Person
from .observation import (
    GONE,
    Artifact,
    Finding,
    LogText,
    Note,
    Observation,
    Output,
    Question,
    Started,
    Tool,
    cancelled,
    failed,
    queued,
    running,
    succeeded,
)
from .serve import serve
from .service import serve_http

ACCEPTED, TOO_LATE, NOT_ALLOWED = "accepted", "too_late", "not_allowed"
"""What `answer` returns."""

__all__ = [
    "ACCEPTED",
    "AdapterError",
    "Answer",
    "Artifact",
    "Config",
    "Denied",
    "Fields",
    "Finding",
    "GONE",
    "Handle",
    "Host",
    "InputFile",
    "Job",
    "Limited",
    "LogText",
    "NOT_ALLOWED",
    "Note",
    "Observation",
    "Output",
    "Person",
    "Question",
    "Rejected",
    "Started",
    "TOO_LATE",
    "Tool",
    "Unavailable",
    "Uncertain",
    "Unsupported",
    "cancelled",
    "failed",
    "queued",
    "running",
    "serve",
    "serve_http",
    "succeeded",
]

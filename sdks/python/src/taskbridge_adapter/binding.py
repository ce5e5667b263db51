"""Binds the adapter that a user wrote to the methods of the protocol: which abilities it has, how its methods are
called, and what their results mean on the wire. It must not know how messages are carried."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import model
from .errors import Config, ProtocolError, to_wire
from .model import Fields, member
from .observation import GONE, Finding, LogText, Observation, Started, Tool, _without_none, measure

VERSION = 1
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
# How many jobs of an adapter without `observe_all` are looked at at a time.
LOOKS = 8
# What a result of many jobs may have in bytes and in values, below what the server reads.
MOST_RESULT, MOST_VALUES = 3 * 1024 * 1024, 300_000
# The methods that are abilities.
ABILITIES = ("answer", "log", "artifact", "discover", "check_up", "forget")

Host = Any


class Binding:
    """One connected adapter. Its constructor is called with those of `config` and `host` that it names.

    `run` calls a method of the adapter, in whatever thread or loop it belongs to, and awaits its result.
    """

    def __init__(self, kind: type, run: Callable[..., Awaitable[Any]]) -> None:
        self.kind, self._run = kind, run
        self.adapter: Any = None
        self._looks = ThreadPoolExecutor(LOOKS, thread_name_prefix="observe")

    # ---------------------------------------------------------------------------------------------- the connection

    def describe(self) -> dict[str, Any]:
        """Returns the result of `describe`."""
        kind = self.kind
        return {
            "protocol": VERSION,
            "name": getattr(kind, "name", kind.__name__.lower()),
            "version": str(getattr(kind, "version", "0")),
            "schemas": self._schemas(),
            "secrets": list(getattr(kind, "secrets", ())),
        }

    async def initialize(self, params: dict[str, Any], host: Host) -> dict[str, Any]:
        """Creates the adapter with its config. Returns the result of `initialize`."""
        if params.get("protocol") != VERSION:
            raise ProtocolError(
                INVALID_PARAMS, f"params.protocol is {params.get('protocol')}; this program knows {VERSION}"
            )
        config = Fields("config", member(params, "config", dict))
        config |= {name: value for name, value in (params.get("secrets") or {}).items() if name not in config}
        self.adapter = await self._with(self.kind, **{"config": config, "host": host})
        once = getattr(self.adapter, "once", None)
        if once not in ("key", "none"):
            raise Config(f'the adapter\'s `once` is {once!r}; set it to "key" or "none"')
        known = {
            "key_lasts_ms": _millis(getattr(self.adapter, "key_lasts", None)),
            "identity": getattr(self.adapter, "identity", None),
            "start_lag_ms": _millis(getattr(self.adapter, "start_lag", None)),
            "group_separator": getattr(self.adapter, "group_separator", None),
            "list_lag_ms": _millis(getattr(self.adapter, "list_lag", None)),
        }
        abilities = [name for name in ABILITIES if callable(getattr(self.adapter, name, None))]
        abilities += [name for name in ("files", "changed", "notes") if getattr(self.adapter, f"has_{name}", False)]
        result = {"protocol": VERSION, "once": once, "abilities": abilities, "schemas": self._schemas()}
        return result | _without_none(known)

    def _schemas(self) -> dict[str, Any]:
        schemas = {
            "config": getattr(self.kind, "config_schema", None),
            "target": getattr(self.kind, "target_schema", None),
        }
        return _without_none(schemas)

    # --------------------------------------------------------------------------------------------------- the calls

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Makes one call. Returns its result on the wire, or raises what the adapter raised."""
        serve = getattr(self, f"_{method}", None) if method in METHODS else None
        if serve is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"the method {method} is not known")
        if method in ABILITIES and not callable(getattr(self.adapter, method, None)):
            raise ProtocolError(METHOD_NOT_FOUND, f"this adapter has no method {method}")
        if self.adapter is None:
            raise ProtocolError(INVALID_PARAMS, "call initialize first")
        return await serve(params)

    async def _start(self, params: dict[str, Any]) -> Any:
        job = model.job(params)
        found = await self._run(self.adapter.start, job)
        if found is None:
            raise TypeError("start returned None; return the handle of the job")
        return _started(found)

    async def _find(self, params: dict[str, Any]) -> Any:
        found = await self._run(self.adapter.find, model.job(params))
        return None if found is None else _started(found)

    async def _observe_all(self, params: dict[str, Any]) -> Any:
        handles = model.handles(params)
        if not handles:
            return []
        if hasattr(self.adapter, "observe_all"):
            seen = list(await self._run(self.adapter.observe_all, handles))
        else:
            seen = await self._observe_each(handles)
        if len(seen) != len(handles):
            raise ValueError(f"observe_all returned {len(seen)} observations for {len(handles)} handles")
        return _bounded([_observed(each) for each in seen])

    async def _observe_each(self, handles: Sequence[str]) -> list[Any]:
        look = self.adapter.observe
        if inspect.iscoroutinefunction(look):
            turns = asyncio.Semaphore(LOOKS)

            async def one(handle: str) -> Any:
                async with turns:
                    return await look(handle)

            async def every() -> list[Any]:
                return await asyncio.gather(*map(one, handles), return_exceptions=True)

            return list(await self._run(every))
        return await asyncio.gather(
            *(asyncio.get_running_loop().run_in_executor(self._looks, look, handle) for handle in handles),
            return_exceptions=True,
        )

    async def _cancel(self, params: dict[str, Any]) -> None:
        await self._with(self.adapter.cancel, member(params, "handle", str), by=model.person(params.get("by")))

    async def _answer(self, params: dict[str, Any]) -> str:
        handle, question = member(params, "handle", str), member(params, "question", str)
        by = model.person(params.get("by"))
        outcome = await self._with(self.adapter.answer, handle, question, model.answer(params), by=by)
        return "accepted" if outcome in (None, True) else "too_late" if outcome is False else str(outcome)

    async def _log(self, params: dict[str, Any]) -> dict[str, Any]:
        most, search = member(params, "max_bytes", int), params.get("search")
        log = await self._with(self.adapter.log, member(params, "handle", str), max_bytes=most, search=search)
        text = log if isinstance(log, LogText) else _log_end(str(log), most, search)
        return {"text": text.text, "cut": text.cut}

    async def _artifact(self, params: dict[str, Any]) -> dict[str, Any] | None:
        offset, most = member(params, "offset", int), member(params, "max_bytes", int)
        handle, name = member(params, "handle", str), member(params, "name", str)
        # The largest part that fits into one line, in base64.
        most = min(most, 2 * 1024 * 1024)
        data = await self._with(self.adapter.artifact, handle, name, offset=offset, max_bytes=most)
        if data is None:
            return None
        data, size = data if isinstance(data, tuple) else (data[offset : offset + most], len(data))
        return {"data": base64.b64encode(data[:most]).decode(), "size": size}

    async def _discover(self, _params: dict[str, Any]) -> list[dict[str, Any]]:
        tools: Sequence[Tool] = await self._run(self.adapter.discover)
        return [_without_none(vars(each)) for each in tools]

    async def _check_up(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        tools = {
            member(each, "tool", str): Fields("target", member(each, "target", dict))
            for each in member(params, "tools", list)
        }
        # The names of the arguments that calls of a tool may have; None if they may have any.
        parameters = {each["tool"]: each.get("parameters") for each in params["tools"]}
        findings: Sequence[Finding] = await self._with(self.adapter.check_up, tools, parameters=parameters)
        return [_without_none(vars(each)) for each in findings]

    async def _forget(self, params: dict[str, Any]) -> None:
        await self._run(self.adapter.forget, member(params, "handle", str))

    async def close(self) -> None:
        """Lets the adapter close its connections, if it has a method `close`."""
        if self.adapter is not None and hasattr(self.adapter, "close"):
            await self._run(self.adapter.close)

    async def _with(self, method: Callable[..., Any], *arguments: Any, **optional: Any) -> Any:
        """Calls a method with those of the optional arguments that it names."""
        names = inspect.signature(method).parameters
        return await self._run(method, *arguments, **{name: value for name, value in optional.items() if name in names})


METHODS = ("start", "find", "observe_all", "cancel", *ABILITIES)


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _started(found: Any) -> dict[str, Any]:
    if isinstance(found, Started):
        return {"handle": found.handle} | ({} if found.first is None else {"first": found.first.to_wire()})
    if not isinstance(found, str) or not found:
        raise TypeError(f"a handle must be a text that is not empty, and not {found!r}")
    return {"handle": str(found)}


def _observed(seen: Any) -> dict[str, Any]:
    if isinstance(seen, BaseException):
        error = to_wire(seen)
        return {"error": {"message": error["message"]} | error.get("data", {"kind": "unavailable"})}
    if seen is None:
        return GONE.to_wire()
    if not isinstance(seen, Observation):
        return _observed(
            TypeError(
                f"an observation must come from running(), succeeded() and so on, and not be a {type(seen).__name__}"
            )
        )
    return seen.to_wire()


def _bounded(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leaves out what does not fit into one line. Those jobs are polled again, after others have ended."""
    later = {"error": {"kind": "unavailable", "message": "the results of other jobs fill this reply"}}
    left, values, kept = MOST_RESULT, MOST_VALUES, []
    for each in seen:
        size = len(json.dumps(each, default=str, ensure_ascii=False).encode(errors="replace"))
        count = measure(each)[1]
        fits = size <= left and count <= values
        if fits:
            left, values = left - size, values - count
        kept.append(each if fits else later)
    return kept


def _log_end(text: str, most: int, search: str | None) -> LogText:
    """Returns the last whole lines that fit, of those that contain the text that is searched for."""
    if search:
        text = "".join(line for line in text.splitlines(keepends=True) if search.casefold() in line.casefold())
    data = text.encode(errors="replace")
    if len(data) <= most:
        return LogText(text)
    end = data[len(data) - most :]
    first, newline, rest = end.partition(b"\n")
    at_line = data[len(data) - most - 1 : len(data) - most] == b"\n"
    whole = end if at_line or not newline or not rest else rest
    return LogText(whole.decode(errors="ignore"), cut=True)

"""An adapter whose methods are async."""

import asyncio
import functools

from taskbridge_adapter import GONE, Started, serve, succeeded


def traced(method):
    @functools.wraps(method)
    def call(*arguments):
        return method(*arguments)

    return call


class Waits:
    once = "key"

    def __init__(self):
        # It is created in the loop that its methods run in.
        self.loop, self.jobs = asyncio.get_running_loop(), {}
        self.together = asyncio.Barrier(16)

    async def start(self, job):
        assert asyncio.get_running_loop() is self.loop
        # It returns when as many others wait as the server has calls in progress.
        await self.together.wait()
        self.jobs[job.key] = job.arguments["number"]
        return Started(job.key, succeeded(self.jobs[job.key]))

    @traced
    async def find(self, job):
        return job.key if job.key in self.jobs else None

    async def observe(self, handle):
        if handle == "broken":
            raise RuntimeError("broken")
        return succeeded(self.jobs[handle]) if handle in self.jobs else GONE

    async def cancel(self, handle):
        self.jobs.pop(handle, None)


if __name__ == "__main__":
    serve(Waits)

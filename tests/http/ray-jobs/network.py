"""A network namespace for an engine that listens on every interface, and a way into it by a Unix socket.

    python network.py inside SOCKET PORT COMMAND...    runs the command, and forwards from the socket to the port
    python network.py outside SOCKET PORT              forwards from a port of 127.0.0.1 to the socket

`inside` is for a process in a new namespace: `unshare --net`.
"""

import asyncio
import fcntl
import socket
import struct
import sys

SIOCSIFFLAGS = 0x8914
IFF_UP = 1


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def forward_to(connect):
    async def serve(reader, writer):
        try:
            to_reader, to_writer = await connect()
        except OSError:
            # It does not listen yet.
            writer.close()
            return
        await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer))
    return serve


async def inside(path, port, *command):
    with socket.socket() as any_socket:
        # The loopback interface of a new namespace is down.
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    await asyncio.start_unix_server(forward_to(lambda: asyncio.open_connection("127.0.0.1", int(port))), path)
    process = await asyncio.create_subprocess_exec(*command)
    if status := await process.wait():
        sys.exit(status)
    # What it started goes on.
    await asyncio.Event().wait()


async def outside(path, port):
    serve = forward_to(lambda: asyncio.open_unix_connection(path))
    server = await asyncio.start_server(serve, "127.0.0.1", int(port))
    await server.serve_forever()


asyncio.run({"inside": inside, "outside": outside}[sys.argv[1]](*sys.argv[2:]))

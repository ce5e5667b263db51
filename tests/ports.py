"""Free ports for the servers that tests start. It must not listen on one."""

import random
import socket

# Below the ports that the kernel gives to outgoing connections: one of those could take a port before its server
# listens, or while it is down.
RANGE = range(20_000, 32_000)
# Reservations against other tests on this machine (also of tests/it/support/port.rs). They end with this process.
_reservations: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nobody listens on, and that this process has to itself."""
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if len(found) == count:
            break
        reservation = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                reservation.bind(f"\0taskbridge-test-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                reservation.close()
                continue
        _reservations.append(reservation)
        found.append(port)
    if len(found) < count:
        raise OSError(f"fewer than {count} ports of {RANGE} are free")
    return found


def free_port() -> int:
    return free_ports(1)[0]

"""Whether a server can be reached: its name, its addresses, its port."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from hookrow.diagnostics.result import CheckResult, Explained, Level
from hookrow.outside.address import Address, is_public
from hookrow.outside.asking import said

_WAIT = 5.0
"""In seconds; how long one of the addresses is tried."""


def resolve(address: Address) -> Sequence[str] | CheckResult:
    """Return the IP addresses of the name, or what to do where it has none."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Explained(
            Level.ERROR,
            "dns",
            f"The name {address.host} has no address ({said(error)}).",
            "The provider finds no server there.",
            "Correct the name, or make an A record for it.",
        )
    return list(dict.fromkeys(str(to[0]) for *_, to in found))


def check_addresses(host: str, ips: Sequence[str]) -> CheckResult:
    """Look whether the provider could reach them."""
    seen = f"{host} is {', '.join(ips)}."
    if not any(map(is_public, ips)):
        means = "It is an address of this machine or network: the provider cannot reach it."
        return Explained(Level.WARNING, "dns", seen, means, "Check the public address, too.")
    if all(":" in ip for ip in ips):
        means = "It has IPv6 only, which the provider does not say that it speaks."
        return Explained(Level.WARNING, "dns", seen, means, "Make an A record, for IPv4, too.")
    return Explained(Level.OK, "dns", seen)


def check_port(address: Address, ips: Sequence[str]) -> CheckResult:
    """Connect to each of the addresses: the provider may choose any."""
    faults = {ip: fault for ip in ips if (fault := _fault(ip, address.port))}
    seen = "; ".join(f"{ip}: {said(fault)}" for ip, fault in faults.items())
    seen = f"Port {address.port} takes no connection at {seen}."
    if len(faults) == len(ips):
        return Explained(
            Level.ERROR,
            "connection",
            seen,
            "No server listens there, or a firewall keeps it from the world.",
            f"Start the server, and let port {address.port} through.",
        )
    if all(map(_is_ours, faults, faults.values())):
        return Explained(Level.OK, "connection", f"Port {address.port} takes connections.")
    return Explained(
        Level.WARNING,
        "connection",
        seen,
        "Other addresses of the name work: the provider's calls fail when it takes this one.",
        "Have the server listen there, or take that address out of the DNS.",
    )


def _fault(ip: str, port: int) -> OSError | None:
    try:
        socket.create_connection((ip, port), _WAIT).close()
    except OSError as error:
        return error
    return None


def _is_ours(ip: str, fault: OSError) -> bool:
    """Tell whether it is this machine that has no IPv6."""
    return ":" in ip and fault.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL}

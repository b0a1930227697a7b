"""Several hosts on one machine: network namespaces on a bridge, made and removed here. Needs root."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

_PREFIX_LENGTH = 24


@dataclass(frozen=True)
class Host:
    """One host.

    Attributes
    ----------
    namespace
        The name of its network namespace.
    address
        Its IPv4 address.
    gateway
        The address of the host that runs this program, as this one sees it.
    interface
        Its network interface.
    """

    namespace: str
    address: str
    gateway: str
    interface: str = "eth0"

    @property
    def network(self) -> str:
        """Return the network that all hosts are on."""
        return str(ipaddress.ip_network(f"{self.address}/{_PREFIX_LENGTH}", strict=False))

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return what makes a command run on this host."""
        return ("ip", "netns", "exec", self.namespace)


def reason_against() -> Optional[str]:
    """Return why this machine cannot make hosts; None when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need the programs ip and tc (package iproute2)"
    return None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


@contextmanager
def _own_name_is(address: str, namespace: str) -> Iterator[None]:
    """Make the host's name lead to its address: `ip netns exec` puts this file over /etc/hosts."""
    folder = Path("/etc/netns") / namespace
    folder.mkdir(parents=True)
    try:
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
        yield
    finally:
        shutil.rmtree(folder)


def _limit(rate: str, *link: str) -> None:
    """Limit what a link sends. `link` ends with its name."""
    *where, name = link
    limit = ("rate", rate, "burst", "256kb", "latency", "50ms")
    _run("tc", *where, "qdisc", "add", "dev", name, "root", "tbf", *limit)


@contextmanager
def network_of(count: int, rate: Optional[str] = None) -> Iterator[list[Host]]:
    """Make hosts that reach each other, and nothing else, over one network.

    Parameters
    ----------
    count
        How many.
    rate
        What each host sends and receives at most, such as ``1gbit``; as fast as the machine if None.

    Raises
    ------
    RuntimeError
        When a command fails; with its answer.
    """
    tag = f"oc{os.getpid()}"
    network = f"10.213.{os.getpid() % 256}"
    gateway = f"{network}.254"
    with ExitStack() as cleanup:
        _ip("link", "add", f"{tag}b", "type", "bridge")
        cleanup.callback(_ip, "link", "del", f"{tag}b")
        _ip("address", "add", f"{gateway}/{_PREFIX_LENGTH}", "dev", f"{tag}b")
        _ip("link", "set", f"{tag}b", "up")
        hosts = []
        for i in range(count):
            host = Host(f"{tag}h{i}", f"{network}.{i + 1}", gateway)
            # Horovod's process sets bind to what the host's own name resolves to.
            cleanup.enter_context(_own_name_is(host.address, host.namespace))
            _ip("netns", "add", host.namespace)
            cleanup.callback(_ip, "netns", "del", host.namespace)
            _ip("link", "add", f"{tag}v{i}", "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            # The kernel takes a removed namespace apart later: the next network would find these names in use.
            cleanup.callback(_ip, "link", "del", f"{tag}v{i}")
            _ip("link", "set", f"{tag}v{i}", "master", f"{tag}b", "up")
            _ip("-n", host.namespace, "address", "add", f"{host.address}/{_PREFIX_LENGTH}", "dev", "eth0")
            _ip("-n", host.namespace, "link", "set", "eth0", "up")
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            if rate:
                _limit(rate, f"{tag}v{i}")
                _limit(rate, "-n", host.namespace, "eth0")
            hosts.append(host)
        yield hosts


def add_decoy(host: Host, network: str) -> None:
    """Give a host another interface that is up and leads nowhere, with an address such as ``10.9.8.7/24``."""
    _ip("-n", host.namespace, "link", "add", "bridge0", "type", "veth", "peer", "name", "bridge1")
    _ip("-n", host.namespace, "address", "add", network, "dev", "bridge0")
    for name in ("bridge0", "bridge1"):
        _ip("-n", host.namespace, "link", "set", name, "up")

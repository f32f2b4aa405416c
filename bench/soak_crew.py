"""The processes of the soak: started, killed at random, and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from bench.soak_cluster import Cluster
from ordered_queue.embedded import stop

LONGEST_ABSENCE_SECONDS = 5.0
"""A killed process is started again after up to this."""


@dataclass(frozen=True)
class Kill:
    """What we did to whom, and when."""

    what: str
    when: datetime


@dataclass
class Member:
    """A process that is to be there.

    Attributes:
        name: unique.
        kind: what kills are counted by.
        command: how it is started.
        cwd: where.
        more_env: beside the cluster's.
    """

    name: str
    kind: str
    command: Sequence[str]
    cwd: Path
    more_env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    back_at: float = 0.0

    def start(self, cluster: Cluster, log: Path) -> None:
        """Start it, with one of the servers that are up as its own."""
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                list(self.command),
                env={**cluster.env(), **self.more_env},
                cwd=self.cwd,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self, with_children: bool) -> None:
        """Kill it -9, alone or with all that it started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            if with_children:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        self.process = None
        self.back_at = time.monotonic() + random.uniform(0, LONGEST_ABSENCE_SECONDS)


@dataclass
class Crew:
    """All of them.

    Attributes:
        members: by name.
        kills: what was killed.
        ended: members that ended by themselves, which none should.
    """

    cluster: Cluster
    folder: Path
    members: dict[str, Member] = field(default_factory=dict)
    kills: list[Kill] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def add(self, member: Member) -> None:
        """Start one more."""
        self.members[member.name] = member
        member.start(self.cluster, self.log_of(member))

    def log_of(self, member: Member) -> Path:
        """What it prints."""
        return self.folder / f"{member.name}.log"

    def of_kind(self, kind: str) -> list[Member]:
        """Those of a kind."""
        return [member for member in self.members.values() if member.kind == kind]

    def tend(self) -> None:
        """Start again whoever is not there."""
        for member in self.members.values():
            if member.process is not None and member.process.poll() is not None:
                self.ended.append(f"{member.name} (code {member.process.returncode})")
                member.process = None
            if member.process is None and time.monotonic() > member.back_at:
                member.start(self.cluster, self.log_of(member))

    def note(self, what: str) -> None:
        """Write down a kill."""
        self.kills.append(Kill(what, datetime.now(timezone.utc)))

    def kill_one(self, kind: str, with_children: bool) -> None:
        """Kill one of a kind."""
        alive = [member for member in self.of_kind(kind) if member.process is not None]
        if alive:
            random.choice(alive).kill(with_children)
            self.note(f"{kind} and its flows" if with_children and kind in ("serve", "worker") else kind)

    def stop(self, kinds: Sequence[str], seconds: float = 15.0) -> None:
        """End those kinds, politely first. They are not started again."""
        leaving = [member for kind in kinds for member in self.of_kind(kind)]
        for member in leaving:
            del self.members[member.name]
            if member.process is not None:
                member.process.terminate()
        for member in leaving:
            if member.process is not None:
                stop(member.process, seconds)

    def stop_all(self) -> None:
        """End all."""
        self.stop(list({member.kind for member in self.members.values()}))


def kill_a_flow(journal: Path) -> bool:
    """Kill -9 the process of a real flow that is being executed; whether one was."""
    lines = journal.read_text().splitlines()[-8:] if journal.exists() else []
    for line in reversed(lines):
        pid = int(line.split()[2])
        with suppress(OSError):
            # A pid may have been given to somebody else since.
            if b"prefect" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return True
    return False


def killers(crew: Crew, journal: Path) -> dict[str, tuple[float, Callable[[], object]]]:
    """Everything that may be killed, and how often in proportion."""

    def flow() -> None:
        if kill_a_flow(journal):
            crew.note("flow")

    def api() -> None:
        server = random.choice(crew.cluster.servers)
        if all(each.running is not None for each in crew.cluster.servers):
            server.restart_in_background()
            crew.note("api server")

    return {
        "flow": (3, flow),
        "light runner": (1, lambda: crew.kill_one("light runner", True)),
        "serve": (0.6, lambda: crew.kill_one("serve", False)),
        "serve and its flows": (0.3, lambda: crew.kill_one("serve", True)),
        "worker": (0.6, lambda: crew.kill_one("worker", False)),
        "worker and its flows": (0.3, lambda: crew.kill_one("worker", True)),
        "watcher": (2, lambda: crew.kill_one("watcher", True)),
        "submitter": (2, lambda: crew.kill_one("submitter", True)),
        "operator": (1, lambda: crew.kill_one("operator", True)),
        "api": (1, api),
    }

"""Attack the files that processes share, and the process itself; count what was lost, and what raised.

    python -m tests.fuzz.attacks [--seed S] [--times N]

Each attack runs N times as often as its row below says. The exit status is 1 where something came back wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs

from fireiron import matmul
from fireiron.jit import cache
from fireiron.jit.cache import Entry
from fireiron.jit.interface import Interface
from fireiron.schedules import simt
from fireiron.tune import records
from fireiron.tune.problem import problem
from fireiron.tune.record import Record, now
from fireiron.tune.space import point

KEYS = ("a" * 64, "b" * 64, "c" * 64)
WORST_S = 0.03  # by which a process that writes is killed
SLOW_S = 1.0  # by which one that compiles is
GROWTH = 64 << 20  # bytes that many builds may add
APPENDERS = 8


def entry() -> Entry:
    """Compile a small kernel."""
    schedule = simt.listing1(matmul(16, 16, 4))
    return Entry(schedule.compile("sm_80", cache=False).binary, Interface.of(schedule.lowered("sm_80")))


def record(number: int) -> Record:
    """Give a record of a point of its own."""
    wanted = problem(matmul(64, 64, 64))
    at = point({"m": number})
    return Record(wanted, "simt.sgemm", at, "none", "sm_80", us=1.0, samples=3, when=now())


def killed(task: Callable[[], object], after_s: float) -> None:
    """Run a task in a fork, and kill it."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            task()
        os._exit(0)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@attrs.define
class Attacks:
    """Hold a folder of one's own, and what came of each attack.

    Args:
        folder: whose files are attacked.
        draw: of places and times.
        found: how often each thing happened, by the attack and the thing.
    """

    folder: Path
    draw: random.Random
    found: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    def damaged_entries(self, count: int) -> None:
        """Change bytes of an entry, cut it, or add to it: it is a miss, or the same entry."""
        whole = entry()
        cache.store(KEYS[0], whole)
        path = cache.entry_path(KEYS[0])
        assert path is not None
        right = path.read_bytes()
        for _ in range(count):
            data = bytearray(right)
            place = self.draw.randrange(len(data))
            match self.draw.randrange(4):
                case 0:
                    data[place] ^= 1 << self.draw.randrange(8)
                case 1:
                    del data[place:]
                case 2:
                    data[place:place] = self.draw.randbytes(self.draw.randrange(1, 64))
                case _:
                    data[place : place + 16] = self.draw.randbytes(16)
            path.write_bytes(bytes(data))
            self.loaded("damaged entries", KEYS[0], whole)
        path.unlink(missing_ok=True)

    def kills_of_writers(self, count: int) -> None:
        """Kill processes that write entries."""
        whole = entry()

        def write() -> None:
            while True:
                for key in KEYS:
                    cache.store(key, whole)

        for _ in range(count):
            killed(write, self.draw.random() * WORST_S)
            for key in KEYS:
                self.loaded("kills of writers", key, whole)

    def kills_of_compiles(self, count: int) -> None:
        """Kill processes that compile: what they leave is whole, or is not there."""
        for i in range(count):
            schedule = simt.listing1(matmul(16, 16, 8 + i))
            killed(lambda s=schedule: s.compile("sm_80"), self.draw.random() * SLOW_S)
            if i % 8 == 0:
                same = schedule.compile("sm_80").source == schedule.cuda("sm_80")
                self.found["kills of compiles", "right" if same else "WRONG"] += 1

    def kills_of_appends(self, count: int) -> None:
        """Kill processes that append records, or merge files: each line is whole but for the last of each."""
        out, other = self.folder / "kept.jsonl", self.folder / "more.jsonl"
        records.append(out, [record(0)])
        records.append(other, [record(1)])

        def often(number: int) -> None:
            while True:
                if number % 2:
                    records.merge(out, [other])
                else:
                    records.append(out, [record(number)] * 9)

        for i in range(count):
            killed(lambda number=i: often(number), self.draw.random() * WORST_S)
            read = records.read(out)
            self.found["kills of appends", "lines cut off"] += len(read.broken)
            self.found["kills of appends", "right" if read.records else "LOST"] += 1
            records.repair(out)

    def appends_at_once(self, count: int) -> None:
        """Append from several processes: no line is lost, and none is mixed with another."""
        out = self.folder / "together.jsonl"
        children: list[int] = []
        for i in range(APPENDERS):
            child = os.fork()
            if not child:
                for j in range(count // APPENDERS):
                    records.append(out, [record(i * count + j)])
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        read = records.read(out)
        every = len(read.records) == count // APPENDERS * APPENDERS and not read.problems
        self.found["appends at once", f"{len(read.records)} lines" if every else "LOST"] += 1

    def builds(self, count: int) -> None:
        """Build many schedules: the process does not grow."""
        for i in range(count):
            simt.listing1(matmul(16 + i % 97, 16 + i % 89, 4 + i)).lowered("sm_80")
            if i == count // 4:
                before = resident()
        grown = resident() - before
        self.found["builds", "right" if grown < GROWTH else f"GREW by {grown >> 20} MiB"] += count

    def threads(self, count: int) -> None:
        """Compile and print in threads: each gets its own kernel."""

        def work(first: int) -> None:
            for i in range(count // 8):
                schedule = simt.listing1(matmul(8 + first, 8 + i, 4))
                same = schedule.compile("sm_80", cache=bool(i % 2)).source == schedule.cuda("sm_80")
                self.found["threads", "right" if same else "WRONG"] += 1

        at_once = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in at_once:
            thread.start()
        for thread in at_once:
            thread.join()

    def loaded(self, attack: str, key: str, whole: Entry) -> None:
        """Read an entry, and count what came of it; what it says on stderr is not printed."""
        with contextlib.redirect_stderr(io.StringIO()):
            found = cache.load(key)
        self.found[attack, "a miss" if found is None else "the entry" if found == whole else "WRONG"] += 1


ATTACKS: dict[Callable[[Attacks, int], None], int] = {
    Attacks.damaged_entries: 600,
    Attacks.kills_of_writers: 300,
    Attacks.kills_of_compiles: 100,
    Attacks.kills_of_appends: 400,
    Attacks.appends_at_once: 2000,
    Attacks.builds: 10000,
    Attacks.threads: 64,
}


def resident() -> int:
    """Give the bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def attack(seed: str, times: float = 1.0) -> Counter[tuple[str, str]]:
    """Run all attacks in a folder of their own.

    Args:
        seed: of the draws.
        times: how often, as a share of the table.
    """
    before = os.environ.get("FIREIRON_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FIREIRON_CACHE_DIR"] = f"{folder}/cache"
        try:
            attacks = Attacks(Path(folder), random.Random(seed))
            for run, count in ATTACKS.items():
                run(attacks, max(8, round(count * times)))
        finally:
            if before is None:
                del os.environ["FIREIRON_CACHE_DIR"]
            else:
                os.environ["FIREIRON_CACHE_DIR"] = before
    return attacks.found


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m tests.fuzz.attacks", description="attack shared files and the process")
    parser.add_argument("--seed", default=None, help="a fresh one if none is given")
    parser.add_argument("--times", type=float, default=1.0)
    asked = parser.parse_args()
    seed = asked.seed or secrets.token_hex(4)
    print(f"seed {seed}", flush=True)
    found = attack(seed, asked.times)
    for (name, what), count in sorted(found.items()):
        print(f"{name}: {count} {what}")
    return int(any(what.isupper() or what.startswith("GREW") for _, what in found))


if __name__ == "__main__":
    sys.exit(main())

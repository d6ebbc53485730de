"""Take turns at a GPU: while one process times, the others of the same folder are stopped.

A process joins once, and then calls `alone` where its timing begins and `over` behind it. The lock is a file's, so that
the system opens it where a process dies; `wake` then lets the stopped ones go on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

SETTLE_S = 0.2  # what the stopped processes have launched ends meanwhile
LIMIT_S = 45  # seconds of a turn; the system then ends the process, wherever it hangs
LOCK = "lock"


class Turns:
    """Join the processes that share a GPU.

    Args:
        folder: the folder that these processes have in common; it must exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = -1

    def join(self) -> None:
        """Let others stop this process; wait for the end of a timing that has begun."""
        self._take(wait=True)
        (self.folder / str(os.getpid())).touch()
        self._free()

    def alone(self) -> None:
        """Wait for a turn, then stop the others."""
        self._take(wait=True)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        self._signal(signal.SIGSTOP)
        time.sleep(SETTLE_S)

    def over(self) -> None:
        """Let the others go on; nothing happens without a turn."""
        if self._lock >= 0:
            signal.alarm(0)
            self._signal(signal.SIGCONT)
            self._free()

    def wake(self) -> None:
        """Let all processes go on, unless a living one has its turn."""
        if self._take(wait=False):
            self.over()

    def _take(self, wait: bool) -> bool:
        lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _free(self) -> None:
        os.close(self._lock)
        self._lock = -1

    def _signal(self, number: signal.Signals) -> None:
        for path in self.folder.iterdir():
            if path.name != LOCK and path.name != str(os.getpid()):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(path.name), number)

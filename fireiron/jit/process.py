"""Processes that run tasks: where one hangs or crashes, its task fails, and the next task gets a new process.

A task runs a user's code, which may exit, fork, print, read stdin, or never end. Each process heads a process group,
which is killed as a whole. The process imports modules from this process's `sys.path`, and last from the current
folder.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import IO, Any

from fireiron.base.text import printable
from fireiron.jit.worker import receive, send

PACKAGE = Path(__file__).resolve().parent.parent
START_LIMIT_S = 60.0
LOOK_S = 0.2  # between looks whether a process still lives
LAST_WORDS_NBYTES = 4096
# What the process runs: this very package, wherever it stands, then what this process would find, behind its own.
BEGIN = """
import importlib.util, sys
folder, *places = sys.argv[1:]
made = importlib.util.spec_from_file_location("fireiron", folder + "/__init__.py", submodule_search_locations=[folder])
module = sys.modules["fireiron"] = importlib.util.module_from_spec(made)
made.loader.exec_module(module)
sys.path += [place for place in places if place not in sys.path]
from fireiron.jit.worker import serve
serve()
"""


class Lost(Exception):
    """Say that a process hung or crashed, so that its task has no result.

    Args:
        code: `hang` or `crash`.
        message: text for the error.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class Process:
    """Run functions in another Python process, one at a time; the first call, and one after a loss, starts the process.

    Args:
        environment: environment variables that have other values in that process.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(environment or {})
        self._running: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()
        self._said: IO[bytes] | None = None

    def call(self, function: Callable[..., Any], *arguments: Any, limit_s: float) -> Any:
        """Run a function in the process.

        Raises:
            Lost: where the function takes longer than the limit, or the process dies. Errors that the function raises
                are raised again in this process.
        """
        return self._request(("call", function, arguments), limit_s)

    def make(self, factory: Callable[..., Any], *arguments: Any, limit_s: float) -> None:
        """Make an object in the process, and keep it there for `do`.

        Raises:
            Lost: as `call`.
        """
        self._request(("make", factory, arguments), limit_s)

    def do(self, method: str, *arguments: Any, limit_s: float) -> Any:
        """Call a method of the object that `make` made.

        Raises:
            Lost: as `call`.
        """
        return self._request(("do", method, arguments), limit_s)

    @property
    def alive(self) -> bool:
        """Say whether the process runs."""
        return self._running is not None and self._running.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        running, self._running = self._running, None
        if running is None:
            return
        _end_group(running)
        running.wait()
        for stream in (running.stdin, running.stdout, self._said):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _request(self, message: tuple[str, Any, tuple[Any, ...]], limit_s: float) -> Any:
        if not self.alive:
            self.kill()
            self._start()
        running, answers, said = self._running, self._answers, self._said
        if running is None or running.stdin is None:
            raise Lost("crash", "the process was ended")
        if said is not None:  # only the last words of this task count
            said.seek(0)
            said.truncate()
        try:
            send(running.stdin, message)  # pyright: ignore[reportArgumentType]
            answer = _answer(running, answers, limit_s)
        except queue.Empty:
            self.kill()
            raise Lost("hang", f"no answer within {limit_s:.0f} s") from None
        except OSError:
            answer = None
        if answer is None:
            words = _last_words(running, said)
            self.kill()
            raise Lost("crash", words)
        right, value = answer
        if not right:
            raise value
        return value

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        # It must find what this process finds, files beside a script included.
        places = dict.fromkeys(p or os.getcwd() for p in sys.path)
        running = subprocess.Popen(
            [sys.executable, "-P", "-c", BEGIN, str(PACKAGE), *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **self._environment},
            # Ctrl-C is for the process that searches: it ends the others itself, once all is saved.
            start_new_session=True,
        )
        self._running, answers, said = running, queue.Queue[Any](), self._said
        self._answers = answers
        threading.Thread(target=_listen, args=(running.stdout, answers), daemon=True).start()
        try:
            ready = _answer(running, answers, START_LIMIT_S)  # its first task's time begins there
        except queue.Empty:
            self.kill()
            raise Lost("hang", f"a process did not start within {START_LIMIT_S:.0f} s") from None
        if ready is None:
            words = _last_words(running, said)
            self.kill()
            raise Lost("crash", words)


def _answer(running: subprocess.Popen[bytes], answers: queue.Queue[Any], limit_s: float) -> Any:
    """Wait for an answer while the process lives; the pipe alone does not show its end, since a fork may keep it open.

    Returns:
        The answer; None where the process ended without one.

    Raises:
        queue.Empty: where time is up.
    """
    end = time.monotonic() + limit_s
    while True:
        dead = running.poll() is not None  # asked first: what it answered before it died is there then
        left = end - time.monotonic()
        try:
            return answers.get(timeout=max(0.0, min(LOOK_S, left)))
        except queue.Empty:
            if dead:
                return None
            if left <= 0:
                raise


def _end_group(running: subprocess.Popen[bytes]) -> None:
    """Kill a process and the processes that it forked."""
    if sys.platform == "win32":
        running.kill()
        return
    # Its number is that of its group, and stays taken while it is not waited for, or others of the group live.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(running.pid, signal.SIGKILL)


def _last_words(running: subprocess.Popen[bytes], said: IO[bytes] | None) -> str:
    """Say how a process ended, with the last line that it wrote to stderr."""
    try:
        code = running.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "the process closed its answers"
    how = f"exit code {code}"
    if code < 0:
        how = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
    last = ""
    if said is not None and not said.closed:
        said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_WORDS_NBYTES))
        last = printable(said.read().decode(errors="replace").strip().rpartition("\n")[2])
    return f"the process died of {how}" + (f": {last}" if last else "")


def _listen(stream: Any, answers: queue.Queue[Any]) -> None:
    """Put answers from a stream into a queue; None says that the stream ended."""
    while True:
        try:
            answers.put(receive(stream))
        except Exception:
            answers.put(None)
            return


class Processes(Executor):
    """Run tasks in processes, as executors of concurrent.futures do; a hang or a crash loses one task only.

    Args:
        count: of processes.
        limit_s: seconds that a task may take.
    """

    def __init__(self, count: int, limit_s: float = 60.0) -> None:
        self._tasks: queue.Queue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = queue.Queue()
        self._limit_s = limit_s
        self._processes = [Process() for _ in range(max(1, count))]
        self._threads = [threading.Thread(target=self._work, args=(p,), daemon=True) for p in self._processes]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a task; keywords are not passed on."""
        assert not kwargs
        future: Future[Any] = Future()
        self._tasks.put((future, fn, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the processes after the queued tasks, or at once where these are cancelled."""
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while True:
                    task = self._tasks.get_nowait()
                    if task is not None:
                        task[0].cancel()
            for process in self._processes:
                process.kill()
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self, process: Process) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                process.kill()
                return
            future, function, arguments = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = process.call(function, *arguments, limit_s=self._limit_s)
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:  # not of the task: this thread is to end
                future.set_exception(Lost("crash", f"{type(error).__name__}: {error}"))
                raise
            else:
                future.set_result(result)

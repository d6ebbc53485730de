"""The other end of `process.Process`: runs functions that arrive on stdin, and answers on stdout."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, BinaryIO

HEAD = 8  # bytes of a message's length
MOST_PRINTED = 256 << 20  # bytes of a file that a task may write: what is printed goes to one


_serving: list[int] = []  # this process, where it answers another one


def serves() -> bool:
    """Say whether this process runs tasks of another one."""
    return os.getpid() in _serving


class Ended(Exception):
    """Say that a task called `sys.exit`, or another way to end Python."""


def send(stream: BinaryIO, value: object) -> None:
    """Write one message."""
    data = pickle.dumps(value)
    stream.write(len(data).to_bytes(HEAD, "little") + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message.

    Raises:
        EOFError: where the other end has closed.
    """
    head = _exactly(stream, HEAD)
    return pickle.loads(_exactly(stream, int.from_bytes(head, "little")))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = stream.read(count - len(data))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def serve() -> None:
    """Answer until the other end closes: `call` runs a function, `make` keeps the result, `do` calls its methods."""
    # What functions print must not get between the answers, and what they read must not be the questions.
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _limit_files()
    me = os.getpid()
    _serving.append(me)
    kept: Any = None
    _answer(answers, True, "ready")
    while True:
        try:
            kind, what, arguments = receive(questions)
        except EOFError:
            return
        except Exception as error:  # a message that cannot be read here: a function in no importable module
            _answer(answers, False, error)
            continue
        try:
            match kind:
                case "make":
                    kept = what(*arguments)
                    result = None
                case "do":
                    result = getattr(kept, what)(*arguments)
                case _:
                    result = what(*arguments)
            answer = True, result
        except KeyboardInterrupt:
            _forked(me)
            return
        except Exception as error:
            answer = False, error
        except BaseException as error:  # one task ends, and not who waits for it
            answer = False, Ended(f"{type(error).__name__}: {error}")
        _forked(me)
        _answer(answers, *answer)


def _forked(me: int) -> None:
    """End this process if it is a fork that a task made: only the process that received the task answers."""
    if os.getpid() != me:
        os._exit(1)


def _limit_files() -> None:
    """Limit the size of files, so that a task that prints without end does not fill the disk."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        least = MOST_PRINTED if most == resource.RLIM_INFINITY else min(MOST_PRINTED, most)
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))


def _answer(stream: BinaryIO, right: bool, value: object) -> None:
    try:
        send(stream, (right, value))
    except Exception as error:  # what cannot be pickled is told in words
        send(stream, (False, RuntimeError(f"{type(value).__name__}: {value} ({error})")))

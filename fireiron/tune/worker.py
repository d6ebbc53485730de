"""The other end of `process.Process`: runs functions that arrive on stdin, and answers on stdout."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, BinaryIO

HEAD = 8  # bytes of a message's length


def send(stream: BinaryIO, value: object) -> None:
    """Write one message."""
    data = pickle.dumps(value)
    stream.write(len(data).to_bytes(HEAD, "little") + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one message.

    Raises:
        EOFError: where the other end is gone.
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
    """Answer until the other end closes: `call` runs a function, `make` keeps its result, `do` calls its method."""
    # What functions print must not get between the messages.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    kept: Any = None
    while True:
        try:
            kind, what, arguments = receive(sys.stdin.buffer)
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
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                return
            _answer(answers, False, error)
        else:
            _answer(answers, True, result)


def _answer(stream: BinaryIO, right: bool, value: object) -> None:
    try:
        send(stream, (right, value))
    except Exception as error:  # what cannot be pickled is told in words
        send(stream, (False, RuntimeError(f"{type(value).__name__}: {value} ({error})")))


if __name__ == "__main__":
    serve()

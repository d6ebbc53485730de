"""Run drawn chains in other processes, so that one that hangs, or ends its process, costs itself alone.

A process reads lines of a chain's name and text, in JSON, and answers two lines for each: its name with `runs`, then
its name with what is wrong, or nothing. It ends at the first chain that is wrong: a fault on a GPU leaves no context to
go on with.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

Named = tuple[str, str]
AT_ONCE = 4  # processes
ANSWER_S = 60.0  # in which a process says something of its next chain


def apart(
    found: Sequence[Named], command: Sequence[str], at_once: int = AT_ONCE, answer_s: float = ANSWER_S
) -> dict[str, str]:
    """Run chains, and give what is wrong by name.

    Args:
        found: names and texts.
        command: the process.
        at_once: how many processes run beside each other.
        answer_s: seconds after which a process that is silent is ended.
    """
    parts = [found[i::at_once] for i in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        made = pool.map(lambda part: _one_after_another(part, command, answer_s), parts)
        return {name: text for wrong in made for name, text in wrong.items()}


def _one_after_another(found: Sequence[Named], command: Sequence[str], answer_s: float) -> dict[str, str]:
    wrong: dict[str, str] = {}
    left = list(found)
    while left:
        told, error = _told(left, command, answer_s)
        left = left[sum(text == "" for _, text in told) :]
        if left:  # the process ended at this one, or before it
            name, _ = left.pop(0)
            wrong[name] = next((text for n, text in told if n == name and text != "runs"), error)
    return wrong


def _told(found: Sequence[Named], command: Sequence[str], answer_s: float) -> tuple[list[Named], str]:
    """Run chains in one process: all that it says, and how it ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8")
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None
    errors: list[str] = []
    listener = threading.Thread(target=lambda: errors.append(stderr.read()), daemon=True)
    listener.start()
    stdin.write("".join(json.dumps(one) + "\n" for one in found))
    stdin.close()
    told: list[Named] = []
    while True:
        timer = threading.Timer(answer_s, process.kill)
        timer.start()
        line = stdout.readline()
        silent = not timer.is_alive()
        timer.cancel()
        if not line:
            break
        name, text = json.loads(line)
        told.append((name, text))
    process.wait()
    listener.join()
    if silent:
        return told, f"no answer in {answer_s:g} s"
    last = "".join("".join(errors).strip().splitlines()[-1:])
    return told, f"its process ended with {process.returncode}: {last}"

"""Chains that run in other processes: one that is wrong, hangs or ends its process costs itself alone."""

from __future__ import annotations

import sys

from tests.fuzz.apart import apart

# A process whose chains say how they end.
FAKE = """
import json, os, sys, time
for line in sys.stdin.readlines():
    name, text = json.loads(line)
    print(json.dumps((name, "runs")), flush=True)
    if text == "dies":
        sys.stderr.write("a fault"), sys.stderr.flush(), os._exit(7)
    if text == "hangs":
        time.sleep(60)
    print(json.dumps((name, text)), flush=True)
    if text:
        sys.exit(1)
"""


def test_each_chain_costs_itself_alone() -> None:
    ends = {"a": "", "b": "not its bits", "c": "", "d": "dies", "e": "hangs", "f": "", "g": "dies"}
    wrong = apart(list(ends.items()), [sys.executable, "-c", FAKE], at_once=2, answer_s=0.5)
    fault = "its process ended with 7: a fault"
    assert wrong == {"b": "not its bits", "d": fault, "e": "no answer in 0.5 s", "g": fault}


def test_a_process_that_never_answers_is_wrong_everywhere() -> None:
    wrong = apart([("a", ""), ("b", "")], [sys.executable, "-c", "import nothing_of_this_name"])
    assert set(wrong) == {"a", "b"}
    assert all("nothing_of_this_name" in text for text in wrong.values())

"""A headless browser that tests drive: Chromium or Chrome, by its own protocol over two pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def installed() -> str | None:
    """Find a browser."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """Hold a page.

    Args:
        program: the browser.
        folder: for its profile.
    """

    def __init__(self, program: str, folder: Path) -> None:
        theirs, self.out = os.pipe()
        self.into, back = os.pipe()
        flags = (
            "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        )
        # The browser reads and writes descriptors 3 and 4, whichever these pipes have here.
        start = (
            "import os, sys; into, out = (os.dup2(int(x), 60 + i) for i, x in enumerate(sys.argv[1:3])); "
            "os.dup2(into, 3); os.dup2(out, 4); os.execv(sys.argv[3], sys.argv[3:])"
        )
        command = [program, *flags.split(), f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, str(theirs), str(back), *command],
            pass_fds=(theirs, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(back)
        self.number, self.rest, self.session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        os.close(self.out)
        os.close(self.into)
        self.process.terminate()
        self.process.wait(20)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and wait for its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            found = os.read(self.into, 1 << 16)
            assert found, "the browser ended"
            self.rest += found
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def open(self, page: Path | str, dark: bool = False, width: int = 1400, height: int = 1000) -> None:
        """Open a file, or what a server has."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def value(self, script: str) -> Any:
        """Give what an expression of the page is."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def hover(self, selector: str) -> None:
        """Move the mouse to an element, which is scrolled into view."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
            "return [b.x + Math.min(60, b.width / 2), b.y + b.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])

    def picture(self, file: Path, whole: bool = False) -> None:
        """Save what is seen."""
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(b64decode(made["data"]))

    @property
    def complaints(self) -> list[str]:
        """List errors of scripts and requests that left the machine."""
        found = [str(e) for e in self.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return found + [
            e["params"]["request"]["url"] for e in sent if not e["params"]["request"]["url"].startswith("file:")
        ]

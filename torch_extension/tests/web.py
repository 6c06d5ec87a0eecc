"""Pages read as browsers read them: a parser that is strict, and Chromium if it is there."""

import contextlib
import json
import os
import shutil
import subprocess
from html.parser import HTMLParser

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_VOID = {"meta", "br"}
_TEXT = ("title", "h1", "h2", "dt", "dd", "figcaption", "caption", "td", "th", "li", "p", "summary")


class Page(HTMLParser):
    """What is in a page. Raises AssertionError where an element is not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.elements, self.texts = [], [], {name: [] for name in _TEXT}
        self.tables: dict[str, list[list[str]]] = {}  # rows of texts, by caption
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        assert len({key for key, _ in attributes}) == len(attributes), (name, attributes)
        self.elements.append((name, dict(attributes)))
        if name in _VOID:
            return
        self.open.append([name, ""])
        if name == "table":
            self.rows = []
        elif name == "tr":
            self.rows.append([])

    def handle_data(self, data):
        for one in self.open:
            one[1] += data

    def handle_endtag(self, name):
        opened, text = self.open.pop()
        assert opened == name, (opened, name)
        if name in _TEXT:
            self.texts[name].append(text)
        if name in ("td", "th"):
            self.rows[-1].append(text)
        elif name == "table":
            self.tables[self.texts["caption"][-1]] = self.rows[1:]

    def all(self, name: str) -> list[dict]:
        """The attributes of all elements of that name."""
        return [attributes for one, attributes in self.elements if one == name]

    def table(self, begin: str) -> list[list[str]]:
        """The rows of the table whose caption begins like this."""
        (rows,) = (rows for caption, rows in self.tables.items() if caption.startswith(begin))
        return rows

    def facts(self) -> dict[str, str]:
        return dict(zip(self.texts["dt"], self.texts["dd"], strict=True))


class Browser:
    """One tab of a headless Chromium, told what to do by its protocol for tools over pipes."""

    def __init__(self, folder, width: int, scheme: str):
        command = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]
        command += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        there, self.to = os.pipe()
        self.answers, back = os.pipe()

        def as_expected():
            # Chromium reads from 3 and writes to 4.
            first, second = os.dup(there), os.dup(back)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            command, pass_fds=(3, 4), preexec_fn=as_expected, stderr=subprocess.DEVNULL
        )
        os.close(there)
        os.close(back)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        (target,) = (
            one["targetId"]
            for one in self.ask("Target.getTargets")["targetInfos"]
            if one["type"] == "page"
        )
        said = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = said["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[feature])

    def ask(self, method: str, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.until(lambda answer: answer.get("id") == self.number)["result"]

    def until(self, is_wanted) -> dict:
        while True:
            while b"\0" in self.rest:
                text, _, self.rest = self.rest.partition(b"\0")
                answer = json.loads(text)
                self.events.append(answer)
                if is_wanted(answer):
                    return answer
            read = os.read(self.answers, 1 << 16)
            assert read, "Chromium has ended"
            self.rest += read

    def go(self, path) -> None:
        self.ask("Page.navigate", url=path.as_uri())
        if not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.until(lambda one: one.get("method") == "Page.loadEventFired")

    def value(self, script: str):
        """Of an expression in the page."""
        said = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def said(self, method: str) -> list[dict]:
        return [one["params"] for one in self.events if one.get("method") == method]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.to)
        self.process.kill()
        self.process.wait()
        os.close(self.answers)

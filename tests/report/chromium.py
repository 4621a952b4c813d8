"""One Chromium for all tests of a session, and the pages that it opens, each rendered once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.records import Result, Run
from bench.report import render_page
from bench.report.outputs.folded import folded
from tests.report.gpu_sample import gpu_run
from tests.report.hostile import hostile
from tests.report.sample import everything
from tests.report.step_sample import quantized_run, step_run
from tests.report.views_sample import EVERY

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NOW = "2026-01-02T04:00:00+00:00"

SAMPLES: Mapping[str, Callable[[], tuple[Run, list[Result]] | tuple[list[Run], list[Result]]]] = {
    "plain": lambda: everything(trials=2),
    "hostile": hostile,
    "gpu": gpu_run,
    "few": lambda: gpu_run(sizes=(1024, 4096)),
    "step": lambda: step_run(trials=1),
    "formats": quantized_run,
    **EVERY,
}


def sample(name: str) -> tuple[Sequence[Run], list[Result]]:
    """Runs and rows of a sample; `two` holds two runs of different workloads."""
    if name == "two":
        first, second = (EVERY[one]() for one in ("crossing", "ladder"))
        return [first[0], second[0]], [*first[1], *second[1]]
    run, rows = SAMPLES[name]()
    return ([run] if isinstance(run, Run) else run), rows


class Pages:
    """Rendered samples by name; `light` is a sample that is to travel light, packed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> Path:
        path = self._folder / f"{name}.html"
        if not path.exists():
            light = name == "light"
            page = render_page(*sample("crossing" if light else name), now=NOW, light=light)
            path.write_text(folded(page) if light else page, encoding="utf-8")
        return path


class Opened:
    """A page with what it said and what it asked for."""

    def __init__(self, browser: Any, path: Path, anchor: str = "", **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri() + anchor)
        if context.get("java_script_enabled", True):
            self.settle()

    def settle(self) -> None:
        """Waits until what is packed is where it belongs."""
        self.page.wait_for_function("!document.querySelector('i.packed')")


@contextmanager
def opened(browser: Any, path: Path, anchor: str = "", **context: Any) -> Iterator[Opened]:
    """A page that is closed in the end. Fails where it said anything on the console, or asked for more than itself."""
    found = Opened(browser, path, anchor, **context)
    try:
        yield found
        assert found.said == []
        assert {url.partition("#")[0] for url in found.asked if not url.startswith("blob:")} == {path.as_uri()}
    finally:
        found.context.close()

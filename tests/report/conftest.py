"""Fixtures of the tests that need a browser; without one they are skipped, and say what to install."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.chromium import CHROMIUM, FLAGS, Pages


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The one Chromium of the session."""
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed (apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Samples, each rendered when it is first asked for."""
    return Pages(tmp_path_factory.mktemp("pages"))

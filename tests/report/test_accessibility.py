"""The page for people who do not see it, or not well: no serious finding of axe, and everything is reached with the keyboard alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.chromium import Pages, opened

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
GRAVE = ("serious", "critical")


@pytest.mark.parametrize("name", ["crossing", "compat"])
def test_axe_finds_nothing_serious(browser: Any, pages: Pages, name: str) -> None:
    with opened(browser, pages[name], bypass_csp=True) as found:
        found.page.locator("table.all summary").first.click()
        found.page.locator("main details.more > summary").first.click()
        for scheme in ("light", "dark"):
            found.page.emulate_media(color_scheme=scheme)
            answer = axe.Axe().run(found.page).response
            grave = [
                (violation["id"], [node["html"][:160] for node in violation["nodes"][:4]])
                for violation in answer["violations"]
                if violation["impact"] in GRAVE
            ]
            assert answer["passes"]
            assert grave == []


def test_the_first_table_is_reached_by_the_skip_link_and_the_tab_key(browser: Any, pages: Pages) -> None:
    with opened(browser, pages["crossing"]) as found:
        page = found.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate(
                    "document.activeElement.closest('.use, .doubts, .view, .matrix, .tools, .all, .facet > summary')?.className"
                )
            )
        assert {"use", "tools", "all"} <= {name.split()[0] for name in reached if name}

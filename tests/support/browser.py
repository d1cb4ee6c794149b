"""A real browser: Debian's Chromium without a window and without a network, driven by Playwright."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--mute-audio"),
)
WIDE, NARROW = 1280, 390


@pytest.fixture(scope="session", name="browser")
def open_browser() -> Iterator[Browser]:
    """Start Chromium once. On a machine without it the tests are skipped; .ci/run installs it."""
    api = pytest.importorskip("playwright.sync_api")
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("Chromium is not installed; on Debian: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield browser
        browser.close()


class Seen:
    """What a page did that it must not do."""

    def __init__(self, page: Page) -> None:
        self.messages: list[str] = []
        self.addresses: list[str] = []
        self.dialogs: list[str] = []
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))
        page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def nothing_wrong(self, *allowed: str) -> bool:
        """Tell whether nothing was logged, no dialog opened, and nothing asked for but the allowed starts of addresses."""
        strange = [address for address in self.addresses if not address.startswith(("file:", "blob:", *allowed))]
        assert (self.messages, self.dialogs, strange) == ([], [], [])
        return True


@contextmanager
def opened(
    browser: Browser, address: str | Path, *, width: int = WIDE, theme: str = "light", offline: bool = True, **more: Any
) -> Iterator[tuple[Page, Seen]]:
    """Open a page in a context of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, offline=offline, accept_downloads=True, **more
    )
    try:
        page = context.new_page()
        page.set_default_timeout(10_000)
        seen = Seen(page)
        page.goto(address.resolve().as_uri() if isinstance(address, Path) else address)
        yield page, seen
    finally:
        context.close()


def faults(page: Page) -> list[str]:
    """Return what axe-core finds wrong for people who use a keyboard or a screen reader."""
    import axe_playwright_python

    if not page.evaluate("'axe' in window"):
        page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width

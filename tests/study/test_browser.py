"""Two people in two browsers, at once, from consent to thanks."""

from __future__ import annotations

import io
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beamsplit.study import Store, create_study
from study.live import Server
from study.small import CHECK, item, plan

sync_api = pytest.importorskip("playwright.sync_api", reason="there is no playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine", allow_module_level=True)

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    pictured = item("3", picture=_jpeg(), complexity=3.0)
    whole = plan(items=3, votes=2, annotators=2, checks=(CHECK,))
    store = create_study(str(tmp_path / "study.db"), replace(whole, items=(*whole.items, pictured)))
    yield store
    store.close()


def _jpeg() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (300, 200), "teal").save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def server(store: Store, tmp_path: Path) -> Iterator[Server]:  # noqa: ARG001 (it has to be there)
    made = Server(str(tmp_path / "study.db"), tmp_path)
    made.start()
    yield made
    made.kill()


def opened(playwright: Any, **options: Any) -> Any:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    return browser.new_context(**options).new_page()


def vote_through(address: str, seen: dict[str, Any], *, keys: bool, **options: Any) -> None:
    """Choose the second method's list, and what the check asks for."""
    with sync_api.sync_playwright() as playwright:
        page = opened(playwright, **options)
        page.on("console", lambda message: seen["console"].append(message.text))
        page.goto(address)
        _press(page, "I agree")
        while page.get_by_role("button", name="I prefer list A").count():
            seen["progress"].append(page.locator("#progress").inner_text())
            seen["pictures"] += page.evaluate("[...document.images].filter((i) => i.naturalWidth).length")
            _choose(page, keys)
        seen["end"] = page.locator("h1").inner_text()


def _choose(page: Any, keys: bool) -> None:
    first = page.locator("section.list").first.inner_text()
    name = "A" if "dbs" in first or CHECK.first[0] in first else "B"
    if keys:
        page.keyboard.press(name.lower())
        sync_api.expect(page.get_by_role("button", name=f"I prefer list {name}")).to_be_focused()
        with page.expect_navigation():
            page.keyboard.press("Enter")
    else:
        _press(page, f"I prefer list {name}")


def _press(page: Any, name: str) -> None:
    """A button, and wait for the page that it leads to."""
    with page.expect_navigation():
        page.get_by_role("button", name=name).click()


def test_two_people_at_once(store: Store, server: Server) -> None:
    base = f"http://127.0.0.1:{server.port}"
    seen: list[dict[str, Any]] = [{"progress": [], "console": [], "pictures": 0} for _ in range(2)]
    options: list[dict[str, Any]] = [
        {"keys": True, "viewport": {"width": 1280, "height": 800}},
        {"keys": False, "viewport": {"width": 390, "height": 844}},
    ]
    people = [
        threading.Thread(target=vote_through, args=(f"{base}/a/{each.token}", told), kwargs=how)
        for each, told, how in zip(store.annotators(), seen, options, strict=True)
    ]
    for each in people:
        each.start()
    for each in people:
        each.join(timeout=60)
    for told in seen:
        assert told["progress"] == [f"{number} of 5" for number in range(1, 6)]
        assert told["end"] == "Thank you!"
        assert told["console"] == []  # nothing that the policy refused
        assert told["pictures"] == 1
    assert {vote.choice for vote in store.votes() if not vote.check} == {"second"}
    assert len(store.votes()) == 10
    alone(check_report, f"{base}/admin/{store.study.admin_token}")


def alone(work: Callable[..., None], *arguments: Any) -> None:
    """Run in a thread of its own: Playwright allows one browser a thread, and other tests may have theirs."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work, *arguments).result()


def check_report(address: str) -> None:
    with sync_api.sync_playwright() as playwright:
        page = opened(playwright)
        page.goto(address)
        text = page.locator("main").inner_text()
        assert "8 of 8 votes" in text
        assert "2 of 2" in text
        assert page.evaluate("document.images[0].naturalWidth") > 100
        page.get_by_label("More annotators").fill("2")
        _press(page, "Add")
        assert page.locator("td.link").count() == 4


def test_lists_fit_the_screen_and_work_without_scripts(store: Store, server: Server) -> None:
    alone(check_screens, f"http://127.0.0.1:{server.port}/a/{store.annotators()[0].token}")


def check_screens(address: str) -> None:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for number, (width, scripts) in enumerate(itertools.product((1280, 390), (False, True)), 1):
            size = {"width": width, "height": 800}
            page = browser.new_context(viewport=size, java_script_enabled=scripts).new_page()
            page.goto(address)
            if number == 1:
                _press(page, "I agree")
            left, right = (page.locator("section.list").nth(side).bounding_box() for side in (0, 1))
            assert (left["y"] == right["y"]) is (width == 1280)
            assert right["x"] + right["width"] <= width
            assert page.locator("#progress").inner_text() == f"{number} of 5"
            _press(page, "I prefer list B")
            assert page.locator("#progress").inner_text() == f"{number + 1} of 5"

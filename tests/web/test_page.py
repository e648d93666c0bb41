"""The page in a real browser: what people do with it, by mouse and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from web.conftest import Serve, Server
from web.doubles import Mute, Shelf, app_with, picture

DONE = "#columns[aria-busy=false]"
BUSY = "#columns[aria-busy=true]"
USUAL = "/#model=en-fr&length=7"  # outputs that are cut short are found sooner
SHORT = f"{USUAL}&groups=2&right=dbs"


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def page(window: Any, page_server: Server) -> Iterator[Any]:
    """A page that has done its first search; `complaints` are those of its console."""
    made = opened(window, page_server.url + SHORT)
    yield made
    made.close()


@pytest.fixture(scope="module")
def untouched(window: Any, page_server: Server) -> Iterator[Any]:
    """The same page for all who change nothing on it."""
    made = opened(window, page_server.url + SHORT)
    yield made
    made.close()


def opened(context: Any, url: str) -> Any:
    made = context.new_page()
    made.complaints = []
    made.on(
        "console",
        lambda said: made.complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    made.on("pageerror", lambda error: made.complaints.append(str(error)))
    made.goto(url)
    settled(made)
    return made


def settled(page: Any) -> None:
    page.wait_for_selector(f"{DONE} .column:last-child li", timeout=15_000)


def after(page: Any, does: Any) -> None:
    """Do something that makes it search, and wait for what it finds."""
    does()
    page.wait_for_selector(BUSY, timeout=5_000)
    settled(page)


def texts(page: Any, side: str) -> list[str]:
    return [
        said.split("✦")[0].strip(" …\n")
        for said in page.locator(f".column:{side}-child li .said").all_inner_texts()
    ]


def test_a_sentence_gets_both_lists(page: Any) -> None:
    page.fill("#text", "I'm cold.")
    after(page, lambda: page.click("#run"))
    assert texts(page, "first")[0] == texts(page, "last")[0] == "J'ai froid."
    assert len(set(texts(page, "last"))) == len(texts(page, "last"))
    assert page.locator(".column:last-child li .group").count() == len(texts(page, "last"))
    assert page.locator(".column:last-child mark").count() > 0
    assert page.locator(".column:first-child dt").all_inner_texts() == [f"distinct-{n}" for n in (1, 2, 3, 4)]
    assert page.locator("#status").inner_text() == (
        "beam search found 4 outputs and diverse beam search 2 of the 4 asked for, "
        "0 of them in this list alone."
    )
    assert not page.complaints


def test_the_default_is_late_branching_and_its_controls_alone_are_shown(
    window: Any, page_server: Server
) -> None:
    page = opened(window, page_server.url + USUAL)
    assert (page.input_value("#left"), page.input_value("#right")) == ("bs", "branching")
    assert (page.input_value("#outputs"), page.input_value("#price")) == ("6", "0.8")
    hidden = ("#groups", "#beams", "#strength", "#slider", "#term", "#unique", "#seed", "#temperature")
    assert not any(page.is_visible(control) for control in hidden)
    assert page.locator(".column:last-child .setting").inner_text() == (
        "6 outputs, strength 0.8; in order of choice"
    )
    assert len(set(texts(page, "last"))) == 6
    assert not page.locator("li .group").count()  # it would say the place in the list again
    ranks = page.locator(".column:last-child li .rank")
    assert [each.get_attribute("class") for each in ranks.all()] == [f"rank colour-{n}" for n in range(1, 7)]
    assert page.locator("#tree .bs-root").count() == 2  # one tree for each search
    assert not page.complaints
    page.close()


def test_outputs_and_the_strength_of_late_branching_can_be_changed(window: Any, page_server: Server) -> None:
    page = opened(window, f"{page_server.url}/#model=en-fr&length=20")
    before = texts(page, "last")
    with page.expect_request("**/api/search") as asked:
        after(page, lambda: page.locator("#price-slider").fill("0"))
    assert [each["strength"] for each in asked.value.post_data_json["searches"]] == [3, 0]
    assert page.input_value("#price") == "0"
    assert texts(page, "last") != before
    after(page, lambda: page.fill("#outputs", "4"))
    assert (len(texts(page, "first")), len(texts(page, "last"))) == (4, 4)
    again = opened(page.context, page.url)
    assert (again.input_value("#outputs"), again.input_value("#price")) == ("4", "0")
    again.close()
    after(page, lambda: page.select_option("#left", "dbs"))
    assert (page.input_value("#groups"), page.input_value("#beams")) == ("4", "1")
    assert page.is_hidden("#outputs")
    assert page.is_visible("#strength")  # of diverse beam search
    assert page.locator("#price-label").inner_text() == "Strength of late branching"
    assert not page.complaints
    page.close()


def test_groups_count_from_nought(page: Any) -> None:
    chips = page.locator(".column:last-child li .group")
    assert {each.split()[-1] for each in chips.all_inner_texts()} == {"0", "1"}
    assert {each.get_attribute("title") for each in chips.all()} == {"group 0", "group 1"}
    assert page.locator("#tree .bs-name").all_text_contents() == ["group 0", "group 1"]


def test_an_empty_output_is_called_so(window: Any, serve: Serve) -> None:
    server = serve(app_with(Shelf(mute=Mute())))
    made = opened(window, f"{server.url}/#model=mute&length=3&groups=2")
    assert texts(made, "first")[0] == "(empty)"
    assert "red red red" in texts(made, "first")
    assert not made.complaints
    made.close()


def test_the_slider_changes_the_right_list_alone(page: Any) -> None:
    left, right = texts(page, "first"), texts(page, "last")
    before = page.input_value("#slider")
    after(page, lambda: page.locator("#slider").fill("0"))
    assert page.input_value("#strength") == "0"
    assert texts(page, "first") == left
    assert texts(page, "last") != right
    after(page, lambda: page.fill("#strength", before))
    assert page.input_value("#slider") == before
    assert texts(page, "last") == right
    page.fill("#strength", "12")
    assert page.input_value("#slider") == page.get_attribute("#slider", "max")
    assert page.get_attribute("#slider", "title") == "12 is beyond the slider's end"
    page.locator("#slider").fill("1")
    assert page.input_value("#strength") == "1"
    assert page.get_attribute("#slider", "title") == ""
    assert not page.complaints


def test_repeats_can_be_left_out(page: Any) -> None:
    assert not page.is_checked("#unique")
    with page.expect_request("**/api/search") as asked:
        after(page, lambda: page.check("#unique"))
    left, right = asked.value.post_data_json["searches"]
    assert (left["unique"], right["unique"]) == (False, True)  # beam search has no groups
    assert "unique=true" in page.url
    again = opened(page.context, page.url)
    assert again.is_checked("#unique")
    after(again, lambda: again.select_option("#right", "sampling"))
    assert again.is_hidden("#unique")
    again.close()


def test_a_list_that_falls_short_says_so(page: Any) -> None:
    setting = page.locator(".column:last-child .setting")
    after(page, lambda: page.locator("#slider").fill("0"))
    assert len(texts(page, "last")) == 2
    assert setting.inner_text().endswith("; 2 different outputs of the 4 asked for; 2 more read the same")
    assert "diverse beam search 2 of the 4 asked for, " in page.inner_text("#status")
    assert "asked for" not in page.locator(".column:first-child .setting").inner_text()
    assert not page.complaints


def test_other_strategies_bring_their_controls(page: Any) -> None:
    assert not page.is_visible("#seed")
    after(page, lambda: page.select_option("#right", "sampling"))
    assert page.is_visible("#seed")
    assert page.is_visible("#temperature")
    assert page.is_disabled("#slider")
    before = texts(page, "last")
    after(page, lambda: page.fill("#seed", "7"))
    assert texts(page, "last") != before
    page.fill("#temperature", "0")
    page.wait_for_selector("#error:text('Temperature: ')")
    after(page, lambda: page.select_option("#right", "dbs"))  # which has none, so it is not asked about
    assert page.is_hidden("#error")


def test_the_tree_grows_while_the_search_runs(browser: Any, page_server: Server) -> None:
    page = browser.new_page()
    page.goto(f"{page_server.url}/#model=slow&text=x&length=16")
    sizes = []
    for number in (2, 6, 11):
        later = "|".join(str(n) for n in range(number, 17))
        page.wait_for_selector(f"#progress:text-matches('^Step ({later})$')", timeout=15_000)
        sizes.append(page.locator("#tree svg text").count())
    page.wait_for_selector(DONE, timeout=15_000)
    sizes.append(page.locator("#tree svg text").count())
    assert sizes == sorted(sizes), sizes
    assert len(set(sizes)) >= 3, sizes  # a slow browser may be shown one step twice
    page.close()


def test_another_change_ends_the_search_under_way(browser: Any, page_server: Server) -> None:
    page = browser.new_page()
    page.goto(f"{page_server.url}/#model=slow&text=x&length=60")
    page.wait_for_selector("#progress:text-matches('Step [2-9]')", timeout=15_000)
    page.fill("#length", "4")
    page.wait_for_selector(f"{DONE} .said", timeout=15_000)
    page.wait_for_function("document.querySelector('#progress').textContent === ''")
    assert {len(said.split()) for said in texts(page, "first")} == {4}
    page.close()


def test_in_the_middle_of_a_search(browser: Any, page_server: Server) -> None:
    """A step can be saved, an unfinished result cannot be copied, and a wrong value ends the search."""
    page = browser.new_page(reduced_motion="no-preference")
    page.goto(f"{page_server.url}/#model=slow&text=x&length=90")
    page.wait_for_selector("#progress:text-matches('Step [2-9]')", timeout=15_000)
    with page.expect_download() as download:
        page.click("#save-svg")
    with open(download.value.path(), "rb") as file:
        assert file.read().startswith(b"<svg")
    assert page.is_disabled("#copy-json")
    assert page.is_disabled("#save-json")
    page.fill("#outputs", "0")
    page.wait_for_selector("#error:not([hidden])")
    assert page.get_attribute("#columns", "aria-busy") == "false"
    page.close()


def test_where_all_slots_are_taken_it_waits(page: Any) -> None:
    busy = {"status": 429, "headers": {"retry-after": "1"}, "json": {"error": "all are running"}}
    page.route("**/api/search", lambda route: route.fulfill(**busy), times=2)
    page.click("#run")
    page.wait_for_selector("#progress:text('Waiting for a free slot')")
    settled(page)
    page.wait_for_function("document.querySelector('#progress').textContent === ''")
    assert page.is_hidden("#error")


def test_without_a_server(window: Any, page_server: Server) -> None:
    page = window.new_page()
    page.route("**/api/models", lambda route: route.abort())
    page.goto(page_server.url)
    page.wait_for_selector("#error:text('the server does not answer: is it still running?')")
    assert page.is_disabled("#run")
    assert page.is_disabled("#text")
    page.close()


def test_a_sample_and_a_picture_of_ones_own(page: Any) -> None:
    after(page, lambda: page.get_by_label("Caption").check())
    assert "boat" in " ".join(texts(page, "last"))
    file = {"name": "one.png", "mimeType": "image/png", "buffer": scene("pizza")}
    after(page, lambda: page.set_input_files("#file", file))
    assert "pizza" in " ".join(texts(page, "last"))
    assert page.locator("#picture-name").inner_text() == "one.png"
    assert "pizza" not in page.url
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-link")
    page.wait_for_selector("#copy-link:text('Copied, without your picture')")
    after(page, lambda: page.get_by_label("Ask").check())  # the picture stays
    assert texts(page, "last")[0].endswith("?")
    assert "pizza" in " ".join(texts(page, "last"))
    assert not page.complaints


def scene(name: str) -> bytes:
    from beamsplit.web.samples import SamplePictures

    return SamplePictures().read(name)[0]


GIVE = """async ([name, what, selector]) => {
    const data = new DataTransfer();
    if (what.startsWith("http")) {
        data.setData("text/uri-list", what);
    } else {
        const sample = await (await fetch(`/api/pictures/${what}`)).blob();
        data.items.add(new File([sample], "given.png", {type: "image/png"}));
    }
    const event = name === "drop"
        ? new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})
        : new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
    document.querySelector(selector).dispatchEvent(event);
    return event.defaultPrevented;
}"""


def test_pictures_can_be_dropped_and_pasted(pictured: Any) -> None:
    for name, what, selector in (("drop", "bus", "footer"), ("paste", "clock", "body")):
        given = [name, what, selector]
        after(pictured, lambda given=given: pictured.evaluate(GIVE, given))
        assert what in " ".join(texts(pictured, "last"))
    assert pictured.evaluate(GIVE, ["drop", "http://example.org/a.png", "h1"])
    line = "that is the address of a picture: save it first, then drop the file"
    assert pictured.locator("#error").inner_text() == line
    assert pictured.is_enabled("#copy-json")  # what is shown is still what is chosen


def test_a_picture_beside_a_text_is_not_taken(untouched: Any) -> None:
    before = untouched.url
    assert untouched.evaluate(GIVE, ["drop", "boat", "h1"])  # or the browser would leave the page for it
    assert untouched.is_hidden("#of-picture")
    assert untouched.url == before


def test_a_link_brings_everything_back(page: Any) -> None:
    page.fill("#text", "Where is the station?")
    page.select_option("#term", "ngram:n=2")
    after(page, lambda: page.fill("#groups", "4"))
    again = opened(page.context, page.url)
    assert not again.complaints
    for control in ("#text", "#groups", "#beams", "#strength", "#term", "#left", "#right", "#length"):
        assert again.input_value(control) == page.input_value(control)
    assert texts(again, "last") == texts(page, "last")
    assert again.input_value("#text") == "Where is the station?"
    again.close()


def test_a_link_with_things_that_are_not_here(window: Any, page_server: Server) -> None:
    page = opened(window, f"{page_server.url}/#model=nothing&length=3&groups=2.5&temperature=0&seed=-1")
    assert page.locator("#notice").inner_text() == "There is no model nothing here: this is slow."
    assert page.is_hidden("#error")
    assert page.input_value("#groups") == "3"
    assert page.input_value("#temperature") == "1"
    page.evaluate("location.hash = '#nothing-we-know'")
    after(page, lambda: page.evaluate("location.hash = '#model=en-fr&length=4&text=Hi'"))
    assert page.is_hidden("#notice")
    assert page.input_value("#text") == "Hi"
    page.evaluate("location.hash = '#model=captioner&sample='")
    page.wait_for_selector("#notice:text('own picture, which it does not contain: choose one')")
    page.close()


def test_what_was_found_can_be_taken_along(untouched: Any) -> None:
    untouched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    untouched.click("#copy-link")
    assert untouched.evaluate("navigator.clipboard.readText()") == untouched.url
    untouched.click("#copy-json")
    copied = json.loads(untouched.evaluate("navigator.clipboard.readText()"))
    assert [each["text"] for each in copied["answer"]["columns"][1]["hypotheses"]] == texts(untouched, "last")
    for button, start in (("#save-json", b"{"), ("#save-svg", b"<svg")):
        with untouched.expect_download() as download:
            untouched.click(button)
        with open(download.value.path(), "rb") as file:
            assert file.read().startswith(start)


ERRORS = [
    ("#text", "北京市", "the text is '北京市', in letters the translator does not know: it reads English"),
    ("#text", "a" * 1_001, "the text has 1001 characters, and the limit is 1000: shorten it"),
    ("#groups", "30", "the searches have 120 beams, and the limit is 96: ask for fewer"),
    ("#groups", "0", "Groups: Value must be greater than or equal to 1."),
]


HERE = ("#groups",)  # whose errors the page knows without asking


def test_errors_are_shown_and_go_away(page: Any) -> None:
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request))
    for control, value, line in ERRORS:
        asked.clear()
        before = page.input_value(control)
        page.fill(control, value)
        page.click("#run")
        page.wait_for_selector("#error:not([hidden])")
        assert page.locator("[role=alert]").inner_text() == line
        assert bool(asked) == (control not in HERE)
        assert page.locator(".setting").first.inner_text().startswith("Earlier search: beam search: ")
        assert page.is_disabled("#copy-json")
        after(page, lambda control=control, before=before: page.fill(control, before))
        assert page.is_hidden("#error")
        assert page.is_enabled("#copy-json")
        assert not page.locator(".setting").first.inner_text().startswith("Earlier")


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [
        ("text/plain", b"x", "{} is not a picture: choose a JPEG or PNG file"),
        ("image/png", b"", "{} is empty: choose another file"),
        (
            "image/png",
            picture()[:30],
            "{} cannot be shown, so it is damaged or no picture: choose a JPEG or PNG file",
        ),
    ],
)
def test_a_file_that_is_no_picture_is_refused_here(
    pictured: Any, kind: str, content: bytes, line: str
) -> None:
    """The picture before it stays."""
    before = pictured.locator("#picture-name").inner_text()
    pictured.set_input_files("#file", {"name": "a.png", "mimeType": kind, "buffer": content})
    pictured.wait_for_selector(f"#error:text('{line.format('a.png')}')")
    assert pictured.locator("#picture-name").inner_text() == before
    assert pictured.is_enabled("#copy-json")


@pytest.fixture(scope="module")
def pictured(window: Any, page_server: Server) -> Iterator[Any]:
    """A page with captions of a sample."""
    made = opened(window, f"{page_server.url}/#model=captioner&length=6")
    yield made
    made.close()


def test_a_long_name_of_a_file(pictured: Any) -> None:
    file = {"name": "a" * 240 + ".png", "mimeType": "image/png", "buffer": picture()}
    after(pictured, lambda: pictured.set_input_files("#file", file))
    assert pictured.evaluate("document.documentElement.scrollWidth") <= 1280


def test_words_are_never_markup(page: Any) -> None:
    page.fill("#text", "<img src=x onerror=alert(1)> <b>Hi!</b>")
    after(page, lambda: page.click("#run"))
    assert page.locator("li .said img, li .said b").count() == 0
    assert not page.complaints


# For everyone


def test_by_keyboard_alone(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    before = page.url, page.input_value("#text")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"
    assert (page.url, page.input_value("#text")) == before
    page.focus("#skip")
    names = []
    for _ in range(30):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.id"))
        if names[-1] == "text":
            page.keyboard.press("Control+A")
            page.keyboard.type("I'm cold.")
        if names[-1] == "run":
            break
    assert [
        name for name in names if name in ("groups", "beams", "slider", "strength", "term", "length")
    ] == [
        "groups",
        "beams",
        "slider",
        "strength",
        "term",
        "length",
    ]
    after(page, lambda: page.keyboard.press("Enter"))
    assert texts(page, "last")[0] == "J'ai froid."
    page.focus("#text")
    after(page, lambda: page.keyboard.press("Control+Enter"))


def test_every_control_has_a_name(untouched: Any) -> None:
    nameless = """() => [...document.querySelectorAll("input, select, textarea, button, a, img")]
        .filter((each) => !(each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim()
            || each.hasAttribute("alt") || each.querySelector("img[alt]:not([alt=''])")))
        .map((each) => each.outerHTML)"""
    assert untouched.evaluate(nameless) == []
    ids = untouched.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    assert untouched.evaluate("document.documentElement.lang") == "en"
    assert untouched.locator("h1").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser: Any, page_server: Server, scheme: str) -> None:
    """A contrast of 4.5 to 1, as WCAG AA has it."""
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    page = opened(context, page_server.url + SHORT)
    pale = page.evaluate(CONTRAST)
    context.close()
    assert pale == []


CONTRAST = """() => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => {
        const linear = (x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = numbers(colour).map((x) => linear(x / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (each) => {
        for (; each; each = each.parentElement) {
            const colour = getComputedStyle(each).backgroundColor;
            if (numbers(colour)[3] !== 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const pale = [];
    for (const each of document.querySelectorAll("body *")) {
        const words = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!words || !each.checkVisibility() || each.disabled || each.closest("noscript, option")) continue;
        const style = getComputedStyle(each);
        const inSvg = each instanceof SVGElement;
        if (inSvg && each.localName !== "text") continue;
        const [a, b] = [light(inSvg ? style.fill : style.color), light(behind(each))].sort((x, y) => y - x);
        const contrast = (a + 0.05) / (b + 0.05);
        if (contrast < 4.5) pale.push(`${each.outerHTML.slice(0, 80)} ${contrast.toFixed(2)}`);
    }
    return pale;
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(browser: Any, page_server: Server, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    page = opened(context, page_server.url + SHORT)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tops = [page.locator(f".column:{side}-child").bounding_box()["y"] for side in ("first", "last")]
    assert (tops[0] == tops[1]) == (width == 1280)  # side by side, or one below the other
    context.close()


def test_on_paper(untouched: Any) -> None:
    untouched.emulate_media(media="print")
    assert untouched.is_hidden("#form")
    assert untouched.is_hidden("#copy-link")
    untouched.set_viewport_size({"width": 700, "height": 900})
    assert untouched.evaluate("document.documentElement.scrollWidth") <= 700
    assert untouched.locator("#tree svg").bounding_box()["width"] <= 700
    untouched.set_viewport_size({"width": 1280, "height": 900})
    untouched.emulate_media(media="screen")


def test_the_description_of_the_interface(browser: Any, page_server: Server) -> None:
    page = browser.new_page(viewport={"width": 320, "height": 800})
    page.goto(f"{page_server.url}/api")
    page.wait_for_selector("article")
    assert page.locator("h2 code").all_inner_texts() == [
        "/api/decode",
        "/api/search",
        "/api/models",
        "/api/health",
        "/api/pictures/{name}",
    ]
    said = page.locator("main").inner_text()
    assert f"curl {page_server.url}/api/decode -H 'content-type: application/json'" in said
    assert "`" not in said
    assert "0 to 9007199254740991" in said
    headings = page.locator("h4").all_inner_texts()
    assert len(headings) == len(set(headings))  # each thing is described once
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    first = page.locator("tr").first
    tops = [first.locator(cell).bounding_box()["y"] for cell in ("th", "td >> nth=0")]
    assert tops[0] < tops[1]  # one below the other
    page.close()

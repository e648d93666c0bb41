"""The pages, as a browser without scripts sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the test client of starlette needs httpx2")
from starlette.testclient import TestClient

from beamsplit.study import Store, create_study, make_app
from study.small import CHECK, Clock, item, plan

MARKUP = '<script>alert("1")</script> & <b>'


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """Create a study with two items that contain markup, one vote each, and two annotators."""
    texts = {"input": MARKUP, "first": (MARKUP, "bs"), "second": ("dbs", MARKUP)}
    items = (item("0", **texts), item("1", **texts, picture=b"jpeg"))
    made = replace(plan(), items=items, votes=1, annotators=2, question=f"Which? {MARKUP}", patience=60.0)
    store = create_study(str(tmp_path / "study.db"), made, clock=clock)
    yield store
    store.close()


@pytest.fixture
def client(store: Store) -> Iterator[TestClient]:
    with TestClient(make_app(store), follow_redirects=False, raise_server_exceptions=False) as made:
        yield made


class Person:
    """Somebody with a link."""

    def __init__(self, client: TestClient, store: Store, number: int = 0) -> None:
        annotator = store.annotators()[number]
        self.client, self.path = client, f"/a/{annotator.token}"
        self.form = store.form_token(annotator.token)

    def page(self) -> str:
        answer = self.client.get(self.path)
        assert answer.status_code == 200
        return str(answer.text)

    def post(self, what: str, headers: dict[str, str] | None = None, **fields: Any) -> Any:
        sent = {"form": self.form, **fields}
        return self.client.post(f"{self.path}/{what}", data=sent, headers=headers or {})

    def agree(self) -> Any:
        return self.post("consent", answer="agree")

    def item(self) -> str:
        found = re.search(r'name="item" value="(\d+)"', self.page())
        assert found is not None
        return found[1]

    def vote(self, item: str = "", choice: str = "left") -> Any:
        return self.post("vote", item=item or self.item(), choice=choice)


@pytest.fixture
def person(client: TestClient, store: Store) -> Person:
    return Person(client, store)


@pytest.fixture
def other(client: TestClient, store: Store) -> Person:
    return Person(client, store, 1)


# From consent to thanks


def test_a_whole_visit(person: Person, store: Store) -> None:
    assert "I agree" in person.page()
    answer = person.agree()
    assert (answer.status_code, answer.headers["location"]) == (303, person.path)
    assert "1 of 2" in person.page()
    assert person.vote().headers["location"] == person.path
    assert "2 of 2" in person.page()
    person.vote(choice="right")
    assert "Your 2 answers are safely kept" in person.page()
    assert [vote.annotator for vote in store.votes()] == ["a1", "a1"]


def test_no_item_before_consent(person: Person, store: Store) -> None:
    assert "dbs" not in person.page()
    assert person.vote(item="1").headers["location"] == person.path
    assert store.votes() == []
    assert store.standing(store.annotators()[0]).left == 2


def test_declining(person: Person, store: Store) -> None:
    person.post("consent", answer="decline")
    assert "You declined" in person.page()
    assert store.annotators()[0].declined is not None
    person.agree()
    assert "1 of 2" in person.page()
    person.post("consent", answer="decline")  # an old page, sent again
    assert "1 of 2" in person.page()


def test_a_reload_shows_the_same(person: Person) -> None:
    person.agree()
    assert person.page() == person.page()


def test_a_vote_sent_twice(person: Person, store: Store) -> None:
    person.agree()
    first = person.item()
    person.vote(first)
    again = person.vote(first, choice="right")
    assert (again.status_code, again.headers["location"]) == (303, f"{person.path}?note=before")
    assert "your first choice stands" in person.client.get(again.headers["location"]).text
    (vote,) = store.votes()
    assert vote.choice == vote.left


def test_too_late(person: Person, other: Person, clock: Clock, store: Store) -> None:
    for each in (person, other):
        each.agree()
    lost = person.item()
    other.vote()
    clock.now += 61
    assert other.item() == lost
    answer = person.vote(lost)
    assert answer.headers["location"] == f"{person.path}?note=late"
    page = person.client.get(answer.headers["location"]).text
    assert "went to someone else" in page
    assert len(store.votes()) == 1
    assert "Nothing to do" in page


def test_nothing_is_shown_but_text(person: Person) -> None:
    person.agree()
    page = person.page()
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt; &amp; &lt;b&gt;") == 4


def test_an_empty_output_is_called_so(tmp_path: Path) -> None:
    items = (item("0", first=("", "bs"), second=("dbs", "other")),)
    store = create_study(str(tmp_path / "empty.db"), replace(plan(), items=items, votes=1, annotators=1))
    with TestClient(make_app(store)) as client:
        person = Person(client, store)
        person.agree()
        assert re.findall(r'<li dir="auto">(.*)</li>', person.page()).count("(empty)") == 1
    store.close()


def test_methods_are_not_named(person: Person) -> None:
    person.agree()
    assert "BS" not in person.page()


def test_the_picture_of_an_item(person: Person, other: Person) -> None:
    for each in (person, other):
        each.agree()
    items = {person.item(): person, other.item(): other}
    owner, stranger = (items["2"], items["1"])
    answer = owner.client.get(f"{owner.path}/picture/2")
    assert (answer.content, answer.headers["content-type"]) == (b"jpeg", "image/jpeg")
    assert stranger.client.get(f"{stranger.path}/picture/2").status_code == 404
    assert owner.client.get(f"{owner.path}/picture/{'9' * 30}").status_code == 404
    assert "/picture/2" in owner.page()


# Who may do what


@pytest.mark.parametrize(
    "path",
    ["/", "/a/x", "/a/x/picture/1", "/admin/x", "/admin/x/votes.csv", "/static/../site.py", "/a/%ff%00"],
)
def test_nothing_there(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "Please check that you have your whole link" in answer.text


def test_links_of_people_are_no_links_of_those_who_run_the_study(client: TestClient, store: Store) -> None:
    token = store.annotators()[0].token
    assert client.get(f"/admin/{token}").status_code == 404
    assert client.get(f"/a/{store.study.admin_token}").status_code == 404


@pytest.mark.parametrize("form", ["", "x", "é"])
def test_a_form_without_its_token(person: Person, form: str, store: Store) -> None:
    answer = person.post("consent", form=form, answer="agree")
    assert answer.status_code == 403
    assert store.annotators()[0].agreed is None


def test_the_form_of_another(person: Person, other: Person, store: Store) -> None:
    assert other.post("consent", form=person.form, answer="agree").status_code == 403
    assert store.annotators()[1].agreed is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 303),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://testserver"}, 303),
        ({"Origin": "null"}, 303),
        ({}, 303),
    ],
)
def test_forms_of_other_sites(person: Person, headers: dict[str, str], status: int) -> None:
    assert person.post("consent", headers, answer="agree").status_code == status


def test_an_item_that_was_not_given(person: Person, other: Person, store: Store) -> None:
    for each in (person, other):
        each.agree()
    theirs = other.item()
    person.page()
    assert person.vote(theirs).status_code == 403
    assert store.votes() == []


@pytest.mark.parametrize(
    "fields",
    [{"item": "x"}, {"item": "²"}, {"item": "9" * 30}, {"item": "-1"}, {"choice": "both"}, {"choice": ""}],
)
def test_votes_that_make_no_sense(person: Person, fields: Any) -> None:
    person.agree()
    assert person.post("vote", **{"item": "1", "choice": "left", **fields}).status_code == 400


def test_large_bodies(person: Person) -> None:
    assert person.post("consent", answer="agree", more="x" * 5000).status_code == 413
    many = "&".join(f"f{number}=1" for number in range(100))
    assert person.client.post(f"{person.path}/consent", content=many).status_code == 400
    assert person.client.post(f"{person.path}/consent", content=b"\xff\xfe").status_code == 400


def test_other_methods(person: Person) -> None:
    assert person.client.get(f"{person.path}/vote").status_code == 405
    assert person.client.delete(person.path).status_code == 405


# Headers


@pytest.mark.parametrize("path", ["", "/nothing", "/vote"])
def test_headers_of_every_page(person: Person, path: str) -> None:
    headers = person.client.get(person.path + path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_nothing_comes_from_elsewhere(person: Person, client: TestClient, store: Store) -> None:
    person.agree()
    pages = [person.page(), client.get(f"/admin/{store.study.admin_token}").text]
    for page in pages:
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', page):
            assert address.startswith("/")
        assert "style=" not in page
    assert client.get("/static/study.css").status_code == 200
    assert client.get("/static/keys.js").status_code == 200


def test_errors_say_nothing_of_their_causes(
    person: Person, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret cause")

    monkeypatch.setattr(store, "annotator", broken)
    answer = person.client.get(person.path)
    assert answer.status_code == 500
    assert answer.text == "Something went wrong here. Please try again in a minute.\n"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


# Those who run it


@pytest.fixture
def admin(store: Store) -> str:
    return f"/admin/{store.study.admin_token}"


def test_progress_and_report(client: TestClient, admin: str, person: Person, store: Store) -> None:
    person.agree()
    person.vote()
    page = client.get(admin).text
    assert "1 of 2 votes" in page
    assert "DBS against BS" in page
    assert all(each.token in page for each in store.annotators())
    assert client.get(f"{admin}/report.json").json()["votes"] == 1
    plot = client.get(f"{admin}/report.svg")
    assert plot.headers["content-type"] == "image/svg+xml"
    assert "script" not in plot.headers["content-security-policy"]


def test_more_annotators(client: TestClient, admin: str, store: Store) -> None:
    form = store.form_token(store.study.admin_token)
    answer = client.post(f"{admin}/annotators", data={"form": form, "count": "3"})
    assert answer.status_code == 303
    assert len(store.annotators()) == 5
    for count in ("0", "101", "x", "", "-1", "9" * 50):
        sent = {"form": form, "count": count}
        assert client.post(f"{admin}/annotators", data=sent).status_code == 400
    assert client.post(f"{admin}/annotators", data={"count": "3"}).status_code == 403
    assert len(store.annotators()) == 5


def test_files_have_no_links(client: TestClient, admin: str, person: Person, store: Store) -> None:
    person.agree()
    person.vote()
    for name in ("votes.csv", "votes.jsonl", "report.json"):
        text = client.get(f"{admin}/{name}").text
        assert text
        assert not any(each.token in text for each in store.annotators())
    assert client.get(f"{admin}/votes.exe").status_code == 404


def test_links_at_an_address_with_a_path(store: Store) -> None:
    app = make_app(store, "https://example.org/study/")
    with TestClient(app, follow_redirects=False) as client:
        token = store.annotators()[0].token
        page = client.get(f"/admin/{store.study.admin_token}").text
        assert f"https://example.org/study/a/{token}" in page
        person = Person(client, store)
        assert person.agree().headers["location"] == f"/study/a/{token}"
        headers = {"Origin": "https://example.org"}
        assert person.post("consent", headers, answer="agree").status_code == 303


def test_who_fails_a_check_is_marked(tmp_path: Path) -> None:
    small = plan(items=1, votes=1, annotators=1, checks=(CHECK,))
    store = create_study(str(tmp_path / "checked.db"), small)
    with TestClient(make_app(store), follow_redirects=False) as client:
        person = Person(client, store)
        person.agree()
        while 'name="item"' in (page := person.page()):
            person.vote(choice="right" if page.find(CHECK.first[0]) < page.find(CHECK.second[0]) else "left")
        page = client.get(f"/admin/{store.study.admin_token}").text
    assert "0 of 1" in page
    assert "Left out: a1" in page
    store.close()

"""The API: it returns what the library finds, and refuses bad requests in one line."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import beamsplit
from beamsplit.comparison import compare_lists
from beamsplit.extras import install_line
from beamsplit.strategies.defaults import DEFAULTS
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec, Widths
from beamsplit.web import DemoLimits, DemoSettings, make_app
from beamsplit.web.catalogue import Catalogue, terms
from beamsplit.web.reading import parse_request
from beamsplit.web.requests import DecodeRequest
from beamsplit.web.responses import DecodeResponse, StepEvent
from web.doubles import SHARED, Broken, Shelf, Slow, app_with, client_of, events

TEXT = "I'm cold."
URL = "http://127.0.0.1"


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(app_with())


def decode(client: TestClient, **asked: Any) -> Any:
    answer = client.post("/api/decode", json={"text": TEXT, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, status: int, path: str = "/api/decode", **asked: Any) -> str:
    """The line that a request is refused with."""
    answer = client.post(path, json={"text": TEXT, **asked})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    line: str = answer.json()["error"]
    assert "\n" not in line
    assert "Traceback" not in line
    return line


# Laws


def expected(spec: StrategySpec, max_length: int = 60, seed: int = 0) -> Any:
    """Return what the library finds, without the web."""
    model = SHARED("en-fr")
    (found,) = beamsplit.decode(
        spec.guide(model),
        [TEXT],
        spec.make(model),
        max_length=max_length,
        seed=seed,
        unique=spec.unique,
        model_temperature=spec.model_temperature,
    )
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_answered_is_what_decode_finds(client: TestClient, strategy: str) -> None:
    widths = Widths(groups=2, beams_per_group=2, strength=0.7, diversity="ngram")
    own = {"strength": 0.7} if strategy in ("branching", "chunks") else {}
    spec = StrategySpec.of_widths(strategy, widths, own)
    answer = decode(client, searches=[{"strategy": strategy, **asdict(widths)}], seed=3, max_length=12)
    (column,) = compare_lists([(spec.title, expected(spec, 12, seed=3))])
    assert answer == json.loads(json.dumps({"columns": [column.as_dict()]}))


def test_a_model_may_have_a_temperature(client: TestClient) -> None:
    widths = Widths(groups=2, beams_per_group=2, strength=0.7, diversity="hamming")
    spec = StrategySpec.of_widths("dbs", widths, model_temperature=3.0)
    asked = {"strategy": "dbs", **asdict(widths), "model_temperature": 3.0}
    (column,) = compare_lists([(spec.title, expected(spec, 12))])
    answer = decode(client, searches=[asked], max_length=12)
    assert answer == json.loads(json.dumps({"columns": [column.as_dict()]}))
    assert column.as_dict()["title"].endswith(", model temperature 3")
    assert "model_temperature" in refused(client, 422, searches=[{**asked, "model_temperature": 0}])


def test_what_is_left_out_is_as_suits_the_model(client: TestClient) -> None:
    suits = DEFAULTS["translator"].widths
    titles = [column["title"] for column in decode(client)["columns"]]
    assert titles == [StrategySpec.of_widths(name, suits).title for name in ("bs", "branching")]
    assert decode(client, searches=[{"strategy": "bs"}, {}]) == decode(client)
    (found,) = decode(client, searches=[{"groups": 2, "beams_per_group": 1}])["columns"]
    changed = replace(suits, groups=2, beams_per_group=1)
    assert found["title"] == StrategySpec.of_widths("dbs", changed).title


def test_steps_lead_to_what_decode_answers(client: TestClient) -> None:
    asked = {"text": TEXT, "tree": True}
    answer = client.post("/api/search", json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *steps, (name, done) = events(answer.text)
    assert name == "done"
    assert {name for name, _ in steps} == {"step"}
    assert [step["number"] for _, step in steps] == sorted({step["number"] for _, step in steps})
    last = dict(steps[-1][1])
    last.pop("number")
    assert last == done == client.post("/api/decode", json=asked).json()


def test_the_tree_grows(client: TestClient) -> None:
    answer = client.post("/api/search", json={"text": TEXT, "tree": True})
    sizes = [step["tree"].count("<text") for name, step in events(answer.text) if name == "step"]
    assert sizes[0] < sizes[len(sizes) // 2] < sizes[-1]


def test_trees_and_recordings_only_if_asked_for(client: TestClient) -> None:
    assert list(decode(client)) == ["columns"]
    answer = decode(client, tree=True, recordings=True, searches=[{"strategy": "bs"}])
    assert answer["tree"].startswith("<svg")
    recording = beamsplit.recording.Recording.from_json(json.dumps(answer["recordings"][0]))
    assert recording.hypotheses == expected(StrategySpec.of_widths("bs", DEFAULTS["translator"].widths))


def test_a_list_that_falls_short_says_what_was_asked_for(client: TestClient) -> None:
    same = {"strategy": "dbs", "groups": 3, "beams_per_group": 1, "strength": 0}
    short, full = decode(client, searches=[same, {"strategy": "bs"}])["columns"]
    assert (short["asked"], len(short["hypotheses"]), short["repeats"]) == (3, 1, 2)
    assert (full["asked"], len(full["hypotheses"])) == (6, 6)


def test_several_lists_say_what_only_they_have(client: TestClient) -> None:
    left, right = decode(client)["columns"]
    texts = {each["text"] for each in left["hypotheses"]}
    for each in right["hypotheses"]:
        assert each["alone"] == (each["text"] not in texts)
        assert all(0 <= begin < end <= len(each["text"]) for begin, end in each["differs"])


def test_a_seed_is_heeded(client: TestClient) -> None:
    lists = [decode(client, searches=[{"strategy": "sampling"}], seed=seed) for seed in (1, 1, 2)]
    assert lists[0] == lists[1] != lists[2]


# What there is


def test_models_say_what_they_take_and_what_suits_them(client: TestClient) -> None:
    found = client.get("/api/models").json()
    assert found["default"] == "en-fr"
    assert {each["name"]: each["takes"] for each in found["models"]} == {
        "en-fr": "text",
        "captioner": "picture",
        "questioner": "picture",
    }
    assert [each["name"] for each in found["strategies"]] == list(STRATEGIES)
    assert found["limits"]["beams"] == DemoLimits().beams
    for model in found["models"]:
        choice = model["choice"]
        StrategySpec.of_widths(choice.pop("strategy"), Widths(**choice))  # raises what is wrong


@pytest.mark.parametrize("term", [each["name"] for each in terms()])
def test_every_term_on_the_page_can_be_used(client: TestClient, term: str) -> None:
    assert decode(client, searches=[{"diversity": term}], max_length=3)["columns"][0]["hypotheses"]


def test_a_model_of_ones_own_comes_first_and_is_loaded_once() -> None:
    shelf = Shelf(slow=Slow(0.0))
    client = client_of(app_with(shelf))
    assert client.get("/api/models").json()["default"] == "slow"
    assert not shelf.loaded
    for _ in range(2):
        answer = decode(client, model="slow", max_length=3)
        assert answer["columns"][0]["hypotheses"][0]["text"] == "a a a"
    assert shelf.loaded == ["slow"]


def test_a_file_of_ours_says_what_it_takes() -> None:
    from beamsplit.models.storage import WEIGHTS

    file = str(WEIGHTS / "questioner.safetensors")
    assert Catalogue([file]).entry(file).task == "ask"


def test_health(client: TestClient) -> None:
    assert client.get("/api/health").json() == {"status": "ok", "searching": 0}


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/health", "/api/models", "/api/pictures/boat", "/static/main.js"]
)
def test_head_is_get_without_the_body(client: TestClient, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(whole.content))


def test_the_description_for_machines(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    operations = {each["operationId"]: each for path in described["paths"].values() for each in path.values()}
    assert set(operations) == {"health", "models", "picture", "decode", "search"}
    schemas = described["components"]["schemas"]
    for name in ("decode", "search"):
        body = operations[name]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/DecodeRequest"}
        for status in ("429", "503"):
            assert "Retry-After" in operations[name]["responses"][status]["headers"]
    assert "405" in operations["health"]["responses"]
    assert {
        "DecodeRequest",
        "PictureRequest",
        "SearchRequest",
        "DecodeResponse",
        "StepEvent",
        "ErrorResponse",
    } <= set(schemas)
    assert schemas["DemoLimits"]["properties"]["beams"]["type"] == "integer"
    (events,) = operations["search"]["responses"]["200"]["content"].values()
    names = [each["properties"]["event"]["const"] for each in events["schema"]["oneOf"]]
    assert names == ["step", "done", "error"]


def test_steps_are_as_described(client: TestClient) -> None:
    answer = client.post("/api/search", json={"text": TEXT, "max_length": 3, "tree": True})
    kinds: dict[str, type[DecodeResponse]] = {"step": StepEvent, "done": DecodeResponse}
    for name, said in events(answer.text):
        kinds[name].model_validate(said)


def test_pages_come_from_here_alone(client: TestClient) -> None:
    for path in ("/", "/api"):
        page = client.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert "//" not in page.text.replace("http://www.w3.org/", "")
    assert client.get("/api/openapi.json").json()["info"]["title"] == "beamsplit"


# What is refused


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"text": None}, "the request: give either a text or a picture"),
        ({"picture": {"sample": "boat"}}, "the request: give either a text or a picture"),
        ({"text": " "}, "the text is empty: write something to begin with"),
        (
            {"text": "北京市"},
            "the text is '北京市', in letters the translator does not know: it reads English",
        ),
        (
            {"text": "我用 Python 写程序"},
            "the text is '我用 Python 写程序', in letters the translator does not know: it reads English",
        ),
        ({"model": "captioner"}, "captioner takes a picture, and the request has a text"),
        ({"text": None, "picture": {"sample": "boat"}}, "en-fr takes a text, and the request has a picture"),
        ({"text": None, "picture": {}}, "picture: give either sample or data"),
        ({"searches": []}, "searches: List should have at least 1 item after validation, not 0"),
        ({"searches": [{}] * 5}, "searches: List should have at most 4 items after validation, not 5"),
        ({"searches": [{"strategy": "dps"}]}, "there is no strategy 'dps': did you mean 'dbs'?"),
        (
            {"searches": [{"diversity": "haming"}]},
            "diversity is 'haming', and there is no such term: did you mean 'hamming'?",
        ),
        ({"searches": [{"strenght": 1}]}, "searches.0.strenght: Extra inputs are not permitted"),
        ({"searches": [{"groups": "3"}]}, "searches.0.groups: Input should be a valid integer"),
        (
            {"searches": [{"strategy": "sampling", "settings": {"temperature": "1"}}]},
            "searches.0.settings.temperature: Input should be a valid number",
        ),
        (
            {"searches": [{"strategy": "sampling", "settings": {"temperature": 1e-9}}]},
            "searches.0.settings.temperature: Input should be 0 or at least 0.001",
        ),
        ({"max_length": 0}, "max_length: Input should be greater than or equal to 1"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"tree": 1}, "tree: Input should be a valid boolean"),
    ],
)
def test_values_that_cannot_be_used(client: TestClient, asked: dict[str, Any], line: str) -> None:
    assert refused(client, 422, **asked) == line
    assert refused(client, 422, "/api/search", **asked) == line


def test_what_is_not_there(client: TestClient) -> None:
    assert refused(client, 404, model="captoner") == "there is no model 'captoner': did you mean 'captioner'?"
    sample: dict[str, Any] = {"model": "captioner", "text": None, "picture": {"sample": "bot"}}
    assert refused(client, 404, **sample) == "there is no sample picture 'bot': did you mean 'boat'?"
    for path in ("/api/pictures/bot", "/nothing", "/static/nothing.js", "/static/../app.py"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert list(answer.json()) == ["error"]
    assert client.put("/api/decode").status_code == 405


def test_settings_of_another_strategy(client: TestClient) -> None:
    line = refused(client, 422, searches=[{"settings": {"rate": 1}}])
    assert line.startswith("branching has no setting 'rate': ")


def test_counts_and_shares_are_both_settings(client: TestClient) -> None:
    settings = {"top_k": 3, "top_p": 0.9, "temperature": 1.5}
    assert decode(client, searches=[{"strategy": "sampling", "settings": settings}], max_length=2)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b'{"text": "\\ud800"}'])
def test_bodies_that_are_not_requests(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/decode", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert list(answer.json()) == ["error"]
    assert len(answer.json()["error"]) < 301


def test_requests_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests are answered meanwhile."""

    def parse_here(body: bytes, limits: DemoLimits) -> DecodeRequest:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return parse_request(body, limits)

    monkeypatch.setattr("beamsplit.web.app.parse_request", parse_here)
    assert decode(client_of(app_with()), max_length=2)


@pytest.mark.parametrize(
    ("limits", "asked", "line"),
    [
        (
            {"text_letters": 5},
            {},
            "the text has 9 characters, and the limit is 5: shorten it",
        ),
        (
            {"beams": 11},
            {},
            "the searches have 12 beams, and the limit is 11: ask for fewer",
        ),
        (
            {"max_length": 5},
            {"max_length": 6},
            "max_length is 6, and the limit is 5: ask for less",
        ),
    ],
)
def test_limits_of_what_is_asked(limits: dict[str, Any], asked: dict[str, Any], line: str) -> None:
    assert refused(client_of(app_with(**limits)), 422, **asked) == line


def test_a_limit_below_what_suits_the_model_cuts_it() -> None:
    answer = decode(client_of(app_with(max_length=2)), searches=[{"strategy": "bs"}])
    assert all(len(each["tokens"]) <= 2 for each in answer["columns"][0]["hypotheses"])


def test_a_search_may_take_so_long() -> None:
    client = client_of(app_with(Shelf(slow=Slow(0.1)), seconds=0.15))
    line = "the search took longer than 0.15 s: ask for fewer beams or less length"
    assert refused(client, 503, model="slow") == line
    answer = client.post("/api/search", json={"model": "slow", "text": TEXT})
    assert list(events(answer.text))[-1] == ("error", {"error": line})


def test_models_that_fail_say_so_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf(broken=Broken(), absent=beamsplit.ArgumentError("there is no file x"))
    shelf.models["bare"] = ImportError(f"the model 'bare' needs transformers: {install_line('hf')}")
    client = client_of(app_with(shelf))
    assert refused(client, 503, model="bare").endswith(install_line("hf"))
    assert refused(client, 503, model="absent") == "the model 'absent' cannot be loaded: there is no file x"
    assert refused(client, 500, model="broken").startswith("something went wrong here, a RuntimeError")
    assert TEXT not in caplog.text
    assert "doubles.py" in caplog.text


def test_limits_are_checked() -> None:
    with pytest.raises(beamsplit.ArgumentError, match="searches must be a whole number of at least 1, not 0"):
        DemoLimits(searches=0)
    with pytest.raises(beamsplit.ArgumentError, match="there is no folder nowhere: --pictures"):
        make_app(DemoSettings(pictures=Path("nowhere")))

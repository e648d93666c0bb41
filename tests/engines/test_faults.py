"""Engines that fail: nothing hangs, and nothing wrong comes back without a word."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError, BeamSearch, DiverseBeamSearch, EngineError, decode, decode_async
from beamsplit.engines import Candidates, EngineModel, Patience, connect
from beamsplit.engines.candidates import stack_candidates
from beamsplit.engines.http import KEY_VARIABLE, Client, gather
from beamsplit.engines.running import InBackground
from engines.serving import (
    END,
    Fault,
    InProcess,
    Server,
    changed,
    dripping,
    drop,
    garbled,
    slow,
    status,
    truncated,
)

QUICK = Patience(timeout=20.0, first_wait=0.01, longest_wait=0.05, tries=4)
IMPATIENT = replace(QUICK, timeout=0.4)
PROMPTS = [[5, 7, 9], [9, 8, 1]]
STRATEGY = DiverseBeamSearch(groups=3, strength=1.0)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("vllm") as made:
        yield made


@pytest.fixture
def model(server: Server) -> Iterator[EngineModel]:
    with connect(server.url, end=END, patience=QUICK) as made:
        yield made


def found_by(model: Any) -> list[list[Any]]:
    return [
        [(each.tokens, each.certified) for each in found]
        for found in decode(model, PROMPTS, STRATEGY, max_length=5, end=END)
    ]


PASSING: dict[str, Fault] = {
    "dropped": drop,
    "429": status(429, Retry_After="0"),
    "429 without a time": status(429),
    "429 until a date": status(429, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"),
    "500": status(500),
    "503": status(503),
    "garbled": garbled,
    "truncated": truncated,
}


LASTING: dict[str, Fault] = {"slow": slow(1.5), "dripping": dripping}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("times", [1, 3])
def test_what_passes_changes_nothing(server: Server, model: EngineModel, fault: Fault, times: int) -> None:
    server.faults.extend([fault] * times)
    assert found_by(model) == found_by(InProcess())
    assert not server.faults
    assert len(server.asked) == 5 + times


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_does_not_pass_is_said_after_some_tries(
    server: Server, model: EngineModel, fault: Fault
) -> None:
    server.always = fault
    with pytest.raises(
        EngineError, match=rf"the engine at {server.url} was asked 4 times \(/v1/completions\)"
    ):
        found_by(model)


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
def test_what_takes_too_long_is_asked_for_again(server: Server, fault: Fault) -> None:
    with connect(server.url, end=END, patience=IMPATIENT) as model:
        server.faults.append(fault)
        assert found_by(model) == found_by(InProcess())
        server.always = fault
        with pytest.raises(EngineError, match=r"was asked 4 times .*: no answer within 0.4 s"):
            found_by(model)


def test_faults_in_some_of_many_requests(server: Server) -> None:
    """Each request is tried again by itself."""
    with connect(server.url, end=END, patience=QUICK, rows_per_request=1) as model:
        server.faults.extend([status(500), drop, garbled, slow(0), truncated, status(429)])
        assert found_by(model) == found_by(InProcess())


def each_top(change: Any) -> Fault:
    """Change the list of every choice."""

    def change_all(found: Any) -> Any:
        for choice in found["choices"]:
            tops = choice["logprobs"]["top_logprobs"]
            tops[0] = change(tops[0])
        return found

    return changed(change_all)


def twice(found: Any) -> str:
    import json

    text = json.dumps(found)
    first = text.index('"token_id:')
    entry = text[first : text.index(",", first) + 1]
    return text[:first] + entry + text[first:]


WRONG: dict[str, tuple[Fault, str]] = {
    "a choice is missing": (
        changed(lambda found: {"choices": found["choices"][1:]}),
        "answered for . prompts when it was asked about .",
    ),
    "a choice is there twice": (
        changed(lambda found: {"choices": [found["choices"][0]] * len(found["choices"])}),
        "do not say which prompt they belong to",
    ),
    "no choices": (changed(lambda _: {"text": "hello"}), "has no 'choices'"),
    "a list": (changed(lambda _: [1, 2]), "has no 'choices'"),
    "no log-probabilities": (
        changed(lambda found: {"choices": [{**choice, "logprobs": None} for choice in found["choices"]]}),
        "has no 'logprobs'",
    ),
    "no candidates": (each_top(lambda _: {}), "listed no candidates"),
    "nothing where candidates belong": (each_top(lambda _: None), "'top_logprobs' is empty"),
    "a token twice": (changed(twice), "twice: its answers cannot be relied on"),
    "log-probabilities that are none": (each_top(lambda top: dict.fromkeys(top, 0.7)), "which is none"),
    "no numbers": (each_top(lambda top: dict.fromkeys(top, "likely")), "which is none"),
    "logits": (each_top(lambda top: dict.fromkeys(top, -0.1)), "that add up to"),
    "texts": (each_top(lambda top: {name[9:]: value for name, value in top.items()}), "not by its id"),
    "a token below 0": (
        each_top(lambda top: {f"token_id:-{name[9:]}": value for name, value in top.items()}),
        "not by its id",
    ),
}


@pytest.mark.parametrize(("fault", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_refused_at_once(
    server: Server, model: EngineModel, fault: Fault, message: str
) -> None:
    server.faults.append(slow(0))
    server.always = fault
    with pytest.raises(EngineError, match=message):
        found_by(model)
    assert len(server.asked) == 2  # asking again would not help


SGLANG_WRONG: dict[str, tuple[Any, str]] = {
    "a token twice": (lambda listed: [listed[0], *listed], "listed token .* twice"),
    "no lists": (lambda _: None, "is empty"),
    "another form": (lambda _: [["x"]], "in a form that is not known here"),
    "no number": (lambda listed: [[None, *listed[0][1:]], *listed[1:]], "which is none"),
}


@pytest.mark.parametrize(("change", "message"), SGLANG_WRONG.values(), ids=SGLANG_WRONG)
def test_wrong_answers_of_sglang_are_refused(change: Any, message: str) -> None:
    def change_all(found: Any) -> Any:
        for each in found:
            lists = each["meta_info"]["output_top_logprobs"]
            lists[0] = change(lists[0])
        return found

    with Server("sglang") as server, connect(server.url, end=END, patience=QUICK) as model:
        server.always = changed(change_all)
        with pytest.raises(EngineError, match=message):
            found_by(model)


# Lists that are not what was asked for


def test_fewer_candidates_than_asked_for_are_never_more_certain(server: Server, model: EngineModel) -> None:
    server.always = each_top(lambda top: dict(list(top.items())[:2]))
    with pytest.warns(UserWarning, match="lists of 2 candidates are too short"):
        lists = found_by(model)
    exact = found_by(InProcess())
    for found, whole in zip(lists, exact, strict=True):
        assert all(each in whole for each in found if each[1])
    assert not all(certain for found in lists for _, certain in found)


def test_a_token_that_the_engine_has_drawn_itself_bounds_nothing(server: Server, model: EngineModel) -> None:
    """vLLM puts it first, however unlikely it is, beside as many others as were asked for."""
    server.always = each_top(lambda top: {"token_id:59": -50.0, **top} if "token_id:59" not in top else top)
    assert found_by(model) == found_by(InProcess())


def test_a_list_is_bounded_by_the_last_that_was_asked_for() -> None:
    listed = {9: -50.0, 1: -0.7, 2: -1.2, 3: -2.5}
    assert Candidates.of(listed, 2) == Candidates((1, 2), (-0.7, -1.2), rest=-1.2)
    assert Candidates.of(listed, 9) == Candidates((1, 2, 3, 9), (-0.7, -1.2, -2.5, -50.0), rest=-50.0)
    assert Candidates.of(listed, 2, complete=False).rest == 0.0


def test_what_engines_write_for_minus_infinity_is_no_candidate() -> None:
    lists = stack_candidates([Candidates.of({4: -0.1, 7: -9999.0}, 2), Candidates.of({1: -2.0}, 2)])
    assert lists.log_prob.tolist() == [[pytest.approx(-0.1), -float("inf")], [-2.0, -float("inf")]]
    assert lists.rest.tolist() == [-float("inf"), -2.0]


# Refusals


def test_a_refusal_says_what_the_engine_says(server: Server, model: EngineModel) -> None:
    server.always = status(400)
    with pytest.raises(EngineError, match=r"refused /v1/completions with status 400: status 400 on purpose"):
        found_by(model)
    assert len(server.asked) == 1


def test_a_key_is_sent_and_shown_nowhere(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = "very-secret"
    caplog.set_level(logging.DEBUG)
    with pytest.raises(
        EngineError, match=f"status 401: Unauthorized .give connect a key, or set {KEY_VARIABLE}"
    ):
        connect(server.url, patience=QUICK)
    with pytest.raises(EngineError) as refused:
        connect(server.url, key="wrong-secret", patience=QUICK)
    with connect(server.url, key="very-secret", end=END, patience=QUICK) as model:
        server.faults.append(status(500))
        found_by(model)
        seen = repr(model) + repr(model.asynchronous) + repr(vars(model.asynchronous)) + str(refused.value)
    monkeypatch.setenv(KEY_VARIABLE, "very-secret")
    with connect(server.url, end=END, patience=QUICK) as model:
        found_by(model)
    with connect(server.url.replace("//", "//user:pass-secret@"), key="very-secret", end=END) as model:
        seen += repr(model) + model.engine.name
    assert "secret" not in seen + caplog.text.replace("secret_", "")


@pytest.mark.parametrize("key", ["secret\n.", "sécret", "a secret"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ArgumentError, match="has a line break, a space or a letter") as refused:
        connect("http://127.0.0.1:9", key=key)
    assert "cret" not in str(refused.value)


def test_white_space_around_a_key_is_left_out(server: Server) -> None:
    server.key = "secret"
    with connect(server.url, key=" secret\n", end=END, patience=QUICK) as model:
        found_by(model)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000", "no address of an engine"),
        ("ftp://localhost", "no address of an engine"),
        ("http://", "no address of an engine"),
        ("http://a:port", "cannot be read"),
    ],
)
def test_what_is_no_address_is_refused(url: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        connect(url)


def test_an_address_may_end_as_people_write_it(server: Server) -> None:
    for ending in ("", "/", "/v1", "/v1/"):
        with connect(server.url + ending, end=END) as model:
            assert model.engine.longest == 256


def test_nobody_at_home() -> None:
    with pytest.raises(EngineError, match=r"was asked 2 times \(/v1/models\).*is it running"):
        connect("http://127.0.0.1:9", patience=QUICK)


def test_a_server_that_is_no_engine(server: Server) -> None:
    server.kind = "a shop"
    with pytest.raises(EngineError, match="does not say what kind of engine it is: give connect a kind"):
        connect(server.url, patience=QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "tgi"}, "kind is 'tgi': give one of vllm, sglang, llama.cpp, texts"),
        ({"model": "tinny"}, "has no model 'tinny': did you mean 'tiny'"),
        ({"end": "</s>"}, "end must be a whole number"),
        ({"rows_per_request": 0}, "rows_per_request must be"),
        ({"connections": 0}, "connections must be"),
        ({"kind": "texts", "end": 3.5}, "end must be a whole number"),
        ({"tokenizer": "/nowhere/at/all"}, "the tokenizer '/nowhere/at/all' cannot be loaded"),
    ],
)
def test_settings_that_cannot_be_are_refused(server: Server, options: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        connect(server.url, **options)


@pytest.mark.parametrize("name", ["timeout", "connect_timeout", "first_wait", "longest_wait"])
def test_patience_is_checked(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be a finite number above 0"):
        Patience(**{name: 0})
    with pytest.raises(ArgumentError, match="tries must be"):
        Patience(tries=0)


def test_waits_grow_and_end() -> None:
    patience = Patience(first_wait=1.0, longest_wait=5.0)
    waits = [patience.wait(failed, None) for failed in range(1, 8)]
    for wait, plain in zip(waits, [1, 2, 4, 5, 5, 5, 5], strict=True):
        assert 0.75 * plain <= wait <= 1.25 * plain
    assert patience.wait(1, 3.0) == 3.0
    assert patience.wait(1, 60.0) == 5.0


# Being stopped


def test_a_search_that_is_cancelled_lets_go_of_its_requests(server: Server) -> None:
    server.always = slow(5.0)

    async def search() -> float:
        async with connect(server.url, end=END).asynchronous as model:
            start = time.perf_counter()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await decode_async(model, PROMPTS, BeamSearch(beams=2), max_length=5)
            return time.perf_counter() - start

    assert asyncio.run(search()) < 3


def test_one_failure_gives_up_the_other_requests(server: Server) -> None:
    with connect(server.url, end=END, rows_per_request=1, patience=QUICK) as model:
        server.faults.extend([status(400), slow(0.3), slow(0.3), slow(0.3)])
        with pytest.raises(EngineError, match="status 400"):
            decode(model, [[5], [6], [7], [8]], BeamSearch(beams=1), max_length=5)
        time.sleep(0.5)
        assert len(server.asked) == 4  # and no second step


def test_what_is_given_up_is_cancelled() -> None:
    given_up = []

    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            given_up.append(True)
            raise

    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise EngineError("no")

    with pytest.raises(EngineError):
        asyncio.run(gather([wait(), fail(), wait()]))
    assert given_up == [True, True]


def test_work_in_the_background_is_cancelled_with_its_caller() -> None:
    cancelled = threading.Event()

    async def work() -> None:
        await asyncio.sleep(0.5)  # until the caller waits
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    runner = InBackground()
    with pytest.raises(KeyboardInterrupt):
        runner.run(work())
    assert cancelled.wait(10)
    runner.close()


PROGRAM = """
import sys
from beamsplit import BeamSearch, decode
from beamsplit.engines import connect

model = connect(sys.argv[1], end=2)
print("connected", flush=True)
decode(model, [[5, 7]], BeamSearch(beams=2), max_length=5)
"""


def test_an_interrupt_ends_a_wait_at_once(server: Server) -> None:
    server.always = slow(60.0)
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "connected\n"
    deadline = time.monotonic() + 20
    while not server.asked and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    assert "Traceback" not in said.split("KeyboardInterrupt")[1]


def test_searches_of_several_threads_share_a_model(model: EngineModel) -> None:
    expected, found = found_by(InProcess()), []
    threads = [threading.Thread(target=lambda: found.append(found_by(model))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_client_has_connections_for_each_loop(server: Server) -> None:
    client = Client(server.url, patience=QUICK)

    async def ask() -> Any:
        try:
            return await client.get("/v1/models")
        finally:
            await client.aclose()

    assert asyncio.run(ask()) == asyncio.run(ask())


# The command line


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "beamsplit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)


def test_the_commands_decode_on_an_engine(server: Server, tmp_path: Path) -> None:
    import json

    shown = run("generate", "--engine", server.url, "5 7 9", "--json", "--max-length", "4")
    assert shown.returncode == 0, shown.stderr
    assert len(json.loads(shown.stdout)["hypotheses"]) == 6
    (tmp_path / "in.txt").write_text("5 7 9\n9 8 1\n", encoding="utf-8")
    arguments = ["decode", "in.txt", "--engine", server.url, "--out", "out.jsonl", "--max-length", "4"]
    done = run(*arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [len(line["hypotheses"]) for line in lines] == [6, 6]
    measured = run(
        "evaluate", "--task", "in.txt", "--engine", server.url, "--strategies", "bs,branching",
        "--beams", "4", "--max-length", "4", "--json", folder=tmp_path,
    )  # fmt: skip
    assert measured.returncode == 0, measured.stderr
    assert json.loads(measured.stdout)["model"] == "tiny"


def test_a_job_that_its_engine_leaves_is_resumed(server: Server, tmp_path: Path) -> None:
    """What is done is kept, no line is marked as broken, and the same command goes on."""
    (tmp_path / "in.txt").write_text("".join(f"{n} 7 9\n" for n in range(5, 13)), encoding="utf-8")
    arguments = [
        "decode", "in.txt", "--engine", server.url, "--out", "out.jsonl", "--max-length", "3",
        "--batch-size", "2", "--strategy", "bs",
    ]  # fmt: skip
    server.faults.extend([slow(0)] * 7 + [status(418)])
    stopped = run(*arguments, folder=tmp_path)
    assert stopped.returncode == 2
    assert "status 418" in stopped.stderr
    assert not (tmp_path / "out.jsonl").exists()
    before = len(server.asked)
    assert run(*arguments, folder=tmp_path).returncode == 0
    assert len(server.asked) - before == 6  # the two batches that were left
    assert len((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()) == 8

"""Progress: a bar on a terminal, a line now and then in a file, one line in a notebook."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from beamsplit import (
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    DivMBest,
    FunctionModel,
    decode,
    decode_async,
    progress,
)
from beamsplit.hypotheses import Hypotheses
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.progress import Progress, describe


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "monotonic", clock)
    return clock


def err(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_line_every_twenty_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("decode").bar(100, 10) as bar:
        for _ in range(9):
            clock.now += 7
            bar.advance(10)
    assert err(capsys) == [
        "decode: 40 of 100 (40%), 1.4 a second, 42 s left",
        "decode: 70 of 100 (70%), 1.4 a second, 21 s left",
        "decode: 100 of 100 (100%), 1.4 a second, 0 s left",
    ]


def test_a_slow_step_has_its_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("decode").bar(None) as bar:
        clock.now += 500
        bar.advance(4)
    assert err(capsys) == ["decode: 4, 0.008 a second"]


def test_short_jobs_print_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):  # with a pause after each
        with Progress("decode").bar(5) as bar:
            for _ in range(5):
                clock.now += 3
                bar.advance()
        clock.now += 100
    assert err(capsys) == []


def test_many_short_bars_print_as_often_as_a_long_one(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        with Progress(f"method {number}").bar(2) as bar:
            for _ in range(2):
                clock.now += 2.5
                bar.advance()
    assert [line.partition(":")[0] for line in err(capsys)] == ["method 3", "method 7", "method 11"]


def test_notes_are_lines_where_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("train").bar(5) as bar:
        bar.note("epoch 1")
    assert err(capsys) == ["train: epoch 1"]


def test_what_is_not_shown_prints_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("decode").bar(5, shown=False) as bar:
        clock.now += 99
        bar.advance()
        bar.note("x")
    assert err(capsys) == []


def test_a_notebook_has_one_line_that_is_written_over(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    with Progress("decode").bar(1000) as bar:
        for _ in range(4):
            clock.now += 0.25
            bar.advance(250)
    assert capsys.readouterr().err == (
        "\rdecode: 250 of 1000 (25%), 1000 a second, 1 s left"
        "\rdecode: 750 of 1000 (75%), 1000 a second, 0 s left"
        "\rdecode: 1000 of 1000 (100%), 1000 a second, 0 s left\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with Progress("decode").bar(7) as bar:
        bar.advance(3)
        bar.note("so far")
        bar.complete()
    assert "3/3" in shown.getvalue()
    assert "so far" in shown.getvalue()


def test_a_brief_bar_is_drawn_after_a_second(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with Progress("decode").bar(7, brief=True) as bar:
        clock.now += 0.9
        bar.advance(3)
    assert shown.getvalue() == ""
    with Progress("decode").bar(7, brief=True) as bar:
        clock.now += 1.1
        bar.advance(5)
    assert "5/7" in shown.getvalue()


def test_what_is_printed_meanwhile_goes_where_it_should(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A bar on the terminal takes nothing of what a program writes to a file or a pipe."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress("decode").bar(2) as bar:
        print('{"id": "0"}')
        bar.advance(2)
    assert "2/2" in terminal.getvalue()
    assert "id" not in terminal.getvalue()
    assert capfd.readouterr().out == '{"id": "0"}\n'


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 10, 0, 0.0), "0 of 10 (0%)"),
        ((5, 10, 0, 3.0), "5 of 10 (50%)"),
        ((0, 0, 0, 1.0), "0 of 0 (0%)"),
        ((30, 90_000, 30, 60.0), "30 of 90000 (0%), 0.5 a second, 49 h left"),
        ((1_000, 90_000, 1_000, 10.0), "1000 of 90000 (1%), 100 a second, 14 min left"),
    ],
)
def test_what_a_line_says(arguments: tuple[Any, ...], text: str) -> None:
    assert describe(*arguments) == text


# decode(progress=True)


def slow_model(clock: Clock) -> FunctionModel:
    """A model of three tokens without an end, each step of which takes ten seconds."""

    def start(inputs: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(len(inputs), 3), torch.zeros(len(inputs), 1)

    def step(tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        clock.now += 10
        return torch.zeros(len(tokens), 3), state

    return FunctionModel(step, start=start)


def _decode_async(*arguments: Any, **options: Any) -> list[Hypotheses]:
    return asyncio.run(decode_async(*arguments, **options))


@pytest.mark.parametrize("function", [decode, _decode_async])
def test_steps_of_a_long_search(
    function: Callable[..., list[Hypotheses]], clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    model, strategy = slow_model(clock), BeamSearch(beams=1)
    plain = function(model, ["a", "b"], strategy, max_length=6)
    assert err(capsys) == []
    assert function(model, ["a", "b"], strategy, max_length=6, progress=True) == plain
    assert err(capsys) == [
        "decode: 3 of 6 (50%), 0.15 a second, 20 s left",
        "decode: 5 of 6 (83%), 0.12 a second, 8 s left",
    ]


def last_total(strategy: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    totals: list[int | None] = []
    real = Progress.bar

    def bar(self: Progress, total: int | None, done: int = 0, **looks: bool) -> Any:
        totals.append(total)
        return real(self, total, done, **looks)

    monkeypatch.setattr(Progress, "bar", bar)
    decode(slow_model(clock), ["a"], strategy, max_length=4, progress=True)
    return totals


@pytest.mark.parametrize(
    ("strategy", "steps"),
    [
        (BeamSearch(beams=2), 4),
        (DiverseBeamSearch(groups=3), 4),
        (DiverseBeamSearch(groups=3, schedule="staggered"), 6),
        (DivMBest(runs=2, beams=1), None),  # as many as its runs take
    ],
)
def test_how_many_steps_a_search_may_take(
    strategy: Any, steps: int | None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert last_total(strategy, clock, monkeypatch) == [steps]


def test_batches_of_many_inputs(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    options: Any = {"max_length": 4, "batch_size": 2, "progress": True}
    decode_in_batches(slow_model(clock), list("abcdef"), BeamSearch(beams=1), **options)
    assert [line.partition(",")[0] for line in err(capsys)] == [
        "decode: 2 of 6 (33%)",
        "decode: 4 of 6 (66%)",
        "decode: 6 of 6 (100%)",
    ]


@pytest.mark.parametrize("function", [decode, _decode_async, decode_in_batches])
def test_progress_is_true_or_false(function: Callable[..., Any], clock: Clock) -> None:
    with pytest.raises(ArgumentError, match=r"^progress must be True or False, not 'yes'$"):
        function(slow_model(clock), ["a"], BeamSearch(beams=1), max_length=2, progress="yes")

"""From lists to scores: slow ones are kept, lists may be ordered anew, and what cannot be had is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from beamsplit import metrics
from beamsplit.evaluation import scoring
from beamsplit.evaluation.experiment import Experiment
from beamsplit.evaluation.scoring import LIST_METRICS, TEXT_METRICS, Measured, measured
from beamsplit.metrics import Example


@dataclass
class Letters:
    """A text's score is how many letters it has; texts that were asked about are remembered."""

    signature: str = "letters"
    asked: list[str] = field(default_factory=list)
    name: str = "letters"

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        self.asked += [text for each in examples for text in each.hypotheses]
        return [[float(len(text)) for text in each.hypotheses] for each in examples]


class Shared:
    """How many words a text and its references share."""

    name = signature = "shared"

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return [
            [
                float(len(set(text.split()) & set(" ".join(each.references).split())))
                for text in each.hypotheses
            ]
            for each in examples
        ]


class Gone:
    name = signature = "gone"

    def __init__(self) -> None:
        self.asked = 0

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        self.asked += 1
        raise metrics.Unavailable("it is gone")


CAT = Example(("a", "bbb", "a"), ("cat",))
DOG = Example(("a", "cc"), ("dog",))


def experiment(*names: str, lists: tuple[str, ...] = (), **settings: Any) -> Experiment:
    return Experiment(task="t", methods=(), metrics=names, lists=lists, **{"oracle": (1, 2), **settings})


def found(
    of: Experiment, cache: Path, unavailable: dict[str, str] | None = None, **lists: Sequence[Example]
) -> dict[str, Measured]:
    """By name, the figures of methods with these lists."""
    runs = {name: [examples] for name, examples in lists.items()}
    reasons = {} if unavailable is None else unavailable
    return {each.metric.name: each for each in measured(of, runs, cache, reasons)}


def value(of: Measured, method: str = "A") -> float:
    (score,) = of.scores[method]
    return score.value


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Letters:
    """A metric that takes its time."""
    metric = Letters()
    monkeypatch.setitem(TEXT_METRICS, "slow", lambda: metric)
    monkeypatch.setattr(scoring, "_SLOW", ("slow",))
    return metric


# Kept scores


@pytest.mark.usefixtures("slow")
def test_figures_are_of_all_methods(tmp_path: Path) -> None:
    got = found(experiment("slow"), tmp_path, A=[CAT, DOG], B=[DOG, DOG])
    assert list(got) == ["oracle_letters@1", "oracle_letters@2"]
    assert [value(got["oracle_letters@1"], name) for name in "AB"] == [1, 1]
    assert [value(got["oracle_letters@2"], name) for name in "AB"] == [2.5, 2]


def test_a_text_is_asked_about_once_for_its_references(slow: Letters, tmp_path: Path) -> None:
    found(experiment("slow"), tmp_path, A=[CAT, DOG], B=[CAT, Example(("cc", "d"), DOG.references)])
    assert slow.asked == ["a", "bbb", "a", "cc", "d"]  # "a" of the cat and "a" of the dog


def test_a_second_run_asks_nothing(slow: Letters, tmp_path: Path) -> None:
    first = found(experiment("slow"), tmp_path, A=[CAT, DOG])
    slow.asked.clear()
    second = found(experiment("slow"), tmp_path, A=[CAT, DOG])
    assert slow.asked == []
    assert [value(each) for each in second.values()] == [value(each) for each in first.values()]


def test_only_new_texts_are_asked_about(slow: Letters, tmp_path: Path) -> None:
    found(experiment("slow"), tmp_path, A=[CAT, DOG])
    slow.asked.clear()
    more = Example((*CAT.hypotheses, "dddd"), CAT.references)
    other = Example(CAT.hypotheses, ("a cat",))
    got = found(experiment("slow", oracle=(4,)), tmp_path, A=[more, DOG, other])
    assert slow.asked == ["dddd", "a", "bbb"]
    assert value(got["oracle_letters@4"]) == pytest.approx((4 + 2 + 3) / 3)


def test_half_a_line_is_survived(slow: Letters, tmp_path: Path) -> None:
    whole = found(experiment("slow"), tmp_path, A=[CAT, DOG])
    (file,) = (tmp_path / "scores").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    slow.asked.clear()
    again = found(experiment("slow"), tmp_path, A=[CAT, DOG])
    assert slow.asked == ["cc"]
    assert [value(each) for each in again.values()] == [value(each) for each in whole.values()]
    assert file.read_bytes() == content


def test_a_metric_that_measures_otherwise_has_scores_of_its_own(slow: Letters, tmp_path: Path) -> None:
    found(experiment("slow"), tmp_path, A=[CAT])
    slow.asked.clear()
    slow.signature = "letters|version:2"
    found(experiment("slow"), tmp_path, A=[CAT])
    assert slow.asked == ["a", "bbb"]
    assert len(list((tmp_path / "scores").iterdir())) == 2


def test_what_was_scored_before_a_stop_is_kept(
    slow: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "_AT_ONCE", 2)
    plain = slow.scores

    def stopped(examples: Sequence[Example]) -> list[list[float]]:
        if slow.asked:
            raise KeyboardInterrupt
        return plain(examples)

    monkeypatch.setattr(slow, "scores", stopped)
    with pytest.raises(KeyboardInterrupt):
        found(experiment("slow"), tmp_path, A=[CAT, DOG])
    monkeypatch.setattr(slow, "scores", plain)
    slow.asked.clear()
    found(experiment("slow"), tmp_path, A=[CAT, DOG])
    assert slow.asked == ["a", "cc"]  # of the dog


@pytest.mark.usefixtures("slow")
def test_a_fast_metric_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_SLOW", ())
    found(experiment("slow"), tmp_path, A=[CAT])
    assert list(tmp_path.iterdir()) == []


# Minimum Bayes risk

# What each shares with itself and the others, in words:
#   x: 1 + 0 + 0    a b: 0 + 2 + 1    a: 0 + 1 + 1
RISKY = Example(("x", "a b", "a"), ("a b",))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXT_METRICS, "shared", Shared)
    monkeypatch.setitem(TEXT_METRICS, "slow", Letters)
    monkeypatch.setattr(scoring, "_SLOW", ("slow",))


@pytest.mark.usefixtures("shared")
def test_the_first_is_the_one_with_the_least_risk(tmp_path: Path) -> None:
    got = found(experiment("shared", mbr="shared"), tmp_path, A=[RISKY])
    assert [(name, value(each)) for name, each in got.items()] == [
        ("oracle_shared@1", 0.0),
        ("oracle_shared@2", 2.0),
        ("oracle_mbr_shared@1", 2.0),
        ("oracle_mbr_shared@2", 2.0),
    ]
    (score,) = got["oracle_mbr_shared@1"].scores["A"]
    assert score.signature == "oracle|k:1|order:mbr-shared|shared"
    assert got["oracle_mbr_shared@1"].metric.signature == score.signature


@pytest.mark.usefixtures("shared")
def test_risk_is_weighed_by_probability(tmp_path: Path) -> None:
    # Nearly all of the probability is that of x: it comes first, and shares nothing with the reference.
    sure = Example(RISKY.hypotheses, RISKY.references, (-0.1, -9.0, -9.0))
    got = found(experiment("shared", mbr="shared"), tmp_path, A=[sure])
    assert value(got["oracle_mbr_shared@1"]) == 0


@pytest.mark.usefixtures("shared")
def test_slow_metrics_have_no_figures_of_another_order(tmp_path: Path) -> None:
    got = found(experiment("slow", "shared", mbr="shared"), tmp_path, A=[RISKY])
    assert {name for name in got if "mbr" in name} == {"oracle_mbr_shared@1", "oracle_mbr_shared@2"}


@pytest.mark.usefixtures("shared")
def test_without_mbr_there_is_no_other_order(tmp_path: Path) -> None:
    assert not any("mbr" in name for name in found(experiment("shared"), tmp_path, A=[RISKY]))


# What cannot be had


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Gone:
    metric = Gone()
    monkeypatch.setitem(TEXT_METRICS, "gone", lambda: metric)
    return metric


def test_without_java_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("beamsplit.metrics.coco.shutil.which", lambda _: None)
    unavailable: dict[str, str] = {}
    of = experiment("meteor", "bleu", "cider", "spice", lists=("length",))
    got = found(of, tmp_path, unavailable, A=[CAT, DOG], B=[DOG, CAT])
    assert list(got) == ["oracle_sentence_bleu@1", "oracle_sentence_bleu@2", "length"]
    assert list(unavailable) == ["meteor", "cider", "spice"]
    assert unavailable["meteor"].startswith("there is no 'java', which METEOR")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"without {name}: {reason}" for name, reason in unavailable.items()]


def test_what_is_gone_is_asked_once(gone: Gone, tmp_path: Path) -> None:
    found(experiment("gone"), tmp_path, A=[CAT], B=[CAT])
    assert gone.asked == 1


@pytest.mark.usefixtures("gone", "shared")
def test_an_order_that_cannot_be_had_leaves_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unavailable: dict[str, str] = {}
    got = found(experiment("shared", lists=("length",), mbr="gone"), tmp_path, unavailable, A=[RISKY])
    assert list(got) == ["oracle_shared@1", "oracle_shared@2", "length"]
    assert unavailable == {"mbr": "it is gone"}
    assert capsys.readouterr().err == "without mbr: it is gone\n"


@pytest.mark.usefixtures("gone", "shared")
def test_what_is_gone_has_no_other_order_either(tmp_path: Path) -> None:
    got = found(experiment("gone", "shared", mbr="shared"), tmp_path, A=[RISKY])
    assert {name for name in got if "mbr" in name} == {"oracle_mbr_shared@1", "oracle_mbr_shared@2"}


# Whole lists


@pytest.mark.parametrize("name", LIST_METRICS)
def test_each_figure_of_lists_can_be_asked_for_alone(name: str, tmp_path: Path) -> None:
    likely = Example(("a dog", "a cat"), (), (-1.0, -2.0))
    got = found(experiment(lists=(name,), distinct=(1, 3)), tmp_path, A=[likely])
    names = {
        "distinct": [f"{of}_distinct_{n}" for of in ("list", "corpus") for n in (1, 3)],
        "ead": [f"{of}_ead_{n}" for of in ("list", "corpus") for n in (1, 3)],
        "compression": ["list_compression", "corpus_compression"],
        "self-repetition": ["list_self_repetition_4", "corpus_self_repetition_4"],
        "self-bleu": ["self_bleu_4"],
        "spread": ["embedding_spread"],
        "log-prob": ["top_log_prob"],
    }
    assert list(got) == names.get(name, [name])

"""Scores of texts: worked by hand, and as the reference implementations give them."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError, BeamsplitError
from beamsplit.extras import install_line
from beamsplit.metrics import coco, quality
from beamsplit.metrics.base import Example, TextMetric
from beamsplit.metrics.quality import Bleu4, ChrF, CiderD, Meteor, RougeL, SentenceBLEU, Spice, Unavailable

sacrebleu = pytest.importorskip("sacrebleu")
cider = pytest.importorskip("pycocoevalcap.cider.cider")
bleu = pytest.importorskip("pycocoevalcap.bleu.bleu")
rouge = pytest.importorskip("pycocoevalcap.rouge.rouge")
models = pytest.importorskip("pycocoevalcap.spice.get_stanford_models")
with_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")

OF_SACREBLEU: list[TextMetric] = [SentenceBLEU(), ChrF(), SentenceBLEU(normalise=True), ChrF(normalise=True)]
OF_COCO: list[TextMetric] = [Bleu4(), RougeL(), CiderD(), Meteor()]
ALL = [*OF_SACREBLEU, *OF_COCO, Spice()]

LISTS = [
    Example(
        ("A man rides his horse.", "a man's horse", "a man rides his horse", "A man rides his horse."),
        ("A man is riding a horse, fast.", "someone on a horse"),
    ),
    Example(("two dogs run very fast",), ("Two dogs run on the grass.", "two dogs", "animals that run")),
    Example((), ("nobody is there",)),
    Example(("", "a plane in the sky", "the sky"), ("a plane flies high in the blue sky",)),
]
"""Of unequal lengths, with a text twice, one that is the same in tokens, an empty one and an empty list."""


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    """METEOR takes seconds to start."""
    with coco.meteor() as program:
        yield program


@pytest.fixture
def started(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coco, "meteor", lambda: nullcontext(program))


def alone(text: str, *references: str) -> list[Example]:
    return [Example((text,), references)]


def one(metric: TextMetric, text: str, *references: str) -> float:
    [[score]] = metric.scores(alone(text, *references))
    return score


# By hand


@pytest.mark.parametrize(
    ("text", "references", "score"),
    [
        ("a b c d", ["a b c d"], 100),
        ("e f g h", ["a b c d"], 0),
        ("", ["a b c d"], 0),
        ("a b", ["a b c d"], 100 * math.exp(1 - 4 / 2)),  # right as far as it goes, half as long
        ("a b c d", ["x y", "a b c d e f g h"], 100 * (1 * 1 * 1 * 1) ** 0.25),  # "x y" is as near in length
        ("a b c d e", ["a b c d f"], 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25),
    ],
)
def test_sentence_bleu(text: str, references: list[str], score: float) -> None:
    assert one(SentenceBLEU(), text, *references) == pytest.approx(score)


@pytest.mark.parametrize("metric", [SentenceBLEU, ChrF])
def test_french_spaces(metric: Any) -> None:
    said, reference = "Qu'est-ce que c'est ?", "Qu’est-ce que c’est\u202f?"
    assert one(metric(normalise=True), said, reference) == pytest.approx(100)
    assert one(metric(), said, reference) < 90


@with_java
@pytest.mark.parametrize(
    ("text", "references", "score"),
    [
        ("One two, three four!", ["one two three four"], 100),
        ("one two three four", ["one two three four five six seven eight"], 100 * math.exp(1 - 8 / 4)),
        ("a b c d e", ["a b c d f", "x"], 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25),
        ("", ["one two three four"], 0),
    ],
)
def test_bleu_4(text: str, references: list[str], score: float) -> None:
    assert one(Bleu4(), text, *references) == pytest.approx(score, abs=1e-4)


@with_java
@pytest.mark.parametrize(
    ("text", "references", "precision", "recall"),
    [
        ("a dog runs", ["A dog runs."], 1, 1),
        ("a dog runs", ["a dog sleeps here"], 2 / 3, 2 / 4),
        ("a dog runs", ["dog a", "runs"], 1 / 3, 1),  # order counts; each is the best over the references
        ("a cat", ["some dogs"], 0, 0),
    ],
)
def test_rouge_l(text: str, references: list[str], precision: float, recall: float) -> None:
    below = recall + 1.2**2 * precision
    expected = 100 * (1 + 1.2**2) * precision * recall / below if below else 0
    assert one(RougeL(), text, *references) == pytest.approx(expected)


@with_java
def test_cider_d() -> None:
    # The two pictures share no word: the cosine is 1 with its like, 0 with the rest, times 10.
    horse, dogs = "a man rides his horse", "two dogs run very fast"
    examples = [
        Example((horse, dogs), (horse,)),
        Example((horse, dogs, dogs), (dogs, "some animals have much fun")),
    ]
    assert CiderD().scores(examples) == [pytest.approx([10, 0]), pytest.approx([0, 5, 5])]
    assert CiderD().scores(examples[:1]) == [[0, 0]]  # said of every picture there is


@with_java
@pytest.mark.usefixtures("started")
def test_meteor() -> None:
    examples = [Example(("A dog runs!", "", "cats"), ("a dog runs", "two dogs"))]
    assert Meteor().scores(examples) == [[100, 0, 0]]


# As the reference implementations


def test_parity_with_sacrebleu() -> None:
    for example, bleus, chrfs in zip(LISTS, SentenceBLEU().scores(LISTS), ChrF().scores(LISTS), strict=True):
        refs = list(example.references)
        assert bleus == [sacrebleu.sentence_bleu(text, refs).score for text in example.hypotheses]
        assert chrfs == [sacrebleu.sentence_chrf(text, refs).score for text in example.hypotheses]


def ordinary(metric: TextMetric, true: dict[int, list[str]], said: dict[int, list[str]]) -> list[float]:
    """The scores of one text a picture, as COCO's evaluation has them."""
    match metric:
        case Bleu4():
            return [100 * score for score in bleu.Bleu(4).compute_score(true, said, verbose=0)[1][3]]
        case RougeL():
            return [100 * float(score) for score in rouge.Rouge().compute_score(true, said)[1]]
        case CiderD():
            return list(map(float, cider.Cider().compute_score(true, said)[1]))
    with coco.meteor() as program:
        return [100 * score for score in program.compute_score(true, said)[1]]


@with_java
@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("metric", OF_COCO, ids=repr)
def test_parity_with_coco(metric: TextMetric) -> None:
    """Wherever a text stands in its list, it has the score that it has as the only one."""
    found = metric.scores(LISTS)
    assert [len(scores) for scores in found] == [len(example.hypotheses) for example in LISTS]
    true = dict(enumerate(coco.tokens([example.references for example in LISTS])))
    for rank in range(4):
        texts = [example.hypotheses[rank : rank + 1] or ("a dog",) for example in LISTS]
        expected = ordinary(metric, true, dict(enumerate(coco.tokens(texts))))
        for scores, score in zip(found, expected, strict=True):
            assert scores[rank : rank + 1] in ([], [score])


@with_java
@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("metric", [*OF_SACREBLEU, *OF_COCO], ids=repr)
def test_laws(metric: TextMetric) -> None:
    found = metric.scores(LISTS)
    assert metric.scores(LISTS[::-1]) == found[::-1]
    shifted = [Example(each.hypotheses[1:] + each.hypotheses[:1], each.references) for each in LISTS]
    assert metric.scores(shifted) == [scores[1:] + scores[:1] for scores in found]
    assert found[0][0] == found[0][3]
    assert metric.scores([]) == []


class Counting:
    """In place of METEOR, and of SPICE: a text's score is its number of words."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def compute_score(self, true: Any, said: Any) -> tuple[float, list[Any]]:
        self.asked.append([text for [text] in said.values()])
        return 0.5, [len(text.split()) / 100 for text in self.asked[-1]]


@with_java
def test_meteor_is_asked_about_a_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Counting()
    monkeypatch.setattr(coco, "meteor", lambda: nullcontext(program))
    monkeypatch.setattr(quality, "_AT_ONCE", 4)
    found = Meteor().scores(LISTS)
    assert found == [pytest.approx([5, 4, 5, 5]), pytest.approx([5]), [], pytest.approx([0, 5, 2])]
    assert program.asked == [
        ["a man rides his horse", "a man 's horse", "two dogs run very fast", ""],
        ["a plane in the sky", "the sky"],
    ]


@pytest.mark.parametrize("metric", ALL, ids=repr)
def test_names_and_signatures(metric: TextMetric) -> None:
    parts = metric.signature.split("|")
    assert parts[0] == metric.name
    assert parts[-1].startswith("version:")
    assert ("text:normalised" in parts) == getattr(metric, "normalise", False)


def test_signatures() -> None:
    assert SentenceBLEU().signature.startswith("sentence_bleu|case:mixed|eff:yes|tok:13a|smooth:exp|version:")
    assert CiderD().signature.startswith("cider_d|idf:references|n:4|sigma:6|tok:ptb|version:pycocoevalcap-")


# SPICE, whose models are not shipped


def test_spice_without_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(models, "SPICEDIR", str(tmp_path))
    assert refusal(Spice(), LISTS) == (
        "there is no stanford-corenlp-3.6.0.jar, which SPICE runs on: "
        "python -m pycocoevalcap.spice.get_stanford_models downloads it"
    )
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "stanford-corenlp-3.6.0.jar").touch()
    assert "stanford-corenlp-3.6.0-models.jar" in refusal(Spice(), LISTS)


@pytest.fixture
def spice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type:
    """One whose models are there, and whose scores are as its program would write them."""

    class Program(Counting):
        def compute_score(self, true: Any, said: Any) -> tuple[float, list[Any]]:
            _, scores = super().compute_score(true, said)
            return 0.5, [{"All": {"f": score or math.nan}, "Object": {"f": 0.0}} for score in scores]

    (tmp_path / "lib").mkdir()
    for name in ("", "-models"):
        (tmp_path / "lib" / f"stanford-corenlp-3.6.0{name}.jar").touch()
    monkeypatch.setattr(models, "SPICEDIR", str(tmp_path))
    monkeypatch.setattr("pycocoevalcap.spice.spice.Spice", Program)
    return Program


@with_java
@pytest.mark.usefixtures("spice")
def test_spice_with_its_models() -> None:
    found = Spice().scores(LISTS)
    assert found == [pytest.approx([5, 4, 5, 5]), pytest.approx([5]), [], pytest.approx([0, 5, 2])]


@with_java
def test_spice_that_fails(spice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(spice, "compute_score", fail)
    assert refusal(Spice(), LISTS) == (
        "SPICE's Java program failed: it needs 8 GB of memory, and was written for Java 8"
    )


# What is missing or broken


def refusal(metric: TextMetric, examples: list[Example], kind: type[BeamsplitError] = Unavailable) -> str:
    with pytest.raises(kind) as caught:
        metric.scores(examples)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("metric", [*OF_COCO, Spice()], ids=repr)
def test_no_java(metric: TextMetric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert refusal(metric, LISTS).endswith(": install a Java runtime")


def test_a_tokenizer_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'no class\nof that name' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert refusal(RougeL(), alone("never said before", "nor this")) == (
        "the Java tokenizer stanford-corenlp-3.4.1.jar failed, try it by hand: 'no class of that name'"
    )


@pytest.mark.parametrize(
    ("metric", "module", "package"),
    [
        (SentenceBLEU(), "sacrebleu.metrics", "sacrebleu"),
        (ChrF(), "sacrebleu.metrics", "sacrebleu"),
        (CiderD(), "pycocoevalcap.cider.cider_scorer", "pycocoevalcap"),
        (Spice(), "pycocoevalcap.spice.get_stanford_models", "pycocoevalcap"),
    ],
)
def test_missing_packages(
    metric: TextMetric, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "_in_tokens", tuple)  # Java may be missing, too
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as caught:
        metric.scores(LISTS)
    assert str(caught.value) == f"beamsplit.metrics needs {package}: {install_line('evaluate')}"


@pytest.mark.parametrize("metric", [*OF_SACREBLEU, *OF_COCO], ids=repr)
def test_missing_references(metric: TextMetric) -> None:
    good = Example(("a",), ("a",))
    assert refusal(metric, [good, Example(("a",))], ArgumentError) == (
        "example 1 has no references: this metric needs one at least"
    )
    assert refusal(metric, [good, good, Example(("a",), ("a", " "))], ArgumentError) == (
        "example 2 has an empty reference: leave it out"
    )

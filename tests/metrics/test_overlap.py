"""Scores that read references once: to the last bit those of the programs that define them."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from beamsplit.metrics import coco, overlap
from beamsplit.metrics.base import Example
from beamsplit.metrics.quality import Meteor

with_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
sacrebleu = pytest.importorskip("sacrebleu.metrics")
cider = pytest.importorskip("pycocoevalcap.cider.cider_scorer")
bleu = pytest.importorskip("pycocoevalcap.bleu.bleu")
rouge = pytest.importorskip("pycocoevalcap.rouge.rouge")

WORDS = "a the of man woman horse rides, l'eau . 3.5 ? (red) big\u00a0dog \u00e9t\u00e9 &amp; x-y".split(" ")
RANDOM = random.Random(3)


def text(most: int = 14) -> str:
    """Words with repeats; sometimes none at all."""
    return " ".join(RANDOM.choices(WORDS, k=RANDOM.randint(0, most)))


PAIRS = [
    ([text() or "a" for _ in range(RANDOM.choice([1, 2, 5, 40]))], [text() for _ in range(6)])
    for _ in range(60)
]
"""References, and texts to score against them."""


def sentence(program: Any) -> Callable[[str, Sequence[str]], float]:
    return lambda said, references: program.sentence_score(said, references).score


def coco_bleu(said: str, references: Sequence[str]) -> float:
    [score] = bleu.Bleu(4).compute_score({0: references}, {0: [said]}, verbose=0)[1][3]
    return float(score)


def coco_rouge(said: str, references: Sequence[str]) -> float:
    return float(rouge.Rouge().calc_score([said], references))


BLEU, CHRF = sacrebleu.BLEU(effective_order=True), sacrebleu.CHRF()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (overlap.sacrebleu_bleu(BLEU), sentence(BLEU)),
        (overlap.sacrebleu_chrf(CHRF), sentence(CHRF)),
        (overlap.coco_bleu, coco_bleu),
        (overlap.coco_rouge, coco_rouge),
    ],
    ids=["BLEU", "chrF", "BLEU-4", "ROUGE-L"],
)
def test_scores_are_those_of_the_program(ours: Any, theirs: Any) -> None:
    for references, texts in PAIRS:
        score = ours(references)
        assert [score(said) for said in texts] == [theirs(said, references) for said in texts]


def test_cider_d_is_that_of_the_program() -> None:
    frequencies = overlap.CiderFrequencies.of([references for references, _ in PAIRS])
    program = cider.CiderScorer(n=4, sigma=6.0)
    for references, _ in PAIRS:
        program += ("", references)
    program.compute_doc_freq()
    for rank in range(6):
        program.ctest = [cider.cook_test(texts[rank]) for _, texts in PAIRS]
        found = [frequencies.scorer(references)(texts[rank]) for references, texts in PAIRS]
        assert found == [float(score) for score in program.compute_cider()]
        assert max(found) > 1  # or there would be little to compare


@with_java
def test_meteor_of_several_programs_is_that_of_one() -> None:
    examples = [Example(tuple(texts[:2]), tuple(references[:3])) for references, texts in PAIRS[:25]]
    with coco.meteor() as program:
        tokens = [coco.tokens([each.hypotheses, each.references]) for each in examples]
        expected = [
            [100 * program.compute_score({0: references}, {0: [said]})[1][0] for said in texts]
            for texts, references in tokens
        ]
    with coco.keeping_programs(2):
        assert Meteor().scores(examples) == expected
        with coco.meteor() as kept, coco.keeping_programs(3), coco.meteor() as same:
            assert kept is same  # still running
        assert Meteor().scores(examples[:3]) == expected[:3]
    with pytest.raises(IndexError):
        kept.compute_score({0: ["a"]}, {0: ["a"]})  # ended


class Together:
    """In place of METEOR's program: answers a text only while another program is answering one, too."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.meteor_p = self.stdin = self.stdout = self
        self.lock = threading.Lock()
        self.barrier = barrier
        self.asked: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.asked.append(line)

    def readline(self) -> bytes:
        if not self.asked[-1].startswith(b"EVAL"):
            self.barrier.wait(timeout=60)
        return b"0.5\n"

    def flush(self) -> None: ...

    kill = communicate = flush


def test_programs_work_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2)
    programs = [Together(barrier), Together(barrier)]
    monkeypatch.setattr(coco, "_start_meteor", iter(programs).__next__)
    texts = {index: [f"text {index}"] for index in range(100)}
    with coco.keeping_programs(2), coco.meteor() as started:
        total, each = started.compute_score({key: ["one", "two"] for key in texts}, texts)
    assert (total, each) == (0.5, [0.5] * 100)
    assert [len(program.asked) for program in programs] == [51, 50]  # and one is asked for all scores
    assert programs[1].asked[0] == b"SCORE ||| one ||| two ||| text 50\n"


def test_a_tokenizer_is_asked_about_a_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def tokenized(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return [each.lower() for each in texts]

    monkeypatch.setattr(coco, "_tokenized", tokenized)
    monkeypatch.setattr(coco, "_KNOWN_TOKENS", 3)
    with coco.keeping_programs():
        assert coco.tokens([["A", "B"], ["A"]]) == [["a", "b"], ["a"]]
        assert coco.tokens([["B"]]) == [["b"]]
        assert asked == ["A", "B"]
        assert coco.tokens([["A", "D"]]) == [["a", "d"]]  # too many: the others are forgotten
        assert asked == ["A", "B", "A", "D"]
        assert coco.tokens([["A", "F", "G", "H"]]) == [["a", "f", "g", "h"]]
    asked.clear()
    assert coco.tokens([["A"]]) == [["a"]]
    assert asked == ["A"]

"""How sure a figure is: draws worked by hand, laws, parity with sacreBLEU."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from torch import Tensor

from beamsplit import ArgumentError, __version__
from beamsplit.metrics import (
    DistinctN,
    Example,
    MeanLength,
    Score,
    compare,
    interval,
    mean_of,
    measure,
    significance,
)


class Mean:
    """The mean of numbers that the test chooses."""

    name = "mean"
    signature = "mean"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return mean_of([float(example.hypotheses[0]) for example in examples])

    def score(self, total: Tensor) -> Tensor:
        return total[..., 0] / total[..., 1]


def mean(*values: float) -> Score:
    return measure(Mean(), [Example((str(value),)) for value in values])


# Intervals


@pytest.mark.parametrize(
    ("level", "low", "high"),
    [(0.95, 0, 1), (0.6, 0, 1), (0.4, 0.5, 0.5), (1.0, 0, 1)],
)
def test_two_inputs(level: float, low: float, high: float) -> None:
    # Of 0 and 1, a quarter of the draws has 0 twice, a quarter 1 twice.
    found = interval(mean(0, 1), Mean(), level=level)
    assert (found.low, found.high) == (low, high)


def test_what_does_not_vary_is_sure() -> None:
    assert interval(mean(3, 3, 3), Mean()) == significance.Interval(3, 3)
    assert interval(mean(3), Mean()) == significance.Interval(3, 3)


def test_the_seed_decides() -> None:
    score = mean(*range(50))
    assert interval(score, Mean(), seed=1) == interval(score, Mean(), seed=1)
    assert interval(score, Mean(), seed=1) != interval(score, Mean(), seed=2)
    assert compare(score, mean(*range(1, 100, 2)), Mean()) == compare(score, mean(*range(1, 100, 2)), Mean())


def test_the_interval_of_a_mean_is_as_wide_as_theory_says() -> None:
    values = torch.randn(400, generator=torch.Generator().manual_seed(0)).double()
    score = mean(*values.tolist())
    found = interval(score, Mean(), draws=4000)
    error = float(values.std(correction=0)) / 20
    assert found.low == pytest.approx(score.value - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(score.value + 1.96 * error, abs=0.1 * error)


def test_intervals_cover_the_true_mean_as_often_as_they_say() -> None:
    draw = torch.Generator().manual_seed(0)
    samples = torch.rand(300, 60, generator=draw)  # the true mean is a half
    found = [interval(mean(*sample.tolist()), Mean(), draws=400, level=0.9) for sample in samples]
    covered = sum(each.low <= 0.5 <= each.high for each in found) / 300
    assert 0.85 < covered < 0.95  # three standard errors either way


def test_intervals_of_ratios() -> None:
    # A long list of short texts and a short list of long ones: 9 / 6 over both, from 1 to 4 over draws.
    score = measure(MeanLength(), [Example(("a",) * 5), Example(("a a a a",))])
    assert score.value == 9 / 6
    assert interval(score, MeanLength()) == significance.Interval(1, 4)


# Draws


@pytest.mark.parametrize("at_once", [1, 20, 2**22])
def test_every_draw_has_as_many_as_there_are(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(significance, "_AT_ONCE", at_once)
    counts = torch.cat(list(significance._counts(7, 100, seed=0)))
    assert counts.shape == (100, 7)
    assert (counts.sum(1) == 7).all()
    assert counts.mean(0).tolist() == pytest.approx([1] * 7, abs=0.4)


# Comparisons


@pytest.mark.parametrize("values", [(1.0,), (0.1, 0.7, 0.3), tuple(range(100))])
def test_a_set_beside_itself(values: tuple[float, ...]) -> None:
    assert compare(mean(*values), mean(*values), Mean()) == significance.Comparison(0, 0, 0, 1)


def test_a_gain_on_every_input_is_no_chance() -> None:
    # However the inputs differ among themselves: they are paired.
    found = compare(mean(0, 100, 200), mean(1, 101, 201), Mean(), draws=99)
    assert found == significance.Comparison(1, 1, 1, 1 / 100)


def test_a_clearly_better_system() -> None:
    draw = torch.Generator().manual_seed(0)
    first = torch.rand(200, generator=draw)
    gain = torch.rand(200, generator=draw) - 0.3
    found = compare(mean(*first.tolist()), mean(*(first + gain).tolist()), Mean())
    assert found.p < 0.01
    assert 0 < found.low < found.difference < found.high


def test_systems_that_differ_by_chance() -> None:
    draw = torch.Generator().manual_seed(1)
    first, second = torch.rand(2, 200, generator=draw)
    found = compare(mean(*first.tolist()), mean(*second.tolist()), Mean())
    assert found.p > 0.1
    assert found.low < 0 < found.high


def test_the_other_way_round() -> None:
    first, second = mean(1, 5, 3, 2), mean(2, 4, 6, 3)
    there, back = compare(first, second, Mean()), compare(second, first, Mean())
    assert there.difference == -back.difference == 1
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p == back.p


def test_the_level_of_a_comparison() -> None:
    first, second = mean(*range(20)), mean(*range(20, 0, -1))
    wide, narrow = compare(first, second, Mean(), level=0.99), compare(first, second, Mean(), level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.p == narrow.p


# Parity: the same statistics, sacreBLEU's draws and ours


class CorpusBLEU:
    """sacreBLEU's BLEU as a metric of ours."""

    name = "bleu"
    signature = "bleu"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        texts = [example.hypotheses[0] for example in examples]
        references = [example.references[0] for example in examples]
        return torch.tensor(BLEU()._extract_corpus_statistics(texts, [references]), dtype=torch.double)

    def score(self, total: Tensor) -> Tensor:
        rows = total.reshape(-1, total.shape[-1]).int().tolist()
        scores = [BLEU()._compute_score_from_stats(row).score for row in rows]
        return torch.tensor(scores, dtype=torch.double).view(total.shape[:-1])


def garbled(texts: Sequence[str], share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join("?" if draw.random() < share else word for word in text.split()) for text in texts]


@pytest.mark.parametrize("share", [0.3, 0.27, 0.24, 0.15])
def test_p_and_interval_are_those_of_sacrebleu(share: float) -> None:
    draw = random.Random(0)
    references = [" ".join(draw.choices("a b c d e f g h".split(), k=12)) for _ in range(60)]
    systems = [garbled(references, 0.3, seed=1), garbled(references, share, seed=2)]
    _, theirs = PairedTest(
        [("first", systems[0]), ("second", systems[1])], {"BLEU": BLEU()}, [references], "bs", n_samples=4000
    )()
    expected = theirs["BLEU"][1]
    assert not isinstance(expected, str)
    first, second = (
        measure(
            CorpusBLEU(), [Example((text,), (true,)) for text, true in zip(texts, references, strict=True)]
        )
        for texts in systems
    )
    assert second.value == pytest.approx(expected.score)
    # A p from 4000 draws has a standard error of up to 0.008, an interval's width one of 2%.
    assert compare(first, second, CorpusBLEU(), draws=4000).p == pytest.approx(expected.p_value, abs=0.04)
    found = interval(second, CorpusBLEU(), draws=4000)
    assert (found.high - found.low) / 2 == pytest.approx(expected.ci, rel=0.08)


# Mistakes


def complaint(first: Score, second: Score) -> str:
    with pytest.raises(ArgumentError) as caught:
        compare(first, second, Mean())
    return str(caught.value)


def test_pairs_need_the_same_inputs() -> None:
    assert complaint(mean(1, 2), mean(1)) == (
        "the first has 2 examples and the second 1: measure both on the same inputs, in the same order"
    )


def test_pairs_need_the_same_metric() -> None:
    length = measure(MeanLength(), [Example(("a",))])
    assert complaint(mean(1), length) == (
        f"the first is mean and the second length|tok:words|version:{__version__}: measure both the same way"
    )
    assert complaint(length, length) == (
        f"the score is length|tok:words|version:{__version__} and the metric mean: "
        "give the metric that measured it"
    )
    with pytest.raises(ArgumentError, match=r"the score is mean and the metric length\|tok:words\|version"):
        interval(mean(1), MeanLength())


def test_the_corpus_has_no_bootstrap() -> None:
    metric = DistinctN(n=2, of="corpus")
    score = measure(metric, [Example(("a b",)), Example(("a b c",))])
    said = (
        "corpus_distinct_2 is counted over all inputs together, so a bootstrap over inputs does not fit it: "
        "take a metric that is a mean over inputs"
    )
    for ask in (lambda: interval(score, metric), lambda: compare(score, score, metric)):
        with pytest.raises(ArgumentError) as caught:
            ask()
        assert str(caught.value) == said
    interval(measure(DistinctN(n=2), [Example(("a b",))]), DistinctN(n=2))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"draws": 0}, "draws must be a whole number of at least 1, not 0"),
        ({"level": 95}, "level must be above 0 and at most 1, not 95"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
    ],
)
def test_settings(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        interval(mean(1, 2), Mean(), **settings)
    assert str(caught.value) == said

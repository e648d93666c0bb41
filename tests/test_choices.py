"""Strategies as people ask for them."""

from __future__ import annotations

import pytest

from beamsplit import (
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Hamming,
    NGram,
    Sampling,
    StochasticBeamSearch,
    Strategy,
)
from beamsplit.choices import SUITABLE, TITLES, Choice
from beamsplit.evaluation.presets import PRESETS
from beamsplit.models import load
from beamsplit.models.translator import DIVERSE
from beamsplit.testing import MarkovModel

WIDTHS = {"groups": 3, "beams_per_group": 2, "strength": 0.7}
EXPECTED: dict[str, Strategy] = {
    "bs": BeamSearch(beams=6),
    "dbs": DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7, diversity=NGram(n=2)),
    "siblings": DiverseSiblings(beams=6, rate=0.5),
    "mmi": BeamSearch(beams=6),
    "divmbest": DivMBest(runs=6, beams=2, strength=0.7, diversity=NGram(n=2)),
    "sampling": Sampling(samples=6),
    "nucleus": Sampling(samples=6, top_p=0.9),
    "diverse-sampling": DiverseSampling(groups=3, samples_per_group=2, strength=0.7, diversity=NGram(n=2)),
    "stochastic": StochasticBeamSearch(beams=6),
}


@pytest.mark.parametrize("name", TITLES)
def test_every_name_is_a_strategy(name: str, markov: MarkovModel) -> None:
    choice = Choice(strategy=name, groups=3, beams_per_group=2, strength=0.7, diversity="ngram:n=2")
    assert choice.method.strategy(markov) == EXPECTED[name]
    assert choice.title.startswith(TITLES[name])


@pytest.fixture
def markov() -> MarkovModel:
    import torch

    return MarkovModel(torch.ones(3, 3).log_softmax(1))


def test_the_names_are_those_of_evaluate() -> None:
    assert set(TITLES) == set(PRESETS)


def test_settings_of_a_strategys_own(markov: MarkovModel) -> None:
    choice = Choice(strategy="nucleus", settings={"top_p": 0.5, "temperature": 2.0})
    assert choice.method.strategy(markov) == Sampling(samples=6, top_p=0.5, temperature=2.0)
    assert choice.title == "nucleus sampling: 6 samples, top_p 0.5, temperature 2.0"
    assert choice.beside() == Choice(strategy="bs")


def test_titles_say_all_that_counts() -> None:
    assert Choice(strategy="divmbest").title == "DivMBest: 6 runs, 2 beams, strength 0.5, hamming"
    assert Choice(strategy="diverse-sampling", settings={"top_k": 3}).title == (
        "diverse sampling: 6 groups of 1, top_k 3, strength 0.5, hamming"
    )


def test_titles_count() -> None:
    one = Choice(groups=1)
    assert one.title == "diverse beam search: 1 group of 1, strength 0.5, hamming"
    assert one.beside().title == "beam search: 1 beam"


def test_what_suits_the_translator_is_what_it_does_by_itself() -> None:
    assert SUITABLE["translator"].method.strategy(load("en-fr")) == DIVERSE
    for kind in ("captioner", "questioner"):
        assert SUITABLE[kind].method.strategy(load(kind)) == DiverseBeamSearch(groups=6, strength=0.5)


def test_the_term_is_made_for_the_model() -> None:
    found = Choice(diversity="cumulative:temperature=4").method.strategy
    model = load("en-fr")
    strategy = found(model)
    assert isinstance(strategy, DiverseBeamSearch)
    assert strategy.diversity == Cumulative(temperature=4)
    assert Choice().method.strategy(model) == DiverseBeamSearch(groups=6, strength=0.5, diversity=Hamming())


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"strategy": "beam"}, "there is no strategy 'beam': there are bs, dbs, "),
        ({"groups": 0}, "groups must be a whole number of at least 1, not 0"),
        ({"beams_per_group": -1}, "beams_per_group must be a whole number of at least 1, not -1"),
        ({"strength": float("nan")}, "strength must be a finite number of 0 or more, not nan"),
        (
            {"strategy": "bs", "settings": {"top_p": 0.9}},
            "bs has no setting 'top_p': it is for sampling, nucleus",
        ),
        ({"settings": {"groups": 3}}, "dbs has no setting 'groups': leave it out"),
        ({"settings": {"rate": 3}}, "dbs has no setting 'rate': it is for siblings"),
        (
            {"strategy": "nucleus", "settings": {"topp": 3}},
            "nucleus has no setting 'topp': did you mean 'top_p'?",
        ),
        ({"diversity": "ngram:size=3"}, "diversity: ngram has no setting 'size': it has n"),
    ],
)
def test_mistakes(settings: dict[str, object], line: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        _ = Choice(**settings).method  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)

"""Experiments are read from files, and what is wrong in one is said in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    Embedding,
    FunctionModel,
    Hamming,
)
from beamsplit.evaluation import Method, experiment_of, read_experiment
from beamsplit.models import Captioner, PictureSizes
from beamsplit.models.text import Vocabulary

CONTENT: dict[str, Any] = {
    "task": "coco.test",
    "model": "captioner",
    "methods": {
        "BS": {"strategy": "bs", "beams": 4},
        "DBS": {"strategy": "dbs", "groups": 4, "strength": 0.3, "diversity": "hamming"},
    },
}


def changed(**changes: Any) -> dict[str, Any]:
    return {**CONTENT, **changes}


def method(**table: Any) -> dict[str, Any]:
    return changed(methods={"M": table})


def methods(tables: dict[str, Any]) -> list[Method]:
    """Those that decode."""
    made = experiment_of(changed(methods=tables)).methods
    return [each for each in made if isinstance(each, Method)]


def captioner() -> Captioner:
    return Captioner(Vocabulary(["a", "cat", "dog"]), PictureSizes(features=2, embedding=4, hidden=4))


def test_what_is_said_is_read() -> None:
    made = experiment_of(changed(metrics=["cider"], oracle=[1, 4], limit=7))
    assert (made.task, made.model, made.metrics, made.oracle, made.limit) == (
        "coco.test",
        "captioner",
        ("cider",),
        (1, 4),
        7,
    )
    model = captioner()
    beam, diverse = (each.spec.make(model) for each in methods(CONTENT["methods"]))
    assert beam == BeamSearch(beams=4)
    assert diverse == DiverseBeamSearch(groups=4, strength=0.3, diversity=Hamming())


def test_terms_and_guidance() -> None:
    tables = {
        "soft": {
            "strategy": "dbs",
            "groups": 2,
            "diversity": {"term": "embedding", "of": "cumulative"},
        },
        "fading": {"strategy": "dbs", "groups": 2, "diversity": {"term": "cumulative", "temperature": 3.0}},
        "mmi": {"strategy": "bs", "beams": 2, "mmi": {"strength": 0.2, "first": 3}},
    }
    soft, fading, mutual = methods(tables)
    model = captioner()
    term = soft.spec.make(model).diversity  # type: ignore[attr-defined]
    assert isinstance(term, Embedding)
    assert term.of == Cumulative()
    assert torch.equal(term.vectors, model.word_vectors)
    assert fading.spec.make(model).diversity == Cumulative(temperature=3.0)  # type: ignore[attr-defined]
    assert isinstance(mutual.make(model)[0], AntiLanguageModel)
    assert soft.make(model)[0] is model


REFUSED: list[tuple[dict[str, Any], str]] = [
    (changed(metric=["cider"]), "it has a key 'metric': did you mean 'metrics'?"),
    (
        changed(zzz=1),
        "it has a key 'zzz': known are cost, distinct, limit, lists, max_length, mbr, methods, metrics, "
        "min_length, model, oracle, seeds, show, split, task, title",
    ),
    ({"task": "coco.test", "model": "m"}, "it has no 'methods': every experiment needs one"),
    (changed(methods={}), "methods in it must be tables such as [methods.BS], one at least"),
    (
        method(beams=4),
        "methods.M in it has no 'strategy': give one of bs, dbs, branching, chunks, siblings, mmi, divmbest, "
        "sampling, nucleus, diverse-sampling, arithmetic, diverse-arithmetic, stochastic; or a 'file' of "
        "lists",
    ),
    (method(strategy="divmbst"), "methods.M in it: there is no strategy 'divmbst': did you mean 'divmbest'?"),
    (method(strategy="bs", beam=4), "methods.M in it: bs has no setting 'beam': did you mean 'beams'?"),
    (
        method(strategy="bs", beams=0),
        "methods.M in it: beams must be a whole number of at least 1, not 0",
    ),
    (
        method(strategy="dbs", groups=2, diversity="haming"),
        "methods.M in it: diversity is 'haming', and there is no such term: did you mean 'hamming'?",
    ),
    (changed(oracle=[0]), "oracle in it must be a whole number of at least 1, not 0"),
    (changed(limit=0), "limit in it must be a whole number of at least 1, not 0"),
    (changed(task=3), "task in it must be text, not 3"),
    ({**CONTENT, "model": ""}, "it has no 'model': every experiment that decodes needs one"),
    (changed(seed=1), "it has a key 'seed': did you mean 'seeds'?"),
    (changed(seeds=[]), "seeds in it is empty: give one at least"),
    (changed(seeds=3), "seeds in it must be a list, not 3"),
    (changed(seeds=[-1]), "seeds in it must be a whole number of at least 0, not -1"),
    (changed(metrics="bleu"), "metrics in it must be a list, not 'bleu'"),
    (changed(mbr=["bleu"]), "mbr in it must be text, not ('bleu',)"),
    (changed(show=-1), "show in it must be a whole number of at least 0, not -1"),
    (changed(show="4"), "show in it must be a whole number of at least 0, not '4'"),
    (changed(cost=True), "cost in it must be a table such as { inputs = 32, turns = 7 }"),
    (changed(cost={"turn": 2}), "cost in it has a key 'turn': did you mean 'turns'?"),
    (changed(cost={"turns": 0}), "cost.turns in it must be a whole number of at least 1, not 0"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        experiment_of(content, "it")
    assert str(caught.value) == message


def test_a_model_that_lacks_what_a_method_needs() -> None:
    plain: Any = FunctionModel(lambda tokens, state: (tokens, state), start=0)
    tables = {
        "mmi": {"strategy": "bs", "beams": 2, "mmi": {"strength": 0.2}},
        "soft": {"strategy": "dbs", "groups": 2, "diversity": "embedding"},
    }
    mutual, soft = methods(tables)
    with pytest.raises(
        ArgumentError, match=r"^methods.mmi: mmi needs .* FunctionModel has no language_model"
    ):
        mutual.make(plain)
    with pytest.raises(
        ArgumentError, match=r"^methods.soft: diversity is .* needs word vectors, and FunctionModel"
    ):
        soft.make(plain)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^there is no file "):
        read_experiment(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("task = ", encoding="utf-8")
    with pytest.raises(ArgumentError) as caught:
        read_experiment(broken)
    assert str(caught.value).startswith(f"{broken} is no TOML: ")
    assert "\n" not in str(caught.value)

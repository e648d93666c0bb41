"""Pronunciations: is one of the first k outputs a way to say the word that the dictionary has?

The network is that of examples/pronounce.py. Words have several pronunciations, so that a list may find more
than one; the checker is the CMU dictionary.
"""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

from beamsplit import (
    ArithmeticSampling,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    Diversity,
    Hamming,
    Hypotheses,
    LateBranching,
    Sampling,
    Strategy,
    decode,
)
from beamsplit.metrics import Checked, Example, Oracle, PassAtK
from research.novelty.model import Counted

__all__ = ["KS", "Ways", "choose_ways", "figures_of_words", "measure_ways", "ways", "words_of_part"]

KS = (1, 2, 3, 4, 6, 8)
_WIDTH = 8
_WORDS = 500
"""Words of each part."""
_EXAMPLE = Path(__file__).parents[2] / "examples" / "pronounce.py"


@dataclass(frozen=True, kw_only=True)
class Ways:
    """A setting of a family. Of samples, coverage is that of any k; of lists, that of the first k."""

    family: str
    name: str
    strategy: Strategy
    samples: bool = False
    unique: bool = False
    """Whether groups look on for something new where an earlier one has said the same."""


def ways() -> Iterator[Ways]:
    """Yield all settings. Beam search comes first: the others are held against it."""
    yield Ways(family="beam search", name="beam search", strategy=BeamSearch(beams=_WIDTH))
    terms: dict[str, Diversity] = {"hamming": Hamming(), "cumulative": Cumulative(temperature=0.3)}
    for term, diversity in terms.items():
        for groups, strength in itertools.product((_WIDTH, _WIDTH // 2), (0.2, 0.5, 1.0, 2.0)):
            beams = _WIDTH // groups
            strategy = DiverseBeamSearch(
                groups=groups, beams_per_group=beams, strength=strength, diversity=diversity
            )
            name = f"{groups} groups of {beams}, {strength:g}"
            yield Ways(family=f"DBS {term}", name=name, strategy=strategy)
            yield Ways(family=f"DBS {term}, unique", name=name, strategy=strategy, unique=True)
    for strength in (0.2, 0.4, 0.8):
        late = LateBranching(outputs=_WIDTH, strength=strength)
        yield Ways(family="late branching", name=f"strength {strength:g}", strategy=late)
    for temperature in (0.7, 1.0, 1.5):
        name = f"temperature {temperature:g}"
        sampled = Sampling(samples=_WIDTH, temperature=temperature)
        yield Ways(family="sampling", name=name, strategy=sampled, samples=True)
        spread = ArithmeticSampling(samples=_WIDTH, temperature=temperature)
        yield Ways(family="arithmetic sampling", name=name, strategy=spread, samples=True)
    for top_p in (0.9, 0.98):
        nucleus = Sampling(samples=_WIDTH, top_p=top_p)
        yield Ways(family="nucleus sampling", name=f"top-p {top_p:g}", strategy=nucleus, samples=True)


def words_of_part(candidates: Sequence[str], part: str) -> list[str]:
    """Return words of a part: even ones of a shuffled list for choosing, odd ones for reporting."""
    shuffled = random.Random(0).sample(candidates, len(candidates))
    return shuffled[0 if part == "valid" else 1 :: 2][:_WORDS]


def figures_of_words(lists: Sequence[Sequence[str]], right: Sequence[set[str]], samples: bool) -> Any:
    """Return coverage@k and more, a value for each word. Pronunciations are given as text.

    `found` is the share of a word's pronunciations that are in its list, `different` how many outputs differ.
    """
    examples = [Example(tuple(each), tuple(sorted(said))) for each, said in zip(lists, right, strict=True)]
    check = Checked(check=lambda example, text: text in example.references, name="dictionary")
    found = {}
    for k in KS:
        metric = PassAtK(check, k=k) if samples else Oracle(check, k=k)
        found[f"coverage@{k}"] = [round(x, 4) for x in metric.score(metric.statistics(examples)).tolist()]
    found["found"] = [
        round(len(said & set(each)) / len(said), 4) for each, said in zip(lists, right, strict=True)
    ]
    found["different"] = [float(len(set(each))) for each in lists]
    return found


def measure_ways(part: str, chosen: Mapping[str, str], advance: Callable[[], None] = lambda: None) -> Any:
    """Return the figures of all settings, or with `chosen` of the one of each family that is named."""
    example = _example()
    speaker = example.Speaker()
    words = words_of_part(example.words_said_in_several_ways(speaker.dictionary), part)
    right = [{" ".join(phones) for phones in speaker.dictionary[word]} for word in words]
    settings: dict[str, Any] = {}
    for way in ways():
        if chosen and chosen[way.family] != way.name:
            continue
        counted = Counted(speaker.model)
        memories = speaker.network.read(words)
        limits: dict[str, Any] = {"max_length": example.MOST_PHONES, "end": example.END}
        lists = decode(counted, memories, way.strategy, seed=1, unique=way.unique, **limits)
        said = [_said(each, example) for each in lists]
        key = way.family if chosen else f"{way.family}, {way.name}"
        figures = figures_of_words(said, right, way.samples)
        settings[key] = {
            "family": way.family,
            "name": way.name,
            "cost": counted.rows / len(words),
            "figures": figures,
        }
        advance()
    return {"words": words, "ways": sum(map(len, right)), "ks": list(KS), "settings": settings}


def choose_ways(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each family's setting with the highest coverage at the largest k."""
    figure = f"coverage@{max(results['ks'])}"
    best: dict[str, tuple[float, str]] = {}
    for setting in results["settings"].values():
        value = mean(setting["figures"][figure])
        if setting["family"] not in best or value > best[setting["family"]][0]:
            best[setting["family"]] = (value, setting["name"])
    return {family: name for family, (_, name) in best.items()}


def _said(found: Hypotheses, example: ModuleType) -> list[str]:
    """Return what outputs say; one that has not ended says nothing that is in a dictionary."""
    texts = []
    for each in found:
        phones = " ".join(example.PHONES[token] for token in each.tokens if token != example.END)
        texts.append(phones if each.finished else f"{phones} ...")
    return texts + [""] * (_WIDTH - len(texts))


def _example() -> ModuleType:
    """Return the example as a module: it is a program, of no package."""
    spec = importlib.util.spec_from_file_location("pronounce", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module

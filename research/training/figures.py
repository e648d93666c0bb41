"""Measure the models for their cards: what they score on data they have not seen.

A figure comes with a signature, which says how it was measured: sacreBLEU's own for translations, and one
like it for texts of pictures (measured by pycocoevalcap on Penn Treebank tokens, as is usual).
BLEU, chrF and METEOR are in percent; CIDEr-D is as its authors give it, about 1 for a good caption.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from beamsplit import checks, extras
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.metrics import coco
from beamsplit.model import StepModel
from beamsplit.models import pictures, translator
from beamsplit.models.text import normalised
from beamsplit.progress import Progress
from beamsplit.strategies import BeamSearch, DiverseBeamSearch, Strategy
from research.data import Projection, read_described, read_features, read_pairs, read_projection

__all__ = ["captioner_figures", "measure_model", "questioner_figures", "translator_figures"]

SINGLE: dict[str, Strategy] = {"greedy": BeamSearch(beams=1), "beam_5": BeamSearch(beams=5)}
"""Searches whose best output is scored."""

LISTS: dict[str, Strategy] = {
    "beam_20": BeamSearch(beams=20),
    "diverse_20": DiverseBeamSearch(groups=20, strength=0.7),
}
"""Searches whose whole list is scored."""

PAIRS = ("tatoeba.test", "multi30k.test_2016_flickr", "newstest2013")
"""The first is of the kind that the translator learned from, the others are not."""

CAPTIONS = ("coco.test", "pascal50s")

SAMPLE = 500  # sentences of the first set, for whole lists
BATCH = 32

_MEASURES = ("tokenizer.ptbtokenizer", "cider.cider", "bleu.bleu", "meteor.meteor")


def measure_model(model: object, folder: Path, limit: int | None = None) -> dict[str, Any]:
    """Return the figures of a translator, a captioner or a questioner."""
    match model:
        case translator.Translator():
            return translator_figures(model, folder, limit)
        case pictures.Captioner():
            return captioner_figures(model, folder, limit)
        case pictures.Questioner():
            return questioner_figures(model, folder, limit)
    raise ArgumentError(f"there are no figures of a {type(model).__name__}: its training prints them")


# Translation


class _Sentences(NamedTuple):
    name: str
    sources: list[str]
    references: list[list[str]]  # of each, one or more
    accepted: list[int]  # the places of those that the model accepts


def translator_figures(model: StepModel, folder: Path, limit: int | None = None) -> dict[str, Any]:
    """Return BLEU and chrF of single translations, and the best BLEU and the variety in lists of 20.

    `folder` is the data folder; with `limit`, only the first so many sentences of each file are read.
    A sentence that the translator refuses, such as one too long, counts as an empty translation.
    """
    _check_packages("sacrebleu.metrics")
    folder = Path(folder) / "translation"
    sets = [_sentences(model, folder / f"{name}.jsonl.gz", name, limit) for name in PAIRS]
    return {**{each.name: _quality(model, each) for each in sets}, "diversity": _diversity(model, sets[0])}


def _sentences(model: StepModel, path: Path, name: str, limit: int | None) -> _Sentences:
    pairs = read_pairs(path)[: _checked(limit)]
    sources = [pair.source for pair in pairs]
    references = [[normalised(target) for target in pair.targets] for pair in pairs]
    return _Sentences(name, sources, references, _accepted(model, sources))


def _accepted(model: StepModel, sources: Sequence[str]) -> list[int]:
    """Return the places of the sentences that the model accepts."""
    places: list[int] = []
    for part in _parts(range(len(sources))):
        if _accepts(model, [sources[place] for place in part]):
            places += part
        else:
            places += [place for place in part if _accepts(model, [sources[place]])]
    return places


def _accepts(model: StepModel, sources: list[str]) -> bool:
    try:
        model.start(sources)
    except ArgumentError:
        return False
    return True


def _quality(model: StepModel, sentences: _Sentences) -> dict[str, Any]:
    found: dict[str, Any] = _counts(sentences)
    for name, strategy in SINGLE.items():
        lists = _translations(model, sentences, strategy, name)
        found[name] = _corpus_scores([texts[0] for texts in lists], sentences.references)
    return found


def _diversity(model: StepModel, sentences: _Sentences) -> dict[str, Any]:
    sample = _sample(sentences)
    found: dict[str, Any] = {"of": sentences.name, **_counts(sample)}
    for name, strategy in LISTS.items():
        lists = _translations(model, sample, strategy, name)
        found[name] = {
            "oracle_sentence_bleu": _oracle(lists, sample.references),
            "distinct_texts": _rounded(sum(len(set(texts)) for texts in lists) / len(lists)),
        }
    return found


def _counts(sentences: _Sentences) -> dict[str, Any]:
    count = len(sentences.sources)
    return {"items": count, "refused": count - len(sentences.accepted)}


def _sample(sentences: _Sentences) -> _Sentences:
    """Return some of the sentences, always the same."""
    count = len(sentences.sources)
    kept = sorted(random.Random(0).sample(range(count), min(SAMPLE, count)))
    accepted = set(sentences.accepted)
    return _Sentences(
        sentences.name,
        [sentences.sources[place] for place in kept],
        [sentences.references[place] for place in kept],
        [new for new, place in enumerate(kept) if place in accepted],
    )


def _translations(
    model: StepModel, sentences: _Sentences, strategy: Strategy, how: str
) -> list[tuple[str, ...]]:
    """Return the outputs for each sentence, best first."""
    sources = [sentences.sources[place] for place in sentences.accepted]
    lists = _outputs(model, sources, strategy, translator.LONGEST, f"{sentences.name}, {how}")
    found: list[tuple[str, ...]] = [("",)] * len(sentences.sources)
    for place, texts in zip(sentences.accepted, lists, strict=True):
        found[place] = tuple(map(normalised, texts))
    return found


def _corpus_scores(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    metrics = _need("sacrebleu.metrics")
    streams = [list(stream) for stream in zip_longest(*references)]  # None where a sentence has fewer
    found = {}
    for name, metric in {"bleu": metrics.BLEU(), "chrf": metrics.CHRF()}.items():
        score = metric.corpus_score(list(outputs), streams).score
        found[name] = _signed(score, str(metric.get_signature()))
    return found


def _oracle(lists: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the mean over sentences of the best BLEU in a list."""
    metric = _need("sacrebleu.metrics").BLEU(effective_order=True)
    best = [
        max(metric.sentence_score(text, list(refs)).score for text in set(texts))
        for texts, refs in zip(lists, references, strict=True)
    ]
    # sacreBLEU's signature has the number of references of the last sentence alone.
    counts = set(map(len, references))
    metric.num_refs = counts.pop() if len(counts) == 1 else -1
    return _signed(sum(best) / len(best), str(metric.get_signature()))


# Captions and questions


class _Pictures(NamedTuple):
    name: str
    features: Any  # [pictures features]
    references: list[list[str]]  # of each, one or more


def captioner_figures(model: StepModel, folder: Path, limit: int | None = None) -> dict[str, Any]:
    """Return CIDEr-D, METEOR and BLEU-4 of captions, for COCO (5 references) and PASCAL-50S (50).

    `folder` is the data folder; with `limit`, only the first so many pictures of each file are read.
    """
    captions = Path(folder) / "captions"
    files = {name: (captions / f"{name}.jsonl.gz", captions / f"{name}.features.npz") for name in CAPTIONS}
    return _picture_figures(model, Path(folder), files, limit)


def questioner_figures(model: StepModel, folder: Path, limit: int | None = None) -> dict[str, Any]:
    """Return CIDEr-D, METEOR and BLEU-4 of questions, for VQG-COCO."""
    questions = Path(folder) / "questions"
    files = {"vqg.test": (questions / "vqg.test.jsonl.gz", questions / "vqg.features.npz")}
    return _picture_figures(model, Path(folder), files, limit)


def _picture_figures(
    model: StepModel, folder: Path, files: dict[str, tuple[Path, Path]], limit: int | None
) -> dict[str, Any]:
    _check_packages(*(f"pycocoevalcap.{name}" for name in _MEASURES))
    coco.check_java()
    projection = read_projection(folder / "captions" / "features.projection.npz")
    sets = [_pictures(name, *paths, projection, limit) for name, paths in files.items()]
    with coco.meteor() as meteor:
        return {each.name: _scores(model, each, meteor) for each in sets}


def _pictures(name: str, texts: Path, features: Path, projection: Projection, limit: int | None) -> _Pictures:
    described = [each for each in read_described(texts) if each.texts][: _checked(limit)]
    seen = read_features(features, projection).of([each.image for each in described])
    return _Pictures(name, seen, [list(each.texts) for each in described])


def _scores(model: StepModel, given: _Pictures, meteor: Any) -> dict[str, Any]:
    """Return the scores of single outputs, for each search."""
    references = coco.tokens(given.references)
    found: dict[str, Any] = {"items": len(references)}
    for name, strategy in SINGLE.items():
        lists = _outputs(model, given.features, strategy, pictures.LONGEST, f"{given.name}, {name}")
        found[name] = _text_scores(coco.tokens([texts[:1] for texts in lists]), references, meteor)
    return found


def _text_scores(outputs: list[list[str]], references: list[list[str]], meteor: Any) -> dict[str, Any]:
    given, true = dict(enumerate(outputs)), dict(enumerate(references))
    cider, _ = _need("pycocoevalcap.cider.cider").Cider().compute_score(true, given)
    bleus, _ = _need("pycocoevalcap.bleu.bleu").Bleu(4).compute_score(true, given, verbose=0)
    share, _ = coco.meteor_scores(meteor, [texts[0] for texts in outputs], references)
    counts = set(map(len, references))
    many = f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}"
    tail = f"tok:ptb|version:{coco.version()}"
    return {
        "cider_d": _signed(cider, f"{many}|idf:references|n:4|sigma:6|{tail}"),
        "meteor": _signed(100 * share, f"{many}|lang:en|norm:yes|jar:1.5|{tail}"),
        "bleu_4": _signed(100 * bleus[3], f"{many}|reflen:closest|{tail}"),
    }


# Both


def _outputs(
    model: StepModel, inputs: Any, strategy: Strategy, max_length: int, name: str
) -> list[tuple[str, ...]]:
    """Decode the inputs, and return the texts for each, best first."""
    with Progress(name).bar(len(inputs)) as bar:
        lists = decode_in_batches(
            model,
            inputs,
            strategy,
            max_length=max_length,
            batch_size=BATCH,
            on_batch=lambda indices, _: bar.advance(len(indices)),
        )
    found = [_texts(each) for each in lists]
    if not sys.stderr.isatty():  # where there was no bar
        print(f"{name}: {len(found)} decoded", file=sys.stderr, flush=True)
    return found


def _texts(found: Hypotheses) -> tuple[str, ...]:
    texts = tuple(text for text in found.texts if text is not None)
    if len(texts) < len(found):
        raise ArgumentError("the model's outputs have no text to score: give it a method to_text(tokens)")
    return texts or ("",)  # a search that met a dead end has no output


def _parts(inputs: Any) -> Iterator[Any]:
    return (inputs[begin : begin + BATCH] for begin in range(0, len(inputs), BATCH))


def _checked(limit: int | None) -> int | None:
    return None if limit is None else checks.at_least("limit", limit, 1)


def _signed(score: float, signature: str) -> dict[str, Any]:
    return {"score": _rounded(score), "signature": signature}


def _rounded(value: float) -> float:
    return round(float(value), 4)


def _check_packages(*modules: str) -> None:
    """Raise if a package is missing, before minutes of decoding."""
    for module in (*modules, "rich.progress"):
        _need(module)


def _need(module: str) -> Any:
    return extras.need(module, "research.training.figures", "dev")

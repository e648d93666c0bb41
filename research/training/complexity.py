"""Train the predictor of image complexity: a nu support vector regressor.

Settings and kernel were chosen by cross-validation among the pictures that are not in PASCAL-50S, which are
for the test alone. Kendall's tau in five folds, for one random split (what `search` tries) or two (the rest,
with fewer settings). About 600 settings were tried in all, so differences below 0.005 mean little:

0.424  square roots of the features, 320 components, RBF: `search` finds this one
0.422  the same with 640 components; 0.421 with 256; 0.412 with 128
0.420  the same with exp(-distance) for exp(-distance squared); features that add up to 1: no better
0.417  the features themselves, RBF; less with components made alike in variance
0.412  square roots, linear

Predicting the logarithm or the rank of the difficulty, and ensembles, changed less than 0.002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from beamsplit import extras
from beamsplit.errors import ArgumentError
from beamsplit.models import storage
from beamsplit.models.complexity import Complexity, distances, roots
from research.data import Projection, read_described, read_features, read_projection

__all__ = ["Pictures", "Settings", "fit", "held_out", "search", "train"]

_STEPS = 127
_FOLDS = 5
_DRAWS = 1000  # of the bootstrap
# What `search` tries.
_COMPONENTS = (256, 320, 640)
_GAMMAS = (1.0, 2.0, 3.0)
_COSTS = (0.1, 0.15, 0.2, 0.3)
_NUS = (0.5, 0.6)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the regressor; the defaults are those that cross-validation chose."""

    components: int = 320
    """How many of the projection's to keep."""
    gamma: float = 2.0
    """How fast likeness fades: at the median squared distance it is exp(-gamma)."""
    cost: float = 0.15
    nu: float = 0.6


class Pictures(NamedTuple):
    """Features [n 1280] and people's scores [n]."""

    features: Tensor
    difficulty: Tensor


def fit(
    features: Tensor, difficulty: Tensor, projection: Projection, settings: Settings | None = None
) -> Complexity:
    """Return a predictor, trained on the difficulty [n] of pictures and their features [n 1280]."""
    settings = settings or Settings()
    _check(features, difficulty)
    kept = _kept(projection, settings.components)
    steps, scale = _quantise(kept.project(features.float()))
    apart = distances(*(roots(kept.undo(steps * scale)).double(),) * 2)
    gamma = storage.rounded(settings.gamma / apart.median()).item()
    machine = _machine(settings).fit(torch.exp(-gamma * apart).numpy(), difficulty.double().numpy())
    return Complexity(
        kept,
        scale,
        steps[torch.from_numpy(machine.support_).long()],
        torch.from_numpy(machine.dual_coef_[0]).float(),
        gamma,
        float(machine.intercept_[0]),
    )


def train(data: Path, out: Path, seed: int = 0) -> dict[str, float]:
    """Train on the data folder's pictures, write the predictor, and return its figures on PASCAL-50S.

    `seed` is for the bootstrap; the predictor itself is deterministic.
    """
    known, test, projection = held_out(data)
    made = fit(*known, projection)
    made.save(out)
    figures = {"train": len(known.features), "test": len(test.features), "support": len(made.support)}
    return {**figures, **_agreement(Complexity.load(out).predict(test.features), test.difficulty, seed)}


def held_out(data: Path) -> tuple[Pictures, Pictures, Projection]:
    """Return pictures to train on, those of PASCAL-50S to test on, and the projection of their features."""
    projection = read_projection(data / "captions" / "features.projection.npz")
    features = read_features(data / "complexity" / "voc2008.features.npz", projection)
    aside = {row.image for row in read_described(data / "captions" / "pascal50s.jsonl.gz")}
    scored = {row.image: row.difficulty for row in read_described(data / "complexity" / "voc2008.jsonl.gz")}
    parts = [[image for image in scored if (image in aside) == test] for test in (False, True)]
    known, test = (
        Pictures(features.of(part), torch.tensor([scored[image] for image in part], dtype=torch.float64))
        for part in parts
    )
    return known, test, projection


def search(known: Pictures, projection: Projection, seed: int = 0) -> list[tuple[float, Settings]]:
    """Return Kendall's tau in five-fold cross-validation for each of a grid of settings, best first."""
    stats = _need("scipy.stats")
    folds = _folds(len(known.features), seed)
    found = []
    for components in _COMPONENTS:
        kept = _kept(projection, components)
        seen = roots(kept.undo(kept.project(known.features))).double()
        apart = distances(seen, seen)
        apart /= apart.median()
        for gamma, cost, nu in product(_GAMMAS, _COSTS, _NUS):
            settings = Settings(components=components, gamma=gamma, cost=cost, nu=nu)
            alike = torch.exp(-gamma * apart).numpy()
            taus = [
                stats.kendalltau(predicted, truth).statistic
                for predicted, truth in _predictions(alike, known.difficulty.numpy(), folds, settings)
            ]
            found.append((sum(taus) / len(taus), settings))
    return sorted(found, key=lambda each: -each[0])


def _predictions(
    alike: Any, difficulty: Any, folds: list[Any], settings: Settings
) -> Iterator[tuple[Any, Any]]:
    """Yield for each fold the predictions of a regressor trained on the others, and the truth."""
    for place, fold in enumerate(folds):
        rest = torch.cat([each for other, each in enumerate(folds) if other != place]).numpy()
        machine = _machine(settings).fit(alike[rest][:, rest], difficulty[rest])
        yield machine.predict(alike[fold.numpy()][:, rest]), difficulty[fold.numpy()]


def _folds(count: int, seed: int) -> list[Tensor]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return list(order.tensor_split(_FOLDS))


def _machine(settings: Settings) -> Any:
    svm = _need("sklearn.svm")
    return svm.NuSVR(kernel="precomputed", C=settings.cost, nu=settings.nu, cache_size=500)


def _kept(projection: Projection, count: int) -> Projection:
    """Return the first components, rounded as they will be in the file."""
    return Projection(storage.rounded(projection.mean), storage.rounded(projection.components[:count]))


def _quantise(projected: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers as int8 [n short], and the size of a step in each dimension [short]."""
    scale = storage.rounded((projected.abs().amax(0) / _STEPS).clamp(min=torch.finfo(torch.float16).tiny))
    return (projected / scale).round().clamp(-_STEPS, _STEPS).to(torch.int8), scale


def _agreement(guess: Tensor, truth: Tensor, seed: int) -> dict[str, float]:
    """Return Kendall's tau, Spearman's rho and Pearson's r, each with a 95% bootstrap interval."""
    stats = _need("scipy.stats")
    measures: dict[str, Callable[..., Any]] = {
        "tau": stats.kendalltau,
        "rho": stats.spearmanr,
        "r": stats.pearsonr,
    }
    draws = torch.randint(
        len(guess), (_DRAWS, len(guess)), generator=torch.Generator().manual_seed(seed)
    ).numpy()
    x, y = guess.double().numpy(), truth.numpy()
    found: dict[str, float] = {}
    for name, measure in measures.items():
        drawn = torch.tensor([float(measure(x[rows], y[rows]).statistic) for rows in draws])
        low, high = drawn.quantile(torch.tensor([0.025, 0.975])).tolist()
        found |= {name: float(measure(x, y).statistic), f"{name}_low": low, f"{name}_high": high}
    return found


def _check(features: Tensor, difficulty: Tensor) -> None:
    if difficulty.shape != features.shape[:1]:
        raise ArgumentError(
            f"difficulty has shape {list(difficulty.shape)}, not [{len(features)}]: give one score a picture"
        )
    if len(features) < 2:
        raise ArgumentError(f"{len(features)} pictures are too few to learn from: give two or more")
    if not (features.isfinite().all() and difficulty.isfinite().all()):
        raise ArgumentError("features or difficulty has NaN or infinite values: leave those pictures out")


def _need(module: str) -> Any:
    return extras.need(module, "research.training.complexity", "dev")

"""One training loop for all networks: seeded, with averaged weights, and resumable.

What an epoch does depends on the seed and the epoch's number alone, and the state is written every now and
then, so a run that was killed goes on as if nothing had happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from beamsplit.errors import ArgumentError
from beamsplit.models import storage
from beamsplit.models.text import PAD
from beamsplit.progress import Progress

__all__ = ["Batch", "Examples", "Loss", "Recipe", "epoch_seed", "fit", "imitation", "mean_loss"]


SAVE_EVERY = 20.0  # seconds, and only between epochs: what is lost to a kill is that and an epoch


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How long and how hard to train."""

    epochs: int
    batch: int
    learning_rate: float = 1e-3
    warm_up: float = 0.05  # the part of all steps in which the learning rate rises; then it falls
    weight_decay: float = 0.01
    dropout: float = 0.3
    average: float = 0.999  # how much a step leaves of the running average of the weights
    clip: float = 1.0  # of the gradient's norm


class Batch(NamedTuple):
    """Examples: what a network is told, and what it is to say."""

    told: tuple[Tensor, ...]
    target: Tensor  # [batch time], padded
    picture: Tensor | None = None  # [batch] which of the pictures it is about, if it is

    def to(self, device: torch.device) -> Batch:
        return self._replace(told=tuple(each.to(device) for each in self.told), target=self.target.to(device))


Loss: TypeAlias = Callable[[Any, Batch], Tensor]
"""Of a network on a batch."""


class Examples(Protocol):
    """The training data."""

    steps: int
    """Batches in an epoch."""

    def epoch(self, number: int) -> Iterable[Batch]: ...
    def valid(self) -> Iterable[Batch]: ...


def imitation(*, smoothing: float, teachers: Sequence[nn.Module] = (), distil: float = 0.5) -> Loss:
    """Cross-entropy with what people said, labels smoothed, and for a part with what teachers would say."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits, target = _said(model, batch)
        own = nn.functional.cross_entropy(logits.float(), target, label_smoothing=smoothing)
        return torch.lerp(own, _disagreement(logits, batch, teachers), distil) if teachers else own

    return loss


def fit(
    model: nn.Module,
    examples: Examples,
    recipe: Recipe,
    *,
    state: Path,
    seed: int = 0,
    device: torch.device,
    loss: Loss,
    progress: Progress,
    about: Mapping[str, Any] | None = None,
) -> float:
    """Train in place, and end with the averaged weights; their cross-entropy on the validation part.

    A state is gone on with only if it is of the same recipe, data and beginning, and of the same settings of
    the loss, which `about` tells.
    """
    settings = {
        **asdict(recipe),
        **(about or {}),
        "seed": seed,
        "steps": examples.steps * recipe.epochs,
        "data": _fingerprint_of_data(examples),
        "beginning": storage.fingerprint(model.state_dict().values()),
    }
    model.to(device).train()
    run = _Run(model, recipe, settings, device)
    first = run.resume(state)
    saved, valid = -math.inf, math.nan
    with progress.bar(recipe.epochs * examples.steps, first * examples.steps) as bar:
        for epoch in range(first, recipe.epochs):
            torch.manual_seed(epoch_seed(seed, epoch))
            for number, batch in enumerate(examples.epoch(epoch)):
                now = run.step(batch.to(device), loss)
                bar.advance(now if number % 50 == 0 else None)
            if time.monotonic() - saved > SAVE_EVERY or epoch + 1 == recipe.epochs:
                run.save(state, epoch + 1)
                saved = time.monotonic()
            with run.averaged():
                valid = mean_loss(model, examples.valid(), device)
            bar.epoch(epoch + 1, valid)
    run.keep_averages()
    model.eval()
    return mean_loss(model, examples.valid(), device) if math.isnan(valid) else valid


@torch.no_grad()
def mean_loss(model: nn.Module, batches: Iterable[Batch], device: torch.device) -> float:
    """Cross-entropy for each token, in nats."""
    training = model.training
    model.eval()
    total, count = 0.0, 0
    for batch in batches:
        with _half_precision(device):
            logits, target = _said(model, batch.to(device))
        total += float(nn.functional.cross_entropy(logits.float(), target, reduction="sum"))
        count += target.numel()
    model.train(training)
    return total / max(count, 1)


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for each epoch of each run."""
    return seed * 100_003 + epoch


class _Run:
    """The network with all that changes while it is trained."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, settings: dict[str, Any], device: torch.device
    ) -> None:
        self.model = model
        self.settings = settings
        self.recipe = recipe
        self.device = device
        self.parameters = list(model.parameters())
        self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self.optimiser = torch.optim.AdamW(
            self.parameters,
            lr=recipe.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=recipe.weight_decay,
            fused=device.type == "cuda",
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, _rise_and_fall(recipe.warm_up, settings["steps"])
        )
        self.steps = 0

    def step(self, batch: Batch, loss: Loss) -> Tensor:
        with _half_precision(self.device):
            value = loss(self.model, batch)
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        self.optimiser.step()
        self.schedule.step()
        self._average()
        return value.detach()

    def _average(self) -> None:
        self.steps += 1
        # A young average forgets its beginnings faster.
        keep = min(self.recipe.average, self.steps / (self.steps + 10))
        with torch.no_grad():
            get_ema_multi_avg_fn(keep)(self.averages, self.parameters, 0)  # type: ignore[no-untyped-call]

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with the averaged weights, for a while."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.keep_averages()
        yield
        _put(self.parameters, own)

    def keep_averages(self) -> None:
        _put(self.parameters, self.averages)

    def save(self, path: Path, epochs: int) -> None:
        content = BytesIO()
        torch.save(
            {
                "settings": self.settings,
                "epochs": epochs,
                "steps": self.steps,
                "model": self.model.state_dict(),
                "averages": self.averages,
                "optimiser": self.optimiser.state_dict(),
                "schedule": self.schedule.state_dict(),
            },
            content,
        )
        storage.write_bytes(path, content.getvalue())

    def resume(self, path: Path) -> int:
        """How many epochs there have been before."""
        if not path.exists():
            return 0
        try:
            saved = torch.load(path, map_location=self.device, weights_only=True)
        except Exception as error:  # torch raises all kinds
            raise ArgumentError(f"{path} is no state of a training: delete it to begin anew") from error
        changed = {
            name: (saved["settings"].get(name), value)
            for name, value in self.settings.items()
            if saved["settings"].get(name) != value
        }
        if changed:
            name, (before, now) = next(iter(changed.items()))
            raise ArgumentError(
                f"{path} is of a run with {name} {before}, not {now}: train with the same settings to go on "
                "with it, or delete it to begin anew"
            )
        self.model.load_state_dict(saved["model"])
        _put(self.averages, saved["averages"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.schedule.load_state_dict(saved["schedule"])
        self.steps = saved["steps"]
        return int(saved["epochs"])


def _fingerprint_of_data(examples: Examples) -> str:
    """Of all that is to be said in an epoch and in validation, and of what the first batch is told."""
    first, *rest = examples.epoch(0)
    said = (batch.target for batch in (first, *rest, *examples.valid()))
    return storage.fingerprint([*first.told, *said])


def _said(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits [n vocabulary] and targets [n] of all tokens that are no padding."""
    spoken = batch.target != PAD
    return model.logits(model.teach(*batch.told, batch.target)[spoken]), batch.target[spoken]


def _disagreement(logits: Tensor, batch: Batch, teachers: Sequence[nn.Module]) -> Tensor:
    """The cross-entropy of the student with what the teachers hold likely on average."""
    with torch.no_grad():
        opinions = [_said(teacher, batch)[0].float().softmax(1) for teacher in teachers]
        opinion = torch.stack(opinions).mean(0)
    return nn.functional.cross_entropy(logits.float(), opinion)


def _rise_and_fall(warm_up: float, steps: int) -> Callable[[int], float]:
    """Linear up, then along a cosine down to nothing."""
    rising = max(1, round(warm_up * steps))

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1, steps - rising))))

    return factor


def _half_precision(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


@torch.no_grad()
def _put(into: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for place, value in zip(into, values, strict=True):
        place.copy_(value)

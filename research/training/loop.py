"""Train any of the networks: one loop, seeded, with averaged weights, and resumable.

An epoch depends on the seed and the epoch's number alone, and the state is saved regularly, so a run that was
killed continues as if nothing had happened.
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
from beamsplit.files import write_bytes
from beamsplit.models import storage
from beamsplit.models.text import PAD
from research.training.progress import TrainingProgress

__all__ = ["Batch", "Examples", "Loss", "Recipe", "epoch_seed", "fit", "imitation", "mean_loss"]


SAVE_EVERY = 20.0  # seconds, and only between epochs: a kill loses so much and one epoch


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training: epochs, batch and optimiser."""

    epochs: int
    batch: int
    learning_rate: float = 1e-3
    warm_up: float = 0.05  # the share of all steps in which the learning rate rises; then it falls
    weight_decay: float = 0.01
    dropout: float = 0.3
    average: float = 0.999  # decay of the running average of the weights, a step
    clip: float = 1.0  # the largest norm of the gradient


class Batch(NamedTuple):
    """Examples: the inputs of a network, and its target outputs."""

    inputs: tuple[Tensor, ...]
    target: Tensor  # [batch time], padded
    picture: Tensor | None = None  # [batch] the index of the example's picture, if it has one

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        inputs = tuple(each.to(device) for each in self.inputs)
        return self._replace(inputs=inputs, target=self.target.to(device))


Loss: TypeAlias = Callable[[Any, Batch], Tensor]
"""From a network and a batch to the loss."""


class Examples(Protocol):
    """Training data: batches of each epoch, and of the validation part."""

    steps: int
    """Batches in an epoch."""

    def epoch(self, number: int) -> Iterable[Batch]: ...
    def valid(self) -> Iterable[Batch]: ...


def imitation(*, smoothing: float, teachers: Sequence[nn.Module] = (), distil: float = 0.5) -> Loss:
    """Return a cross-entropy loss with smoothed labels; a share `distil` of it is with the teachers."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits, target = _logits_and_targets(model, batch)
        own = nn.functional.cross_entropy(logits.float(), target, label_smoothing=smoothing)
        return torch.lerp(own, _distillation(logits, batch, teachers), distil) if teachers else own

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
    progress: TrainingProgress,
    about: Mapping[str, Any] | None = None,
) -> float:
    """Train a model in place to its averaged weights, and return their validation cross-entropy.

    A saved state is resumed only if recipe, data and initial weights are the same, and the settings of the
    loss, which `about` has.
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
    """Return the mean cross-entropy a token, in nats."""
    training = model.training
    model.eval()
    total, count = 0.0, 0
    for batch in batches:
        with _half_precision(device):
            logits, target = _logits_and_targets(model, batch.to(device))
        total += float(nn.functional.cross_entropy(logits.float(), target, reduction="sum"))
        count += target.numel()
    model.train(training)
    return total / max(count, 1)


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of an epoch."""
    return seed * 100_003 + epoch


class _Run:
    """A network and the state of its training."""

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
        """Take one step of the optimiser, and return the loss."""
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
        # At first the average decays faster, so that it forgets the initial weights.
        keep = min(self.recipe.average, self.steps / (self.steps + 10))
        with torch.no_grad():
            get_ema_multi_avg_fn(keep)(self.averages, self.parameters, 0)  # type: ignore[no-untyped-call]

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Give the network its averaged weights for the length of a block."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        self.keep_averages()
        yield
        _put(self.parameters, own)

    def keep_averages(self) -> None:
        """Give the network its averaged weights."""
        _put(self.parameters, self.averages)

    def save(self, path: Path, epochs: int) -> None:
        """Write the state after so many epochs."""
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
        write_bytes(path, content.getvalue())

    def resume(self, path: Path) -> int:
        """Read the state, if there is one, and return how many epochs it has."""
        if not path.exists():
            return 0
        try:
            saved = torch.load(path, map_location=self.device, weights_only=True)
        except Exception as error:  # torch raises all kinds
            raise ArgumentError(
                f"{path} is not a saved state of a training: delete it to start again"
            ) from error
        changed = {
            name: (saved["settings"].get(name), value)
            for name, value in self.settings.items()
            if saved["settings"].get(name) != value
        }
        if changed:
            name, (before, now) = next(iter(changed.items()))
            raise ArgumentError(
                f"{path} is of a run with {name} {before}, not {now}: train with the same settings to resume "
                "it, or delete it to start again"
            )
        self.model.load_state_dict(saved["model"])
        _put(self.averages, saved["averages"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.schedule.load_state_dict(saved["schedule"])
        self.steps = saved["steps"]
        return int(saved["epochs"])


def _fingerprint_of_data(examples: Examples) -> str:
    """Return a fingerprint of the targets of an epoch and of validation, and of the first batch's inputs."""
    first, *rest = examples.epoch(0)
    targets = (batch.target for batch in (first, *rest, *examples.valid()))
    return storage.fingerprint([*first.inputs, *targets])


def _logits_and_targets(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the logits [n vocabulary] and targets [n] of all tokens that are not padding."""
    is_token = batch.target != PAD
    return model.logits(model.teach(*batch.inputs, batch.target)[is_token]), batch.target[is_token]


def _distillation(logits: Tensor, batch: Batch, teachers: Sequence[nn.Module]) -> Tensor:
    """Return the cross-entropy of the student with the mean distribution of the teachers."""
    with torch.no_grad():
        distributions = [_logits_and_targets(teacher, batch)[0].float().softmax(1) for teacher in teachers]
        mean = torch.stack(distributions).mean(0)
    return nn.functional.cross_entropy(logits.float(), mean)


def _rise_and_fall(warm_up: float, steps: int) -> Callable[[int], float]:
    """Return the schedule of the learning rate: linear up, then along a cosine down to 0."""
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

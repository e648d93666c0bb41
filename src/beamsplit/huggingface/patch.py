"""Bring `num_beam_groups` back to `generate` itself."""

from __future__ import annotations

import functools
from typing import Any

from transformers import StoppingCriteriaList
from transformers.generation.stopping_criteria import StopStringCriteria
from transformers.generation.utils import GenerationMixin

from beamsplit.errors import ArgumentError
from beamsplit.huggingface.generate import diverse_beam_search

__all__ = ["install", "uninstall"]


def install() -> None:
    """Patch transformers, so that `generate` and pipelines take num_beam_groups again.

    Replaces `GenerationMixin.generate`, for the whole process: calls that ask for more than one beam group
    go to `diverse_beam_search`, all others to transformers as before. Undo it with `uninstall()`.
    """
    if _original() is None:
        GenerationMixin.generate = _patched(GenerationMixin.generate)


def uninstall() -> None:
    """Give transformers its own `generate` back."""
    original = _original()
    if original is not None:
        GenerationMixin.generate = original


def _original() -> Any:
    return getattr(GenerationMixin.generate, "beamsplit_replaces", None)


def _patched(generate: Any) -> Any:
    @functools.wraps(generate)
    def generate_in_groups(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = kwargs.get("generation_config") or (args[1] if len(args) > 1 else None)
        if kwargs.get("custom_generate") is not None or _groups(self, config, kwargs) <= 1:
            return generate(self, *args, **kwargs)
        return generate(self, *args, **_prepared(kwargs), custom_generate=diverse_beam_search)

    generate_in_groups.beamsplit_replaces = generate  # type: ignore[attr-defined]
    return generate_in_groups


def _groups(model: Any, config: Any, kwargs: dict[str, Any]) -> int:
    """How many groups are asked for: by the call, by its generation config, or by the model's."""
    for asked in (kwargs, vars(config) if config is not None else {}, vars(model.generation_config)):
        if asked.get("num_beam_groups") is not None:
            return int(asked["num_beam_groups"])
    return 1


def _prepared(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The same call, in the form that `generate` passes on to a decoding loop."""
    kwargs = dict(kwargs)
    kwargs.pop("custom_generate", None)
    kwargs.pop("trust_remote_code", None)
    if kwargs.pop("streamer", None) is not None:
        raise ArgumentError(
            "a streamer cannot show several beams: give on_step=, a function that gets every step's lists"
        )
    if kwargs.get("stop_strings") is not None and kwargs.get("tokenizer") is not None:
        criterion = StopStringCriteria(kwargs.pop("tokenizer"), kwargs.pop("stop_strings"))
        kwargs["stopping_criteria"] = StoppingCriteriaList(
            [*(kwargs.get("stopping_criteria") or []), criterion]
        )
    return kwargs

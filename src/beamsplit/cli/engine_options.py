"""Options of commands whose model a serving engine may have: --engine and what goes with it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from beamsplit.errors import ArgumentError

if TYPE_CHECKING:
    from beamsplit.engines import EngineModel

__all__ = ["NO_ENGINE", "EngineOptions", "with_engine_options"]

_KINDS = ("vllm", "sglang", "llama.cpp", "texts")  # of `engines.connecting`, which takes a while to import


@dataclass(frozen=True)
class EngineOptions:
    """Which engine to ask, and how to talk to it; none without a URL."""

    url: str | None
    kind: str | None = None
    tokenizer: str | None = None
    end: tuple[str, ...] = ()

    @property
    def description(self) -> dict[str, Any]:
        """What outputs depend on, for a file: where the engine is does not matter."""
        if self.url is None:
            return {}
        return {"engine": self.kind or "any", "tokenizer": self.tokenizer, "end": list(self.end)}

    @property
    def _ends(self) -> list[int | str]:
        by_text = self.kind == "texts"
        return [each if by_text and not each.isdecimal() else _token_id(each) for each in self.end]

    def connect(
        self, model: str | None, device: str | None, template: dict[str, Any] | None = None
    ) -> EngineModel:
        """Return the engine's model of this name; None is its only one."""
        assert self.url is not None
        if device is not None:
            raise ArgumentError(f"--device is {device!r}, and the model runs on the engine: leave it out")
        from beamsplit.engines import connect

        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "nobody knows the end token"
            )  # which is said below, in other words
            found = connect(
                self.url,
                model,
                kind=self.kind,  # type: ignore[arg-type]  # click has checked it
                tokenizer=self.tokenizer,
                end=self._ends or None,
                chat_template_kwargs=template,
            )
        if found.end is None:
            click.echo(
                f"beamsplit: nobody knows the end token of {found.engine.name}, so outputs go on as long as "
                "they may: give --end or --tokenizer",
                err=True,
            )
        return found


NO_ENGINE = EngineOptions(None)


def _token_id(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentError(f"--end is {text!r}: give the id of a token, or --engine-kind texts")
    return int(text)


_OPTIONS = (
    click.option(
        "--engine",
        "engine_url",
        metavar="URL",
        help="Decode on a serving engine (vLLM, SGLang, llama.cpp) at http://HOST:PORT; --model is "
        "its name there. A key is read from the environment variable BEAMSPLIT_ENGINE_KEY.",
    ),
    click.option(
        "--engine-kind",
        type=click.Choice(_KINDS),
        help="With --engine: its kind, if it does not tell; texts is for one that knows no token ids.",
    ),
    click.option(
        "--tokenizer",
        metavar="NAME",
        help="With --engine: a tokenizer of transformers, by folder or name (default: the model's, or the "
        "engine's own).",
    ),
    click.option(
        "--end",
        multiple=True,
        metavar="ID",
        help="With --engine: the id of a token that ends an output, if nobody knows it; repeatable.",
    ),
)


def with_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --engine and what goes with it, which the command gets as `engine`."""

    @functools.wraps(command)
    def called(
        engine_url: str | None,
        engine_kind: str | None,
        tokenizer: str | None,
        end: tuple[str, ...],
        **options: Any,
    ) -> None:
        for name, value in {"--engine-kind": engine_kind, "--tokenizer": tokenizer, "--end": end}.items():
            if value and engine_url is None:
                raise ArgumentError(f"{name} is for --engine, which is not given: give both, or neither")
        command(engine=EngineOptions(engine_url, engine_kind, tokenizer, end), **options)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called

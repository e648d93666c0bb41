"""vLLM in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from beamsplit import checks
from beamsplit.engines.candidates import Candidates, Order, Prefix
from beamsplit.engines.drawing import drawn_of, sampling_of
from beamsplit.engines.model import EngineModel
from beamsplit.engines.tokenizers import load_tokenizer
from beamsplit.engines.vocabularies import PlainVocabulary, TokenizerVocabulary, Vocabulary
from beamsplit.errors import ArgumentError, EngineError
from beamsplit.model import Drawing, Drawn

__all__ = ["from_vllm"]


def from_vllm(
    llm: Any,
    *,
    tokenizer: Any = None,
    end: int | Sequence[int] | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> EngineModel:
    """Return a `vllm.LLM` of this process as a model, for `decode` and everything else.

    Each step is one call of it for all beams of all inputs. Prefix caching, which is on unless it is switched
    off, keeps it from reading prompts again. `LLM(max_logprobs=...)` says how many candidates it lists, 20 by
    default, which are enough for 18 beams and one end token.

    Args:
        llm: the `vllm.LLM`.
        tokenizer: one of transformers, or its name or folder; by default, the engine's own.
        end: the ids of the tokens that end an output, () for none; by default, those of the model's settings.
        chat_template_kwargs: arguments of the chat template.
    """
    try:
        import vllm
    except ImportError as error:
        raise ImportError("from_vllm needs vllm: pip install vllm") from error
    if not isinstance(llm, vllm.LLM):
        raise ArgumentError(f"llm must be a vllm.LLM, not {checks.short_repr(llm)}: LLM(model=...) makes one")
    return EngineModel(
        _Vllm(llm, vllm.SamplingParams), _vocabulary(llm, tokenizer, end, chat_template_kwargs)
    )


class _Vllm:
    """Asks an `LLM` for one token of each prefix, or for chunks."""

    blocks = True
    draws = True
    tells_rest = True

    def __init__(self, llm: Any, parameters: Any) -> None:
        config = llm.model_config
        self.model = str(config.served_model_name or config.model)
        self.name = f"{self.model} in vLLM"
        self.most: int | None = None if config.max_logprobs < 0 else config.max_logprobs
        self.longest: int | None = config.max_model_len
        self._llm = llm
        self._parameters = parameters
        self._lock = threading.Lock()  # an LLM has one caller at a time
        self._check_mode(config)

    async def candidates(self, prefixes: Sequence[Prefix], count: int) -> list[Candidates]:
        asked = min(
            count, self._llm.model_config.get_vocab_size(), *([] if self.most is None else [self.most])
        )
        parameters = self._parameters(max_tokens=1, temperature=0.0, logprobs=asked, detokenize=False)
        if hasattr(
            parameters, "skip_clone"
        ):  # nobody else has these; a deep copy a row takes a sixth of a step
            parameters.skip_clone = True
        return [_read(output, asked) for output in self._generate(prefixes, parameters)]

    async def draw(self, orders: Sequence[Order], drawing: Drawing) -> list[list[Drawn]]:
        """Return for each order as many chunks, all by one call."""
        parameters = [self._parameters(**sampling_of(order, drawing), logprobs=0) for order in orders]
        outputs = self._generate([order.prefix for order in orders], parameters)
        return [[_drawn(chunk) for chunk in output.outputs] for output in outputs]

    def _generate(self, prefixes: Sequence[Prefix], parameters: Any) -> list[Any]:
        prompts = [{"prompt_token_ids": list(prefix)} for prefix in prefixes]
        try:
            with self._lock:
                outputs = self._llm.generate(prompts, parameters, use_tqdm=False)
        except ValueError as error:  # what vLLM refuses
            raise EngineError(f"{self.name} refused: {checks.reason(error)}") from error
        if len(outputs) != len(prefixes):
            raise EngineError(f"{self.name} answered for {len(outputs)} prompts of {len(prefixes)}")
        return list(outputs)

    async def aclose(self) -> None:
        """Do nothing: the engine is its owner's."""

    def _check_mode(self, config: Any) -> None:
        mode = getattr(config, "logprobs_mode", "raw_logprobs")
        if mode != "raw_logprobs":
            raise ArgumentError(
                f"{self.name} tells {mode}, and a search needs the model's own log-probabilities: make it "
                "with logprobs_mode='raw_logprobs', its default"
            )


def _read(output: Any, count: int) -> Candidates:
    listed = output.outputs[0].logprobs
    if not listed:
        raise EngineError("vLLM gave no log-probabilities for a prompt: is it as long as the model can take?")
    return Candidates.of({int(token): entry.logprob for token, entry in listed[0].items()}, count)


def _drawn(chunk: Any) -> Drawn:
    tokens = list(chunk.token_ids)
    told = [by_token[token].logprob for token, by_token in zip(tokens, chunk.logprobs, strict=True)]
    return drawn_of(tokens, told)


def _vocabulary(llm: Any, tokenizer: Any, end: Any, template: Mapping[str, Any] | None) -> Vocabulary:
    ends = checks.materialise(end)
    named = None if ends is None else ends if isinstance(ends, list) else [ends]
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer, _ = load_tokenizer(os.fspath(tokenizer))
    if tokenizer is None and not llm.model_config.skip_tokenizer_init:
        tokenizer = llm.get_tokenizer()
    of_model = _ends_of_model(llm)
    if tokenizer is None:
        return PlainVocabulary(named if named is not None else of_model or None)
    return TokenizerVocabulary(tokenizer, named, template, of_model)


def _ends_of_model(llm: Any) -> list[int]:
    """Return the end tokens of the model's generation config, or of its config."""
    settings = llm.model_config.try_get_generation_config()
    found = settings.get("eos_token_id", getattr(llm.model_config.hf_config, "eos_token_id", None))
    found = checks.materialise(found)
    return found if isinstance(found, list) else [] if found is None else [int(found)]

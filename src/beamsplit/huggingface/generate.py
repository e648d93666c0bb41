"""Decoding loops for `generate`, with the names that its users know."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

import beamsplit
from beamsplit import checks
from beamsplit.diversity import Diversity
from beamsplit.diversity.names import make_term, read_term
from beamsplit.errors import ArgumentError, ModelError
from beamsplit.huggingface.model import Observer, Prompt, TransformersModel, real_ends
from beamsplit.huggingface.output import OutputRecorder, Returned, make_output
from beamsplit.huggingface.processors import Processors, stop_by
from beamsplit.huggingface.sampling import warn_of_unasked_sampling
from beamsplit.huggingface.scoring import AsIn455, GenerationScorer
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.search.chunks.boundaries import Chunk
from beamsplit.search.plan import Strategy
from beamsplit.search.softening import soften_answer
from beamsplit.search.step import Step
from beamsplit.search.stopping import Settled
from beamsplit.similarity import GivenSimilarity
from beamsplit.strategies import DiverseBeamSearch, DiverseChunks, DiverseSampling, LateBranching

__all__ = ["diverse_beam_search", "diverse_chunks", "late_branching"]


def diverse_beam_search(
    model: Any,
    input_ids: Tensor,
    *,
    logits_processor: Iterable[Any] = (),
    stopping_criteria: Iterable[Any] = (),
    generation_config: Any,
    num_beams: int | None = None,
    num_beam_groups: int | None = None,
    diversity_penalty: float | Sequence[float] | None = None,
    length_penalty: float | None = None,
    early_stopping: bool | Literal["never"] | None = None,
    num_return_sequences: int | None = None,
    return_per_group: int | None = None,
    diversity: str | Diversity = "hamming",
    unique: bool = False,
    model_temperature: float = 1.0,
    seed: int | Sequence[int] | None = None,
    on_step: Callable[[Step], object] | None = None,
    beam_cache: bool = True,
    **model_kwargs: Any,
) -> Any:
    """Give this to `generate`: `model.generate(**inputs, custom_generate=diverse_beam_search, ...)`.

    Args:
        num_beams: beams of all groups together.
        num_beam_groups: how many groups; must divide num_beams.
        diversity_penalty: weighs the penalty for saying what earlier groups say; one number, or one a group.
        length_penalty, early_stopping: as ever; see `GenerationScorer`.
        num_return_sequences: at most num_beams. Every group's best are chosen first, then the second best,
            and so on; what is chosen is then put in the order of its score.
        return_per_group: so many of each group, in the order of the groups, instead.
        diversity: a term, or its name, perhaps with settings: "hamming", "cumulative:temperature=2", "ngram",
            or "embedding" (with the model's own embeddings of the tokens that it outputs).
        unique: return no sequence twice; look on for the next best. If an input has fewer than are asked for,
            its last sequences are empty, with a score of -inf, and a warning says so.
        model_temperature: the model's logits are divided by it before the search, with or without sampling
            (`temperature` is for do_sample=True, and comes on top). `scores` and `sequences_scores` are of
            the softened model, `log_probs` of the model itself.
        seed: for do_sample=True; by default drawn from torch's generator, which `set_seed` controls.
        on_step: called after every step with a `beamsplit.Step`, whose `hypotheses` are the lists so far.
        beam_cache: store the keys and values of a prompt once for all its beams. False gives each beam a
            cache of its own, as `generate` does: the results are the same.

    All other settings are those of `generate`. Returns what it returns: sequences, or, with
    return_dict_in_generate=True, its output for beams with `log_probs` and `groups` besides.

    Warns once if it samples because the model's generation config or a pipeline says do_sample=True, and the
    call does not say which it wants.
    """
    _refuse(generation_config, on_step)
    beam_cache = checks.true_or_false("beam_cache", beam_cache)
    asked = _Request.of(
        generation_config,
        num_beams,
        num_beam_groups,
        diversity_penalty,
        num_return_sequences,
        return_per_group,
    )
    sampling = bool(getattr(generation_config, "do_sample", False))
    if sampling:
        warn_of_unasked_sampling(model)
    processors = Processors(logits_processor, sampled_by=generation_config if sampling else None)
    prompt = Prompt(input_ids, model_kwargs, processors, generation_config, _rows_an_input(generation_config))
    prompts = prompt.input_ids[prompt.rows]
    scorer = _scorer(generation_config, length_penalty, early_stopping, asked.groups)
    softened = checks.positive("model_temperature", model_temperature) != 1
    guided = bool(prompt.processors) or softened
    recorder = OutputRecorder(asked.beams, asked.groups, guided, scorer, generation_config)
    observer = _softened(recorder.observer, model_temperature) if softened else recorder.observer
    door = TransformersModel(model, lambda inputs: inputs, observer=observer, beam_cache=beam_cache)
    strategy = _strategy(door, asked, generation_config, diversity, sampling)
    search = beamsplit.steps(
        door,
        prompt,
        strategy,
        max_length=generation_config.max_length - prompts.shape[1],
        end=_ends(model, generation_config),
        stop=stop_by(stopping_criteria, prompts),
        scorer=scorer,
        unique=unique,
        model_temperature=model_temperature,
        return_per_group=return_per_group,
        seed=_seed(seed, sampling),
    )
    for step in search:
        recorder.keep(step)
        if on_step is not None:
            on_step(step)
    reason = "that differ" if unique else "that logits processors and constraints allow"
    lists = [_returned(found, index, asked, recorder) for index, found in enumerate(step.hypotheses)]
    return make_output(model, prompts, _filled_up(lists, asked, reason), recorder)


def late_branching(
    model: Any,
    input_ids: Tensor,
    *,
    logits_processor: Iterable[Any] = (),
    stopping_criteria: Iterable[Any] = (),
    generation_config: Any,
    num_beams: int | None = None,
    num_return_sequences: int | None = None,
    length_penalty: float | None = None,
    strength: float = 0.8,
    on_step: Callable[[Step], object] | None = None,
    beam_cache: bool = True,
    **model_kwargs: Any,
) -> Any:
    """Give this to `generate`: `generate(**inputs, custom_generate=late_branching, num_return_sequences=6)`.

    Args:
        num_return_sequences: how many outputs to return, all different and in the order of choice; 1 by
            default, as of any `generate`.
        num_beams: how many to look for, if more than are returned. It costs about as much as a beam search of
            the same width.
        length_penalty: as ever; see `GenerationScorer`.
        strength: what it costs to say what other outputs say; see `beamsplit.LateBranching`.
        on_step: called after every step with a `beamsplit.Step`, whose `hypotheses` are the lists so far.
        beam_cache: store the keys and values of a prompt once for all its beams. False gives each beam a
            cache of its own, as `generate` does: the results are the same.

    If an input has fewer different outputs than that, its last sequences are empty, with a score of -inf, and
    a warning says so.

    It never samples, whatever the model's generation config says. All other settings are those of `generate`.
    Returns sequences, or, with return_dict_in_generate=True, its output for beams with `log_probs` besides
    and without `scores`, `logits` and `beam_indices`.
    """
    _refuse(generation_config, on_step)
    beam_cache = checks.true_or_false("beam_cache", beam_cache)
    _refuse_scores(generation_config, "late_branching")
    _refuse_groups({**vars(generation_config), **model_kwargs}, "late_branching")
    beams = checks.at_least("num_beams", _given(num_beams, generation_config, "num_beams", 1), 1)
    returned = _given(num_return_sequences, generation_config, "num_return_sequences", 1)
    outputs = max(beams, checks.at_least("num_return_sequences", returned, 1))
    sampled_by = generation_config if getattr(generation_config, "do_sample", False) else None
    processors = Processors(logits_processor, sampled_by=sampled_by)
    prompt = Prompt(input_ids, model_kwargs, processors, generation_config, _rows_an_input(generation_config))
    prompts = prompt.input_ids[prompt.rows]
    scorer = _scorer(generation_config, length_penalty, None, groups=1)
    search = beamsplit.steps(
        TransformersModel(model, lambda inputs: inputs, beam_cache=beam_cache),
        prompt,
        LateBranching(outputs=outputs, strength=strength),
        max_length=generation_config.max_length - prompts.shape[1],
        end=_ends(model, generation_config),
        stop=stop_by(stopping_criteria, prompts),
        scorer=scorer,
    )
    for step in search:
        if on_step is not None:
            on_step(step)
    asked = _Request(outputs, outputs, (), returned, None)
    recorder = OutputRecorder(outputs, outputs, False, scorer, generation_config)
    lists = [_first_returned(found, asked, scorer) for found in step.hypotheses]
    return make_output(model, prompts, _filled_up(lists, asked, "that differ"), recorder)


def diverse_chunks(
    model: Any,
    input_ids: Tensor,
    *,
    logits_processor: Iterable[Any] = (),
    stopping_criteria: Iterable[Any] = (),
    generation_config: Any,
    num_return_sequences: int | None = None,
    to_text: Any = None,
    length_penalty: float | None = None,
    strength: float | Sequence[float] = 3.0,
    proposals: int = 4,
    chunk: Chunk = "sentence",
    longest: int = 60,
    similarity: GivenSimilarity = "meaning",
    unique: bool = False,
    seed: int | Sequence[int] | None = None,
    on_step: Callable[[Step], object] | None = None,
    beam_cache: bool = True,
    **model_kwargs: Any,
) -> Any:
    """Give this to `generate`: `generate(**inputs, custom_generate=diverse_chunks, to_text=tokenizer, ...)`.

    Outputs differ in meaning: at the end of each chunk, such as a sentence, each takes of its `proposals` the
    one of highest score, less its likeness to what outputs before it say. See `beamsplit.DiverseChunks`.

    Args:
        num_return_sequences: how many outputs to return, in the order of choice; 1 by default, as of any
            `generate`.
        to_text: the tokenizer, or a function that turns a tuple of tokens into text.
        length_penalty: as ever; see `GenerationScorer`.
        strength: weighs likeness, from 0 to 1, against score; one number, or one an output.
        proposals: how many next chunks an output has to choose among. With do_sample=True they are samples,
            drawn with the temperature, top_k, top_p and min_p of `generate`; otherwise diverse beams.
        chunk, longest: where a chunk ends ("sentence", "line", a number of tokens or a function of its text),
            and the most tokens that it may have.
        similarity: "meaning", "content", "tokens", "encoder:NAME", an encoder, or a function of two
            hypotheses.
        unique: return no sequence twice, if there is another.
        seed: for do_sample=True; by default drawn from torch's generator, which `set_seed` controls.
        on_step: called after every round with a `beamsplit.Step`, whose `hypotheses` are the lists so far.
        beam_cache: store the keys and values of a prompt once for all its rows. The results are the same.

    All other settings are those of `generate`. Returns sequences, or, with return_dict_in_generate=True, its
    output for beams with `log_probs` besides and without `scores`, `logits` and `beam_indices`.
    """
    _refuse(generation_config, on_step)
    beam_cache = checks.true_or_false("beam_cache", beam_cache)
    _refuse_scores(generation_config, "diverse_chunks")
    _refuse_groups({**vars(generation_config), **model_kwargs}, "diverse_chunks")
    returned = _given(num_return_sequences, generation_config, "num_return_sequences", 1)
    outputs = checks.at_least("num_return_sequences", returned, 1)
    sampling = bool(getattr(generation_config, "do_sample", False))
    processors = Processors(logits_processor, sampled_by=generation_config if sampling else None)
    prompt = Prompt(input_ids, model_kwargs, processors, generation_config, _rows_an_input(generation_config))
    prompts = prompt.input_ids[prompt.rows]
    scorer = _scorer(generation_config, length_penalty, None, groups=1)
    strategy = DiverseChunks(
        groups=outputs,
        strength=strength,
        proposals=proposals,
        chunk=chunk,
        longest=longest,
        similarity=similarity,
        propose="samples" if sampling else "beams",
        **(_sampling_settings(generation_config) if sampling else {}),
    )
    search = beamsplit.steps(
        TransformersModel(model, lambda inputs: inputs, to_text=_reader(to_text), beam_cache=beam_cache),
        prompt,
        strategy,
        max_length=generation_config.max_length - prompts.shape[1],
        end=_ends(model, generation_config),
        stop=stop_by(stopping_criteria, prompts),
        scorer=scorer,
        unique=unique,
        seed=_seed(seed, sampling),
    )
    for step in search:
        if on_step is not None:
            on_step(step)
    asked = _Request(outputs, outputs, (), returned, None)
    recorder = OutputRecorder(outputs, outputs, False, scorer, generation_config)
    lists = [_first_returned(found, asked, scorer) for found in step.hypotheses]
    return make_output(model, prompts, _filled_up(lists, asked, "that are allowed"), recorder)


def _reader(to_text: Any) -> Callable[[tuple[int, ...]], str]:
    """Return a function that turns tokens into text, given that or a tokenizer."""
    decode = getattr(to_text, "decode", None)
    if callable(decode):
        return lambda tokens: str(decode(list(tokens), skip_special_tokens=True))
    if callable(to_text):
        read: Callable[[tuple[int, ...]], str] = to_text
        return read
    raise ArgumentError(
        "diverse_chunks reads what it has said: give generate the tokenizer, as to_text=tokenizer"
    )


def _refuse_scores(config: Any, name: str) -> None:
    for output in ("output_scores", "output_logits"):
        if config.return_dict_in_generate and getattr(config, output, False):
            raise ArgumentError(f"{output}=True is not possible with {name}: use diverse_beam_search")


def _refuse_groups(settings: Mapping[str, Any], loop: str) -> None:
    for name, unset in (("num_beam_groups", 1), ("diversity_penalty", 0)):
        if settings.get(name) not in (None, unset):
            raise ArgumentError(
                f"{name}={settings[name]} is for diverse_beam_search: {loop} has a strength of its own, and "
                "each of its outputs is a group"
            )


def _first_returned(found: Hypotheses, asked: _Request, scorer: GenerationScorer) -> list[Returned]:
    """Return the first of a list, in its order."""
    made = [Returned(h, float(scorer.final(torch.tensor(h.log_prob), len(h.tokens))), ()) for h in found]
    return made[: asked.sequences]


def _softened(observer: Observer | None, temperature: float) -> Observer | None:
    """Return an observer that is shown the model's answers at this temperature."""
    if observer is None:
        return None
    return lambda logits, answer: observer(logits, soften_answer(answer, temperature))


@dataclass(frozen=True, slots=True)
class _Request:
    """How many of what."""

    beams: int
    groups: int
    strength: tuple[float, ...]
    sequences: int
    per_group: int | None

    @classmethod
    def of(
        cls, config: Any, beams: Any, groups: Any, strength: Any, sequences: Any, per_group: Any
    ) -> _Request:
        """Read what was asked for, or else what the generation config says."""
        beams = checks.at_least("num_beams", _given(beams, config, "num_beams", 1), 1)
        groups = checks.at_least("num_beam_groups", _given(groups, config, "num_beam_groups", 1), 1)
        if groups > beams or beams % groups:
            raise ArgumentError(
                f"num_beams={beams} does not divide into num_beam_groups={groups}: "
                f"ask for num_beams={_multiples(beams, groups)}, or for other groups"
            )
        if per_group is not None:
            return cls(
                beams,
                groups,
                _strength(strength, config, groups),
                _count_in_groups(per_group, groups, sequences),
                per_group,
            )
        sequences = _given(sequences, config, "num_return_sequences", 1)
        sequences = checks.at_least("num_return_sequences", sequences, 1)
        if sequences > beams:
            raise ArgumentError(
                f"num_return_sequences={sequences} is more than num_beams={beams}: ask for no more than beams"
            )
        return cls(beams, groups, _strength(strength, config, groups), sequences, None)


def _multiples(beams: int, groups: int) -> str:
    """Return the numbers of beams next to this one that so many groups can share."""
    below = beams // groups * groups
    return f"{below} or {below + groups}" if below else f"{groups}"


def _given(value: Any, config: Any, name: str, default: Any) -> Any:
    if value is None:
        value = getattr(config, name, None)
    return default if value is None else value


def _strength(strength: Any, config: Any, groups: int) -> tuple[float, ...]:
    given = _given(strength, config, "diversity_penalty", 0.0)
    if groups > 1 and strength is None and not given:
        raise ArgumentError(
            f"num_beam_groups={groups} without a diversity_penalty makes groups that all find the same: "
            "give one, such as 0.5 (or 0.0 if that is what you want)"
        )
    return checks.strengths(given, groups, name="diversity_penalty")


def _count_in_groups(per_group: Any, groups: int, sequences: Any) -> int:
    count = checks.at_least("return_per_group", per_group, 1) * groups
    if sequences is not None and checks.at_least("num_return_sequences", sequences, 1) != count:
        raise ArgumentError(
            f"return_per_group={per_group} makes {count} sequences an input, and num_return_sequences="
            f"{sequences} asks for another number: leave one of them out"
        )
    return count


def _rows_an_input(config: Any) -> int:
    """Return how many rows an input has: `generate` repeats it if the model's own config asks for beams."""
    return max(getattr(config, "num_beams", None) or 1, getattr(config, "num_return_sequences", None) or 1)


def _strategy(
    model: TransformersModel, asked: _Request, config: Any, diversity: str | Diversity, sampling: bool
) -> Strategy:
    term = make_term(read_term(diversity), model) if isinstance(diversity, str) else diversity
    beams = asked.beams // asked.groups
    if not sampling:
        return DiverseBeamSearch(
            groups=asked.groups, beams_per_group=beams, strength=asked.strength, diversity=term
        )
    return DiverseSampling(
        groups=asked.groups,
        samples_per_group=beams,
        strength=asked.strength,
        diversity=term,
        **_sampling_settings(config),
    )


def _sampling_settings(config: Any) -> dict[str, Any]:
    return {
        "temperature": _given(None, config, "temperature", 1.0),
        "top_k": getattr(config, "top_k", None) or None,  # 0 is off
        "top_p": getattr(config, "top_p", None),
        "min_p": getattr(config, "min_p", None),
    }


def _scorer(config: Any, length_penalty: Any, early_stopping: Any, groups: int) -> GenerationScorer:
    return GenerationScorer(
        length_penalty=_given(length_penalty, config, "length_penalty", 1.0),
        early_stopping=_given(early_stopping, config, "early_stopping", False),
        stopping=AsIn455() if groups > 1 else Settled(),
    )


def _ends(model: Any, config: Any) -> list[int]:
    tensor = getattr(config, "_eos_token_tensor", None)
    return real_ends(model, config.eos_token_id if tensor is None else tensor)


def _seed(seed: int | Sequence[int] | None, sampling: bool) -> int | Sequence[int]:
    """Return the seed, drawn from torch's generator only if need be: that changes what is drawn next."""
    if seed is not None:
        return seed
    return int(torch.randint(1 << 62, ())) if sampling else 0


_NOT_HERE = ("force_words_ids", "constraints", "prompt_lookup_num_tokens", "dola_layers", "penalty_alpha")
_OTHER_SAMPLING = {"typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_h": None}


def _refuse(config: Any, on_step: Any) -> None:
    """Raise for what would be ignored otherwise."""
    for name in _NOT_HERE:
        if getattr(config, name, None):
            raise ArgumentError(
                f"{name} is for another kind of search, and has no effect on this one: leave it out"
            )
    for name, off in _OTHER_SAMPLING.items():
        if getattr(config, "do_sample", False) and getattr(config, name, None) not in (None, off):
            raise ArgumentError(f"{name} cannot be used for sampling here: use top_k, top_p or min_p")
    if on_step is not None and not callable(on_step):
        raise ArgumentError(f"on_step must be a function of a step, not {checks.short_repr(on_step)}")


def _returned(
    found: Hypotheses, input_index: int, asked: _Request, recorder: OutputRecorder
) -> list[Returned]:
    """Return the hypotheses of one input to be returned, in their order; all if there are too few."""
    groups = [[recorder.trace(h, input_index) for h in group] for group in found.groups]
    every = [each for group in groups for each in group]
    if asked.per_group is not None or len(every) < asked.sequences:
        return every
    return _best_of_each_first(groups, asked.sequences)


def _filled_up(lists: Sequence[list[Returned]], asked: _Request, reason: str) -> list[list[Returned]]:
    """Return lists of as many sequences as were asked for. Of those that are short, the last are empty.

    One warning tells of all short lists.
    """
    short = [index for index, found in enumerate(lists) if len(found) < asked.sequences]
    for index in short:
        if not lists[index]:
            raise ModelError(f"input {index} has no hypotheses {reason}: relax them")
    if short:
        others = f" ({len(short)} of {len(lists)} inputs have too few)" if len(lists) > 1 else ""
        warnings.warn(
            f"input {short[0]} has {len(lists[short[0]])} hypotheses {reason} where {asked.sequences} were "
            f"asked for{others}: the rest of its sequences are empty, with a score of -inf",
            stacklevel=3,
        )
    nothing = Returned(Hypothesis((), -torch.inf, -torch.inf, group=-1), -torch.inf, ())
    return [[*found, *[nothing] * (asked.sequences - len(found))] for found in lists]


def _best_of_each_first(groups: Sequence[Sequence[Returned]], count: int) -> list[Returned]:
    """Choose every group's best, then their second best, and so on; return them likeliest first."""
    chosen: list[Returned] = []
    for rank in itertools.zip_longest(*groups):
        present = sorted((each for each in rank if each is not None), key=lambda each: -each.score)
        chosen += present[: count - len(chosen)]
    return sorted(chosen, key=lambda each: -each.score)

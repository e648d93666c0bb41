"""`DiverseChunks` on models of transformers: rows that were left at different lengths are put together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError, DiverseBeamSearch, DiverseChunks, PrefixModel, decode
from beamsplit.huggingface import diverse_chunks, from_transformers
from beamsplit.model import JoinableModel
from beamsplit.similarity import TextsAlike
from huggingface.calls import outputs
from huggingface.models import EOS, OLD, WORDS, build, case, tokenizer

JOINED = ["gpt2", "llama", "mistral", "gemma2", "gemma3", "llava"]
HYBRID = [] if OLD else ["jamba", "mamba", "qwen3_next", "lfm2"]  # whose caches had no layers before
APART = ["blip", "t5", "bart", "captioner", *HYBRID]
PROMPTS = torch.tensor([[4, 10, 6, 8], [12, 9, 5, 5]])
MARK = WORDS.index("e")


def to_text(tokens: tuple[int, ...]) -> str:
    return "".join(WORDS[token] for token in tokens if token > 3)


def shared(first: str, second: str) -> float:
    one, other = set(first), set(second)
    return len(one & other) / len(one | other) if one | other else 1.0


def strategy(**settings: Any) -> DiverseChunks:
    return DiverseChunks(
        **{
            "groups": 3,
            "proposals": 2,
            "chunk": lambda text: text[-1:] in ("e", "k"),
            "longest": 4,
            "similarity": TextsAlike(shared),
            **settings,
        }
    )


def generated(name: str, **settings: Any) -> Any:
    tried = case(name)
    return tried.model.generate(
        **{
            **tried.inputs,
            "custom_generate": diverse_chunks,
            "to_text": to_text,
            "num_return_sequences": 3,
            "max_new_tokens": 12,
            "proposals": 3,
            "chunk": lambda text: text[-1:] in ("e", "k"),
            "longest": 5,
            "similarity": TextsAlike(shared),
            "return_dict_in_generate": True,
            **settings,
        }
    )


@pytest.mark.parametrize("sampling", [True, False], ids=["samples", "beams"])
@pytest.mark.parametrize("name", [*JOINED, *APART])
def test_log_probs_are_those_of_one_call_on_the_whole_sequence(name: str, sampling: bool) -> None:
    """The prompts of a batch differ in length, and so do the chunks of its groups."""
    tried, found = case(name), generated(name, do_sample=sampling, seed=3, top_k=0)
    rescored = [tried.rescore(place // 3, tokens) for place, tokens in enumerate(outputs(tried, found))]
    assert found.log_probs.tolist() == pytest.approx(rescored, abs=2e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3"])
@pytest.mark.parametrize("beam_cache", [True, False])
def test_it_is_what_a_model_without_a_cache_finds(
    name: str, beam_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamsplit.huggingface.carrying.LEAST_ON_CPU", 0)
    network = build(name)

    def logits(prefix: Tensor) -> Tensor:
        found: Tensor = network(input_ids=prefix).logits[:, -1]
        return found

    plain = PrefixModel(logits)
    plain.to_text = to_text  # type: ignore[attr-defined]
    door = from_transformers(network, beam_cache=beam_cache)
    door.to_text = to_text
    ours = decode(door, PROMPTS, strategy(), max_length=14, end=EOS)
    expected = decode(plain, PROMPTS, strategy(), max_length=14, end=EOS)
    for one, other in zip(ours, expected, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.log_prob for each in one] == pytest.approx([h.log_prob for h in other], abs=1e-4)


@pytest.mark.parametrize("name", JOINED)
def test_groups_that_run_behind_each_other_find_the_same(name: str) -> None:
    """The staggered schedule joins rows of different lengths too."""
    tried = case(name)
    door = from_transformers(tried.model)
    found = [
        decode(
            door,
            tried.inputs,
            DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7, schedule=schedule),
            max_length=9,
            end=EOS,
        )
        for schedule in ("lockstep", "staggered")
    ]
    for one, other in zip(*found, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.log_prob for each in one] == pytest.approx([h.log_prob for h in other], abs=1e-4)


def test_models_that_know_nothing_of_padding_join_nothing() -> None:
    assert isinstance(from_transformers(build("llama")), JoinableModel)
    for name in ("t5", "bart", "mamba"):
        assert not isinstance(from_transformers(build(name)), JoinableModel)


def test_an_input_gets_in_a_batch_what_it_gets_alone() -> None:
    door = from_transformers(build("gpt2"), tokenizer(pad_token="<pad>"))
    texts = ["agce", "ifbebh", "m"]
    together = decode(door, texts, strategy(), max_length=12, seed=2)
    for place, text in enumerate(texts):
        (alone,) = decode(door, [text], strategy(), max_length=12, seed=2, numbers=[place])
        assert [each.tokens for each in alone] == [each.tokens for each in together[place]]


def test_processors_see_what_was_said_before() -> None:
    found = generated("gpt2", do_sample=True, seed=1, no_repeat_ngram_size=2, max_new_tokens=16)
    for said in outputs(case("gpt2"), found):
        pairs = list(pairwise(said))
        assert len(set(pairs)) == len(pairs)


def test_generate_returns_as_many_as_it_is_asked_for_in_the_order_of_groups() -> None:
    six, three = (generated("gpt2", num_return_sequences=count) for count in (6, 3))
    assert len(six.sequences) == 3 * 6
    for place in range(3):
        width = min(six.sequences.shape[1], three.sequences.shape[1])
        first, few = six.sequences[6 * place : 6 * place + 3], three.sequences[3 * place : 3 * place + 3]
        assert torch.equal(first[:, :width], few[:, :width])


def test_the_seed_is_torchs() -> None:
    def sampled(**settings: Any) -> list[list[int]]:
        sequences: list[list[int]] = generated("gpt2", do_sample=True, **settings).sequences.tolist()
        return sequences

    torch.manual_seed(4)
    first = sampled()
    assert sampled() != first
    torch.manual_seed(4)
    assert sampled() == first
    assert sampled(seed=8) == sampled(seed=8)


def test_steps_may_be_watched() -> None:
    texts: list[str] = []
    generated("gpt2", on_step=lambda step: texts.append(step.hypotheses[0][0].text))
    assert len(texts) > 1
    assert all(after.startswith(before) for before, after in pairwise(texts))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"to_text": None}, "give generate the tokenizer, as to_text=tokenizer"),
        ({"num_beam_groups": 2}, "num_beam_groups=2 is for diverse_beam_search"),
        ({"output_scores": True}, "output_scores=True is not possible with diverse_chunks"),
        ({"chunk": "paragraph"}, "there is no chunk 'paragraph'"),
        ({"proposals": 0}, "proposals"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        generated("gpt2", **settings)


def test_a_tokenizer_reads() -> None:
    found = generated("gpt2", to_text=tokenizer(pad_token="<pad>"), similarity="meaning", chunk=3)
    assert len(found.sequences) == 9

"""The settings of `generate`, and those that only groups have."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from beamsplit import Cumulative, Diversity, Earlier, Embedding, Hamming, NGram, Step
from beamsplit.huggingface import diverse_beam_search
from huggingface.calls import GROUPS, assert_same, ours, outputs, own
from huggingface.models import BOS, EOS, PAD, VOCABULARY, Case, build, case

# Groups and their strength


def test_a_whole_number_is_a_strength() -> None:
    whole, real = (ours(case("llama"), num_beam_groups=2, diversity_penalty=each) for each in (1, 1.0))
    assert_same(whole, real)


@pytest.mark.parametrize("strength", [0, 0.0])
def test_without_strength_every_group_is_the_same_beam_search(strength: float) -> None:
    found = ours(case("llama"), num_beam_groups=2, diversity_penalty=strength, return_per_group=2)
    search = outputs(case("llama"), ours(case("llama"), num_beams=2, num_return_sequences=2))
    expected = [each for place in (0, 2, 4) for each in search[place : place + 2] * 2]
    assert outputs(case("llama"), found) == expected


def test_every_group_may_have_its_own_strength() -> None:
    settings = {"num_beams": 3, "num_beam_groups": 3, "num_return_sequences": 3, "return_per_group": 1}
    found = ours(case("llama"), **settings, diversity_penalty=[0.0, 0.0, 5.0])
    first, second, third = (outputs(case("llama"), found)[group::3] for group in range(3))
    assert first == second
    assert all(one[0] != other[0] for one, other in zip(first, third, strict=True))
    equal = ours(case("llama"), **settings, diversity_penalty=[0.7, 0.7, 0.7])
    assert_same(equal, ours(case("llama"), **settings, diversity_penalty=0.7))


# What is returned


def test_as_many_sequences_as_groups_are_one_of_each_group() -> None:
    settings = {"num_beams": 8, "num_beam_groups": 4, "diversity_penalty": 0.7}
    found = ours(case("gpt2"), **settings, num_return_sequences=4)
    assert [sorted(groups) for groups in found.groups.view(3, 4).tolist()] == [[0, 1, 2, 3]] * 3
    bests = ours(case("gpt2"), **settings, num_return_sequences=None, return_per_group=1)
    assert sorted(outputs(case("gpt2"), found)) == sorted(outputs(case("gpt2"), bests))


@pytest.mark.parametrize("count", [1, 3, 6])
def test_sequences_come_by_score(count: int) -> None:
    settings = {"num_beams": 6, "num_beam_groups": 3, "diversity_penalty": 0.7}
    scores = ours(case("gpt2"), **settings, num_return_sequences=count).sequences_scores.view(3, count)
    assert scores.tolist() == [sorted(row, reverse=True) for row in scores.tolist()]


def test_one_sequence_is_the_best_of_every_groups_best() -> None:
    bests = ours(case("gpt2"), **GROUPS, num_return_sequences=2).sequences_scores.view(3, 2)
    one = ours(case("gpt2"), **GROUPS, num_return_sequences=1).sequences_scores
    assert one.tolist() == bests.amax(1).tolist()


def test_sequences_may_come_by_group() -> None:
    found = ours(case("gpt2"), **GROUPS, num_return_sequences=None, return_per_group=2)
    assert found.groups.tolist() == [0, 0, 1, 1] * 3
    assert_same(found, ours(case("gpt2"), **GROUPS, num_return_sequences=4, return_per_group=2))
    by_score = ours(case("gpt2"), **GROUPS)
    assert sorted(outputs(case("gpt2"), found)) == sorted(outputs(case("gpt2"), by_score))


def test_no_sequence_comes_twice_if_they_are_to_be_unique() -> None:
    repeated, unique = (
        outputs(case("gpt2"), ours(case("gpt2"), num_beam_groups=2, diversity_penalty=0.0, unique=each))
        for each in (False, True)
    )
    assert [len(set(repeated[place : place + 4])) for place in (0, 4, 8)] == [2, 2, 2]
    assert [len(set(unique[place : place + 4])) for place in (0, 4, 8)] == [4, 4, 4]


# Terms


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("hamming", Hamming()),
        ("cumulative", Cumulative()),
        ("ngram", NGram()),
        ("embedding", Embedding(vectors=build("llama").get_input_embeddings().weight.detach())),
    ],
)
def test_a_term_may_be_named(name: str, term: Diversity) -> None:
    named, given = (ours(case("llama"), **GROUPS, diversity=each) for each in (name, term))
    assert_same(named, given)
    alike = ours(case("llama"), num_beam_groups=2, diversity_penalty=0)
    assert outputs(case("llama"), named) != outputs(case("llama"), alike)


def _translator_with_two_vocabularies(outputs: int) -> Any:
    """A translator whose encoder and decoder have embeddings of their own, and `outputs` tokens to say."""
    config = copy.deepcopy(build("marian").config)
    config.update({"share_encoder_decoder_embeddings": False, "decoder_vocab_size": outputs})
    config.tie_word_embeddings = False
    model = type(build("marian"))(config).eval()
    generator = torch.Generator().manual_seed(3)
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.4, generator=generator)
    model.generation_config = copy.deepcopy(build("marian").generation_config)
    return model


@pytest.mark.parametrize("size", [VOCABULARY, VOCABULARY - 3, VOCABULARY + 5])
def test_embedding_takes_the_vectors_of_the_vocabulary_of_outputs(size: int) -> None:
    model = _translator_with_two_vocabularies(size)
    encoder, decoder = (
        each.get_input_embeddings().weight for each in (model.get_encoder(), model.get_decoder())
    )
    assert encoder.shape[0] == VOCABULARY
    if decoder.shape[0] != size:
        pytest.skip("transformers before 5 builds both vocabularies in one size")

    def search(diversity: Any) -> list[list[int]]:
        groups = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 2.0, "num_return_sequences": 4}
        search = {"custom_generate": diverse_beam_search, "diversity": diversity, "max_new_tokens": 10}
        found: list[list[int]] = model.generate(**case("marian").inputs, **groups, **search).tolist()
        return found

    assert search("embedding") == search(Embedding(vectors=decoder))
    if size == VOCABULARY:  # the encoder's can be taken by mistake
        assert search("embedding") != search(Embedding(vectors=encoder))


def test_hamming_is_the_term_if_none_is_named() -> None:
    assert_same(ours(case("llama"), **GROUPS), ours(case("llama"), **GROUPS, diversity=Hamming()))


def test_a_term_may_be_ones_own() -> None:
    class Even:
        """Only the first group may say even numbers."""

        def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
            return 1 - tokens % 2

    found = ours(case("llama"), num_beam_groups=2, diversity_penalty=1e3, diversity=Even(), eos_token_id=21)
    said = zip(found.groups.tolist(), outputs(case("llama"), found, (21,)), strict=True)
    even = {group: any(token % 2 == 0 for token in tokens) for group, tokens in said}
    assert even == {0: True, 1: False}


# The model's temperature


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_a_temperature_of_the_model_is_one_of_its_logits(name: str) -> None:
    """What a model whose last layer is divided says, and its scores, but log-probabilities of its own."""
    tried, temperature = case(name), 2.5
    found = ours(tried, **GROUPS, model_temperature=temperature)
    head = tried.model.get_output_embeddings().weight
    divided = copy.deepcopy(tried.model)
    divided.set_output_embeddings(copy.deepcopy(divided.get_output_embeddings()))
    with torch.no_grad():
        divided.get_output_embeddings().weight.copy_(head / temperature)
    settings = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 10, **GROUPS}
    expected = divided.generate(
        **tried.inputs,
        **settings,
        return_dict_in_generate=True,
        output_scores=True,
        custom_generate=diverse_beam_search,
    )
    assert_same(found, expected)
    for one, other in zip(found.scores, expected.scores, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    rescored = [tried.rescore(row // 4, tokens) for row, tokens in enumerate(outputs(tried, found))]
    assert found.log_probs.tolist() == pytest.approx(rescored, abs=1e-4)
    assert outputs(tried, found) != outputs(tried, ours(tried, **GROUPS))


def test_a_temperature_of_one_changes_nothing() -> None:
    found, plain = ours(case("gpt2"), **GROUPS, model_temperature=1.0), ours(case("gpt2"), **GROUPS)
    assert found.sequences_scores.tolist() == plain.sequences_scores.tolist()
    assert_same(found, plain)


def test_temperatures_of_the_model_and_of_sampling_multiply() -> None:
    settings = {**GROUPS, "do_sample": True, "seed": 1}
    both = ours(case("gpt2"), **settings, model_temperature=2.0, temperature=1.5)
    one = ours(case("gpt2"), **settings, temperature=3.0)
    assert outputs(case("gpt2"), both) == outputs(case("gpt2"), one)


# Sampling


def test_samples_are_those_of_the_seed_of_torch() -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(outputs(case("llama"), ours(case("llama"), **GROUPS, do_sample=True)))
    assert drawn[0] == drawn[1] != drawn[2]


def test_samples_may_have_a_seed_of_their_own() -> None:
    first, again, other = (
        outputs(case("llama"), ours(case("llama"), **GROUPS, do_sample=True, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("seed", [0, [5, 6, 7]])
def test_a_seed_of_their_own_leaves_the_generator_of_torch_alone(seed: int | list[int]) -> None:
    before = torch.get_rng_state()
    ours(case("llama"), **GROUPS, do_sample=True, seed=seed)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-4}],
    ids=lambda settings: next(iter(settings)),
)
def test_a_distribution_cut_down_to_one_token_is_greedy_search(settings: dict[str, float]) -> None:
    sampled = ours(case("llama"), num_beams=2, num_return_sequences=2, do_sample=True, **settings)
    greedy = own(case("llama"), num_beams=1, num_return_sequences=1)
    expected = [each for each in outputs(case("llama"), greedy) for _ in range(2)]
    assert outputs(case("llama"), sampled) == expected


def test_samples_come_with_the_models_log_probability() -> None:
    tried = case("gpt2")
    found = ours(tried, **GROUPS, do_sample=True, temperature=0.5, top_k=5, seed=1)
    rescored = [tried.rescore(row // 4, tokens) for row, tokens in enumerate(outputs(tried, found))]
    assert found.log_probs.tolist() == pytest.approx(rescored, abs=1e-4)


# Ends and lengths


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize(
    ("name", "length_penalty"),
    [("gpt2", -1.0), ("gpt2", 0.0), ("gpt2", 1.0), ("llama", 2.0), ("bart", -1.0), ("bart", 2.0)],
)
def test_lengths_count_as_in_the_beam_search_of_transformers(
    name: str, length_penalty: float, early_stopping: bool | str
) -> None:
    settings = {"length_penalty": length_penalty, "early_stopping": early_stopping}
    assert_same(ours(case(name), **settings), own(case(name), **settings))


def test_stopping_early_takes_fewer_steps() -> None:
    calls = []
    for early_stopping in (True, "never"):
        with _rows_of_calls(case("gpt2").model) as rows:
            ours(case("gpt2"), early_stopping=early_stopping, max_new_tokens=40)
        calls.append(sum(rows))
    assert calls[0] < calls[1]


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_several_tokens_may_end_a_sequence(name: str) -> None:
    ends = (EOS, 6, 9)
    found = ours(case(name), eos_token_id=list(ends))
    assert_same(found, own(case(name), eos_token_id=list(ends)))
    assert len({tokens[-1] for tokens in outputs(case(name), found, ends)} & set(ends)) > 1


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_one_beam_is_greedy_search(name: str) -> None:
    single = {"num_beams": 1, "num_return_sequences": 1}
    assert ours(case(name), **single).sequences.tolist() == own(case(name), **single).sequences.tolist()


def test_max_length_counts_the_prompt() -> None:
    found = ours(case("llama"), **GROUPS, max_length=9, max_new_tokens=None)
    assert_same(found, ours(case("llama"), **GROUPS, max_new_tokens=3))


# Inputs


@pytest.mark.parametrize("name", ["gpt2", "t5", "captioner"])
@pytest.mark.parametrize("sequences", [1, 4])
def test_a_config_that_asks_for_beams_finds_the_same(name: str, sequences: int) -> None:
    """`generate` then repeats every input for every beam before it hands them over."""
    config = copy.deepcopy(case(name).model.generation_config)
    config.update(num_beams=4, num_return_sequences=sequences)
    with _rows_of_calls(case(name).model) as rows:
        found = ours(
            case(name), **GROUPS, generation_config=config, num_beams=None, num_return_sequences=None
        )
    assert_same(found, ours(case(name), **GROUPS, num_return_sequences=sequences))
    assert rows[0] == 3


def test_padding_is_masked_if_no_mask_is_given() -> None:
    assert_same(ours(case("llama"), **GROUPS, attention_mask=None), ours(case("llama"), **GROUPS))


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_outputs_of_an_encoder_decoder_may_have_a_beginning(name: str) -> None:
    ids = torch.tensor([[BOS, 9, 8], [PAD, BOS, 8], [PAD, PAD, BOS]])
    settings = {
        "decoder_input_ids": ids,
        "decoder_attention_mask": (ids != PAD).long(),
        "length_penalty": 0.0,
    }
    assert_same(ours(case(name), **settings), own(case(name), **settings))


def test_prompts_may_be_embedded() -> None:
    tried = case("llama")
    embedded = tried.model.get_input_embeddings()(tried.inputs["input_ids"])
    found = tried.model.generate(
        inputs_embeds=embedded,
        attention_mask=tried.inputs["attention_mask"],
        **GROUPS,
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=10,
        custom_generate=diverse_beam_search,
    )
    assert found.tolist() == ours(tried, **GROUPS).sequences[:, tried.start :].tolist()


def test_prompts_may_be_in_the_cache_already() -> None:
    tried = Case("llama", case("llama").alone(1))
    cache = DynamicCache()
    with torch.no_grad():
        tried.model(tried.inputs["input_ids"][:, :4], past_key_values=cache)
    assert_same(ours(tried, **GROUPS, past_key_values=cache), ours(tried, **GROUPS))


# What it costs


@contextmanager
def _rows_of_calls(model: Any) -> Iterator[list[int]]:
    """How many rows the model answers, call by call."""
    rows: list[int] = []
    handle = model.register_forward_hook(lambda _, __, outputs: rows.append(len(outputs.logits)))
    yield rows
    handle.remove()


@pytest.mark.parametrize("name", ["llama", "bart", "captioner", "llava"])
def test_every_prompt_is_read_once(name: str) -> None:
    with _rows_of_calls(case(name).model) as rows:
        ours(case(name), **GROUPS)
    assert rows[:2] == [3, 12]


def test_beams_that_are_done_leave_the_batch() -> None:
    with _rows_of_calls(case("gpt2").model) as rows:
        found = ours(case("gpt2"), **GROUPS)
    assert rows[1:] == sorted(rows[1:], reverse=True)
    assert rows[-1] < rows[1]
    assert len(rows) == max(len(tokens) for tokens in outputs(case("gpt2"), found))


def test_keys_of_the_encoder_stay_where_they_are_while_every_beam_lives_on() -> None:
    places: list[int] = []

    def note(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
        keys = kwargs["past_key_values"].cross_attention_cache.layers[0].keys
        places.append(0 if keys is None else keys.data_ptr())

    handle = case("bart").model.register_forward_pre_hook(note, with_kwargs=True)
    ours(case("bart"), **GROUPS, min_new_tokens=10)
    handle.remove()
    assert len(places) == 10
    assert len(set(places[1:])) == 1


def test_every_step_is_shown() -> None:
    shown: list[Step] = []
    found = ours(case("gpt2"), **GROUPS, on_step=shown.append)
    assert [step.number for step in shown] == list(range(10))
    said = [hypothesis.tokens for each in shown[-1].hypotheses for hypothesis in each]
    assert sorted(said) == sorted(outputs(case("gpt2"), found))
    assert all(len(h.tokens) <= 3 for each in shown[2].hypotheses for h in each)

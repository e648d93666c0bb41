"""Run one contestant of the `generate` benchmark, in its own process, since it may have its own transformers.

Read lines of JSON that each name a run, and answer with its seconds, and on a GPU with the memory it took
beyond the weights. This needs torch and transformers, and beamsplit for the contestant `ours` alone.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import transformers

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama-1.2b": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": True,
        },
    ),
    "llama-thin": (  # costs next to nothing: what is left of a step is the search
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "vocab_size": 128256,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3-1.7b": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 40960,
            "tie_word_embeddings": True,
        },
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {}),
    "marian-74m": (
        "MarianMTModel",
        "MarianConfig",
        {
            "vocab_size": 58101,
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            "max_position_embeddings": 512,
            "pad_token_id": 58100,
            "decoder_start_token_id": 58100,
        },
    ),
    "llama-small": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "vocab_size": 32000,
            "hidden_size": 512,
            "intermediate_size": 1408,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
        },
    ),
    "marian-small": (
        "MarianMTModel",
        "MarianConfig",
        {
            "vocab_size": 32000,
            "d_model": 256,
            "encoder_layers": 3,
            "decoder_layers": 3,
            "encoder_ffn_dim": 1024,
            "decoder_ffn_dim": 1024,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            "pad_token_id": 31999,
            "decoder_start_token_id": 31999,
        },
    ),
    # To see whether everything runs.
    "llama-tiny": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "vocab_size": 300,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3-tiny": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            "vocab_size": 300,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "tie_word_embeddings": True,
        },
    ),
    "gpt2-tiny": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 128},
    ),
    "marian-tiny": (
        "MarianMTModel",
        "MarianConfig",
        {
            "vocab_size": 300,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "pad_token_id": 299,
            "decoder_start_token_id": 299,
        },
    ),
}


def build(name: str, device: str) -> Any:
    """Return a model of this size with random weights and peaked distributions."""
    kind, config_kind, settings = MODELS[name]
    torch.manual_seed(0)
    settings = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 1, **settings}
    config = getattr(transformers, config_kind)(**settings)
    with torch.device(device):
        model = getattr(transformers, kind)(config)
    model = model.to(torch.bfloat16 if device == "cuda" else torch.float32).eval()
    # No end: all contestants take the same steps on the same rows.
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=settings["pad_token_id"], decoder_start_token_id=settings.get("decoder_start_token_id")
    )
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(6.0)
    return model


def run(model: Any, contestant: str, task: dict[str, Any], device: str) -> float:
    last = model.config.vocab_size - 3  # of the tokens that are nothing special
    prompts = torch.arange(task["batch"] * task["prompt"]).remainder(last).add(2).view(task["batch"], -1)
    prompts = prompts.to(device)
    settings: dict[str, Any] = {"max_new_tokens": task["tokens"], "do_sample": False}
    groups = {"num_beams": task["beams"], "num_beam_groups": task["groups"], "diversity_penalty": 0.5}
    if contestant == "greedy":  # on as many rows as there are beams
        prompts = prompts.repeat_interleave(task["beams"], dim=0)
    elif contestant == "beam":
        settings |= {"num_beams": task["beams"]}
    elif contestant == "grouped":
        settings |= groups
    else:
        from beamsplit.huggingface import diverse_beam_search

        settings |= {**groups, "custom_generate": diverse_beam_search, **task.get("options", {})}
        if contestant == "ours-beam":
            settings |= {"num_beam_groups": 1}
    mask = torch.ones_like(prompts)
    _wait(device)
    begin = time.perf_counter()
    repeat = int(task.get("repeat", 1))
    for _ in range(repeat):
        model.generate(input_ids=prompts, attention_mask=mask, **settings)
    _wait(device)
    return (time.perf_counter() - begin) / repeat


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def forget_peak(device: str) -> int:
    """Forget how much memory was in use at most. Return the bytes that are in use now."""
    if device != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def mib_beyond(before: int, device: str) -> float | None:
    """Return how much memory was in use at most since the peak was forgotten, beyond `before` bytes."""
    return (torch.cuda.max_memory_allocated() - before) / 2**20 if device == "cuda" else None


def main() -> None:
    contestant, device = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    model, built, sizes = None, None, None
    for line in sys.stdin:
        task = json.loads(line)
        if device == "cuda" and sizes != (sizes := [task["batch"], task["beams"], task["prompt"]]):
            torch.cuda.empty_cache()  # which others use too
        if task["model"] != built:
            model = None  # first make room
            model, built = build(task["model"], device), task["model"]
        before = forget_peak(device)
        try:
            answer: dict[str, Any] = {"seconds": run(model, contestant, task, device)}
            answer |= {"mib": mib_beyond(before, device)}
        except Exception as error:  # whatever a peer raises is its result
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({**answer, "transformers": transformers.__version__}), flush=True)


if __name__ == "__main__":
    main()

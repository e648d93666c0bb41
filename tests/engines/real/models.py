"""Models small enough for real engines on a CPU. As a program, it saves the tiny one in a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY, BOS, END = 300, 256, 257


def save_tiny(folder: Path) -> None:
    """Save a Llama with random weights and heads of 32, the smallest that vLLM takes on a CPU."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=BOS,
        eos_token_id=END,
        initializer_range=0.3,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).float().eval().save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


def _tokenizer() -> Any:
    """Return a tokenizer of bytes; ids that are left over have names of their own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>", "<unk>"])
    made.add_tokens([f"<x{index}>" for index in range(259, VOCABULARY)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def save_smollm(gguf: Path, folder: Path) -> None:
    """Save the model of a GGUF file in float32, as engines other than llama.cpp want it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = model.config
    if hasattr(config, "quantization_config"):  # the weights are plain numbers by now
        del config.quantization_config
    plain = type(model)(config).float().eval()
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


def save_gguf(folder: Path, out: Path) -> None:
    """Save the tiny model for llama.cpp, in float32 too."""
    import gguf
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(out, "llama")
    _write_settings(writer, config)
    _write_words(writer, config, tokenizer)
    for name, weight in load_file(folder / "model.safetensors").items():
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
        kind = name.rsplit(".", 2)[-2]
        if kind in heads:  # llama.cpp interleaves the halves that transformers rotates
            rows = weight.shape[0]
            weight = weight.reshape(heads[kind], 2, rows // heads[kind] // 2, -1).swapaxes(1, 2)
            weight = weight.reshape(rows, -1)
        writer.add_tensor(_gguf_name(name), weight.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_settings(writer: Any, config: dict[str, Any]) -> None:
    import gguf

    heads = config["num_attention_heads"]
    writer.add_name("tiny")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_rope_dimension_count(config.get("head_dim") or config["hidden_size"] // heads)
    writer.add_rope_freq_base((config.get("rope_parameters") or config)["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _write_words(writer: Any, config: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    import gguf

    words = [""] * config["vocab_size"]
    kinds = [gguf.TokenType.NORMAL] * config["vocab_size"]
    for word, index in tokenizer["model"]["vocab"].items():
        words[index] = word
    for added in tokenizer["added_tokens"]:
        words[added["id"]] = added["content"]
        kinds[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(["Ġ Ġ"])  # llama.cpp wants one at least; this one never applies
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_ENDS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "lm_head.weight": "output.weight",
    "model.norm.weight": "output_norm.weight",
}


def _gguf_name(name: str) -> str:
    if name in _ENDS:
        return _ENDS[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_PARTS[rest.rsplit('.', 1)[0]]}.weight"


if __name__ == "__main__":
    save_tiny(Path(sys.argv[1]))

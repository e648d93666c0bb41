"""Small random models of every kind, inputs for them, and what they say when nothing is cached."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import BPE
from torch import Tensor

__all__ = ["BOS", "EOS", "OLD", "PAD", "VOCABULARY", "WORDS", "Case", "build", "case", "cut", "tokenizer"]

OLD = transformers.__version__.startswith("4.")
BOS, EOS, PAD, IMAGE = 1, 2, 3, 20
WORDS = "<unk> <s> </s> <pad> a b c d e f g h i j k l m n o p <image> r s t".split()
VOCABULARY = len(WORDS)

_TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
_GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, **_TOKENS}
_LLAMA = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    **_TOKENS,
}
_SLIDING = {**_LLAMA, "head_dim": 8, "sliding_window": 4}
_SPEECH = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
    **_TOKENS,
}
_TRANSLATION = {**_SPEECH, "max_position_embeddings": 64}
_VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 8,
    "patch_size": 4,
}


def _config(name: str, **settings: Any) -> Any:
    return getattr(transformers, name)(**settings)


def _plain(name: str, settings: dict[str, Any]) -> Callable[[], Any]:
    model = getattr(transformers, name)
    return lambda: model(model.config_class(**settings))


def _captioner() -> Any:
    decoder = _config("GPT2Config", add_cross_attention=True, is_decoder=True, **_GPT2)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        _config("ViTConfig", **_VISION), decoder
    )
    model = transformers.VisionEncoderDecoderModel(config=config)
    model.generation_config.update(decoder_start_token_id=BOS, pad_token_id=PAD, eos_token_id=EOS)
    return model


def _blip() -> Any:
    text = {"encoder_hidden_size": 16, "sep_token_id": EOS, **_LLAMA}
    text.pop("num_key_value_heads")
    config = _config("BlipConfig", text_config=text, vision_config=_VISION, projection_dim=16)
    return transformers.BlipForConditionalGeneration(config)


def _llava() -> Any:
    config = _config(
        "LlavaConfig",
        text_config=_config("LlamaConfig", **_LLAMA),
        vision_config=_config("CLIPVisionConfig", **_VISION),
        image_token_index=IMAGE,
        image_seq_length=4,
        vision_feature_layer=-1,
    )
    return transformers.LlavaForConditionalGeneration(config)


def _qwen2_vl() -> Any:
    rope = {"type": "mrope", "rope_type": "default", "mrope_section": [1, 1, 2]}
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "patch_size": 4}
    config = _config(
        "Qwen2VLConfig",
        text_config={**_LLAMA, "rope_scaling": rope},
        vision_config={**vision, "spatial_merge_size": 2, "temporal_patch_size": 1, "mlp_ratio": 2},
        image_token_id=IMAGE,
        video_token_id=21,
        vision_start_token_id=22,
        vision_end_token_id=23,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )
    return transformers.Qwen2VLForConditionalGeneration(config)


_BUILDERS: dict[str, Callable[[], Any]] = {
    "gpt2": _plain("GPT2LMHeadModel", _GPT2),
    "llama": _plain("LlamaForCausalLM", _LLAMA),
    "mistral": _plain("MistralForCausalLM", _SLIDING),
    "gemma2": _plain("Gemma2ForCausalLM", _SLIDING),
    "gemma3": _plain(
        "Gemma3ForCausalLM", {**_SLIDING, "layer_types": ["sliding_attention", "full_attention"]}
    ),
    "qwen3_next": _plain(
        "Qwen3NextForCausalLM",
        {
            **_LLAMA,
            "head_dim": 8,
            "num_experts": 0,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
    "jamba": _plain(
        "JambaForCausalLM",
        {
            **_LLAMA,
            "num_experts": 1,
            "num_experts_per_tok": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 4,
            "use_mamba_kernels": False,
        },
    ),
    "mamba": _plain(
        "MambaForCausalLM", {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 2, **_TOKENS}
    ),
    "lfm2": _plain("Lfm2ForCausalLM", {**_LLAMA, "layer_types": ["conv", "full_attention"]}),
    "t5": _plain(
        "T5ForConditionalGeneration",
        {
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": BOS,
            **_TOKENS,
        },
    ),
    "bart": _plain("BartForConditionalGeneration", _TRANSLATION),
    "marian": _plain("MarianMTModel", _TRANSLATION),
    "captioner": _captioner,
    "blip": _blip,
    "llava": _llava,
    "qwen2_vl": _qwen2_vl,
    "whisper": _plain(
        "WhisperForConditionalGeneration",
        {
            **_SPEECH,
            "num_mel_bins": 8,
            "max_source_positions": 50,
            "max_target_positions": 64,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
    ),
    "speech_to_text": _plain(
        "Speech2TextForConditionalGeneration",
        {
            **_SPEECH,
            "max_source_positions": 64,
            "max_target_positions": 64,
            "num_conv_layers": 1,
            "conv_kernel_sizes": [3],
            "conv_channels": 8,
            "input_feat_per_channel": 8,
            "input_channels": 1,
        },
    ),
}

# With these some outputs end early and others do not; but for Qwen2-VL, where none ends.
_SEEDS = {
    "gpt2": 15,
    "llama": 7,
    "mistral": 0,
    "gemma2": 5,
    "gemma3": 5,
    "qwen3_next": 1,
    "jamba": 6,
    "mamba": 5,
    "lfm2": 27,
    "t5": 24,
    "bart": 34,
    "marian": 44,
    "captioner": 52,
    "blip": 28,
    "llava": 40,
    "qwen2_vl": 5,
    "whisper": 0,
    "speech_to_text": 7,
}


@functools.cache
def build(name: str) -> Any:
    """The model of this name; its weights depend on their names and on its seed alone."""
    torch.manual_seed(0)
    model = _BUILDERS[name]().eval()
    for weight_name, weight in model.named_parameters():
        if weight.dim() > 1 and not weight_name.endswith("A_log"):
            key = zlib.crc32(f"{weight_name}/{_SEEDS[name]}".encode())
            torch.nn.init.normal_(
                weight, std=0.8 if name == "t5" else 0.4, generator=torch.Generator().manual_seed(key)
            )
    model.generation_config.forced_eos_token_id = None  # which some configs have by default
    return model


@dataclass(frozen=True)
class Case:
    """A model and a batch of three inputs for it."""

    name: str
    inputs: dict[str, Tensor]

    @property
    def model(self) -> Any:
        return build(self.name)

    @property
    def start(self) -> int:
        """Where outputs begin in the sequences that are returned."""
        is_prompt = "input_ids" in self.inputs and not self.model.config.is_encoder_decoder
        return self.inputs["input_ids"].shape[1] if is_prompt else 1

    def alone(self, place: int) -> dict[str, Tensor]:
        """One input of the batch, without the padding."""
        inputs = {name: value[place : place + 1] for name, value in self.inputs.items()}
        if "image_grid_thw" in inputs:
            ends = self.inputs["image_grid_thw"].prod(1).cumsum(0).tolist()
            inputs["pixel_values"] = self.inputs["pixel_values"][[0, *ends][place] : ends[place]]
        if "attention_mask" in inputs:
            mask = inputs["attention_mask"].bool()
            real = {
                name: value[:, mask[0]] for name, value in inputs.items() if value.shape[:2] == mask.shape
            }
            inputs |= real
        return inputs

    def log_prob(self, place: int, tokens: Sequence[int]) -> Tensor:
        """[token vocabulary] before each token of an output, in one call on the whole sequence."""
        inputs = self.alone(place)
        said = torch.tensor([tokens[:-1]], dtype=torch.long)
        if self.model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.cat([torch.tensor([[BOS]]), said], dim=1)
        else:
            inputs["input_ids"] = torch.cat([inputs.get("input_ids", torch.tensor([[BOS]])), said], dim=1)
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        if "mm_token_type_ids" in inputs:
            inputs["mm_token_type_ids"] = (inputs["input_ids"] == IMAGE).long()
        with torch.no_grad():
            logits: Tensor = self.model(**inputs).logits[0]
        return logits.log_softmax(-1)[-len(tokens) :]

    def rescore(self, place: int, tokens: Sequence[int]) -> float:
        """The log-probability of an output."""
        return float(self.log_prob(place, tokens)[range(len(tokens)), list(tokens)].sum())


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _padded(rows: Sequence[Sequence[int]], side: str) -> dict[str, Tensor]:
    width = max(map(len, rows))
    filled = [[*row, *[PAD] * (width - len(row))] for row in rows]
    if side == "left":
        filled = [[*[PAD] * (width - len(row)), *row] for row in rows]
    ids = torch.tensor(filled)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def _pictures_in_patches() -> dict[str, Tensor]:
    """Three pictures of different size, as Qwen's processor would have them."""
    rows = [[7, 22, *[IMAGE] * 4, 23, 9], [6, 8, 22, *[IMAGE] * 8, 23, 10], [5, 22, *[IMAGE] * 4, 23, 10, 11]]
    inputs = _padded(rows, "left")
    inputs["image_grid_thw"] = torch.tensor([[1, 4, 4], [1, 4, 8], [1, 4, 4]])
    inputs["pixel_values"] = _normal(64, 48)
    if transformers.__version__ >= "5":
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == IMAGE).long()
    return inputs


_ROWS = [[4, 11, 9], [13, 5, 8, 6, 12, 10], [7, 16, 14, 15]]
_PICTURES = {"pixel_values": _normal(3, 3, 8, 8)}
_SOUND = {"input_features": _normal(3, 20, 8), "attention_mask": torch.ones(3, 20, dtype=torch.long)}
_SOUND["attention_mask"][0, 12:] = 0
_INPUTS: dict[str, dict[str, Tensor]] = {
    "t5": _padded(_ROWS, "right"),
    "bart": _padded(_ROWS, "right"),
    "marian": _padded(_ROWS, "right"),
    "captioner": _PICTURES,
    "blip": _PICTURES,
    "llava": _PICTURES
    | _padded([[BOS, *[IMAGE] * 4, 7], [5, 6, 9, *[IMAGE] * 4, 8], [11, 12, *[IMAGE] * 4, 8]], "left"),
    "qwen2_vl": _pictures_in_patches(),
    "whisper": {"input_features": _normal(3, 8, 100)},
    "speech_to_text": _SOUND,
}


def case(name: str) -> Case:
    return Case(name, _INPUTS.get(name, _padded(_ROWS, "left")))


def cut(row: Tensor, ends: Sequence[int] = (EOS,)) -> tuple[int, ...]:
    """An output without what fills it up after its end."""
    tokens = row.tolist()
    length = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[:length])


def tokenizer(**special: str) -> Any:
    """Letter by letter; with a padding token if `pad_token` names it."""
    letters = Tokenizer(BPE({word: place for place, word in enumerate(WORDS)}, [], unk_token="<unk>"))
    letters.decoder = Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=letters,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
        **special,
    )

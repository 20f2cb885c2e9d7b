"""Models by name, and configs in Hugging Face's names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from gpuperf_analyzers.estimate.terms import EstimateError
from gpuperf_analyzers.estimate.transformer import TransformerConfig


def _gpt(name: str, h: int, layers: int, heads: int, vocabulary: int, s: int) -> TransformerConfig:
    """A GPT: LayerNorm, biases, GELU of width 4·h, learned positions, tied head, dropout."""
    return TransformerConfig(
        name, h, layers, heads, heads, 4 * h, vocabulary, s,
        gated=False, tied=True, bias=True, norm_bias=True, positions=s, dropout=True,
    )  # fmt: skip


KNOWN = {
    c.name: c
    for c in (
        _gpt("gpt2", 768, 12, 12, 50257, 1024),
        _gpt("gpt2-medium", 1024, 24, 16, 50257, 1024),
        _gpt("gpt2-large", 1280, 36, 20, 50257, 1024),
        _gpt("gpt2-xl", 1600, 48, 25, 50257, 1024),
        _gpt("gpt3-175b", 12288, 96, 96, 50257, 2048),
        TransformerConfig("llama-2-7b", 4096, 32, 32, 32, 11008, 32000, 4096),
        TransformerConfig("llama-2-13b", 5120, 40, 40, 40, 13824, 32000, 4096),
        TransformerConfig("llama-2-70b", 8192, 80, 64, 8, 28672, 32000, 4096),
        TransformerConfig("llama-3-8b", 4096, 32, 32, 8, 14336, 128256, 8192),
        TransformerConfig("llama-3-70b", 8192, 80, 64, 8, 28672, 128256, 8192),
        TransformerConfig("llama-3.1-405b", 16384, 126, 128, 8, 53248, 128256, 131072),
        TransformerConfig(
            "llama-3.2-1b", 2048, 16, 32, 8, 8192, 128256, 131072, head_dim=64, tied=True
        ),
        TransformerConfig("mistral-7b", 4096, 32, 32, 8, 14336, 32000, 32768),
        TransformerConfig(
            "mixtral-8x7b", 4096, 32, 32, 8, 14336, 32000, 32768, experts=8, experts_per_token=2
        ),
        TransformerConfig("qwen2-7b", 3584, 28, 28, 4, 18944, 152064, 32768, qkv_bias=True),
    )
}
"""Configs as published with the models; ``sequence`` is the longest that each was made for."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "hidden"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "heads"),
    "kv_heads": ("num_key_value_heads", "kv_heads"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn"),
    "vocabulary": ("vocab_size", "vocabulary"),
    "sequence": ("max_position_embeddings", "n_positions", "n_ctx", "sequence"),
    "head_dim": ("head_dim",),
    "experts": ("num_local_experts", "num_experts", "experts"),
    "experts_per_token": ("num_experts_per_tok", "experts_per_token"),
}
"""Our name of a size to the names that configs write it by."""

_FLAGS: Mapping[str, tuple[str, ...]] = {
    "tied": ("tie_word_embeddings", "tied"),
    "gated": ("gated",),
    "bias": ("bias", "mlp_bias"),
    "qkv_bias": ("attention_bias", "qkv_bias"),
    "norm_bias": ("norm_bias",),
    "dropout": ("dropout",),
}
_GPT2_LIKE = frozenset({"gpt2", "gpt", "openai-gpt", "gpt_bigcode"})
_GATED_ACTIVATIONS = frozenset({"silu", "swiglu", "swish", "geglu"})
# Configs whose sizes mean something else than ours do; a wrong count would look right.
_NOT_SO = frozenset({"t5", "mt5", "bart", "whisper", "mamba", "mamba2", "rwkv", "deepseek_v2",
                     "deepseek_v3", "vit", "clip", "bert", "roberta"})  # fmt: skip


def known_model(name: str) -> TransformerConfig:
    """The config of a model by `name`, whatever its case.

    Raises
    ------
    EstimateError
        A model that is not known, with the nearest names.
    """
    wanted = name.strip().lower().replace("_", "-")
    if wanted in KNOWN:
        return KNOWN[wanted]
    near = get_close_matches(wanted, KNOWN, n=3) or list(KNOWN)
    raise EstimateError(
        f"the model {name!r} is unknown: write {', '.join(near)}, or give --config FILE"
    )


def from_config(written: Mapping[str, Any], name: str = "model") -> TransformerConfig:
    """The Transformer that a config describes, in Hugging Face's names or ours.

    What is not written is as Llama has it (or GPT-2 where ``model_type`` says so): one key-value
    head a head, four hidden widths of feed-forward, no biases. The feed-forward part is gated
    where ``gated`` says so, else by the activation's name (``silu``).

    Raises
    ------
    EstimateError
        A size that is missing or no whole number, an architecture that these sizes do not mean.
    """
    if not isinstance(written, Mapping):
        raise EstimateError(f"{name}: a config is a table of names and sizes")
    kind = str(written.get("model_type", "")).lower()
    if kind in _NOT_SO or written.get("is_encoder_decoder") is True:
        raise EstimateError(
            f"{name}: a {kind or 'encoder-decoder'} model is not a decoder Transformer of one "
            "width: give its modules to pytest_gpuperf.model_spec"
        )
    found = {ours: _size(written, theirs, name) for ours, theirs in _NAMES.items()}
    flags = {ours: _flag(written, theirs, name) for ours, theirs in _FLAGS.items()}
    gpt = kind in _GPT2_LIKE
    hidden = _needed(found, "hidden", name)
    heads = _needed(found, "heads", name)
    gated = str(written.get("hidden_act", written.get("activation_function", ""))).lower()
    sequence = _needed(found, "sequence", name)
    experts = found["experts"] or 0
    defaults = {
        "gated": gated in _GATED_ACTIVATIONS or not (gpt or gated),
        "tied": gpt, "bias": gpt, "qkv_bias": kind == "qwen2", "norm_bias": gpt, "dropout": gpt,
    }  # fmt: skip
    width = written.get("moe_intermediate_size") if experts else None
    return TransformerConfig(
        name,
        hidden,
        _needed(found, "layers", name),
        heads,
        found["kv_heads"] or heads,
        _whole(width, "moe_intermediate_size", name) if width else found["ffn"] or 4 * hidden,
        _needed(found, "vocabulary", name),
        sequence,
        head_dim=found["head_dim"] or 0,
        positions=sequence if gpt else 0,
        experts=experts,
        experts_per_token=found["experts_per_token"] or 0,
        **{k: d if flags[k] is None else bool(flags[k]) for k, d in defaults.items()},
    )


def _needed(found: Mapping[str, int | None], ours: str, name: str) -> int:
    value = found[ours]
    if value is None:
        raise EstimateError(f"{name}: the config has no {' or '.join(_NAMES[ours][:2])}")
    return value


def _size(written: Mapping[str, Any], keys: tuple[str, ...], name: str) -> int | None:
    for key in keys:
        if written.get(key) is not None:
            return _whole(written[key], key, name)
    return None


def _whole(value: Any, key: str, name: str) -> int:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value != int(value) or value < 0:
        raise EstimateError(f"{name}: {key} must be a whole number, not {value!r}")
    return int(value)


def _flag(written: Mapping[str, Any], keys: tuple[str, ...], name: str) -> bool | None:
    for key in keys:
        value = written.get(key)
        if isinstance(value, bool):
            return value
        if value is not None:
            raise EstimateError(f"{name}: {key} must be true or false, not {value!r}")
    return None

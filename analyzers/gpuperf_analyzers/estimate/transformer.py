"""A decoder Transformer from its config: parameters and FLOP, part by part."""

from __future__ import annotations

from dataclasses import dataclass

from gpuperf_analyzers.estimate.terms import COUNTED, KAPLAN, PALM, EstimateError, Term

_LARGEST = 10**9
"""No size of a config is above this: what says so is a mistake, and products would overflow."""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The sizes of a decoder-only Transformer.

    Attributes
    ----------
    name
        As shown.
    hidden, layers, heads, kv_heads, ffn, vocabulary, sequence
        h, L, a, number of key-value heads, width of the feed-forward part, v, s.
    head_dim
        Width of one head; 0 stands for hidden / heads.
    gated
        Whether the feed-forward part has three matrices (SwiGLU) rather than two.
    tied
        Whether the output projection is the embedding.
    bias, qkv_bias
        Whether all linear layers, or the projections of query, key and value, have biases.
    norm_bias
        Whether a norm has two vectors (LayerNorm) rather than one (RMSNorm).
    positions
        Rows of a learned table of positions, 0 without one.
    experts, experts_per_token
        Of a mixture: how many feed-forward parts a layer has and how many a token goes through;
        0 and 0 for a dense model.
    dropout
        Whether dropout follows attention and the feed-forward part (their masks are kept).
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    head_dim: int = 0
    gated: bool = True
    tied: bool = False
    bias: bool = False
    qkv_bias: bool = False
    norm_bias: bool = False
    positions: int = 0
    experts: int = 0
    experts_per_token: int = 0
    dropout: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "kv_heads", "ffn", "vocabulary", "sequence"):
            size = getattr(self, name)
            if not 1 <= size <= _LARGEST:
                raise EstimateError(f"{self.name}: {name} is {size}: 1 to {_LARGEST:,}")
        if not self.head_dim and self.hidden % self.heads:
            raise EstimateError(
                f"{self.name}: {self.hidden} does not divide into {self.heads} heads: give head_dim"
            )
        if self.heads % self.kv_heads:
            raise EstimateError(
                f"{self.name}: {self.heads} heads do not share {self.kv_heads} key-value heads"
            )
        if not 0 <= self.experts_per_token <= self.experts or (
            self.experts and not self.experts_per_token
        ):
            raise EstimateError(
                f"{self.name}: {self.experts_per_token} of {self.experts} experts a token"
            )

    @property
    def head_width(self) -> int:
        """Width of one head, d."""
        return self.head_dim or self.hidden // self.heads

    @property
    def query_width(self) -> int:
        """Width of all queries, a·d."""
        return self.heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Width of all keys, and of all values."""
        return self.kv_heads * self.head_width


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by part; those of a layer are of one layer.

    ``active_mlp`` is the part of ``mlp`` that one token goes through.
    """

    embedding: int
    attention: int
    mlp: int
    active_mlp: int
    norms: int
    layers: int
    final_norm: int
    head: int

    @property
    def layer(self) -> int:
        """Of one layer."""
        return self.attention + self.mlp + self.norms

    @property
    def total(self) -> int:
        """Of the model; a tied head counts once."""
        return self.embedding + self.layers * self.layer + self.final_norm + self.head

    @property
    def active(self) -> int:
        """That one token goes through: all but the experts it is not sent to."""
        return self.total - self.layers * (self.mlp - self.active_mlp)


def parameters(c: TransformerConfig) -> Parameters:
    """Parameters of `c`, part by part."""
    h, q, kv, f = c.hidden, c.query_width, c.kv_width, c.ffn
    attention = 2 * h * q + 2 * h * kv
    attention += (q + 2 * kv) * (c.bias or c.qkv_bias) + h * c.bias
    matrices = 3 if c.gated else 2
    expert = matrices * h * f + c.bias * ((matrices - 1) * f + h)
    router = h * c.experts
    norm = h * (2 if c.norm_bias else 1)
    return Parameters(
        embedding=c.vocabulary * h + c.positions * h,
        attention=attention,
        mlp=expert * max(c.experts, 1) + router,
        active_mlp=expert * max(c.experts_per_token, 1) + router,
        norms=2 * norm,
        layers=c.layers,
        final_norm=norm,
        head=0 if c.tied else c.vocabulary * h,
    )


@dataclass(frozen=True, slots=True)
class TokenFlops:
    """FLOP of a forward pass for one token, a multiply-add being 2.

    ``layer_products`` and ``layer_attention`` are of one layer: its matrices, and scores and
    values over all positions (a causal mask is not taken off, as in PaLM and Megatron).
    """

    layer_products: int
    layer_attention: int
    layers: int
    head: int

    @property
    def layer(self) -> int:
        """Of one layer."""
        return self.layer_products + self.layer_attention

    @property
    def total(self) -> int:
        """Of the whole forward pass."""
        return self.layers * self.layer + self.head


def token_flops(c: TransformerConfig, sequence: int | None = None) -> TokenFlops:
    """FLOP of a forward pass of `c` for one token of a `sequence`; the config's by default."""
    s = c.sequence if sequence is None else sequence
    h, q, kv = c.hidden, c.query_width, c.kv_width
    mlp = (3 if c.gated else 2) * h * c.ffn * max(c.experts_per_token, 1) + h * c.experts
    return TokenFlops(
        layer_products=2 * (2 * h * q + 2 * h * kv + mlp),
        layer_attention=4 * s * q,
        layers=c.layers,
        head=2 * h * c.vocabulary,
    )


def training_flops(c: TransformerConfig, tokens: float, sequence: int | None = None) -> float:
    """Model FLOP of training on `tokens`: forward, and twice that backward."""
    return 3.0 * token_flops(c, sequence).total * tokens


def executed_flops(c: TransformerConfig, tokens: float, sequence: int | None = None) -> float:
    """FLOP that training on `tokens` executes with a fused attention.

    It makes its scores again backward: five products instead of the four of the gradients, so
    half of the forward attention more than the model's FLOP.
    """
    again = 0.5 * c.layers * token_flops(c, sequence).layer_attention
    return training_flops(c, tokens, sequence) + again * tokens


def six_n_d(parameters_: float, tokens: float) -> float:
    """6·N·D, FLOP: 2 a parameter and token forward, 4 backward."""
    return 6.0 * parameters_ * tokens


def flop_terms(
    c: TransformerConfig, tokens: float, sequence: int, count: float | None = None
) -> tuple[Term, ...]:
    """FLOP of one step on `tokens`, as the sources count them; `count` stands for N if given."""
    n = parameters(c).active if count is None else count
    palm = (6 * n + 12 * c.layers * c.query_width * sequence) * tokens
    return (
        Term("FLOP, 6·N·D", six_n_d(n, tokens), "FLOP",
             "6·N·D; N active parameters, D tokens", KAPLAN),
        Term("FLOP, PaLM", palm, "FLOP", "(6·N + 12·L·a·d·s)·D", PALM),
        Term("FLOP, matrix by matrix", training_flops(c, tokens, sequence), "FLOP",
             "3·D·(2·matrices + 4·s·a·d·L + 2·h·v): a table look-up multiplies nothing", COUNTED),
    )  # fmt: skip

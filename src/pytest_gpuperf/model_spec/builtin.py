"""Small models of the usual kinds, to hold the formulas against what torch really does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuperf_analyzers.estimate.transformer import TransformerConfig

GPT = TransformerConfig(
    "gpt", 128, 3, 4, 4, 512, 1000, 128, gated=False, tied=True, bias=True, norm_bias=True,
    positions=128,
)  # fmt: skip
LLAMA = TransformerConfig("llama", 128, 3, 8, 2, 352, 1000, 128)


@dataclass(frozen=True, slots=True)
class BuiltinModel:
    """A model, how it is trained, and its config where it is a Transformer.

    ``build`` takes torch and returns the module, ``inputs`` the tensors of one batch (the last
    one the target), both made on the CPU. ``build`` returns a module whose output is the loss.
    """

    name: str
    build: Callable[[Any], Any]
    inputs: Callable[[Any], tuple[Any, ...]]
    optimizer: str
    config: TransformerConfig | None = None
    batch: int = 0


def builtin_models() -> tuple[BuiltinModel, ...]:
    """The models, none of them made yet."""
    return (
        BuiltinModel("mlp", _mlp, lambda t: (t.randn(256, 256), _classes(t, 256, 10)), "sgd"),
        BuiltinModel("resnet", _resnet, _images, "momentum"),
        BuiltinModel("depthwise", _depthwise, _images, "adam"),
        BuiltinModel("gpt", lambda t: _decoder(t, GPT), lambda t: _tokens(t, GPT, 4), "adamw",
                     GPT, 4),
        BuiltinModel("llama", lambda t: _decoder(t, LLAMA), lambda t: _tokens(t, LLAMA, 4), "adam",
                     LLAMA, 4),
    )  # fmt: skip


def _classes(torch: Any, count: int, classes: int) -> Any:
    return torch.randint(classes, (count,))


def _images(torch: Any) -> tuple[Any, ...]:
    return torch.randn(8, 3, 32, 32), _classes(torch, 8, 10)


def _tokens(torch: Any, c: TransformerConfig, batch: int) -> tuple[Any, ...]:
    shape = (batch, c.sequence)
    return torch.randint(c.vocabulary, shape), torch.randint(c.vocabulary, shape)


def _with_loss(torch: Any, body: Any) -> Any:
    """A module whose output is the cross entropy of `body`'s, over the last dimension."""

    class WithLoss(torch.nn.Module):  # type: ignore[misc] # torch is not followed by mypy
        def __init__(self) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: Any, target: Any) -> Any:
            out = self.body(x)
            entropy = torch.nn.functional.cross_entropy
            return entropy(out.reshape(-1, out.shape[-1]), target.reshape(-1))

    return WithLoss()


def _mlp(torch: Any) -> Any:
    nn = torch.nn
    return _with_loss(
        torch,
        nn.Sequential(
            nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10)
        ),
    )


def _resnet(torch: Any) -> Any:
    nn = torch.nn
    module: Any = nn.Module

    class Block(module):  # type: ignore[misc] # likewise
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.norm_after = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            y = self.norm_after(self.second(self.relu(self.norm(self.first(x)))))
            return self.relu(x + y)

    stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
    return _with_loss(
        torch,
        nn.Sequential(
            stem, nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2), Block(32), Block(32),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        ),
    )  # fmt: skip


def _depthwise(torch: Any) -> Any:
    nn = torch.nn
    return _with_loss(
        torch,
        nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.Hardswish(),
            nn.Conv2d(16, 64, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1),
            nn.Linear(64, 10),
        ),
    )  # fmt: skip


def _decoder(torch: Any, c: TransformerConfig) -> Any:  # noqa: C901 - three small modules in one
    """A decoder as `c` describes: GPT-2's form with learned positions, else Llama's."""
    nn, functional = torch.nn, torch.nn.functional
    module: Any = nn.Module

    def norm() -> Any:
        return nn.LayerNorm(c.hidden) if c.norm_bias else nn.RMSNorm(c.hidden)

    class Attention(module):  # type: ignore[misc] # likewise
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Linear(c.hidden, c.query_width, bias=c.bias)
            self.key = nn.Linear(c.hidden, c.kv_width, bias=c.bias)
            self.value = nn.Linear(c.hidden, c.kv_width, bias=c.bias)
            self.out = nn.Linear(c.query_width, c.hidden, bias=c.bias)

        def forward(self, x: Any) -> Any:
            batch, rows, _ = x.shape
            q, k, v = (
                made.view(batch, rows, -1, c.head_width).transpose(1, 2)
                for made in (self.query(x), self.key(x), self.value(x))
            )
            if c.kv_heads != c.heads:
                k, v = (t.repeat_interleave(c.heads // c.kv_heads, dim=1) for t in (k, v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(batch, rows, -1))

    class Block(module):  # type: ignore[misc] # likewise
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after, self.attention = norm(), norm(), Attention()
            self.up = nn.Linear(c.hidden, c.ffn, bias=c.bias)
            self.gate = nn.Linear(c.hidden, c.ffn, bias=c.bias) if c.gated else None
            self.down = nn.Linear(c.ffn, c.hidden, bias=c.bias)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.before(x))
            y = self.after(x)
            wide = self.up(y)
            if self.gate is None:
                return x + self.down(functional.gelu(wide))
            return x + self.down(functional.silu(self.gate(y)) * wide)

    class Decoder(module):  # type: ignore[misc] # likewise
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(c.vocabulary, c.hidden)
            self.places = nn.Embedding(c.positions, c.hidden) if c.positions else None
            self.blocks = nn.ModuleList(Block() for _ in range(c.layers))
            self.norm = norm()
            self.head = nn.Linear(c.hidden, c.vocabulary, bias=False)
            if c.tied:
                self.head.weight = self.table.weight

        def forward(self, tokens: Any) -> Any:
            x = self.table(tokens)
            if self.places is not None:
                x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return _with_loss(torch, Decoder())

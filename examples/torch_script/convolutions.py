#!/usr/bin/env python3
"""Writes a language model of causal convolutions as a TorchScript file.

    python3 convolutions.py convolutions.pt [--hidden 64] [--blocks 5] ...

Any PyTorch 2 will do. Stagecoach runs the parts `embedding`, `layers` and `head`
and cuts between the layers; docs/plugins.md says what each takes and returns.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Looks 2 * dilation tokens back."""

    def __init__(self, hidden: int, dilation: int, dropout: float):
        super().__init__()
        self.dilation = dilation
        self.dropout = dropout
        self.norm = nn.LayerNorm(hidden)
        self.convolution = nn.Conv1d(hidden, hidden, kernel_size=3, dilation=dilation)
        self.mix = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.pad(self.norm(x).transpose(1, 2), [2 * self.dilation, 0])
        y = F.gelu(self.convolution(y)).transpose(1, 2)
        return x + F.dropout(self.mix(y), self.dropout, self.training)


class Head(nn.Module):
    """The sum, not the mean, of the losses of all targets."""

    def __init__(self, vocabulary: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


class Convolutions(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, blocks: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList([Block(hidden, 2**i, dropout) for i in range(blocks)])
        self.head = Head(vocabulary, hidden)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Not called by Stagecoach: the same as a whole."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x, targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the file to write")
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=5, help="model.layers")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    model = Convolutions(arguments.vocabulary, arguments.hidden, arguments.blocks,
                         arguments.dropout)
    torch.jit.script(model).save(arguments.path)


if __name__ == "__main__":
    main()

"""What does a stage cost here, beside the same stage in PyTorch's Python?

    bazel build //benchmarks/stage_costs
    python3 benchmarks/stage_costs/python_stage.py bazel-bin/benchmarks/stage_costs/stage_costs [ROUNDS]

Two blocks of a GPT-2 (hidden 768, 12 heads) and of a Llama-like model of the same
width, 512 tokens, one thread: forward and backward of a microbatch. Both programs take
turns in one run; each round gives each some repetitions. Printed is the shortest CPU time
of the thread, which other load lengthens least, and the ratio. Needs torch (the version
that Stagecoach links; benchmarks/peers/requirements.txt) on one core:
`taskset -c 0 python3 ...`.
"""

import re
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, HEADS, TOKENS = 768, 12, 512
REPETITIONS = 3


class Gpt2Block(nn.Module):
    """As transformers' GPT2Block with its fused attention."""

    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(HIDDEN)
        self.c_attn = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.c_proj = nn.Linear(HIDDEN, HIDDEN)
        self.ln_2 = nn.LayerNorm(HIDDEN)
        self.c_fc = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.mlp_c_proj = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        query, key, value = (
            part.view(x.size(0), TOKENS, HEADS, -1).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(HIDDEN, dim=2)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(x.shape))
        inner = F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_c_proj(inner)


class LlamaBlock(nn.Module):
    """As transformers' LlamaDecoderLayer with its fused attention."""

    def __init__(self):
        super().__init__()
        inner = -(-8 * HIDDEN // 3 // 256) * 256
        self.input_norm = nn.RMSNorm(HIDDEN, eps=1e-5)
        self.post_norm = nn.RMSNorm(HIDDEN, eps=1e-5)
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q, self.k, self.v, self.o = (linear(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up = linear(HIDDEN, inner), linear(HIDDEN, inner)
        self.down = linear(inner, HIDDEN)
        width = HIDDEN // HEADS
        steps = torch.arange(0, width, 2).float() / width
        angles = torch.outer(torch.arange(TOKENS).float(), 10000.0**-steps)
        twice = torch.cat((angles, angles), dim=1)
        self.cosine, self.sine = twice.cos(), twice.sin()

    def rotate(self, x):
        a, b = x.chunk(2, dim=-1)
        return x * self.cosine + torch.cat((-b, a), dim=-1) * self.sine

    def forward(self, x):
        normed = self.input_norm(x)
        heads = lambda y: y.view(x.size(0), TOKENS, HEADS, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(
            self.rotate(heads(self.q(normed))),
            self.rotate(heads(self.k(normed))),
            heads(self.v(normed)),
            is_causal=True,
        )
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape))
        normed = self.post_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def python_costs(stage):
    """Shortest milliseconds of forward and of backward."""
    shortest = [float("inf")] * 2
    for _ in range(REPETITIONS):
        received = torch.full((1, TOKENS, HIDDEN), 0.01).requires_grad_(True)
        start = time.thread_time()
        output = stage(received)
        middle = time.thread_time()
        output.backward(torch.full_like(output, 0.01))
        end = time.thread_time()
        shortest = [min(shortest[0], middle - start), min(shortest[1], end - middle)]
    return [1e3 * seconds for seconds in shortest]


def our_costs(binary, size):
    """The same of {kernels: [forward, backward]}."""
    printed = subprocess.run(
        [binary, str(REPETITIONS), size], check=True, capture_output=True, text=True
    ).stdout
    found = re.findall(r"^\w+ +(aten|onednn) +F +([\d.]+) +B +([\d.]+)", printed, re.M)
    return {kernels: [float(f), float(b)] for kernels, f, b in found}


def main():
    binary = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    torch.manual_seed(7)
    for size, block in (("gpt2", Gpt2Block), ("llama", LlamaBlock)):
        stage = nn.Sequential(block(), block())
        best = {}
        for _ in range(rounds):
            costs = our_costs(binary, size)
            costs["python"] = python_costs(stage)
            for name, pair in costs.items():
                known = best.get(name, pair)
                best[name] = [min(a, b) for a, b in zip(known, pair)]
        python = sum(best["python"])
        for name, (forward, backward) in best.items():
            whole = forward + backward
            print(
                f"{size:6} {name:7} F {forward:8.2f}  B {backward:8.2f}  "
                f"F + B {whole:8.2f} ms  {whole / python:.3f} of Python"
            )


if __name__ == "__main__":
    main()

"""GPT-2 as a user of PyTorch writes it, cut into stages, with the weights of a
Hugging Face directory (model.safetensors) and the data of a token file.

Also the clocks and counters that the peer reports.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(hidden)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(hidden, 3 * hidden),
                                   "c_proj": nn.Linear(hidden, hidden)})
        self.ln_2 = nn.LayerNorm(hidden)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(hidden, 4 * hidden),
                                  "c_proj": nn.Linear(4 * hidden, hidden)})

    def forward(self, x):
        rows, sequence, hidden = x.shape
        shape = (rows, sequence, self.heads, hidden // self.heads)
        parts = self.attn["c_attn"](self.ln_1(x)).split(hidden, dim=2)
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(x.shape))
        inner = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](inner)


class Stage(nn.Module):
    """Layers [first, last), with the embedding or the head at the model's ends."""

    def __init__(self, config, layers, is_first, is_last):
        super().__init__()
        hidden = config["n_embd"]
        self.is_first, self.is_last = is_first, is_last
        if is_first:
            self.wte = nn.Embedding(config["vocab_size"], hidden)
            self.wpe = nn.Embedding(config["n_positions"], hidden)
        self.h = nn.ModuleDict({str(layer): Block(hidden, config["n_head"])
                                for layer in layers})
        if is_last:
            self.ln_f = nn.LayerNorm(hidden)
            self.lm_head = nn.Linear(hidden, config["vocab_size"], bias=False)

    def forward(self, x):
        if self.is_first:
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h.values():
            x = block(x)
        return self.lm_head(self.ln_f(x)) if self.is_last else x

    @torch.no_grad()
    def load(self, weights):
        for name, parameter in self.named_parameters():
            stored = weights.get("transformer." + name, weights.get(name))
            # GPT-2 stores the weights of its linear layers [in, out].
            turn = ".c_" in name and stored.dim() == 2
            parameter.copy_(stored.t() if turn else stored)


def loss(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def read_model(folder):
    """config.json, and the tensors of model.safetensors by name (float32)."""
    config = json.loads(pathlib.Path(folder, "config.json").read_text())
    raw = pathlib.Path(folder, "model.safetensors").read_bytes()
    header_bytes = int.from_bytes(raw[:8], "little")
    weights = {}
    for name, tensor in json.loads(raw[8:8 + header_bytes]).items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        data = bytearray(raw[8 + header_bytes + begin:8 + header_bytes + end])
        weights[name] = torch.frombuffer(data, dtype=torch.float32).view(tensor["shape"])
    return config, weights


class Tokens:
    """Samples of a uint16 token file in the order of the file."""

    def __init__(self, path, sequence, rows_per_step):
        data = bytearray(pathlib.Path(path).read_bytes())
        self.tokens = torch.frombuffer(data, dtype=torch.uint16).long()
        self.sequence, self.rows = sequence, rows_per_step

    def step(self, step):
        begins = [(step * self.rows + row) * self.sequence for row in range(self.rows)]
        samples = torch.stack([self.tokens[at:at + self.sequence + 1] for at in begins])
        return samples[:, :-1].contiguous(), samples[:, 1:].contiguous()


class LiveTensors:
    """Bytes of live CPU tensors, from the profiler's allocation events. It slows
    the run down: its times mean nothing."""

    def __init__(self):
        from torch.profiler import ProfilerActivity, profile
        self.profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.profiler.__enter__()

    def peak_bytes(self):
        self.profiler.__exit__(None, None, None)
        events = [(event.start_ns(), event.nbytes())
                  for event in self.profiler.profiler.kineto_results.events()
                  if event.name() == "[memory]"]
        live = peak = 0
        for _, size in sorted(events, key=lambda event: event[0]):
            live += size
            peak = max(peak, live)
        return peak


def resident_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0

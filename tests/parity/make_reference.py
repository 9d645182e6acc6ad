"""Makes the reference numbers of parity_test: tiny random Hugging Face models, trained for K steps in float32.

  python make_reference.py --out data                         # all cases
  python make_reference.py --out data --only llama_gqa_tied

Each case folder gets config.json, model.safetensors (or shards + index) as written by transformers, reference.json
and final.safetensors (weights after K steps). Needs torch 2.11.0, transformers 5.24.0, safetensors 0.8.0 and
numpy 2.4.6, and no network.
"""

import argparse
import json
import math
import os
import platform
import shutil
import zlib

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config,
                          Qwen3Config)

TRAIN = {"steps": 6, "microbatches": 4, "microbatch_size": 2, "seq": 24,
         "optimizer": "adamw", "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
         "decay_rule": "weight decay on tensors with 2 or more dimensions (embeddings included), none on 1-D tensors",
         "clip_grad_norm": 0.7, "clip_rule": "coef = min(1, max_norm / (norm + 1e-6)), norm over unique parameters",
         "lr_max": 1e-2, "lr_min": 1e-3, "warmup_steps": 2,
         "lr_rule": "step t from 0: t < warmup: lr_max*(t+1)/warmup; else lr_min + 0.5*(lr_max-lr_min)*"
                    "(1+cos(pi*(t-warmup)/(steps-warmup)))",
         "loss_rule": "mean cross-entropy over the tokens of a microbatch; gradient of a step = mean over microbatches"}

LLAMA = dict(hidden_size=32, intermediate_size=88, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=160, max_position_embeddings=64, initializer_range=0.08,
             bos_token_id=1, eos_token_id=2, pad_token_id=None)
GPT2 = dict(n_embd=32, n_layer=4, n_head=4, vocab_size=160, n_positions=64, initializer_range=0.08,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=2e-5,
            bos_token_id=1, eos_token_id=2)


# Half as wide, for what the cases above do not cover.
SMALL = {**LLAMA, "hidden_size": 16, "intermediate_size": 40, "vocab_size": 96}


def rope(theta, rope_type="default", **kw):
    return {"rope_type": rope_type, "rope_theta": theta, **kw}


def cases():
    """name -> (config, save options). 'legacy_config' rewrites config.json to transformers 4 keys."""
    ll3 = dict(rope_type="llama3", rope_theta=20000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=16)
    return {
        "gpt2_tied": (GPT2Config(**GPT2, tie_word_embeddings=True), {}),
        "gpt2_untied": (GPT2Config(**GPT2, tie_word_embeddings=False), {}),
        "llama_gqa_tied": (LlamaConfig(**LLAMA, rope_parameters=rope(50000.0), rms_norm_eps=3e-5,
                                       tie_word_embeddings=True), {}),
        "llama_gqa_untied_headdim_legacyconfig": (LlamaConfig(**LLAMA, head_dim=16, rope_parameters=rope(25000.0),
                                                              rms_norm_eps=2e-6, tie_word_embeddings=False),
                                                  {"legacy_config": True}),
        "llama_rope_llama3": (LlamaConfig(**{**LLAMA, "num_key_value_heads": 1}, rope_parameters=ll3,
                                          rms_norm_eps=1e-5, tie_word_embeddings=False), {}),
        "qwen2_bias_tied": (Qwen2Config(**LLAMA, rope_parameters=rope(1000000.0), rms_norm_eps=5e-6,
                                        tie_word_embeddings=True, use_sliding_window=False), {}),
        "llama_gqa_sharded": (LlamaConfig(**LLAMA, rope_parameters=rope(50000.0), rms_norm_eps=3e-5,
                                          tie_word_embeddings=False), {"max_shard_size": "100KB"}),
        "llama_linear_biases": (LlamaConfig(**SMALL, rope_parameters=rope(10000.0, rope_type="linear", factor=4.0),
                                            attention_bias=True, mlp_bias=True, hidden_act="gelu",
                                            tie_word_embeddings=True), {}),
        # Sequences (24) longer than what the model is meant for (16).
        "llama_dynamic": (LlamaConfig(**{**SMALL, "max_position_embeddings": 16},
                                      rope_parameters=rope(10000.0, rope_type="dynamic", factor=2.0),
                                      tie_word_embeddings=False), {}),
        "llama_yarn_legacyconfig": (LlamaConfig(**{**SMALL, "num_attention_heads": 1, "num_key_value_heads": 1},
                                                rope_parameters=rope(10000.0, rope_type="yarn", factor=4.0,
                                                                     beta_fast=4.0, beta_slow=0.5,
                                                                     original_max_position_embeddings=16),
                                                tie_word_embeddings=False), {"legacy_config": True}),
        "mistral_sliding": (MistralConfig(**SMALL, rope_parameters=rope(10000.0), sliding_window=7,
                                          tie_word_embeddings=False), {}),
        # Layers 2 and 3 slide.
        "qwen3_norms_sliding": (Qwen3Config(**SMALL, head_dim=8, rope_parameters=rope(10000.0), attention_bias=True,
                                            use_sliding_window=True, sliding_window=5, max_window_layers=2,
                                            tie_word_embeddings=True), {}),
        "gpt2_variant": (GPT2Config(**{**GPT2, "n_embd": 16, "vocab_size": 96}, n_inner=40,
                                    activation_function="relu", scale_attn_by_inverse_layer_idx=True,
                                    tie_word_embeddings=False), {}),
    }


@torch.no_grad()
def randomise(model, seed):
    """Moves norms off 1 and biases off 0, so that a loader that skips one of them is seen."""
    for name, p in model.named_parameters():
        g = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
        if p.ndim == 1:
            base = 1.0 if name.endswith("weight") else 0.0
            p.copy_(base + 0.1 * torch.randn(p.shape, generator=g))
        else:
            p.copy_(0.08 * torch.randn(p.shape, generator=g))


def legacy_config(path):
    """config.json as transformers 4 wrote it: rope_theta at top level, torch_dtype."""
    with open(path) as f:
        c = json.load(f)
    r = c.pop("rope_parameters")
    c["rope_theta"] = r.pop("rope_theta")
    c["rope_scaling"] = None if r["rope_type"] == "default" else r
    c["torch_dtype"] = c.pop("dtype", "float32")
    c["transformers_version"] = "4.46.0"
    with open(path, "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")


def lr_at(t):
    w, k = TRAIN["warmup_steps"], TRAIN["steps"]
    if t < w:
        return TRAIN["lr_max"] * (t + 1) / w
    return TRAIN["lr_min"] + 0.5 * (TRAIN["lr_max"] - TRAIN["lr_min"]) * (1 + math.cos(math.pi * (t - w) / (k - w)))


def load(folder, attn, dtype=torch.float32):
    m = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attn, dtype=dtype)
    return m.train()


def micro_loss(model, ids):
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def train(folder, tokens, attn, keep=None):
    """tokens: [steps, microbatches, microbatch_size, seq + 1]."""
    model = load(folder, attn)
    named = list(model.named_parameters())          # tied weights appear once
    decay = [p for _, p in named if p.ndim >= 2]
    rest = [p for _, p in named if p.ndim < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": TRAIN["weight_decay"]},
                             {"params": rest, "weight_decay": 0.0}],
                            lr=0.0, betas=tuple(TRAIN["betas"]), eps=TRAIN["eps"], foreach=False)
    M, steps = tokens.shape[1], []
    for t in range(tokens.shape[0]):
        mb = []
        for m in range(M):
            loss = micro_loss(model, tokens[t, m])
            (loss / M).backward()
            mb.append(loss.item())
        norms = {n: p.grad.norm().item() for n, p in named}
        if keep is not None and t == 0:
            keep["grad_norms"] = norms
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], TRAIN["clip_grad_norm"], foreach=False).item()
        lr = lr_at(t)
        for grp in opt.param_groups:
            grp["lr"] = lr
        opt.step()
        opt.zero_grad(set_to_none=True)
        steps.append({"lr": lr, "microbatch_losses": mb, "loss": sum(mb) / M, "grad_norm": norm,
                      "clipped": norm > TRAIN["clip_grad_norm"]})
    return model, steps


def max_rel(a, b):
    return max(abs(x["loss"] - y["loss"]) / abs(x["loss"]) for x, y in zip(a, b))


def build(name, cfg, opts, out, seed):
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(cfg, attn_implementation="eager").float()
    randomise(model, seed)
    save = {k: v for k, v in opts.items() if k == "max_shard_size"}
    model.save_pretrained(folder, **save)
    gen = os.path.join(folder, "generation_config.json")
    if os.path.exists(gen):
        os.remove(gen)
    if opts.get("legacy_config"):
        legacy_config(os.path.join(folder, "config.json"))
    back = load(folder, "eager")
    for (n1, p1), (n2, p2) in zip(model.named_parameters(), back.named_parameters()):
        assert n1 == n2 and torch.equal(p1, p2), n1

    g = torch.Generator().manual_seed(seed + 1)
    shape = (TRAIN["steps"], TRAIN["microbatches"], TRAIN["microbatch_size"], TRAIN["seq"] + 1)
    tokens = torch.randint(0, cfg.vocab_size, shape, generator=g)
    follow = (tokens[..., :-1] * 7 + 3) % cfg.vocab_size      # half the tokens follow their predecessor: learnable
    half = torch.rand(follow.shape, generator=g) < 0.5
    tokens[..., 1:] = torch.where(half, follow, tokens[..., 1:])

    keep = {}
    torch.set_num_threads(1)
    model, steps = train(folder, tokens, "eager", keep)
    sdpa_model, sdpa = train(folder, tokens, "sdpa")
    torch.set_num_threads(2)
    two_model, two = train(folder, tokens, "eager")
    torch.set_num_threads(1)
    # Parameters whose gradient is zero but for rounding (GPT-2 key bias) get updates of rounding noise from AdamW:
    # the largest difference of legitimate variants is the tolerance a second implementation can be held to.
    spread = {n: max((p - q).abs().max().item(), (p - r).abs().max().item())
              for (n, p), (_, q), (_, r) in zip(model.named_parameters(), sdpa_model.named_parameters(),
                                                two_model.named_parameters())}

    final = {n: p.detach().contiguous() for n, p in model.named_parameters()}
    save_file(final, os.path.join(folder, "final.safetensors"))
    stored = sorted(k for f in os.listdir(folder) if f.startswith("model") and f.endswith(".safetensors")
                    for k in load_file(os.path.join(folder, f)))
    ref = {"case": name, "model_type": cfg.model_type, "dtype": "float32", "attention": "eager",
           "softmax_and_norms": "float32", "dropout": 0.0, "threads": 1, "seed": seed,
           "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                        "python": platform.python_version()},
           "train": TRAIN, "parameters": sum(v.numel() for v in final.values()),
           "stored_tensors": stored,
           "tied_tensors_not_stored": ["lm_head.weight"] if cfg.tie_word_embeddings else [],
           "decayed": [n for n, p in final.items() if p.ndim >= 2],
           "token_layout": "tokens[step][microbatch][row]: seq+1 ids; input = all but the last, target = all but the first",
           "tokens": tokens.tolist(),
           "steps": steps, "step1_param_grad_norms": keep["grad_norms"],
           "step1_total_grad_norm": steps[0]["grad_norm"],
           "final_weights": {n: {"shape": list(p.shape), "l2": p.double().norm().item(),
                                 "sum": p.double().sum().item(), "first": p.reshape(-1)[:4].tolist(),
                                 "max_abs_diff_of_variants": spread[n]}
                             for n, p in final.items()},
           "final_checksum_sum_of_all": sum(p.double().sum().item() for p in final.values()),
           "sdpa_losses": [s["loss"] for s in sdpa],
           "spread": {"max_rel_loss_eager_vs_sdpa": max_rel(steps, sdpa),
                      "max_rel_loss_1_vs_2_threads": max_rel(steps, two)}}
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump(ref, f, separators=(",", ":"))
        f.write("\n")
    for f in os.listdir(folder):
        os.chmod(os.path.join(folder, f), 0o644)
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(f"{name}: {ref['parameters']} parameters, {size} bytes, loss {steps[0]['loss']:.6f} -> {steps[-1]['loss']:.6f}, "
          f"grad norms {[round(s['grad_norm'], 3) for s in steps]}, spread {ref['spread']}, "
          f"worst final weights {[(n, f'{v:.1e}') for n, v in sorted(spread.items(), key=lambda t: -t[1])[:3]]}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="data")
    ap.add_argument("--only", default=None)
    ap.add_argument("--seed", type=int, default=1234)
    a = ap.parse_args()
    transformers.utils.logging.disable_progress_bar()
    for name, (cfg, opts) in cases().items():
        if a.only is None or name in a.only.split(","):
            build(name, cfg, opts, a.out, a.seed)


if __name__ == "__main__":
    main()

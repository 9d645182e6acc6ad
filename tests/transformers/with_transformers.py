"""What transformers makes of a model's folder, for transformers_test.

    with_transformers.py make FOLDER             a small GPT-2 of bytes, not trained
    with_transformers.py score REQUESTS          of each folder the mean loss of a
                                                 text's first samples, and what it
                                                 goes on with after a prompt

REQUESTS is a JSON list of {folder, tokens, sequence, samples, prompt, length}, where
tokens and prompt are lists of numbers; printed is a list of {loss, continuation}.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel


def make(folder):
    torch.manual_seed(3)
    config = GPT2Config(n_layer=4, n_embd=64, n_head=4, n_positions=64, vocab_size=256,
                        bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder)


@torch.no_grad()
def loss_of(model, request):
    tokens, sequence = torch.tensor(request["tokens"]), request["sequence"]
    losses = []
    for sample in range(request["samples"]):
        begin = sample * sequence
        logits = model(tokens[begin:begin + sequence][None]).logits[0].double()
        losses.append(torch.nn.functional.cross_entropy(
            logits, tokens[begin + 1:begin + sequence + 1]).item())
    return sum(losses) / len(losses)


@torch.no_grad()
def continuation_of(model, request):
    text = list(request["prompt"])
    for _ in range(request["length"]):
        text.append(int(model(torch.tensor(text)[None]).logits[0, -1].argmax()))
    return text[len(request["prompt"]):]


def score(path):
    results = []
    for request in json.loads(pathlib.Path(path).read_text(encoding="utf-8")):
        model = AutoModelForCausalLM.from_pretrained(request["folder"], dtype=torch.float32,
                                                     attn_implementation="eager")
        model.eval()
        results.append({"loss": loss_of(model, request),
                        "continuation": continuation_of(model, request)})
    print(json.dumps(results))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"make": make, "score": score}[sys.argv[1]](sys.argv[2])

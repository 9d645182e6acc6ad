"""Weights and tokens that both sides start from, in plain Python."""

import array
import json
import math
import pathlib
import random

_PARTS = [("ln_1.weight", "one"), ("ln_1.bias", "zero"), ("attn.c_attn.weight", "normal"),
          ("attn.c_attn.bias", "zero"), ("attn.c_proj.weight", "residual"),
          ("attn.c_proj.bias", "zero"), ("ln_2.weight", "one"), ("ln_2.bias", "zero"),
          ("mlp.c_fc.weight", "normal"), ("mlp.c_fc.bias", "zero"),
          ("mlp.c_proj.weight", "residual"), ("mlp.c_proj.bias", "zero")]


def _shape(part, hidden):
    wide = {"attn.c_attn": 3 * hidden, "mlp.c_fc": 4 * hidden}
    layer, kind = part.rsplit(".", 1)
    out = wide.get(layer, hidden)
    if kind == "bias" or layer.startswith("ln_"):
        return [out]
    return [4 * hidden if layer == "mlp.c_proj" else hidden, out]


def _parameters(model):
    yield "transformer.wte.weight", [model.vocabulary, model.hidden], "normal"
    yield "transformer.wpe.weight", [model.sequence, model.hidden], "normal"
    for layer in range(model.layers):
        for part, kind in _PARTS:
            yield f"transformer.h.{layer}.{part}", _shape(part, model.hidden), kind
    yield "transformer.ln_f.weight", [model.hidden], "one"
    yield "transformer.ln_f.bias", [model.hidden], "zero"
    yield "lm_head.weight", [model.vocabulary, model.hidden], "normal"


def _values(kind, count, model, generator):
    if kind in ("one", "zero"):
        return array.array("f", [float(kind == "one")]) * count
    deviation = 0.02 / math.sqrt(2 * model.layers) if kind == "residual" else 0.02
    # Some thousand drawn values over and over, at a step that avoids a pattern.
    drawn = [generator.gauss(0, deviation) for _ in range(min(count, 65521))]
    repeated = array.array("f", drawn) * (count // len(drawn) + 1)
    return repeated[:count]


def _write_model(model, folder):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": model.layers,
        "n_embd": model.hidden, "n_head": model.heads, "n_positions": model.sequence,
        "vocab_size": model.vocabulary, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False,
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}))
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _ in _parameters(model):
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = random.Random(7)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, shape, kind in _parameters(model):
            _values(kind, math.prod(shape), model, generator).tofile(out)


def _write_tokens(path, count, vocabulary):
    """A cycle that can be learned, with noise."""
    generator = random.Random(11)
    cycle = [generator.randrange(vocabulary) for _ in range(257)]
    tokens = array.array("H", (cycle[i % 257] if generator.random() < 0.8 else
                               generator.randrange(vocabulary) for i in range(count)))
    path.write_bytes(tokens.tobytes())


def prepare(model, folder, microbatches):
    """Paths of a Hugging Face directory and of tokens for so many microbatches."""
    name = "-".join(str(each) for each in vars(model).values())
    weights = pathlib.Path(folder, f"model-{name}")
    if not weights.exists():
        _write_model(model, weights)
    count = microbatches * model.microbatch_size * model.sequence + 1
    tokens = pathlib.Path(folder, f"tokens-{name}-{count}.bin")
    if not tokens.exists():
        _write_tokens(tokens, count, model.vocabulary)
    return weights, tokens

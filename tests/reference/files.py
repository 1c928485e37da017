"""Writes the files that other programs would: dtypes.safetensors, by Python's `safetensors` (0.8.0); and a small model in
the layout of the published GPT-2, gpt2.safetensors, with its logits, gpt2.json, computed by the plain PyTorch below.
Needs torch and safetensors: python3 files.py"""
import json
import math
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FOLDER = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEADS, LAYERS, VOCABULARY, CONTEXT = 8, 2, 2, 11, 6


def dtypes():
    special = [0.0, -0.0, 1.0, -2.5, 65504.0, 2.0**-24, 3 * 2.0**-24, math.inf, -math.inf, math.nan]
    tensors = {name: torch.tensor(special, dtype=getattr(torch, name)).reshape(2, 5)
               for name in ("float16", "bfloat16", "float32", "float64")}
    for name in ("int8", "int16", "int32", "int64", "uint8"):
        limits = torch.iinfo(getattr(torch, name))
        tensors[name] = torch.tensor([limits.min, 0, 7, limits.max], dtype=getattr(torch, name))
    tensors["bool"] = torch.tensor([True, False, True])
    tensors["scalar"] = torch.tensor(3.5)
    tensors["nothing"] = torch.zeros(0, 3)
    return tensors


def gpt2_parameters():
    """Linear layers hold their weights as [in, out], and queries, keys and values are one matrix."""
    shapes = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in {"ln_1": (WIDTH,), "attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH),
                            "ln_2": (WIDTH,), "mlp.c_fc": (WIDTH, 4 * WIDTH), "mlp.c_proj": (4 * WIDTH, WIDTH)}.items():
            shapes[f"h.{layer}.{name}.weight"] = shape
            shapes[f"h.{layer}.{name}.bias"] = shape[-1:]
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (WIDTH,)
    parameters = {name: 0.4 * torch.randn(shape) + (1 if "ln_" in name and name.endswith("weight") else 0)
                  for name, shape in shapes.items()}
    for layer in range(LAYERS):
        parameters[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(1, 1, CONTEXT, CONTEXT))
    return parameters


def gpt2_logits(ids, p):
    def conv1d(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], eps=1e-5)

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    batch, time = ids.shape
    x = p["wte.weight"][ids] + p["wpe.weight"][:time]
    for layer in range(LAYERS):
        h = f"h.{layer}."
        q, k, v = (part.reshape(batch, time, HEADS, -1).transpose(1, 2)
                   for part in conv1d(norm(x, h + "ln_1"), h + "attn.c_attn").split(WIDTH, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(p[h + "attn.bias"][:, :, :time, :time] == 0, -math.inf)
        attended = (scores.softmax(dim=3) @ v).transpose(1, 2).reshape(batch, time, WIDTH)
        x = x + conv1d(attended, h + "attn.c_proj")
        x = x + conv1d(gelu(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


def main():
    save_file(dtypes(), os.path.join(FOLDER, "dtypes.safetensors"), {"format": "pt", "text": "caf\u00e9"})
    torch.manual_seed(0)
    parameters = gpt2_parameters()
    save_file(parameters, os.path.join(FOLDER, "gpt2.safetensors"), {"format": "pt"})
    ids = torch.randint(VOCABULARY, (2, CONTEXT))
    logits = gpt2_logits(ids, {name: value.double() for name, value in parameters.items()})
    with open(os.path.join(FOLDER, "gpt2.json"), "w") as file:
        json.dump({name: {"dtype": str(value.dtype)[6:], "shape": list(value.shape), "values": value.flatten().tolist()}
                   for name, value in {"ids": ids, "logits": logits}.items()}, file)


main()

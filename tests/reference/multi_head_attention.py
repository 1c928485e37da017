#!/usr/bin/python3
"""Writes multi_head_attention.json: torch.nn.MultiheadAttention under its own parameter names, in float64.

Needs Debian's python3-torch. Numbers are drawn from a fixed seed, so that a second run writes the same file.
"""
import json

import torch

from make_references import HERE, plain, randn

E, H, N, L, S = 4, 2, 2, 3, 4


def case(name, blocked=None, padding=None, **options):
    layer = torch.nn.MultiheadAttention(E, H, batch_first=True, **options)
    for parameter in layer.parameters():
        parameter.data = randn(*parameter.shape)
    inputs = [randn(N, L, E), randn(N, S, options.get("kdim", E)), randn(N, S, options.get("vdim", E))]
    for x in inputs:
        x.requires_grad_()
    masks = {"attn_mask": blocked, "key_padding_mask": padding}
    output, per_head = layer(*inputs, **masks, average_attn_weights=False)
    _, averaged = layer(*inputs, **masks)
    parameters = dict(layer.named_parameters())
    cotangent = randn(*output.shape)
    gradients = torch.autograd.grad(output, inputs + list(parameters.values()), cotangent)
    return {
        "name": name,
        "options": options,
        "blocked": plain(blocked),
        "padding": plain(padding),
        "parameters": {key: plain(value) for key, value in parameters.items()},
        "inputs": [plain(x) for x in inputs],
        "output": plain(output),
        "weights": plain(per_head),
        "averaged_weights": plain(averaged),
        "cotangent": plain(cotangent),
        "input_gradients": [plain(x) for x in gradients[:3]],
        "parameter_gradients": {key: plain(x) for key, x in zip(parameters, gradients[3:])},
    }


def main():
    torch.manual_seed(20)
    blocked = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]]).bool()
    padding = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]]).bool()
    per_head = torch.rand(N * H, L, S) < 0.4
    per_head[:, :, 0] = False
    blank = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]]).bool()
    cases = [
        case("all keys"),
        case("a mask", blocked),
        case("padded keys", padding=padding),
        case("a mask and padded keys", blocked, padding[[1, 1]]),
        case("a mask for each head", per_head),
        case("other widths", blocked, kdim=5, vdim=3),
        case("no bias", blocked, bias=False),
        case("a blank row", blank),
    ]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    (HERE / "multi_head_attention.json").write_text("[\n" + lines + "\n]\n")


main()

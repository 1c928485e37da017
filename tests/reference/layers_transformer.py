#!/usr/bin/python3
"""Writes layers_transformer.json: PyTorch's encoder and decoder layers in float64, outputs and all gradients.

Parameters and gradients have PyTorch's names; masks are True where a pair is allowed. Modules are in eval mode, or in
training with dropout 0: the same numbers.
"""
import json

import torch
from torch import nn

from make_references import HERE, plain, randn

WIDTH, HEADS, HIDDEN = 4, 2, 6


def causal(length):
    return torch.ones(length, length).tril().bool()


def case(kind, train=False, layers=0, norm=False, activation="relu", norm_first=False, eps=1e-5, target=None, memory=None):
    """`target` and `memory`: what may be attended to: (mask of True = allowed, lengths of keys), either None."""
    decoder = "Decoder" in kind
    layer = getattr(nn, "TransformerDecoderLayer" if decoder else "TransformerEncoderLayer")(
        WIDTH, HEADS, HIDDEN, dropout=0.0 if train else 0.3, activation=activation, layer_norm_eps=eps, batch_first=True,
        norm_first=norm_first)
    model = layer
    if layers:
        stack = {"TransformerEncoder": lambda *a: nn.TransformerEncoder(*a, enable_nested_tensor=False),
                 "TransformerDecoder": nn.TransformerDecoder}[kind]
        model = stack(layer, layers, nn.LayerNorm(WIDTH) if norm else None)
    model.train(train)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(randn(*p.shape) / 2)
    x = randn(2, 3, WIDTH).requires_grad_()
    inputs = {"x": x}
    if decoder:
        inputs["memory"] = randn(2, 5, WIDTH).requires_grad_()

    def blocked(which, keys):
        mask, lengths = which or (None, None)
        padded = None if lengths is None else torch.arange(keys) >= torch.tensor(lengths)[:, None]
        return None if mask is None else ~mask, padded

    mask, padded = blocked(target, 3)
    if decoder:
        memory_mask, memory_padded = blocked(memory, 5)
        y = model(x, inputs["memory"], tgt_mask=mask, memory_mask=memory_mask, tgt_key_padding_mask=padded,
                  memory_key_padding_mask=memory_padded)
    elif layers:
        y = model(x, mask=mask, src_key_padding_mask=padded)
    else:
        y = model(x, src_mask=mask, src_key_padding_mask=padded)
    cotangent = randn(*y.shape)
    y.backward(cotangent)
    parameters = {name: plain(p) for name, p in model.named_parameters()}
    gradients = {name: plain(t.grad) for name, t in (*model.named_parameters(), *inputs.items())}

    def described(which):
        mask, lengths = which or (None, None)
        return {"mask": None if mask is None else plain(mask), "lengths": lengths}

    return {"kind": kind, "train": train, "layers": layers, "norm": norm, "activation": activation,
            "norm_first": norm_first, "eps": eps, "target": described(target), "memory": described(memory),
            "parameters": parameters, "inputs": {name: plain(t) for name, t in inputs.items()}, "output": plain(y),
            "cotangent": plain(cotangent), "gradients": gradients}


def main():
    torch.manual_seed(51)
    some = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 1, 1]]).bool()
    across = torch.tensor([[1, 0, 1, 0, 1], [1, 1, 0, 0, 0], [1, 0, 0, 1, 1]]).bool()
    encoder, decoder = "TransformerEncoderLayer", "TransformerDecoderLayer"
    cases = [
        case(encoder),
        case(encoder, activation="gelu", norm_first=True, target=(causal(3), None)),
        case(encoder, train=True, norm_first=True, target=(None, [3, 1])),
        case(encoder, train=True, activation="gelu", eps=1e-2, target=(some, [3, 2])),
        case(decoder),
        case(decoder, activation="gelu", target=(causal(3), None), memory=(None, [2, 5])),
        case(decoder, norm_first=True, target=(some, [2, 3]), memory=(across, None)),
        case(decoder, train=True, activation="gelu", norm_first=True, target=(causal(3), [3, 2]), memory=(across, [4, 5])),
        case("TransformerEncoder", layers=2, norm_first=True, norm=True, activation="gelu", target=(causal(3), [3, 2])),
        case("TransformerEncoder", train=True, layers=2),
        case("TransformerDecoder", layers=2, norm=True, target=(causal(3), None), memory=(None, [5, 3])),
    ]
    text = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    (HERE / "layers_transformer.json").write_text("[\n" + text + "\n]\n")


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Writes positions.json: positional encodings and linear attention as their papers' PyTorch code computes them.

Needs Debian's python3-torch. Numbers are drawn from a fixed seed, so that a second run writes the same file.
"""
import json
import math

import torch

from make_references import HERE, plain, randn


def sinusoidal(length, width):
    """Vaswani et al. (2017), as in PyTorch's tutorial."""
    position = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


def rotary(x, offset, base):
    """LLaMA's rotate_half."""
    width = x.shape[-1]
    rate = 1.0 / base ** (torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(offset, offset + x.shape[-2]).double(), rate)
    angles = torch.cat([angles, angles], -1)
    half = torch.cat([-x[..., width // 2:], x[..., : width // 2]], -1)
    return x * angles.cos() + half * angles.sin()


def alibi_slopes(heads):
    """The function of Press et al.'s code."""
    def power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]
    if math.log2(heads).is_integer():
        return power(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return power(closest) + alibi_slopes(2 * closest)[0::2][: heads - closest]


def linear_attention(q, k, v, causal):
    """All pairs."""
    q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    weights = q @ k.transpose(-2, -1)
    if causal:
        weights = weights.tril()
    return weights @ v / weights.sum(-1, keepdim=True)


def differentiated(output, inputs):
    grad = randn(*output.shape)
    grads = torch.autograd.grad(output, inputs, grad)
    return {"inputs": [plain(x) for x in inputs], "output": plain(output), "grad": plain(grad),
            "grads": [plain(x) for x in grads]}


def main():
    torch.manual_seed(31)
    result = {"sinusoidal": plain(sinusoidal(7, 6)),
              "slopes": [alibi_slopes(heads) for heads in range(1, 17)], "rotary": [], "linear": []}
    for offset, base in ((0, 10000.0), (11, 500.0)):
        x = randn(2, 4, 6).requires_grad_()
        case = differentiated(rotary(x, offset, base), [x])
        result["rotary"].append({"offset": offset, "base": base, **case})
    for causal, queries, keys in ((False, 3, 5), (True, 7, 7)):
        inputs = [randn(2, n, w).requires_grad_() for n, w in ((queries, 3), (keys, 3), (keys, 2))]
        result["linear"].append({"causal": causal, **differentiated(linear_attention(*inputs, causal), inputs)})
    (HERE / "positions.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

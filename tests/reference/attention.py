#!/usr/bin/python3
"""Writes attention.json: scaled dot-product attention with its options, spelled out in PyTorch, in float64.

Needs Debian's python3-torch. Numbers are drawn from a fixed seed, so that a second run writes the same file.
"""
import torch

from make_references import Cases, randn

N, H, WIDTH, OUT = 2, 4, 3, 2


def attend(q, k, v, bias, causal=False, window=None, key_lengths=None, mask=None, scale=None):
    """Output and weights; a row that sees nothing is zero. Fewer heads of keys are repeated."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    queries, keys = q.shape[-2], k.shape[-2]
    scores = q @ k.transpose(-2, -1) * (WIDTH ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    ahead = torch.arange(keys) - (torch.arange(queries) + keys - queries).unsqueeze(1)
    allowed = torch.ones(N, H, queries, keys, dtype=torch.bool)
    if causal:
        allowed = allowed & (ahead <= 0)
    if window is not None:
        allowed = allowed & (ahead >= -window[0]) & (ahead <= window[1])
    if key_lengths is not None:
        allowed = allowed & (torch.arange(keys) < torch.tensor(key_lengths).reshape(N, 1, 1, 1))
    if mask is not None:
        allowed = allowed & torch.tensor(mask, dtype=torch.bool)
    blank = ~allowed.any(-1, keepdim=True)
    weights = scores.masked_fill(~allowed & ~blank, -torch.inf).softmax(-1).masked_fill(blank, 0.0)
    return weights @ v, weights


def main():
    torch.manual_seed(15)
    cases = Cases()

    def add(queries=4, keys=5, key_heads=H, bias=None, **options):
        inputs = [randn(N, H, queries, WIDTH), randn(N, key_heads, keys, WIDTH), randn(N, key_heads, keys, OUT),
                  None if bias is None else randn(*bias)]
        cases.add("attention", lambda *x: attend(*x, **options), inputs, **options)

    add()
    add(causal=True)
    add(queries=5, keys=3, causal=True)
    add(window=[1, 2], scale=0.8)
    add(queries=6, keys=6, window=[2, 0])
    add(key_lengths=[2, 5])
    add(mask=[[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 1]])
    add(key_heads=2)
    add(key_heads=1, causal=True, bias=[1, 5])
    add(bias=[H, 4, 5])
    add(bias=[N, 1, 4, 1], window=[2, 2])
    add(key_heads=2, bias=[4, 5], causal=True, window=[3, 1], key_lengths=[3, 5], scale=1.2,
        mask=[[1, 0, 1, 1, 0], [1, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 1, 0, 0, 1]])
    cases.write("attention.json")


if __name__ == "__main__":
    main()

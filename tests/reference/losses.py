#!/usr/bin/python3
"""Writes losses.json: PyTorch's losses with every reduction, at usual and at extreme values, and the layers with options
that layers.json leaves out. RMSNorm and SwiGLU, which PyTorch 1.13 doesn't have, are written out.

Needs Debian's python3-torch. Numbers are drawn from a fixed seed, so that a second run writes the same file.
"""
import torch
import torch.nn.functional as F

from make_references import Cases, randn

REDUCTIONS = ("none", "mean", "sum")


def elementwise(cases):
    edges = torch.tensor([0.0, -0.0, 0.3, -0.3, 1.0, -1.0, 2.5, -2.5, 40.0, -1000.0])
    for reduction in REDUCTIONS:
        def add(name, function, edges=edges, **options):
            for x, y in ((randn(3, 4), randn(3, 4)), (edges, torch.zeros_like(edges)), (randn(), randn())):
                cases.add(name, lambda x, y: function(x, y, reduction=reduction, **options), [x, y], reduction=reduction,
                          **options)

        add("mse_loss", F.mse_loss)
        add("l1_loss", F.l1_loss)
        for size in (0.3, 1.0, 2.5):
            add("smooth_l1_loss", F.smooth_l1_loss, beta=size)
            add("huber_loss", F.huber_loss, delta=size)
        add("smooth_l1_loss", F.smooth_l1_loss, edges[2:], beta=0.0)  # PyTorch's gradient at 0 is not that of l1_loss


def binary(cases):
    for reduction in REDUCTIONS:
        for weight, pos_weight in ((None, None), (torch.rand(4), None), (None, torch.rand(4) * 3), (torch.rand(3, 1), torch.rand(3, 4))):
            options = {name: tensor.tolist() for name, tensor in (("weight", weight), ("pos_weight", pos_weight)) if tensor is not None}
            for logits, labels in ((randn(3, 4), torch.rand(3, 4)),
                                   (torch.tensor([0.0, 30.0, -30.0, 800.0, -800.0, 1e-3] * 2).reshape(3, 4),
                                    torch.tensor([0.0, 1.0] * 3 + [1.0, 0.0] * 3).reshape(3, 4))):
                cases.add("binary_cross_entropy_with_logits",
                          lambda x, y: F.binary_cross_entropy_with_logits(x, y, weight, pos_weight=pos_weight,
                                                                           reduction=reduction),
                          [logits, labels], reduction=reduction, **options)


def divergence(cases):
    for reduction in REDUCTIONS + ("batchmean",):
        for log_target in (False, True):
            x, y = F.log_softmax(randn(3, 4) * 3, 1), F.softmax(randn(3, 4) * 3, 1)
            cases.add("kl_div", lambda x, y: F.kl_div(x, y, reduction=reduction, log_target=log_target),
                      [x, y.log() if log_target else y], reduction=reduction, log_target=log_target)
        zeros = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
        cases.add("kl_div", lambda x: F.kl_div(x, zeros, reduction=reduction), [F.log_softmax(randn(2, 3), 1)],
                  reduction=reduction, log_target=False, target=zeros.tolist())


def classes(cases):
    weight = torch.tensor([0.5, 2.0, 4.0])
    for reduction in REDUCTIONS:
        for shape in ((4, 3), (2, 3, 5), (2, 3, 2, 2), (3,)):
            target = torch.randint(0, 3, shape[:1] + shape[2:] if len(shape) > 1 else ())
            for options in ({}, {"weight": weight}, {"ignore_index": 1}, {"weight": weight, "ignore_index": 0}):
                if options.get("ignore_index") is not None and (target == options["ignore_index"]).all():
                    continue  # PyTorch's mean is NaN
                plain = {k: v.tolist() if k == "weight" else v for k, v in options.items()}
                cases.add("nll_loss", lambda x, t: F.nll_loss(x, t, reduction=reduction, **options), [randn(*shape), target],
                          reduction=reduction, **plain)
                cases.add("cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1, **options),
                          [randn(*shape) * 50, target], reduction=reduction, label_smoothing=0.1, **plain)
        spread = torch.softmax(randn(2, 3, 4), 1)
        cases.add("cross_entropy",
                  lambda x, t: F.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=0.3),
                  [randn(2, 3, 4), spread], reduction=reduction, label_smoothing=0.3, weight=weight.tolist())


def layers(cases):
    """Inputs are the layer's own input, then its parameters in the order of tapegrad's parameters()."""
    for shape in ((4,), (3, 4)):
        for affine in (0, 1, 2):
            cases.add("LayerNorm", lambda x, *p: F.layer_norm(x, shape, *p, eps=1e-3),
                      [randn(2, 3, 4)] + [randn(*shape) for _ in range(affine)], shape=list(shape), eps=1e-3, affine=affine)
    for eps in (1e-6, 0.1):
        cases.add("RMSNorm", lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w,
                  [randn(2, 3, 4), randn(4)], eps=eps)
    for padding in (0, 2, -1):
        cases.add("Embedding", lambda i, w: F.embedding(i, w, padding), [torch.randint(0, 4, (2, 5)), randn(4, 3)],
                  padding_idx=padding)
    cases.add("SwiGLU", lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d),
              [randn(2, 3, 4), randn(6, 4), randn(6, 4), randn(4, 6)])
    x = torch.tensor([0.0, 0.5, -0.5, 3.0, -3.0, 15.0, -15.0, 700.0, -700.0])
    for name, function in (("ReLU", F.relu), ("LeakyReLU", F.leaky_relu), ("ELU", F.elu), ("GELU", F.gelu), ("SiLU", F.silu),
                           ("Tanh", torch.tanh), ("Sigmoid", torch.sigmoid), ("Softplus", F.softplus),
                           ("Softmax", lambda x: F.softmax(x, 0)), ("LogSoftmax", lambda x: F.log_softmax(x, 0))):
        cases.add(name, function, [x])
    cases.add("LeakyReLU", lambda x: F.leaky_relu(x, 0.3), [x], negative_slope=0.3)
    cases.add("ELU", lambda x: F.elu(x, 0.7), [x], alpha=0.7)
    cases.add("GELU", lambda x: F.gelu(x, approximate="tanh"), [x], approximate="tanh")
    for name, function in (("Softmax", F.softmax), ("LogSoftmax", F.log_softmax)):
        cases.add(name, lambda x: function(x, 1), [randn(2, 3, 2)], axis=1)
    cases.add("RMSNorm", lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + torch.finfo(x.dtype).eps) * w,
              [randn(2, 4) * 1e-8, randn(4)])
    cases.add("SwiGLU", lambda x, g, gb, u, ub, d, db: F.linear(F.silu(F.linear(x, g, gb)) * F.linear(x, u, ub), d, db),
              [randn(2, 3, 4), randn(6, 4), randn(6), randn(6, 4), randn(6), randn(4, 6), randn(4)], bias=True)


def main():
    torch.manual_seed(20)
    cases = Cases()
    for part in (elementwise, binary, divergence, classes, layers):
        part(cases)
    cases.write("losses.json")


if __name__ == "__main__":
    main()

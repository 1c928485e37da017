#!/usr/bin/python3
"""Writes the files that reference_test.cpp reads: values, gradients and trajectories from PyTorch, in float64.

Needs Debian's python3-torch. Numbers are drawn from fixed seeds, so that a second run writes the same files.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
HERE = pathlib.Path(__file__).parent


def randn(*shape):
    return torch.round(torch.randn(shape) * 1000) / 1000


def positive(*shape):
    return randn(*shape).abs() + 0.25


def number(x):
    """JSON has no infinities and no NaN."""
    return x if math.isfinite(x) else repr(x)


def plain(tensor):
    if tensor is None:
        return None
    tensor = tensor.detach()
    kind = "boolean" if tensor.dtype == torch.bool else str(tensor.dtype).removeprefix("torch.")
    values = [number(x) if tensor.is_floating_point() else int(x) for x in tensor.reshape(-1).tolist()]
    return {"shape": list(tensor.shape), "dtype": kind, "values": values}


def differentiate(outputs, inputs):
    """Random gradients of the outputs, and the gradients of the floating inputs that follow from them."""
    cotangents = [randn(*out.shape).to(out.dtype) if out.requires_grad else None for out in outputs]
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if c is not None]
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    found = [None] * len(wanted)
    if pairs and wanted:
        found = torch.autograd.grad([o for o, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)
    found = iter(found)
    gradients = [next(found) if x is not None and x.requires_grad else None for x in inputs]
    return cotangents, gradients


class Cases:
    def __init__(self):
        self.list = []

    def add(self, operation, function, inputs, **arguments):
        inputs = [None if x is None else x.clone() for x in inputs]
        for x in inputs:
            if x is not None and x.is_floating_point():
                x.requires_grad_()
        outputs = function(*inputs)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        cotangents, gradients = differentiate(outputs, inputs)
        self.list.append({
            "operation": operation,
            "arguments": arguments,
            "inputs": [plain(x) for x in inputs],
            "outputs": [plain(x) for x in outputs],
            "cotangents": [plain(x) for x in cotangents],
            "gradients": [plain(x) for x in gradients],
        })

    def write(self, name):
        text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in self.list)
        (HERE / name).write_text("[\n" + text + "\n]\n")


def elementwise(cases):
    shapes = [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ()), ((), (2, 2)),
              ((1,), (4,)), ((2, 0), (2, 0)), ((0,), (1,)), ((2, 1, 3), (4, 1)), ((1, 1), (1,))]
    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
              "minimum": torch.minimum}
    for name, function in binary.items():
        for a, b in shapes:
            second = positive(*b) if name == "div" else randn(*b)
            cases.add(name, function, [randn(*a), second])
    for name in ("maximum", "minimum"):
        cases.add(name, binary[name], [torch.tensor([1.0, 2.0, -3.0]), torch.tensor([1.0, 5.0, -3.0])])
    for a, b in shapes:
        cases.add("pow", torch.pow, [positive(*a), randn(*b)])
        cases.add("where", torch.where, [randn(*a) > 0, randn(*a), randn(*b)])
    cases.add("pow", torch.pow, [torch.tensor([0.0, 0.0, 2.0]), torch.tensor([2.0, 3.0, 0.0])])
    for exponent in (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 2.5):
        cases.add("pow_scalar", lambda x: torch.pow(x, exponent), [positive(2, 3)], scalar=exponent)
    cases.add("pow_scalar", lambda x: torch.pow(x, 3), [randn(4)], scalar=3)
    cases.add("scalar_pow", lambda x: torch.pow(2.5, x), [randn(2, 3)], scalar=2.5)
    for shape in ((), (5,), (2, 3), (0, 2)):
        s = 1.75
        cases.add("add_scalar", lambda x: x + s, [randn(*shape)], scalar=s)
        cases.add("sub_scalar", lambda x: x - s, [randn(*shape)], scalar=s)
        cases.add("scalar_sub", lambda x: s - x, [randn(*shape)], scalar=s)
        cases.add("mul_scalar", lambda x: x * s, [randn(*shape)], scalar=s)
        cases.add("div_scalar", lambda x: x / s, [randn(*shape)], scalar=s)
        cases.add("scalar_div", lambda x: s / x, [positive(*shape)], scalar=s)

    anywhere = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "square": torch.square,
                "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid,
                "softplus": F.softplus, "relu": torch.relu, "silu": F.silu, "floor": torch.floor, "ceil": torch.ceil,
                "round": torch.round, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    above_zero = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
                  "reciprocal": torch.reciprocal}
    for functions, draw in ((anywhere, randn), (above_zero, positive)):
        for name, function in functions.items():
            for shape in ((), (1,), (7,), (2, 3), (2, 0), (2, 1, 3)):
                cases.add(name, function, [draw(*shape)])
    far = torch.tensor([-40.0, -9.0, -3.0, 0.0, 3.0, 9.0, 15.0])
    for name in ("tanh", "erf", "sigmoid", "softplus", "silu", "gelu", "gelu_tanh", "relu", "abs", "sign"):
        cases.add(name, anywhere[name], [far])
    cases.add("round", torch.round, [torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5])])
    cases.add("clamp", lambda x: torch.clamp(x, -0.5, 0.75), [torch.tensor([-2.0, -0.5, 0.0, 0.75, 3.0])], low=-0.5,
              high=0.75)
    for name, function in (("eq", torch.eq), ("ne", torch.ne), ("lt", torch.lt), ("le", torch.le), ("gt", torch.gt),
                           ("ge", torch.ge)):
        cases.add(name, function, [torch.tensor([[1.0, 2.0], [3.0, math.nan]]), torch.tensor([1.0, 3.0])])


def reductions(cases):
    for shape in ((), (4,), (2, 3), (2, 3, 4), (2, 1, 3)):
        axes = [()] + ([(0,), (-1,)] if shape else []) + ([(0, 1), (0, -1)] if len(shape) > 1 else [])
        for axis in axes:
            for keepdim in (False, True):
                dims = axis or tuple(range(len(shape)))
                call = dict(axes=list(axis), keepdim=keepdim)
                cases.add("sum", lambda x: torch.sum(x, dims, keepdim) if dims else x.sum(), [randn(*shape)], **call)
                cases.add("mean", lambda x: torch.mean(x, dims, keepdim) if dims else x.mean(), [randn(*shape)], **call)
                if not shape:
                    continue
                cases.add("amax", lambda x: torch.amax(x, dims, keepdim), [randn(*shape)], **call)
                cases.add("amin", lambda x: torch.amin(x, dims, keepdim), [randn(*shape)], **call)
                for correction in (0, 1):
                    if math.prod(shape[d] for d in dims) > correction:
                        cases.add("var", lambda x: torch.var(x, dims, correction=correction, keepdim=keepdim),
                                  [randn(*shape)], correction=correction, **call)
                if len(axis) == 1:
                    a = axis[0]
                    cases.add("max_axis", lambda x: torch.max(x, a, keepdim)[0], [randn(*shape)], axis=a, keepdim=keepdim)
                    cases.add("min_axis", lambda x: torch.min(x, a, keepdim)[0], [randn(*shape)], axis=a, keepdim=keepdim)
                    cases.add("argmax", lambda x: torch.argmax(x, a, keepdim), [randn(*shape)], axis=a, keepdim=keepdim)
                    cases.add("argmin", lambda x: torch.argmin(x, a, keepdim), [randn(*shape)], axis=a, keepdim=keepdim)
                    cases.add("logsumexp", lambda x: torch.logsumexp(x, a, keepdim), [randn(*shape)], axis=a,
                              keepdim=keepdim)
    ties = torch.tensor([[1.0, 3.0, 3.0], [3.0, 0.0, -1.0]])
    cases.add("amax", lambda x: torch.amax(x, (0, 1)), [ties], axes=[0, 1], keepdim=False)
    cases.add("amax", lambda x: torch.amax(x, 1), [ties], axes=[1], keepdim=False)
    cases.add("max", torch.max, [ties])
    cases.add("min", torch.min, [randn(2, 3)])
    cases.add("sum", lambda x: torch.sum(x, 0), [randn(0, 3)], axes=[0], keepdim=False)
    cases.add("sum", lambda x: torch.sum(x, 1), [randn(2, 0)], axes=[1], keepdim=False)
    cases.add("sum", torch.sum, [torch.tensor([True, False, True])], axes=[], keepdim=False)
    cases.add("logsumexp", lambda x: torch.logsumexp(x, 0), [torch.tensor([1000.0, 1001.0])], axis=0, keepdim=False)
    for shape in ((), (3,), (2, 3)):
        cases.add("norm", torch.norm, [randn(*shape)])
    cases.add("norm", torch.norm, [torch.zeros(2)])
    for shape, to in (((2, 3), (3,)), ((2, 3), (1, 3)), ((2, 3), (2, 1)), ((2, 3), ()), ((4, 2, 3), (2, 1))):
        cases.add("sum_to", lambda x: x.sum_to_size(*to) if to else x.sum(), [randn(*shape)], shape=list(to))
    bits = torch.tensor([[True, False], [True, True], [False, False]])
    for name, function in (("any", torch.any), ("all", torch.all)):
        for axis in (0, 1):
            cases.add(name, lambda x: function(x, axis), [bits], axes=[axis], keepdim=False)


def numbers(cases):
    for name, function in (("expm1", torch.expm1), ("tan", torch.tan), ("atan", torch.atan)):
        for shape in ((), (1,), (7,), (2, 3), (2, 0), (2, 1, 3)):
            cases.add(name, function, [randn(*shape)])
    cases.add("expm1", torch.expm1, [torch.tensor([-40.0, -1e-9, 0.0, 1e-12, 30.0])])
    cases.add("atan", torch.atan, [torch.tensor([-1e30, -2.0, 0.0, 0.5, 1e5, math.inf])])
    kinks = torch.tensor([-800.0, -1.5, 0.0, 0.25, 800.0])
    for shape in ((), (5,), (2, 3), (0, 2)):
        for x in (randn(*shape), kinks):
            cases.add("leaky_relu", lambda x: F.leaky_relu(x), [x], negative_slope=0.01)
            cases.add("leaky_relu", lambda x: F.leaky_relu(x, 0.3), [x], negative_slope=0.3)
            cases.add("elu", lambda x: F.elu(x), [x], alpha=1.0)
            cases.add("elu", lambda x: F.elu(x, 0.7), [x], alpha=0.7)
            cases.add("clamp_min", lambda x: torch.clamp(x, min=0.25), [x], low=0.25)
            cases.add("clamp_max", lambda x: torch.clamp(x, max=0.25), [x], high=0.25)
    for a, b, w in (((), (), ()), ((2, 3), (3,), (2, 1)), ((4,), (4,), ()), ((2, 0), (1,), (1,)), ((1,), (2, 2), (2, 1))):
        cases.add("lerp", torch.lerp, [randn(*a), randn(*b), randn(*w)])
        for weight in (0.0, 0.3, 0.8, 1.0):
            cases.add("lerp_number", lambda x, y: torch.lerp(x, y, weight), [randn(*a), randn(*b)], weight=weight)
    odd = torch.tensor([math.nan, math.inf, -math.inf, 0.0, 2.5])
    cases.add("isnan", torch.isnan, [odd])
    cases.add("isfinite", torch.isfinite, [odd])
    bits = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    for name, function in (("logical_and", torch.logical_and), ("logical_or", torch.logical_or),
                           ("logical_xor", torch.logical_xor)):
        cases.add(name, function, bits)
        cases.add(name, function, [torch.tensor([[0, 2], [3, 0]]), torch.tensor([1.5, 0.0])])
    cases.add("logical_not", torch.logical_not, [torch.tensor([[0, 2], [3, 0]])])
    reductions_of_numbers(cases)
    orders(cases)
    for shape, rank in (((2, 3), 1), ((2, 3, 4), 2), ((0, 3), 1), ((4,), 1)):
        for eps in (1e-5, 2.0**-52):
            dims = tuple(range(len(shape) - rank, len(shape)))
            norm = lambda x, w: x * torch.rsqrt(x.square().mean(dims, keepdim=True) + eps) * (1 if w is None else w)
            cases.add("rms_norm", norm, [randn(*shape), randn(*shape[-rank:])], eps=eps, rank=rank)
            cases.add("rms_norm", norm, [randn(*shape), None], eps=eps, rank=rank)
    far = torch.tensor([-1e300, -800.0, -30.0, -1.5, 0.0, 0.25, 1.0, 7.75, 8.25, 19.5, 20.5, 800.0, 1e300])
    for beta, threshold in ((1.0, 20.0), (2.5, 20.0), (0.5, 1.0), (-2.0, 20.0)):
        cases.add("softplus_cut", lambda x: F.softplus(x, beta, threshold), [far], beta=beta, threshold=threshold)


def products(x, dims, keepdim):
    for dim in sorted((d % max(x.dim(), 1) for d in dims), reverse=True):
        x = torch.prod(x, dim, keepdim)
    return x


def reductions_of_numbers(cases):
    for shape in ((), (4,), (2, 3), (2, 3, 4), (2, 1, 3)):
        axes = [()] + ([(0,), (-1,)] if shape else []) + ([(0, 1), (0, -1)] if len(shape) > 1 else [])
        for axis in axes:
            for keepdim in (False, True):
                dims = axis or tuple(range(len(shape)))
                call = dict(axes=list(axis), keepdim=keepdim)
                cases.add("prod", lambda x: products(x, dims, keepdim), [randn(*shape)], **call)
                cases.add("logsumexp_axes", lambda x: torch.logsumexp(x, dims, keepdim), [randn(*shape)], **call)
                for correction in (0, 1):
                    if math.prod(shape[d] for d in dims) > correction:
                        cases.add("std", lambda x: torch.std(x, dims, correction=correction, keepdim=keepdim),
                                  [randn(*shape)], correction=correction, **call)
                for p in (0.5, 1.0, 1.5, 2.0, 3.0, math.inf):
                    cases.add("p_norm", lambda x: torch.norm(x, p, dims, keepdim) if dims else torch.norm(x, p),
                              [randn(*shape)], p=number(p), **call)
        cases.add("argmax_all", torch.argmax, [randn(*shape)])
        cases.add("argmin_all", torch.argmin, [randn(*shape)])
        for axis in range(-1, len(shape)):
            cases.add("cumsum", lambda x: torch.cumsum(x, axis), [randn(*shape)], axis=axis)
    cases.add("cumsum", lambda x: torch.cumsum(x, 1), [torch.tensor([[1, 2, 3], [4, 5, 6]])], axis=1)
    cases.add("cumsum", lambda x: torch.cumsum(x, 0), [torch.tensor([True, False, True])], axis=0)
    cases.add("cumsum", lambda x: torch.cumsum(x, 0), [randn(0, 2)], axis=0)
    zeros = torch.tensor([[2.0, 0.0, 3.0], [0.0, 4.0, 0.0], [1.0, 2.0, 5.0]])
    cases.add("prod", lambda x: torch.prod(x, 1), [zeros], axes=[1], keepdim=False)
    cases.add("prod", torch.prod, [zeros], axes=[], keepdim=False)
    cases.add("prod", lambda x: torch.prod(x, 0), [torch.tensor([[2, 3], [4, 5]])], axes=[0], keepdim=False)
    cases.add("prod", lambda x: torch.prod(x, 0), [randn(0, 3)], axes=[0], keepdim=False)
    cases.add("std", lambda x: torch.std(x, 1), [torch.full((2, 3), 1.5)], axes=[1], correction=1, keepdim=False)
    some_zeros = torch.tensor([[0.0, 0.0], [0.0, -2.0], [3.0, -3.0]])
    for p in (0.5, 1.0, 1.5, 2.0, 3.0, math.inf):
        cases.add("p_norm", lambda x: torch.norm(x, p, 1), [some_zeros], p=number(p), axes=[1], keepdim=False)


def orders(cases):
    nan, inf = math.nan, math.inf
    ties = torch.tensor([[3.0, 1.0, 3.0, nan, 1.0], [nan, -inf, 0.0, inf, nan], [2.0, 2.0, 2.0, 2.0, 2.0]])
    for x in (randn(), randn(6), randn(3, 4), randn(2, 3, 2), ties, randn(0, 3), randn(3, 0),
              torch.tensor([[3, 1, 2], [1, 1, 0]]), torch.tensor([True, False, True])):
        for axis in range(-1, x.dim()):
            for down in (False, True):
                call = dict(axis=axis, descending=down)
                cases.add("sort", lambda x: torch.sort(x, dim=axis, descending=down, stable=True)[0], [x], **call)
                cases.add("argsort", lambda x: torch.sort(x, dim=axis, descending=down, stable=True)[1], [x], **call)
    for x in (randn(7), randn(3, 4), randn(2, 3, 4), randn(5, 2), torch.tensor([5, 1, 4, 2])):
        for axis in range(-1, x.dim()):
            for k in {0, 1, x.shape[axis] - 1, x.shape[axis]}:
                for largest in (True, False):
                    call = dict(k=k, axis=axis, largest=largest)
                    cases.add("topk", lambda x: torch.topk(x, k, axis, largest)[0], [x], **call)
                    cases.add("topk_indices", lambda x: torch.topk(x, k, axis, largest)[1], [x], **call)
    for indices, classes in ((torch.tensor([2, 0, 1]), 4), (torch.tensor(1), 2), (torch.tensor([[0], [2]]), 3)):
        cases.add("one_hot", lambda i: F.one_hot(i, classes), [indices], classes=classes)


def shaping(cases):
    cases.add("reshape", lambda x: x.reshape(3, 2), [randn(2, 3)], shape=[3, 2])
    cases.add("reshape", lambda x: x.reshape(4, -1), [randn(2, 2, 3)], shape=[4, -1])
    cases.add("reshape", lambda x: x.reshape(()), [randn(1, 1)], shape=[])
    cases.add("reshape", lambda x: x.reshape(3, 0), [randn(0, 2)], shape=[3, 0])
    cases.add("flatten", lambda x: x.flatten(1, 2), [randn(2, 3, 2, 1)], first=1, last=2)
    cases.add("transpose", lambda x: x.transpose(0, -1), [randn(2, 3, 4)], a=0, b=-1)
    cases.add("permute", lambda x: x.permute(2, 0, 1), [randn(2, 3, 4)], shape=[2, 0, 1])
    cases.add("squeeze", lambda x: x.squeeze(1), [randn(2, 1, 3)], axis=1)
    cases.add("unsqueeze", lambda x: x.unsqueeze(-1), [randn(2, 3)], axis=-1)
    cases.add("expand", lambda x: x.expand(4, 2, 3), [randn(2, 1)], shape=[4, 2, 3])
    cases.add("expand", lambda x: x.expand(2, 2), [randn()], shape=[2, 2])
    cases.add("expand", lambda x: x.expand(0, 3), [randn(1, 3)], shape=[0, 3])
    for start, stop, step in ((1, 4, 1), (0, 5, 2), (-3, 100, 1), (3, 1, 1)):
        cases.add("slice", lambda x: x[:, slice(start, stop, step)], [randn(2, 5)], axis=1, start=start, stop=stop,
                  step=step)
    cases.add("select", lambda x: x.select(1, -2), [randn(2, 3, 2)], axis=1, index=-2)
    cases.add("cat", lambda *x: torch.cat(x, 1), [randn(2, 3), randn(2, 1), randn(2, 0)], axis=1)
    cases.add("cat", lambda *x: torch.cat(x, -2), [randn(1, 2), randn(3, 2)], axis=-2)
    cases.add("stack", lambda *x: torch.stack(x, -1), [randn(2, 3), randn(2, 3)], axis=-1)
    cases.add("flip", lambda x: x.flip(0, 1), [randn(2, 3)], axes=[0, 1])
    for diagonal in (-1, 0, 1):
        cases.add("tril", lambda x: x.tril(diagonal), [randn(2, 3, 4)], diagonal=diagonal)
        cases.add("triu", lambda x: x.triu(diagonal), [randn(4, 3)], diagonal=diagonal)
    cases.add("masked_fill", lambda x, m: x.masked_fill(m, 2.5), [randn(2, 3), randn(3) > 0], scalar=2.5)
    index = torch.tensor([2, 0, 2])
    cases.add("index_select", lambda x, i: x.index_select(0, i), [randn(3, 2), index], axis=0)
    cases.add("index_select", lambda x, i: x.index_select(-1, i), [randn(2, 4), index], axis=-1)
    cases.add("gather", lambda x, i: x.gather(1, i), [randn(2, 3), torch.tensor([[0, 0], [2, 1]])], axis=1)


def matrices(cases):
    shapes = [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3, 4)), ((3, 4), (2, 4, 5)),
              ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((3,), (2, 3, 4)), ((2, 4, 3), (3,)), ((1, 1), (1, 1)),
              ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((9, 17), (17, 5))]
    for a, b in shapes:
        cases.add("matmul", torch.matmul, [randn(*a), randn(*b)])
    for name, function in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
        for shape, axis in (((4,), 0), ((2, 3), 1), ((2, 3), 0), ((2, 3, 4), 1), ((2, 1), -1), ((0, 3), 1), ((3, 19), -1)):
            cases.add(name, lambda x: function(x, axis), [randn(*shape)], axis=axis)
        cases.add(name, lambda x: function(x, 0), [torch.tensor([1000.0, 1001.0, -1000.0])], axis=0)
    for shape, rank in (((2, 5), 1), ((3, 2, 4), 1), ((2, 3, 4), 2), ((6,), 1), ((0, 4), 1), ((2, 19), 1)):
        normalized = shape[len(shape) - rank:]
        for weight, bias in ((True, True), (True, False), (False, False)):
            cases.add("layer_norm", lambda x, w, b: F.layer_norm(x, normalized, w, b, 1e-5),
                      [randn(*shape), randn(*normalized) if weight else None, randn(*normalized) if bias else None],
                      rank=rank, eps=1e-5)
    for shape in ((), (4,), (2, 3), (0,)):
        index = torch.randint(0, 5, shape)
        cases.add("embedding", lambda w, i: F.embedding(i, w), [randn(5, 3), index])
        cases.add("embedding", lambda w, i: F.embedding(i, w, padding_idx=2), [randn(5, 3), index], padding=2)
    for shape, out in (((3,), 2), ((4, 3), 2), ((2, 2, 3), 1), ((0, 3), 2), ((5, 17), 9)):
        for bias in (True, False):
            cases.add("linear", F.linear, [randn(*shape), randn(out, shape[-1]), randn(out) if bias else None])
    for rows, classes in ((3, 4), (1, 2), (0, 3), (5, 19)):
        target = torch.randint(0, classes, (rows,))
        cases.add("cross_entropy_rows", lambda x, t: F.cross_entropy(x, t, reduction="none"),
                  [randn(rows, classes), target], ignore=-100)
    cases.add("cross_entropy_rows", lambda x, t: F.cross_entropy(x, t, reduction="none"),
              [torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 2.0]]), torch.tensor([0, -100, 2])], ignore=-100)
    cases.add("cross_entropy_rows", lambda x, t: F.cross_entropy(x, t, reduction="none"),
              [torch.tensor([[1000.0, 0.0], [1000.0, 0.0]]), torch.tensor([1, 0])], ignore=-100)
    for shape, out in (((3,), 2), ((4, 3), 2), ((2, 2, 3), 1), ((0, 3), 2), ((5, 17), 9)):
        for bias in (True, False):
            cases.add("gelu_linear", lambda x, w, b: F.linear(F.gelu(x), w, b),
                      [randn(*shape), randn(out, shape[-1]), randn(out) if bias else None])


def shapes_and_indices(cases):
    cases.add("broadcast_to", lambda x: x.broadcast_to(2, 3, 2), [randn(3, 1)], shape=[2, 3, 2])
    cases.add("view_as", lambda x, y: x.view_as(y), [randn(2, 6), torch.zeros(3, 4).long()])
    for shape in ((1, 2, 1, 3), (1, 1), (), (1, 0)):
        cases.add("squeeze_all", torch.squeeze, [randn(*shape)])
    for shape, source, target in (((2, 3, 4), (0,), (-1,)), ((2, 3, 4, 1), (0, -1), (2, 0)), ((2, 3), (), ()),
                                  ((2, 0, 3), (2, 1, 0), (0, 1, 2))):
        cases.add("movedim", lambda x: x.movedim(source, target), [randn(*shape)], **{"from": source, "to": target})
    for shape, shifts, axes in (((5,), (2,), (0,)), ((2, 3), (-1,), ()), ((3, 4), (5, -6), (0, -1)), ((2, 3), (1, 1), (1, 1)),
                                ((0, 2), (1,), (0,)), ((2, 3), (3,), (1,)), ((), (1,), ())):
        cases.add("roll", lambda x: x.roll(shifts, axes) if axes else x.roll(shifts[0]), [randn(*shape)], shifts=shifts,
                  axes=axes)
    for shape, repeats in (((2, 3), (2, 2)), ((3,), (2, 1, 2)), ((2, 1), (1, 0)), ((), (3,)), ((), ()), ((0, 2), (2, 3)),
                           ((2, 3), (1, 1)), ((2, 3, 2), (1, 2, 3))):
        cases.add("repeat", lambda x: x.repeat(repeats), [randn(*shape)], repeats=repeats)
    for shape, pads in (((3,), (1, 2)), ((2, 3), (1, 0)), ((2, 3), (0, 1, 2, 0)), ((2, 3, 4), (-1, 2, 1, -1)),
                        ((2, 3), (-2, 0)), ((2, 3), (-1, -2)), ((0, 2), (0, 0, 1, 1)), ((2, 2), (0, 0)), ((), ())):
        for value in (0.0, -2.5):
            cases.add("pad", lambda x: F.pad(x, pads, value=value), [randn(*shape)], pads=pads, scalar=value)
    for shape, offset, a, b in (((3, 4), 0, 0, 1), ((3, 4), 2, 0, 1), ((4, 3), -2, 0, 1), ((2, 3, 4), 1, 0, 2),
                                ((2, 3, 4), -1, -1, 1), ((3, 4), 5, 0, 1), ((0, 3), 0, 0, 1)):
        cases.add("diagonal", lambda x: x.diagonal(offset, a, b), [randn(*shape)], offset=offset, axis1=a, axis2=b)
    for size, sizes, axis in ((5, 2, 0), (6, 3, 1), (5, 9, 0), (5, [1, 4], -1), (4, [2, 0, 2], 0), (0, 2, 0)):
        x = randn(size, 2) if axis == 0 else randn(2, size)
        for piece in range(len(x.split(sizes, axis))):
            cases.add("split", lambda x: x.split(sizes, axis)[piece], [x], sizes=sizes, axis=axis, piece=piece)
    for size, count in ((5, 2), (5, 4), (6, 3), (2, 5), (0, 3)):
        x = randn(2, size)
        for piece in range(len(x.chunk(count, 1))):
            cases.add("chunk", lambda x: x.chunk(count, 1)[piece], [x], count=count, axis=1, piece=piece)
    for axis in (0, 1, -1):
        cases.add("unbind", lambda x: x.unbind(axis)[1], [randn(2, 3, 4)], axis=axis, piece=1)
    cases.add("outer", torch.outer, [randn(3), randn(2)])
    cases.add("outer", torch.outer, [randn(0), randn(2)])
    for shape in ((3, 3), (2, 4), (0, 0)):
        cases.add("trace", torch.trace, [randn(*shape)])
    places(cases)
    for _ in range(150):
        random_index(cases)
    for _ in range(150):
        random_einsum(cases)


def places(cases):
    for axis, start, count in ((0, 1, 2), (1, -2, 2), (-1, 0, 0), (0, 3, 0)):
        cases.add("narrow", lambda x: x.narrow(axis, start, count), [randn(3, 4)], axis=axis, start=start, count=count)
    for shape, index, axis in (((3, 4), (2, 3), 0), ((3, 4), (5, 4), 0), ((3, 4), (2, 6), 1), ((3, 4, 2), (2, 3, 1), -1),
                               ((3,), (5,), 0), ((3, 4), (0, 4), 0), ((3, 4), (2, 0), 0)):
        i = torch.randint(0, shape[axis], index)
        cases.add("gather_corner", lambda x, i: x.gather(axis, i), [randn(*shape), i], axis=axis)
        cases.add("scatter_add", lambda x, i, s: x.scatter_add(axis, i, s), [randn(*shape), i, randn(*index)], axis=axis)
        larger = tuple(size + 1 for size in index)
        part = tuple(slice(size) for size in index)
        cases.add("scatter_add", lambda x, i, s: x.scatter_add(axis, i, s[part]), [randn(*shape), i, randn(*larger)],
                  axis=axis)
    integers = torch.tensor([5, 6, 7])
    cases.add("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), [integers, torch.tensor([2, 2]), integers], axis=0)
    for shape, index, axis in (((3, 4), (3, 2), 1), ((3, 4), (1, 2), 1), ((1, 4), (3, 2), -1), ((2, 1, 3), (5, 4, 1), 0)):
        i = torch.randint(0, shape[axis], index)
        cases.add("take_along_dim", lambda x, i: torch.take_along_dim(x, i, axis), [randn(*shape), i], axis=axis)
    for shape, mask in (((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 4), (3, 1)), ((), ()), ((0, 2), (0, 2)),
                        ((2, 3), ())):
        cases.add("masked_select", torch.masked_select, [randn(*shape), randn(*mask) > 0])
    for shape in ((5,), (3, 4), (), (2, 0), (2, 2, 3)):
        cases.add("nonzero", torch.nonzero, [randn(*shape) > 0])


def random_index(cases):
    """An index that NumPy takes: its positions, among the numbers of the elements, say what PyTorch has to read."""
    draw = np.random.default_rng(torch.randint(0, 2**31, ()).item())
    shape = tuple(int(n) for n in draw.integers(2, 5, draw.integers(1, 5)))
    items, keys, tensors, axis = [], [], [], 0
    common = [int(n) for n in draw.choice([1, 2, 3], draw.integers(0, 3))]
    masks = 0
    while axis < len(shape) and len(items) < 7:
        size, kind = shape[axis], draw.choice(["integer", "slice", "new", "...", "tensor", "mask", "end"],
                                              p=[.15, .3, .1, .1, .25, .05, .05])
        if kind == "end":
            break
        if kind == "integer":
            keys.append(int(draw.integers(-size, size)))
            items.append(keys[-1])
        elif kind == "slice":
            bound = [None if draw.random() < .4 else int(draw.integers(-size - 1, size + 2)) for _ in range(2)]
            bound.append(None if draw.random() < .4 else int(draw.choice([-2, -1, 1, 2, 3])))
            keys.append(slice(*bound))
            items.append(bound)
        elif kind == "new":
            keys.append(None)
            items.append("new")
        elif kind == "...":
            if Ellipsis in [key for key in keys if not isinstance(key, np.ndarray)]:
                continue
            left = int(draw.integers(0, len(shape) - axis + 1))
            keys.append(Ellipsis)
            items.append("...")
            axis += left - 1
        else:
            if kind == "mask" and common not in ([], [1]) or kind == "mask" and masks:
                continue
            if kind == "mask":
                rank = int(draw.integers(1, len(shape) - axis + 1))
                keys.append(draw.random(shape[axis:axis + rank]) < .4)
                axis += rank - 1
                masks += 1
            else:
                one = [1 if draw.random() < .2 else n for n in common][draw.integers(0, len(common) + 1):]
                keys.append(np.array(draw.integers(-size, size, one)))
            tensors.append(torch.from_numpy(keys[-1]))
            items.append({"input": len(tensors)})
        axis += kind != "new"
    try:
        numbers = np.array(np.arange(math.prod(shape)).reshape(shape)[tuple(keys)])
    except IndexError:  # what follows an ellipsis may meet another axis than it was drawn for
        return random_index(cases)
    cases.add("index", lambda x, *_: x.reshape(-1)[torch.from_numpy(numbers)], [randn(*shape)] + tensors, items=items)


def random_einsum(cases):
    draw = np.random.default_rng(torch.randint(0, 2**31, ()).item())
    labels = list(draw.permutation(list("abcdeXY"))[:draw.integers(1, 6)])
    sizes = {label: int(draw.choice([0, 1, 2, 3, 4], p=[.03, .12, .35, .3, .2])) for label in labels}
    rest = [int(n) for n in draw.integers(1, 4, draw.integers(0, 3))]
    terms, operands = [], []
    for _ in range(draw.choice([1, 2, 3, 4], p=[.2, .5, .2, .1])):
        term = list(draw.choice(labels, draw.integers(0, min(4, len(labels) + 1)), replace=bool(draw.random() < .2)))
        narrow = draw.random() < .1 and len(set(term)) == len(term)
        shape = [1 if narrow else sizes[label] for label in term]
        if draw.random() < .35:
            at = draw.integers(0, len(term) + 1)
            own = rest[draw.integers(0, len(rest) + 1):]
            shape[at:at] = [1 if draw.random() < .2 else n for n in own]
            term.insert(at, "...")
        terms.append("".join(term))
        operands.append(randn(*shape))
    equation = draw.choice([",", ", "]).join(terms)
    if draw.random() < .8:
        used = sorted(set("".join(terms)) - {"."})
        output = list(draw.permutation(used)[:draw.integers(0, len(used) + 1)]) if used else []
        if "..." in equation and draw.random() < .8:
            output.insert(draw.integers(0, len(output) + 1), "...")
        equation += draw.choice(["->", " -> "]) + "".join(output)
    cases.add("einsum", lambda *x: torch.einsum(equation, *x), operands, equation=equation)


def layers(cases):
    """Inputs are the layer's own inputs, then its parameters in the order of tapegrad's parameters()."""
    for reduction in ("none", "mean", "sum"):
        cases.add("mse_loss", lambda x, y: F.mse_loss(x, y, reduction=reduction), [randn(2, 3), randn(2, 3)],
                  reduction=reduction)
        for shape in ((4, 3), (2, 3, 5), (2, 3, 2, 2), (3,)):
            target = torch.randint(0, 3, shape[:1] + shape[2:] if len(shape) > 1 else ())
            cases.add("cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction=reduction), [randn(*shape), target],
                      reduction=reduction)
        target = torch.tensor([0, -100, 2, 1])
        weight = torch.tensor([1.0, 2.0, 4.0])
        cases.add("cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction=reduction), [randn(4, 3), target],
                  reduction=reduction)
        cases.add("cross_entropy", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, reduction=reduction),
                  [randn(4, 3), target], reduction=reduction, label_smoothing=0.1)
        cases.add("cross_entropy", lambda x, t: F.cross_entropy(x, t, weight, reduction=reduction), [randn(4, 3), target],
                  reduction=reduction, weight=weight.tolist())
        cases.add("cross_entropy",
                  lambda x, t: F.cross_entropy(x, t, weight, label_smoothing=0.2, reduction=reduction),
                  [randn(4, 3), target], reduction=reduction, weight=weight.tolist(), label_smoothing=0.2)
        probabilities = torch.softmax(randn(4, 3), 1)
        cases.add("cross_entropy_probabilities", lambda x, t: F.cross_entropy(x, t, reduction=reduction),
                  [randn(4, 3), probabilities], reduction=reduction)
    for bias in (True, False):
        cases.add("Linear", F.linear, [randn(2, 4, 3), randn(5, 3)] + ([randn(5)] if bias else []), bias=bias)
    cases.add("LayerNorm", lambda x, w, b: F.layer_norm(x, (4,), w, b), [randn(3, 4), randn(4), randn(4)], shape=[4])
    cases.add("Embedding", lambda i, w: F.embedding(i, w), [torch.randint(0, 6, (2, 3)), randn(6, 4)], rows=6, width=4)
    attention(cases)


def attention(cases):
    width, heads = 8, 2
    for causal, masked, bias in ((False, False, True), (True, False, True), (False, True, True), (False, False, False)):
        allowed = torch.tensor([[1, 0, 1, 0, 0], [1, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]]).bool()
        if causal:
            allowed = torch.ones(5, 5).tril().bool()

        def call(x, *p):
            names = ("wq", "bq", "wk", "bk", "wv", "bv", "wo", "bo") if bias else ("wq", "wk", "wv", "wo")
            at = dict(zip(names, p))
            packed = torch.cat([at["bq"], at["bk"], at["bv"]]) if bias else None
            y = x.transpose(0, 1)
            out, weights = F.multi_head_attention_forward(
                y, y, y, width, heads, torch.cat([at["wq"], at["wk"], at["wv"]]), packed, None, None, False, 0.0, at["wo"],
                at.get("bo"), training=False, attn_mask=~allowed if causal or masked else None)
            return out.transpose(0, 1)

        parameters = []
        for _ in range(4):
            parameters += [randn(width, width) / 2] + ([randn(width)] if bias else [])
        cases.add("MultiHeadAttention", call, [randn(2, 5, width)] + parameters, width=width, heads=heads, bias=bias,
                  causal=causal, mask=allowed.int().tolist() if masked else None)


def trajectories():
    """Parameters after each of 20 steps with given gradients; a parameter without a gradient is null."""
    result = []
    kinds = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}
    settings = [("SGD", dict(lr=0.1)), ("SGD", dict(lr=0.05, momentum=0.9)),
                ("SGD", dict(lr=0.05, momentum=0.9, nesterov=True)),
                ("SGD", dict(lr=0.05, momentum=0.8, dampening=0.3)), ("SGD", dict(lr=0.1, weight_decay=0.05)),
                ("SGD", dict(lr=0.1, momentum=0.7, nesterov=True, weight_decay=0.02)), ("Adam", dict(lr=0.01)),
                ("Adam", dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)), ("AdamW", dict(lr=0.01)),
                ("AdamW", dict(lr=0.02, betas=(0.9, 0.99), weight_decay=0.2))]
    for kind, options in settings:
        parameters = [randn(3, 2), randn(2), randn()]
        start = [plain(p) for p in parameters]
        optimizer = kinds[kind](parameters, **options)
        gradients, values = [], []
        for step in range(20):
            given = [randn(*p.shape) for p in parameters]
            if step in (0, 7):
                given[1] = None
            for parameter, gradient in zip(parameters, given):
                parameter.grad = gradient
            optimizer.step()
            gradients.append([None if g is None else g.reshape(-1).tolist() for g in given])
            values.append([p.detach().reshape(-1).tolist() for p in parameters])
        result.append({"optimizer": kind, "options": options, "start": start, "gradients": gradients, "values": values})
    return result


def clipping():
    result = []
    for max_norm in (0.5, 1.0, 100.0):
        parameters = [torch.zeros(3, 2), torch.zeros(4), torch.zeros(())]
        for parameter in parameters:
            parameter.grad = randn(*parameter.shape)
        before = [plain(p.grad) for p in parameters]
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        result.append({"max_norm": max_norm, "before": before, "norm": norm.item(),
                       "after": [plain(p.grad) for p in parameters]})
    return result


def cosine():
    result = []
    for total, low in ((10, 0.0), (25, 1e-4)):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total, low)
        rates = []
        for _ in range(total):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        result.append({"lr": 0.01, "total_steps": total, "min_lr": low, "rates": rates})
    return result


def main():
    torch.manual_seed(20)
    operations = Cases()
    for group in (elementwise, reductions, shaping, matrices):
        group(operations)
    operations.write("operations.json")
    modules = Cases()
    layers(modules)
    modules.write("layers.json")
    text = json.dumps({"trajectories": trajectories(), "clipping": clipping(), "cosine": cosine()}, separators=(",", ":"))
    (HERE / "optimizers.json").write_text(text + "\n")
    companions()


def companions():
    """Files beside operations.json, each from a seed of its own, so that one changes without the others."""
    for seed, name, group in ((21, "operations_numbers.json", numbers),
                              (22, "operations_shapes.json", shapes_and_indices)):
        torch.manual_seed(seed)
        cases = Cases()
        group(cases)
        cases.write(name)


if __name__ == "__main__":
    main()

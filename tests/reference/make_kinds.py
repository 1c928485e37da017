#!/usr/bin/python3
"""Writes operations_kinds.json: every operation at every kind of tensor, float32, int64 and boolean ones, empty ones,
0-d ones and pairs of them, with PyTorch's values, dtypes and gradients; outputs are null where PyTorch refuses.

The defaults of make_references.py hold but for the default dtype, which is float32, as a user has it.
"""
import itertools
import math

import torch
import torch.nn.functional as F
from make_references import Cases, number, plain

F32, F64, I64, BOOL = torch.float32, torch.float64, torch.int64, torch.bool
EVERY = (F32, F64, I64, BOOL)


def draw(dtype, *shape, low=-2):
    """Few bits, so that both floating dtypes have the numbers, and no two equal neighbours of a kink."""
    if dtype == BOOL:
        return torch.rand(shape) > 0.5
    if dtype == I64:
        return torch.randint(math.floor(low), 4, shape)
    return (torch.randint(int(low * 8), 24, shape) * 2 + 1).to(dtype) / 16


class Kinds(Cases):
    def each(self, operation, function, dtypes, shapes, least=-2, refused=(), **arguments):
        """One input; `refused` are the dtypes for which an error is right. Others that PyTorch refuses are left out."""
        for dtype in dtypes:
            for shape in shapes:
                self.one(operation, function, [draw(dtype, *shape, low=least)], dtype in refused, **arguments)

    def one(self, operation, function, inputs, refused=False, **arguments):
        try:
            self.add(operation, function, inputs, **arguments)
            if self.list[-1]["cotangents"] == [None]:
                del self.list[-1]["cotangents"], self.list[-1]["gradients"]
            if refused:  # PyTorch takes some empty tensors of a dtype that it refuses otherwise
                print("left out:", operation, arguments, self.list.pop()["inputs"])
        except (RuntimeError, IndexError) as error:
            if refused:
                inputs = [plain(x) for x in inputs]
                self.list.append({"operation": operation, "arguments": arguments, "inputs": inputs, "outputs": None})
            else:
                print("left out:", operation, arguments, *([str(x.dtype)[6:], list(x.shape)] for x in inputs), str(error)[:60])


def elementwise(cases):
    shapes = ((3,), (), (0, 2))
    anywhere = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "expm1": torch.expm1,
                "square": torch.square, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "atan": torch.atan,
                "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid, "softplus": F.softplus, "relu": torch.relu,
                "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
                "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "isnan": torch.isnan,
                "isfinite": torch.isfinite, "logical_not": torch.logical_not}
    above_zero = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
                  "reciprocal": torch.reciprocal}
    for functions, low in ((anywhere, -2), (above_zero, 1)):
        for name, function in functions.items():
            cases.each(name, function, (F32, I64, BOOL), shapes, low)
    for scalar in (2, 2.5, True):
        call, some = dict(scalar=scalar), ((2,), (), (0, 2))
        cases.each("add_scalar", lambda x: x + scalar, (F32, I64, BOOL), some, **call)
        cases.each("mul_scalar", lambda x: x * scalar, (F32, I64, BOOL), some, **call)
        cases.each("div_scalar", lambda x: x / scalar, (F32, I64, BOOL), some, **call)
        if scalar is not True:
            cases.each("sub_scalar", lambda x: x - scalar, (F32, I64, BOOL), some, **call)
            cases.each("scalar_sub", lambda x: scalar - x, (F32, I64, BOOL), some, **call)
            cases.each("scalar_div", lambda x: scalar / x, (F32, I64, BOOL), some, 1, **call)
            cases.each("pow_scalar", lambda x: x**scalar, (F32, I64, BOOL), some, 1, **call)
            cases.each("scalar_pow", lambda x: scalar**x, (F32, I64, BOOL), some, 1, **call)
    cases.each("pow_scalar", lambda x: x**-1, (I64,), ((2,),), 1, refused=(I64,), scalar=-1)
    for low, high in ((-0.5, 1.25), (-1.0, 2.0)):
        cases.each("clamp", lambda x: torch.clamp(x, low, high), (F32,), shapes, low=low, high=high)
    cases.each("clamp", lambda x: torch.clamp(x, -1, 2), (I64,), shapes, low=-1, high=2)
    cases.each("clamp_min", lambda x: torch.clamp(x, min=1.0), (F32,), shapes, low=1.0)
    cases.each("clamp_max", lambda x: torch.clamp(x, max=1.0), (F32,), shapes, high=1.0)
    cases.each("leaky_relu", F.leaky_relu, (F32,), shapes, negative_slope=0.01)
    cases.each("elu", F.elu, (F32,), shapes, alpha=1.0)


def pairs(cases):
    mixed = {"add": torch.add, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "maximum": torch.maximum,
             "le": torch.le, "logical_and": torch.logical_and}
    alike = {"sub": torch.sub, "minimum": torch.minimum, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "gt": torch.gt,
             "ge": torch.ge, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor}
    shapes = ((2, 1), (2,)), ((2,), ()), ((), (2,)), ((), ()), ((2, 0), (1,))
    for name, function in (mixed | alike).items():
        low = 1 if name in ("div", "pow") else -2
        for a, b in itertools.product(EVERY, EVERY):
            if name == "pow" and a != b and F64 in (a, b):
                continue  # PyTorch's gradient has a logarithm in the lower precision
            if a == b and a != F64 or name in mixed:
                for one, two in shapes if a == b == F32 else shapes[1 - (a == b):3]:
                    cases.one(name, function, [draw(a, *one, low=low), draw(b, *two, low=low)])
    for a, b in itertools.product((F32, F64, I64), (F32, I64, BOOL)):
        for one, two in shapes[:3]:
            cases.one("where", torch.where, [draw(BOOL, *torch.broadcast_shapes(one, two)), draw(a, *one), draw(b, *two)])
    for one, two in shapes:
        cases.one("lerp_number", lambda x, y: torch.lerp(x, y, 0.25), [draw(F32, *one), draw(F32, *two)], weight=0.25)
        cases.one("lerp", torch.lerp, [draw(F32, *one), draw(F32, *two), draw(F32, *two)])


def reductions(cases):
    places = ((2, 2), (1,)), ((2, 2), (-2, -1)), ((2,), ()), ((), ()), ((), (-1,)), ((2, 0), (0,))
    empty_rows = ((2, 0), (1,)), ((0,), ())
    for shape, axes in places + empty_rows:
        dims = axes or tuple(range(len(shape)))
        call = dict(axes=list(axes), keepdim=False)
        over = [(shape,)]
        is_empty = (shape, axes) in empty_rows
        cases.each("sum", lambda x: torch.sum(x, dims) if dims else x.sum(), (F32, I64, BOOL), *over, **call)
        cases.each("mean", lambda x: torch.mean(x, dims) if dims else x.mean(), (F32, I64, BOOL), *over, refused=(I64, BOOL), **call)
        for name, function in (("amax", torch.amax), ("amin", torch.amin)):
            cases.each(name, lambda x: function(x, dims), (F32, I64, BOOL), *over, refused=EVERY if is_empty else (), **call)
        for name, function in (("any", torch.any), ("all", torch.all)):
            cases.each(name, lambda x: function(x, dims[0]) if len(dims) == 1 else function(x), (F32, I64, BOOL), *over, **call)
        for name, function in (("var", torch.var), ("std", torch.std)):
            correction = min(len(shape), 1)  # what a single number deviates from itself is 0 / 0
            cases.each(name, lambda x: function(x, dims, correction=correction), (F32, I64, BOOL), *over, refused=(I64, BOOL),
                       correction=correction, **call)
        for p in (1.0, 3.0, math.inf):
            refused = (I64, BOOL) + ((F32,) if is_empty and p == math.inf else ())
            cases.each("p_norm", lambda x: torch.linalg.vector_norm(x, p, dims), (F32, I64, BOOL), *over, refused=refused, p=number(p), **call)
        cases.each("logsumexp_axes", lambda x: torch.logsumexp(x, dims), (F32, I64), *over, **call)
        if len(dims) < 2:
            cases.each("prod", lambda x: torch.prod(x, dims[0]) if dims else torch.prod(x), (F32, I64, BOOL), *over, **call)
    for shape, axis in (((2, 2), -2), ((2, 2), 1), ((), 0), ((), -1), ((0, 3), 1), ((3, 0), 1)):
        call = dict(axis=axis)
        kept = dict(axis=axis, keepdim=True)
        refused = (F32, I64) if shape == (3, 0) else ()
        for name, function in (("max_axis", lambda x: x.max(axis, True)[0]), ("min_axis", lambda x: x.min(axis, True)[0]),
                               ("argmax", lambda x: x.argmax(axis, True)), ("argmin", lambda x: x.argmin(axis, True))):
            cases.each(name, function, (F32, I64), [shape], refused=refused, **kept)
        cases.each("cumsum", lambda x: torch.cumsum(x, axis), (F32, I64), [shape], **call)
        cases.each("softmax", lambda x: torch.softmax(x, axis), (F32, I64), [shape], refused=(I64, BOOL), **call)
        cases.each("log_softmax", lambda x: torch.log_softmax(x, axis), (F32, I64), [shape], refused=(I64, BOOL), **call)
        for name, one in (("sort", 0), ("argsort", 1)):
            cases.each(name, lambda x: torch.sort(x, dim=axis, stable=True)[one], (F32, I64), [shape], descending=False, **call)
        for name, one in (("topk", 0), ("topk_indices", 1)):
            k = 0 if shape == (3, 0) else 1
            cases.each(name, lambda x: torch.topk(x, k, axis)[one], (F32,), [shape], k=k, largest=True, **call)
    for name, function in (("argmax_all", torch.argmax), ("argmin_all", torch.argmin), ("max", torch.max), ("min", torch.min)):
        cases.each(name, function, (F32, I64), [(2, 3), (), (0, 2)], **{})
        cases.each(name, function, (F32,), [(0,)], refused=(F32,))


def shapes(cases):
    dtypes = (F32, I64, BOOL)
    each = lambda name, function, shapes, **call: cases.each(name, function, dtypes, shapes, **call)
    each("reshape", lambda x: x.reshape(-1), [(2, 3), (), (0, 2)], shape=[-1])
    each("reshape", lambda x: x.reshape(()), [(), (1, 1)], shape=[])
    each("flatten", lambda x: x.flatten(0, -1), [(2, 3), (), (0, 2), (4,)], first=0, last=-1)
    each("transpose", lambda x: x.transpose(0, -1), [(2, 3), (), (0, 2)], a=0, b=-1)
    each("permute", lambda x: x.permute(1, 0), [(2, 3), (0, 2)], shape=[1, 0])
    each("permute", lambda x: x.permute(()), [()], shape=[])
    each("squeeze", lambda x: x.squeeze(-1), [(2, 1), (2, 3), (0, 1), ()], axis=-1)
    each("squeeze_all", torch.squeeze, [(1, 2, 1), ()])
    each("unsqueeze", lambda x: x.unsqueeze(-1), [(2,), (), (0,)], axis=-1)
    each("expand", lambda x: x.expand(2, 3), [(3,), (2, 1), ()], shape=[2, 3])
    each("expand", lambda x: x.expand(2, 0), [(1, 1), (0,), ()], shape=[2, 0])
    each("broadcast_to", lambda x: x.broadcast_to(2, 0), [(1,), (0,), ()], shape=[2, 0])
    each("sum_to", lambda x: x.sum_to_size(1, 2), [(3, 2), (0, 2)], shape=[1, 2])
    cases.each("sum_to", lambda x: x.sum_to_size(()), (F32, I64), [()], shape=[])
    each("movedim", lambda x: x.movedim((0,), (-1,)), [(2, 3), (0, 2), ()], **{"from": [0], "to": [-1]})
    each("slice", lambda x: x[1:5:2], [(4, 2), (0, 2), (1,)], axis=0, start=1, stop=5, step=2)
    each("select", lambda x: x.select(0, -1), [(2, 3), (2, 0), (2,)], axis=0, index=-1)
    each("narrow", lambda x: x.narrow(-1, 0, 0), [(2, 3), (0,)], axis=-1, start=0, count=0)
    each("flip", lambda x: x.flip(-1), [(2, 3), (0, 2), ()], axes=[-1])
    each("roll", lambda x: x.roll(1), [(2, 3), (0, 2), ()], shifts=[1], axes=[])
    each("repeat", lambda x: x.repeat(2, 1), [(2, 3), (0, 2), ()], repeats=[2, 1])
    each("pad", lambda x: F.pad(x, (1, 2), value=1), [(2, 3), (0, 2), (2, 0)], pads=[1, 2], scalar=1.0)
    each("diagonal", lambda x: x.diagonal(0, -2, -1), [(2, 3), (2, 0), (0, 2, 2)], offset=0, axis1=-2, axis2=-1)
    each("split", lambda x: x.split(2, -1)[0], [(2, 3), (0, 2), (2, 0)], sizes=2, axis=-1, piece=0)
    each("chunk", lambda x: x.chunk(2, 0)[0], [(3,), (0, 2)], count=2, axis=0, piece=0)
    each("unbind", lambda x: x.unbind(-1)[1], [(3, 2), (0, 2), (2,)], axis=-1, piece=1)
    each("trace", torch.trace, [(2, 3), (0, 0), (0, 3)])
    each("nonzero", torch.nonzero, [(2, 3), (), (0, 2)])
    for name, function in (("tril", torch.tril), ("triu", torch.triu)):
        each(name, lambda x: function(x, -1), [(3, 3), (0, 3), (2, 0)], diagonal=-1)
    for a, b in itertools.product(EVERY, EVERY):
        cases.one("cat", lambda *x: torch.cat(x, -1), [draw(a, 2, 1), draw(b, 2, 2)], axis=-1)
        cases.one("outer", torch.outer, [draw(a, 2), draw(b, 3)])
    for shape, dtype in itertools.product(((2,), (), (0, 2)), dtypes):
        x = draw(dtype, *shape)
        cases.one("stack", lambda *x: torch.stack(x, -1), [x, draw(dtype, *shape)], axis=-1)
        cases.one("masked_fill", lambda x, m: x.masked_fill(m, 2), [x, draw(BOOL, *shape)], scalar=2)
        cases.one("masked_select", torch.masked_select, [x, draw(BOOL, *shape)])
        cases.one("view_as", lambda x, y: x.view_as(y), [x, draw(F32, 1, *shape)])
        index = torch.zeros(shape, dtype=I64)
        cases.one("gather", lambda x, i: x.gather(-1, i), [x, index], axis=-1)
        cases.one("take_along_dim", lambda x, i: torch.take_along_dim(x, i, -1), [x, index], axis=-1)
        if dtype != BOOL:
            cases.one("scatter_add", lambda x, i, s: x.scatter_add(-1, i, s), [x, index, draw(dtype, *shape)], axis=-1)
    for shape, index in itertools.product(((2, 3), (0, 3), (3,)), ((2,), (0,), ())):
        i = torch.zeros(index, dtype=I64)
        for dtype in dtypes:
            cases.one("index_select", lambda x, i: x.index_select(-1, i), [draw(dtype, *shape), i], axis=-1)
    cases.one("index_select", lambda x, i: x.index_select(0, i), [draw(F32), torch.zeros(1, dtype=I64)], axis=0)
    for shape, index in (((2, 3), (0,)), ((0, 3), (0,)), ((2, 0), (3,))):
        i = torch.zeros(index, dtype=I64)
        cases.one("index", lambda x, i: x[i], [draw(F32, *shape), i], items=[{"input": 1}])
    cases.one("one_hot", lambda i: F.one_hot(i, 3), [torch.zeros((2, 0), dtype=I64)], classes=3)


def matrices(cases):
    for a, b in (((2, 3), (3, 2)), ((3,), (3,)), ((2, 0), (0, 2)), ((0, 2, 3), (3, 2)), ((2, 1, 2), (2, 0)), ((0,), (0,))):
        cases.one("matmul", torch.matmul, [draw(F32, *a), draw(F32, *b)])
    for a, b in (((), (2, 3)), ((2, 3), ()), ((2, 3), (2, 3)), ((2, 2, 3), (3, 3, 2))):
        cases.one("matmul", torch.matmul, [draw(F32, *a), draw(F32, *b)], True)
    cases.one("matmul", torch.matmul, [draw(F32, 2, 3), draw(F64, 3, 2)], True)
    for dtype in (F32, I64):
        for equation, shapes in (("ij,jk->ik", ((2, 3), (3, 2))), ("i,i->", ((3,), (3,))), ("ij->ji", ((2, 0),)), (",i", ((), (2,)))):
            cases.one("einsum", lambda *x: torch.einsum(equation, *x), [draw(dtype, *s) for s in shapes], equation=equation)
    for shape in ((2, 4), (0, 4)):
        wb = [draw(F32, 4), draw(F32, 4)]
        cases.one("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), [draw(F32, *shape)] + wb, rank=1, eps=1e-5)
        norm = lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w
        cases.one("rms_norm", norm, [draw(F32, *shape), draw(F32, 4)], eps=1e-5, rank=1)
        cases.one("linear", F.linear, [draw(F32, *shape), draw(F32, 2, 4), draw(F32, 2)])
        cases.one("gelu_linear", lambda x, w, b: F.linear(F.gelu(x), w, b), [draw(F32, *shape), draw(F32, 2, 4), draw(F32, 2)])
    cases.one("linear", F.linear, [draw(F32, 2, 0), draw(F32, 3, 0), draw(F32, 3)])
    for index in (torch.tensor(1), torch.tensor([[0, 1]]), torch.zeros((0,), dtype=I64)):
        cases.one("embedding", lambda w, i: F.embedding(i, w), [draw(F32, 3, 2), index])
    for rate in (0.0, 1.0):
        cases.each("dropout", lambda x: F.dropout(x, rate), (F32,), [(2,), (), (0,)], p=rate)


def creation(cases):
    names = {F32: "float32", F64: "float64", I64: "int64", BOOL: "boolean"}
    for (dtype, name), shape in itertools.product(names.items(), ([2, 1], [], [0])):
        call = dict(shape=shape, dtype=name)
        cases.one("zeros", lambda: torch.zeros(shape, dtype=dtype), [], **call)
        cases.one("ones", lambda: torch.ones(shape, dtype=dtype), [], **call)
        cases.one("full", lambda: torch.full(shape, 1.5, dtype=dtype), [], value=1.5, **call)
        for like, function in (("zeros_like", torch.zeros_like), ("ones_like", torch.ones_like)):
            cases.one(like, lambda x: function(x.detach()), [draw(dtype, *shape)])
        cases.one("full_like", lambda x: torch.full_like(x.detach(), 2), [draw(dtype, *shape)], value=2)
    for n, m in ((2, 3), (3, 3), (0, 2)):
        cases.one("eye", lambda: torch.eye(n, m), [], rows=n, columns=m)
    for start, stop, step in ((0, 5, 1), (1, 2, 0.25), (5, 0, -2), (0, 0, 1), (0.5, 3, 1), (-1, 2, 1)):
        cases.one("arange", lambda: torch.arange(start, stop, step), [], start=start, stop=stop, step=step)
    for start, stop, count in ((0.0, 1.0, 5), (2.0, -1.0, 4), (3.0, 4.0, 1), (0.0, 1.0, 0)):
        cases.one("linspace", lambda: torch.linspace(start, stop, count), [], start=start, stop=stop, count=count)


def main():
    torch.set_default_dtype(F32)
    torch.manual_seed(23)
    cases = Kinds()
    for group in (elementwise, pairs, reductions, shapes, matrices, creation):
        group(cases)
    cases.write("operations_kinds.json")


if __name__ == "__main__":
    main()

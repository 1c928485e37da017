#!/usr/bin/python3
"""Writes optimizer_options.json and schedules.json: twenty steps of each optimizer with each option, and the rates of each
schedule over its whole range, in float64.

Needs Debian's python3-torch. What PyTorch 1.13 doesn't have (Lion, Muon) is written out here, in a few lines of plain torch
from the published formulas.
"""
import json
import math

import torch

from make_references import HERE, randn

SHAPES = ((3, 2), (2, 4), (2,), ())


class Lion(torch.optim.Optimizer):
    """Chen et al., 2023, algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p -= group["lr"] * (torch.sign(b1 * m + (1 - b1) * g) + group["weight_decay"] * p)
                self.state[p]["m"] = b2 * m + (1 - b2) * g


def newton_schulz(x, steps, eps):
    """Jordan, 2024: zeropower_via_newtonschulz5, in float64."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, weight_decay=0.0, momentum=0.95, nesterov=True, ns_steps=5, eps=1e-7,
                 adjust_lr="original"):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_steps=ns_steps, eps=eps, adjust_lr=adjust_lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("buffer", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                d = p.grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer.clone()
                d = newton_schulz(d, group["ns_steps"], group["eps"])
                rows, columns = p.shape
                scale = max(1, rows / columns)**0.5 if group["adjust_lr"] == "original" else 0.2 * max(rows, columns)**0.5
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * scale * d


class MuonAndAdamW:
    """Muon for matrices, AdamW for the rest."""

    def __init__(self, params, adamw=None, **options):
        self.parts = [Muon([p for p in params if p.ndim == 2], **options),
                      torch.optim.AdamW([p for p in params if p.ndim != 2], **(adamw or {}))]

    def step(self):
        for part in self.parts:
            part.step()


def short(tensor):
    return [float(f"{x:.13g}") for x in tensor.detach().reshape(-1).tolist()]


KINDS = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW, "RMSprop": torch.optim.RMSprop,
         "Lion": Lion, "Muon": MuonAndAdamW}
# Options; and for a second group, of the last two parameters, what it overrides.
SETTINGS = [
    ("SGD", dict(lr=0.1, maximize=True), None),
    ("SGD", dict(lr=0.05, momentum=0.9, weight_decay=0.1, maximize=True), None),
    ("SGD", dict(lr=0.05, momentum=0.9), dict(lr=0.02, momentum=0.5, dampening=0.2, weight_decay=0.3)),
    ("Adam", dict(lr=0.02, amsgrad=True), None),
    ("Adam", dict(lr=0.02, maximize=True), None),
    ("Adam", dict(lr=0.02, betas=(0.7, 0.9), weight_decay=0.1, amsgrad=True, maximize=True), None),
    ("Adam", dict(lr=0.02), dict(betas=(0.5, 0.6), eps=1e-3, amsgrad=True)),
    ("AdamW", dict(lr=0.02, amsgrad=True), None),
    ("AdamW", dict(lr=0.02, maximize=True, weight_decay=0.3), None),
    ("AdamW", dict(lr=0.02, weight_decay=0.1), dict(lr=0.05, weight_decay=0.0, maximize=True)),
    ("AdamW", dict(lr=0.02, betas=(0.7, 0.9), eps=1e-2, weight_decay=0.2, amsgrad=True, maximize=True), None),
    ("RMSprop", dict(), None),
    ("RMSprop", dict(lr=0.02, alpha=0.8), None),
    ("RMSprop", dict(lr=0.02, eps=0.1), None),
    ("RMSprop", dict(lr=0.02, weight_decay=0.2), None),
    ("RMSprop", dict(lr=0.02, momentum=0.9), None),
    ("RMSprop", dict(lr=0.02, centered=True), None),
    ("RMSprop", dict(lr=0.02, maximize=True), None),
    ("RMSprop", dict(lr=0.01, alpha=0.9, eps=1e-4, weight_decay=0.1, momentum=0.8, centered=True, maximize=True), None),
    ("RMSprop", dict(lr=0.02), dict(alpha=0.7, momentum=0.5, centered=True)),
    ("Lion", dict(), None),
    ("Lion", dict(lr=0.02, betas=(0.8, 0.95)), None),
    ("Lion", dict(lr=0.02, weight_decay=0.3), None),
    ("Lion", dict(lr=0.02, maximize=True), None),
    ("Lion", dict(lr=0.02), dict(lr=0.05, betas=(0.5, 0.6), weight_decay=0.1)),
    ("Muon", dict(), None),
    ("Muon", dict(nesterov=False, momentum=0.8), None),
    ("Muon", dict(lr=0.05, weight_decay=0.2, ns_steps=3), None),
    ("Muon", dict(lr=0.05, adjust_lr="match_rms_adamw", adamw=dict(lr=0.03, betas=(0.8, 0.9), weight_decay=0.1)), None),
    ("Muon", dict(eps=0.5, adamw=dict(eps=1e-2)), None),
]


def trajectories():
    start = [randn(*shape) for shape in SHAPES]
    gradients = [[None if i == 2 and step in (0, 7) else randn(*shape) for i, shape in enumerate(SHAPES)]
                 for step in range(20)]
    runs = []
    for kind, options, override in SETTINGS:
        parameters = [p.clone() for p in start]
        given = [{"params": parameters[:2]}, {"params": parameters[2:], **override}] if override else parameters
        optimizer = KINDS[kind](given, **options)
        values = []
        for step in gradients:
            for parameter, gradient in zip(parameters, step):
                parameter.grad = gradient
            optimizer.step()
            values.append([short(p) for p in parameters])
        runs.append({"optimizer": kind, "options": options, "override": override, "values": values})
    return {"shapes": SHAPES, "start": [short(p) for p in start],
            "gradients": [[None if g is None else short(g) for g in step] for step in gradients], "runs": runs}


def sequential(optimizer, schedules, milestones):
    made = [getattr(torch.optim.lr_scheduler, name)(optimizer, **options) for name, options in schedules]
    return torch.optim.lr_scheduler.SequentialLR(optimizer, made, milestones)


# Options, how many rates.
SCHEDULES = [
    ("StepLR", dict(step_size=4), 20), ("StepLR", dict(step_size=7, gamma=0.5), 30),
    ("MultiStepLR", dict(milestones=[3, 8, 15]), 20), ("MultiStepLR", dict(milestones=[2, 2, 9], gamma=0.3), 12),
    ("ExponentialLR", dict(gamma=0.9), 40), ("LambdaLR", dict(), 20), ("LinearLR", dict(), 8),
    ("LinearLR", dict(start_factor=0.1, end_factor=0.7, total_iters=12), 15),
    ("LinearLR", dict(start_factor=1.0, end_factor=0.0, total_iters=10), 12), ("ConstantLR", dict(), 8),
    ("ConstantLR", dict(factor=0.25, total_iters=9), 12), ("CosineAnnealingLR", dict(T_max=15), 16),
    ("CosineAnnealingLR", dict(T_max=10, eta_min=0.01), 35), ("CosineAnnealingWarmRestarts", dict(T_0=5), 16),
    ("CosineAnnealingWarmRestarts", dict(T_0=4, T_mult=2, eta_min=0.002), 40),
    ("CosineAnnealingWarmRestarts", dict(T_0=2, T_mult=3), 30), ("OneCycleLR", dict(total_steps=30), 30),
    ("OneCycleLR", dict(total_steps=21, pct_start=0.45, anneal_strategy="linear", div_factor=10, final_div_factor=100), 21),
    ("OneCycleLR", dict(total_steps=12, max_lr=0.4), 12), ("OneCycleLR", dict(total_steps=10, pct_start=0.0), 10),
    ("OneCycleLR", dict(total_steps=10, pct_start=1.0), 10),
    ("SequentialLR", dict(schedules=[("ConstantLR", dict(factor=0.1, total_iters=2)), ("ExponentialLR", dict(gamma=0.9))],
                          milestones=[2]), 20),
    ("SequentialLR", dict(schedules=[("LinearLR", dict(total_iters=6)), ("CosineAnnealingLR", dict(T_max=14, eta_min=0.01)),
                                     ("StepLR", dict(step_size=3, gamma=0.5))], milestones=[6, 20]), 35),
]


def schedules():
    runs = []
    for kind, options, count in SCHEDULES:
        bases = (0.1, 0.03)
        optimizer = torch.optim.SGD([{"params": [torch.zeros(1)], "lr": lr} for lr in bases], lr=0.1)
        given = dict(options)
        if kind == "OneCycleLR":
            given.update(max_lr=options.get("max_lr", list(bases)), cycle_momentum=False)
        if kind == "LambdaLR":
            given.update(lr_lambda=lambda step: 1 / (1 + step))
        made = sequential(optimizer, **options) if kind == "SequentialLR" else getattr(torch.optim.lr_scheduler,
                                                                                      kind)(optimizer, **given)
        rates = []
        for step in range(count):
            rates.append([group["lr"] for group in optimizer.param_groups])
            optimizer.step()
            if step + 1 < count:
                made.step()
        runs.append({"kind": kind, "options": options, "bases": bases, "rates": rates})
    return runs


def plateaus():
    runs = []
    for options in (dict(), dict(patience=2, factor=0.5), dict(patience=1, cooldown=3, min_lr=0.004),
                    dict(mode="max", patience=2, threshold=0.05), dict(patience=1, threshold=0.1, threshold_mode="abs"),
                    dict(patience=0, factor=0.3, eps=0.01), dict(mode="max", patience=1, threshold=0.2, threshold_mode="abs")):
        optimizer = torch.optim.SGD([{"params": [torch.zeros(1)], "lr": lr} for lr in (0.1, 0.03)], lr=0.1)
        made = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        values = [round(1 + math.exp(-step / 6) + 0.1 * math.sin(3 * step), 3) for step in range(40)]
        rates = []
        for value in values:
            made.step(value)
            rates.append([group["lr"] for group in optimizer.param_groups])
        runs.append({"options": options, "values": values, "rates": rates})
    return runs


def write(name, content):
    (HERE / name).write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    torch.manual_seed(31)
    write("optimizer_options.json", trajectories())
    write("schedules.json", {"schedules": schedules(), "plateaus": plateaus()})

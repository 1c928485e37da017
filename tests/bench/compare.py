#!/usr/bin/env python3
"""tapegrad beside PyTorch, in one run and interleaved, as a table with verdicts.

  tests/bench/compare.py                                # everything but the long training run: about five minutes
  tests/bench/compare.py --only w1,w4                   # these parts
  tests/bench/compare.py --only train --train TEXTFILE  # the toy language model's 2,000 steps: minutes for each seed

Each figure is the median over rounds, with the quietest one beside it. The peer is PyTorch on the OpenMP build of
OpenBLAS with bound threads (Debian: python3-torch libopenblas0-openmp): on the default build it is several times slower
with two threads, so without it only tapegrad is measured. Absolute times depend on the machine; the ratios count.
Exit code: 0 all met, 1 a goal is not met or can't be judged, 2 bad options or something is missing.
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def give_up(message):
    print(f"compare.py: {message}", file=sys.stderr)
    sys.exit(2)


def run(command, environment=None):
    try:
        result = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    except OSError as error:
        give_up(f"{command[0]} can't be run: {error.strerror}")
    if result.returncode != 0:
        give_up(f"{' '.join(command)} failed with code {result.returncode}:\n{result.stderr or result.stdout}")
    return result.stdout


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Peer:
    """PyTorch, or the reason why there is none."""

    def __init__(self, python):
        self.python = python
        self.libraries = glob.glob("/usr/lib/*/openblas-openmp")
        self.missing = None
        try:
            probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                                   text=True)
        except OSError as error:
            self.missing = f"{python} can't be run ({error.strerror})"
            return
        if probe.returncode != 0:
            self.missing = f"PyTorch is missing for {python} (Debian: apt-get install python3-torch)"
        elif not self.libraries:
            self.missing = "the OpenMP build of OpenBLAS is missing (Debian: apt-get install libopenblas0-openmp)"
        else:
            print(f"Peer: PyTorch {probe.stdout.strip()} with {self.libraries[0]}")

    def __call__(self, script, *words, threads=2):
        """The lines that the script printed; None without a peer."""
        if self.missing:
            return None
        environment = {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
                       "LD_LIBRARY_PATH": self.libraries[0]}
        command = [self.python, os.path.join(HERE, "peers", script), *words, "--threads", str(threads)]
        return json_lines(run(command, environment))


class Table:
    def __init__(self):
        self.rows = []
        both = f"{'peer':>10} {'ratio':>7}"
        print(f"{'':38} {'goal':>13}  {'ours':>10} {both}   {'quiet: ours':>11} {both}")

    def row(self, name, goal, unit, met, ours, peer=None, quiet_ours=None, quiet_peer=None, is_ratio=False):
        ratio = ours / peer if peer else None
        quiet_ratio = quiet_ours / quiet_peer if quiet_peer else None
        verdict = "met" if met else "NOT MET" if met is not None else "no peer"
        self.rows.append(dict(name=name, goal=goal, unit="x" if is_ratio else unit, ours=ours, peer=peer, ratio=ratio,
                              quiet_ours=quiet_ours, quiet_peer=quiet_peer, quiet_ratio=quiet_ratio, verdict=verdict))
        number = lambda value: "" if value is None else f"{value:.4g} {unit}"
        times = lambda value: "" if value is None else f"{value:.2f}x"
        goal_text = f"<= {goal:.2f}x" if is_ratio else f"<= {goal:g} {unit}"
        print(f"{name:38} {goal_text:>13}  {number(ours):>10} {number(peer):>10} {times(ratio):>7}   "
              f"{number(quiet_ours):>11} {number(quiet_peer):>10} {times(quiet_ratio):>7}  {verdict}", flush=True)

    def limit(self, name, goal, unit, value):
        self.row(name, goal, unit, value <= goal, value)

    def ratio(self, name, goal, unit, ours, peers, judged="median"):
        """Answers of interleaved rounds, each (median, quietest); `judged` says which of the two the goal is for."""
        columns = []
        for answers in (ours, peers):
            known = [answer for answer in answers if answer]
            columns.append((statistics.median(a[0] for a in known), min(a[1] for a in known)) if known
                           else (None, None))
        (median, quiet), (peer_median, peer_quiet) = columns
        met = None
        if peer_median:
            met = (median / peer_median if judged == "median" else quiet / peer_quiet) <= goal
        self.row(name, goal, unit, met, median, peer_median, quiet, peer_quiet, is_ratio=True)


class Bench:
    def __init__(self, arguments):
        self.build, self.rounds = arguments.build, arguments.rounds
        self.text, self.seeds, self.steps = arguments.train, arguments.seeds, arguments.steps
        self.peer = Peer(arguments.python)
        if self.peer.missing:
            print(f"No peer, so no ratios: {self.peer.missing}. Only tapegrad is measured.")
        self.table = Table()

    def program(self, *path):
        program = os.path.join(self.build, *path)
        if not os.path.exists(program):
            give_up(f"{program} is missing: build everything first (tests/run.sh does), or name the folder by --build")
        return program

    def ours(self, program, *words, threads=2):
        command = [self.program("tests", "bench", program), *words]
        return json_lines(run(command, {"TAPEGRAD_NUM_THREADS": str(threads)}))

    def in_turn(self, ours, peer):
        """Both, `rounds` times in turn: two lists of answers."""
        pairs = [(peer(), ours()) for _ in range(self.rounds)]
        return [pair[1] for pair in pairs], [pair[0] for pair in pairs]


def timing(lines, median="median", quiet="min", pick=lambda line: True):
    """(median, quietest) of the first line picked; None without a peer."""
    return next((line[median], line[quiet]) for line in lines if pick(line)) if lines else None


def step(bench, size, threads, goal, steps, memory=None):
    ours, peers = bench.in_turn(lambda: bench.ours("training", size, str(steps), threads=threads),
                                lambda: bench.peer("gpt_torch.py", size, "--rounds", str(steps), threads=threads))
    name = f"{size.upper()} training step, {threads} thread{'s' if threads > 1 else ''}"
    bench.table.ratio(name, goal, "ms", [timing(a) for a in ours], [timing(p) for p in peers])
    if memory:
        bench.table.limit(f"{size.upper()} peak memory of the process", memory, "MB", max(a[0]["rss_mb"] for a in ours))
        bench.table.limit(f"{size.upper()} allocations in steady steps", 0, "calls",
                          max(a[0]["system_allocations"] for a in ours))


def w1(bench):
    step(bench, "w1", 2, 0.68, 150, memory=60)
    step(bench, "w1", 1, 0.83, 100)


def w2(bench):
    step(bench, "w2", 2, 0.84, 3, memory=700)


def attention(bench, length, goal, memory=None):
    ours, peers = bench.in_turn(lambda: bench.ours("operations", "w3", str(length)),
                                lambda: bench.peer("micro_torch.py", "w3", "--T", str(length)))
    bench.table.ratio(f"W3 causal attention, T = {length}, fwd+bwd", goal, "ms", [timing(a) for a in ours],
                      [timing(p) for p in peers])
    if memory:
        bench.table.limit("W3 memory over inputs and gradients", memory, "MB",
                          max(a[0]["rss_over_inputs_and_gradients_mb"] for a in ours))


def w3(bench):
    attention(bench, 1024, 0.20)
    attention(bench, 4096, 0.15, memory=20)


def w4(bench):
    chains = [bench.ours("operations", "w4")[0] for _ in range(bench.rounds)]
    quiet = min(chain["ns_per_step_min"] for chain in chains)
    bench.table.row("W4 y * a + b on one element", 500, "ns", quiet <= 500,
                    statistics.median(chain["ns_per_step"] for chain in chains), quiet_ours=quiet)


def w5(bench):
    ours, peers = bench.in_turn(lambda: bench.ours("operations", "w5"), lambda: bench.peer("micro_torch.py", "w5"))
    for operation in ("gelu(erf)", "softmax", "layernorm"):
        of = lambda lines: timing(lines, "fwdbwd_ms", "fwdbwd_min", lambda line: line["op"] == operation)
        bench.table.ratio(f"W5 {operation}, fwd+bwd, quiet", 1.0, "ms", [of(a) for a in ours], [of(p) for p in peers],
                          judged="quiet")


def build(bench):
    program = "#include <tapegrad/tapegrad.hpp>\nint main() {\n" + "tapegrad::Tensor x = tapegrad::ones({2});\n" + \
              "x = x + 1;\n" * 6 + "return x.item() > 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "ten_lines.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program)
        command = ["g++", "-std=c++20", "-O0", "-I", bench.program("include"), "-c", source, "-o", source + ".o"]
        times = []
        for _ in range(bench.rounds):
            start = time.perf_counter()
            run(command)
            times.append(time.perf_counter() - start)
        quiet = min(times)
        bench.table.row("ten lines, g++ -O0", 3, "s", quiet <= 3, statistics.median(times), quiet_ours=quiet)
        run(["strip", "-o", source + ".stripped", bench.program("examples", "toy_lm")])
        bench.table.limit("library and example, stripped", 5, "MB", os.path.getsize(source + ".stripped") / 2**20)


def toy_lm(bench, seed):
    """(seconds, validation loss) of the whole program: reading the text, every step, one evaluation of the whole
    validation part."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        output = run([bench.program("examples", "toy_lm"), "train", "--text", bench.text, "--steps", str(bench.steps),
                      "--eval-every", str(bench.steps), "--seed", str(seed), "--threads", "2", "--out", folder])
        seconds = time.perf_counter() - start
    final = re.search(r"final: steps=\d+ val_loss=([\d.]+)", output)
    if not final:
        give_up(f"toy_lm train printed no line 'final: ... val_loss=...':\n{output}")
    return seconds, float(final[1])


def train(bench):
    """Both with the same content; PyTorch's time doesn't hold its start, ours does."""
    ours, peers = [], []
    for seed in bench.seeds:
        answer = bench.peer("gpt_torch.py", "train", "--text", bench.text, "--steps", str(bench.steps),
                            "--seed", str(seed))
        peers.append(answer[0] if answer else None)
        ours.append(toy_lm(bench, seed))
        peer_text = f"; PyTorch {peers[-1]['seconds']:.1f} s, {peers[-1]['loss']:.4f}" if answer else ""
        print(f"  seed {seed}: {ours[-1][0]:.1f} s, validation loss {ours[-1][1]:.4f}{peer_text}", flush=True)
    bench.table.ratio(f"toy_lm train, {bench.steps} steps", 0.68, "s", [(a[0], a[0]) for a in ours],
                      [p and (p["seconds"], p["seconds"]) for p in peers])
    loss = statistics.mean(a[1] for a in ours)
    bench.table.row(f"its mean validation loss, {len(bench.seeds)} seed(s)", 1.91, "nats", loss <= 1.91, loss,
                    statistics.mean(p["loss"] for p in peers) if all(peers) else None)


PARTS = dict(w1=w1, w2=w2, w3=w3, w4=w4, w5=w5, build=build, train=train)


def at_least_one(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; got {text}")
    return int(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"), help="folder of a finished build")
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter that has PyTorch")
    parser.add_argument("--rounds", type=at_least_one, default=3, help="how often both take turns")
    parser.add_argument("--only", metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--json", metavar="FILE", help="all rows, as JSON")
    parser.add_argument("--train", metavar="TEXTFILE", help="also train on this text; takes minutes")
    parser.add_argument("--steps", type=at_least_one, default=2000, help="training steps with --train")
    parser.add_argument("--seeds", default="1337,1,2", help="of --train")
    arguments = parser.parse_args()
    parts = arguments.only.split(",") if arguments.only else [p for p in PARTS if p != "train" or arguments.train]
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"--only: must be some of {','.join(PARTS)}; got {','.join(unknown)}")
    if ("train" in parts) != bool(arguments.train):
        parser.error("--only train: needs --train TEXTFILE, the text to learn" if "train" in parts
                     else "--train: the part train is not among those of --only")
    if arguments.train and not os.path.isfile(arguments.train):
        parser.error(f"--train: must be a text file; got {arguments.train}")
    try:
        arguments.seeds = [int(seed) for seed in arguments.seeds.split(",")]
    except ValueError:
        parser.error(f"--seeds: must be whole numbers with commas between them; got {arguments.seeds}")
    try:
        arguments.json = open(arguments.json, "w", encoding="utf-8") if arguments.json else None
    except OSError as error:
        parser.error(f"--json: {arguments.json} can't be written ({error.strerror})")
    return arguments, parts


def main():
    arguments, parts = parse()
    bench = Bench(arguments)
    for part in parts:
        PARTS[part](bench)
    if arguments.json:
        with arguments.json as file:
            json.dump(bench.table.rows, file, indent=1)
    missed = [row["name"] for row in bench.table.rows if row["verdict"] != "met"]
    print(f"{len(bench.table.rows) - len(missed)} of {len(bench.table.rows)} met")
    sys.exit(1 if missed else 0)


main()

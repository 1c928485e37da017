#!/usr/bin/env python3
"""tapegrad beside PyTorch, in one run and interleaved, as a table of ratios with verdicts.

  tests/bench/compare.py [--build build] [--rounds 3] [--python /usr/bin/python3]

The peer is PyTorch on the OpenMP build of OpenBLAS with bound threads (Debian: python3-torch libopenblas0-openmp): on the
default build it is several times slower with two threads. Absolute times depend on the machine; the ratios count.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def lines_of(command, environment):
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


class Bench:
    def __init__(self, arguments):
        self.programs = os.path.join(arguments.build, "tests", "bench")
        self.build = arguments.build
        self.python = arguments.python
        self.rounds = arguments.rounds
        self.rows = []
        if not os.path.exists(os.path.join(self.programs, "training")):
            sys.exit(f"{self.programs}/training is missing: build the benchmarks first (tests/run.sh does)")
        probe = subprocess.run([self.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        self.torch = probe.stdout.strip() if probe.returncode == 0 else None
        print(f"PyTorch {self.torch}" if self.torch else
              f"PyTorch is missing for {self.python} (Debian: python3-torch libopenblas0-openmp): no ratios")

    def ours(self, program, *words, threads=2):
        return lines_of([os.path.join(self.programs, program), *words], {"TAPEGRAD_NUM_THREADS": str(threads)})

    def peer(self, script, *words, threads=2):
        environment = {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        openmp = glob.glob("/usr/lib/*/openblas-openmp")
        if openmp:
            environment["LD_LIBRARY_PATH"] = openmp[0]
        return lines_of([self.python, os.path.join(HERE, "peers", script), *words, "--threads", str(threads)], environment)

    def pair(self, ours, peer):
        """Both in turn, `rounds` times: two lists of answers."""
        a, b = [], []
        for _ in range(self.rounds):
            b.append(peer() if self.torch else None)
            a.append(ours())
        return a, b

    def row(self, name, goal, text, met):
        verdict = "" if met is None else "met" if met else "NOT MET"
        self.rows.append((name, goal, text, verdict))
        print(f"{name:34} {goal:22} {text:44} {verdict}", flush=True)

    def ratio_row(self, name, goal, ours, theirs):
        if not theirs:
            self.row(name, f"<= {goal:.2f}x", f"{statistics.median(ours):.2f} ms, no peer", None)
            return
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        text = f"{statistics.median(ours):.2f} / {statistics.median(theirs):.2f} ms = {ratio:.2f}x"
        self.row(name, f"<= {goal:.2f}x", text, ratio <= goal)

    def limit_row(self, name, limit, value, unit):
        self.row(name, f"<= {limit:g} {unit}", f"{value:.4g} {unit}", value <= limit)


def training(bench, size, threads, goal, memory, rounds):
    ours, peers = bench.pair(lambda: bench.ours("training", size, str(rounds), threads=threads)[0],
                             lambda: bench.peer("gpt_torch.py", size, "--rounds", str(rounds), threads=threads)[0])
    theirs = [p["median"] for p in peers if p]
    bench.ratio_row(f"{size.upper()} training step, {threads} thread(s)", goal, [a["median"] for a in ours], theirs)
    if memory:
        bench.limit_row(f"{size.upper()} peak memory", memory, max(a["rss_mb"] for a in ours), "MB")
        bench.limit_row(f"{size.upper()} allocations in steady steps", 0, max(a["system_allocations"] for a in ours), "calls")


def operations(bench):
    chain = [bench.ours("operations", "w4")[0]["ns_per_step_min"] for _ in range(bench.rounds)]
    bench.limit_row("W4 y * a + b on one element", 500, min(chain), "ns")
    ours, peers = bench.pair(lambda: bench.ours("operations", "w5"), lambda: bench.peer("micro_torch.py", "w5"))
    for name in ("gelu(erf)", "softmax", "layernorm"):
        pick = lambda answers: [line["fwdbwd_min"] for answer in answers if answer for line in answer if line["op"] == name]
        bench.ratio_row(f"W5 {name}, minimum", 1.0, pick(ours), pick(peers))


def headers(bench):
    program = "#include <tapegrad/tapegrad.hpp>\nint main() {\n" + "tapegrad::Tensor x = tapegrad::ones({2});\n" + \
              "x = x + 1;\n" * 6 + "return x.item() > 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "ten_lines.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program)
        command = ["g++", "-std=c++20", "-O0", "-I", os.path.join(bench.build, "include"), "-c", source, "-o", source + ".o"]
        times = []
        for _ in range(bench.rounds):
            start = time.perf_counter()
            subprocess.run(command, check=True)
            times.append(time.perf_counter() - start)
        bench.limit_row("ten lines, g++ -O0", 3, min(times), "s")
        example = os.path.join(bench.build, "examples", "toy_lm")
        subprocess.run(["strip", "-o", source + ".stripped", example], check=True)
        bench.limit_row("library and example, stripped", 5, os.path.getsize(source + ".stripped") / 2**20, "MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3")
    bench = Bench(parser.parse_args())
    training(bench, "w1", 2, 0.68, 60, 150)
    training(bench, "w1", 1, 0.83, None, 100)
    training(bench, "w2", 2, 0.84, 700, 3)
    operations(bench)
    headers(bench)
    if any(row[3] == "NOT MET" for row in bench.rows):
        sys.exit(1)


main()

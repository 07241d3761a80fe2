#!/usr/bin/env python3
"""A sweep of H2O over budgets: kvreplay beside PyTorch, numpy and a plain compiled loop, on the same rows in one run.

    against_pytorch.py --kvreplay build/release/kvreplay [--heads 32] [--tokens 2048] [--budgets 16] [--threads 2] [--repeats 3]

All four replay H2O as deployed (half the budget for the highest accumulated attention over the survivors, half for the newest tokens) on the rows of
`kvreplay trace synth` in fp32, which lie in memory, and measure the attention-mass loss of every step; they must agree on its mean to 1e-4, or the run
fails. What is timed is the replay alone, without the start of a process and without reading files into memory:

  kvreplay      `simulate --policy h2o --needed none --detail overall`, its own clock around the replay, warm file
  PyTorch       as H2O's users run it: all heads at once, every step masks the whole row, divides it, accumulates, and takes topk
  numpy         all heads at once, only as far as the row goes, argmin of the survivors
  plain C++     plain_h2o.cpp: the textbook loop, a byte mask over each row, heads shared out to threads

The two in Python run --python-budgets of the budgets (spread over all of them) and are scaled up to all. Needs numpy, h5py, g++ and, for its line,
torch (Debian: python3-torch).
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

FLAGS = ["-O3", "-march=native", "-std=c++20", "-pthread"]
AGREE = 1e-4


def rows_of(path):
    """[heads][n][n] float32, zero above the diagonal."""
    with h5py.File(path) as file:
        stored = file["layers/0/rows"]
        offsets = file["row_offsets"][:]
        n = len(offsets) - 1
        rows = np.zeros((stored.shape[0], n, n), np.float32)
        for head in range(stored.shape[0]):
            flat = stored[head]
            for i in range(n):
                rows[head, i, :i + 1] = flat[int(offsets[i]):int(offsets[i]) + i + 1]
    return rows


def numpy_sweep(rows, budgets):
    heads, n, _ = rows.shape
    losses = []
    every = np.arange(heads)
    for k in budgets:
        recent = k - k // 2
        kept = np.zeros((heads, n), bool)
        score = np.zeros((heads, n), np.float64)
        lost = 0.0
        for i in range(n):
            kept[:, i] = True
            row = rows[:, i, :i + 1]
            seen = np.where(kept[:, :i + 1], row, 0)
            mass = seen.sum(1, dtype=np.float64)
            if i >= k:
                lost += (1 - mass / row.sum(1, dtype=np.float64)).sum()
            score[:, :i + 1] += seen / mass[:, None]
            if i >= k:
                last = i + 1 - recent
                kept[every, np.where(kept[:, :last], score[:, :last], np.inf).argmin(1)] = False
        losses.append(lost / (heads * (n - k)))
    return losses


def torch_sweep(rows, budgets):
    import torch
    rows = torch.from_numpy(rows)
    heads, n, _ = rows.shape
    losses = []
    for k in budgets:
        heavy, recent = k // 2, k - k // 2
        mask = torch.zeros(heads, n)
        score = torch.zeros(heads, n)
        lost = 0.0
        for i in range(n):
            mask[:, i] = 1
            seen = rows[:, i, :] * mask
            mass = seen.sum(1, keepdim=True)
            if i >= k:
                lost += float((1 - mass).sum())
            score = (score + seen / mass) * mask
            if i >= k:
                last = i + 1 - recent
                top = score[:, :last].topk(heavy, 1).indices
                mask = torch.zeros(heads, n).scatter(1, top, 1)
                mask[:, last:i + 1] = 1
        losses.append(lost / (heads * (n - k)))
    return losses


def kvreplay_sweep(program, trace, budgets, threads, folder):
    results = folder / "results.h5"
    subprocess.run([program, "simulate", trace, "--policy", "h2o", "--budget", ",".join(map(str, budgets)), "--needed", "none", "--detail", "overall",
                    "--threads", str(threads), "--out", results, "--overwrite"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with h5py.File(results) as file:
        seconds = json.loads(file.attrs["manifest"])["seconds"]
        table = file["results"][:]
    losses = {int(row["budget_tokens"]): float(row["value"]) for row in table if row["metric"] == b"mass_loss" and row["statistic"] == b"mean"}
    return seconds, [losses[k] for k in budgets]


def plain_sweep(program, flat, shape, budgets, threads):
    answer = subprocess.run([program, flat, *map(str, shape), str(threads), *map(str, budgets)], check=True, capture_output=True, text=True).stdout.split()
    return float(answer[0]), [float(loss) for loss in answer[1:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvreplay", default="build/release/kvreplay")
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--budgets", type=int, default=16)
    parser.add_argument("--python-budgets", type=int, default=4, help="of these are run in Python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    n, heads, threads = arguments.tokens, arguments.heads, arguments.threads
    budgets = [max(2, n * step // (arguments.budgets + 1)) for step in range(1, arguments.budgets + 1)]
    chosen = budgets[::max(1, len(budgets) // arguments.python_budgets)]
    try:
        import torch
        torch.set_num_threads(threads)
    except ImportError:
        torch = None
    source = pathlib.Path(__file__).with_name("plain_h2o.cpp")
    compiler = subprocess.run(["g++", "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        trace, flat, plain = folder / "rows.h5", folder / "rows.f32", folder / "plain"
        subprocess.run([arguments.kvreplay, "trace", "synth", "--tokens", str(n), "--heads", str(heads), "--encoding", "fp32", "--out", trace], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["g++", *FLAGS, source, "-o", plain], check=True)
        rows = rows_of(trace)
        rows.tofile(flat)
        print(f"{heads} heads x {n} rows x {len(budgets)} budgets {budgets[0]}..{budgets[-1]}, {threads} threads, {arguments.repeats} repeats")
        print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, "
              f"torch {torch.__version__ if torch else 'not installed'}, g++ {compiler} {' '.join(FLAGS)}")
        times = {"kvreplay": [], "plain C++": [], "numpy": [], "PyTorch": []}
        losses = {}
        for _ in range(arguments.repeats):
            seconds, losses["kvreplay"] = kvreplay_sweep(arguments.kvreplay, trace, budgets, threads, folder)
            times["kvreplay"].append(seconds)
            seconds, losses["plain C++"] = plain_sweep(plain, flat, rows.shape, budgets, threads)
            times["plain C++"].append(seconds)
        for label, sweep in (("numpy", numpy_sweep), ("PyTorch", torch_sweep)):
            if label == "PyTorch" and not torch:
                continue
            start = time.perf_counter()
            losses[label] = sweep(rows, chosen)
            times[label].append((time.perf_counter() - start) * len(budgets) / len(chosen))
    ours = statistics.median(times["kvreplay"])
    entries = heads * n * (n + 1) / 2 * len(budgets)
    for label, seconds in times.items():
        if not seconds:
            continue
        median = statistics.median(seconds)
        scaled = f" (from {len(chosen)} budgets)" if label in ("numpy", "PyTorch") else ""
        print(f"{label:10} {median:9.3f} s  {entries / median / 1e9:8.3f} G row entries x budgets per second  {median / ours:8.1f} x kvreplay's time{scaled}")
    expected = dict(zip(budgets, losses["kvreplay"]))
    for label, found in losses.items():
        worst = max(abs(loss - expected[k]) for k, loss in zip(budgets if len(found) == len(budgets) else chosen, found))
        print(f"{label:10} mean losses within {worst:.1e} of kvreplay's")
        if not worst < AGREE:
            sys.exit(f"{label} does not replay the same policy")


if __name__ == "__main__":
    main()

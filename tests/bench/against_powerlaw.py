#!/usr/bin/env python3
"""Power-law fits beside the Python package `powerlaw` on the same numbers, with ratios in one run.

Both seek xmin among all distinct values, fit alpha, and compare
the power law with the four alternatives. Times are of CPUs: of kvreplay as a whole, its start and its
reading of the file counted; of the package without its import. The package has no goodness of fit, so
kvreplay is timed without its bootstrap, and once with it. Needs `pip install powerlaw`.

    tests/bench/against_powerlaw.py [--kvreplay build/release/kvreplay] [--numbers N] [--repeats R]
"""

import argparse
import inspect
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy
    import powerlaw
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install powerlaw")
    sys.exit(77)

ALTERNATIVES = ["lognormal", "exponential", "stretched_exponential", "truncated_power_law"]


def package(numbers):
    # Version 2.0 looks at all values; later ones do so when asked.
    every = {"test_all_xmin": True} if "test_all_xmin" in inspect.signature(powerlaw.Fit.__init__).parameters else {}
    start = time.process_time()
    fit = powerlaw.Fit(numbers, verbose=False, parameter_ranges={"alpha": [1.0, 20.0]}, **every)
    compared = {name: fit.distribution_compare("power_law", name) for name in ALTERNATIVES}
    return time.process_time() - start, fit, compared


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(program, path, precision):
    start = children()
    run = subprocess.run([program, "analyze", "powerlaw", "--values", path, "--ks", "left", "--precision", precision, "--json"],
                         check=True, capture_output=True, text=True)
    return children() - start, json.loads(run.stdout)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kvreplay", default=str(root / "build/release/kvreplay"))
    options.add_argument("--numbers", type=int, default=5000)
    options.add_argument("--repeats", type=int, default=3)
    asked = options.parse_args()
    warnings.filterwarnings("ignore")
    version = subprocess.run([asked.kvreplay, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{version}; powerlaw {getattr(powerlaw, '__version__', '?')}, numpy {numpy.__version__}, "
          f"Python {sys.version.split()[0]}; {asked.numbers} numbers, medians of {asked.repeats} runs in turn")
    random = numpy.random.default_rng(1)
    kinds = {"power law": (1 - random.random(asked.numbers)) ** (-1 / 1.5),
             "lognormal": random.lognormal(0, 1, asked.numbers)}
    slowest = float("inf")
    for name, numbers in kinds.items():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(f"{number!r}\n" for number in numbers.tolist())
            file.flush()
            times = {"package": [], "kvreplay": [], "with 2,500 replicates": []}
            for _ in range(asked.repeats):
                seconds, fit, _ = package(numbers)
                times["package"].append(seconds)
                seconds, found = ours(asked.kvreplay, file.name, "none")
                times["kvreplay"].append(seconds)
                times["with 2,500 replicates"].append(ours(asked.kvreplay, file.name, "0.01")[0])
        if abs(fit.xmin - found["xmin"]) > 1e-9 * fit.xmin or abs(fit.alpha - found["alpha"]) > 1e-3:
            sys.exit(f"{name}: the fits differ: {fit.xmin}, {fit.alpha} by the package, {found['xmin']}, {found['alpha']} here")
        medians = {what: statistics.median(values) for what, values in times.items()}
        ratio = medians["package"] / medians["kvreplay"]
        slowest = min(slowest, ratio)
        print(f"{name}: xmin {found['xmin']:.4g}, alpha {found['alpha']:.4f}; " +
              ", ".join(f"{what} {seconds:.3f} s" for what, seconds in medians.items()) +
              f"; {ratio:.0f} x the package, {medians['package'] / medians['with 2,500 replicates']:.0f} x with the bootstrap besides")
    print(f"least ratio {slowest:.0f} (target 50)")
    sys.exit(0 if slowest >= 50 else 1)


main()

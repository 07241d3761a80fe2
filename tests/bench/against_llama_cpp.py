#!/usr/bin/env python3
"""Capture's speed beside llama.cpp's, in one run with alternating repeats.

    against_llama_cpp.py --kvreplay build/release/kvreplay --model SmolLM2-135M-Instruct.Q4_1.gguf

Times a prefill and a decode at its end: kvreplay recording every row to disk as fp16, kvreplay recording nothing, and llama.cpp,
which records nothing, on the same file and on conversions of it to F16 and F32. llama.cpp is used by the package
`llama-cpp-python`, built with native flags, in its default settings (F16 KV cache, flash attention "auto"); where it is missing, only
kvreplay is timed. Each repeat is a process of its own; the medians of all repeats are compared. Token ids are seeded random
numbers: the speed does not depend on them. "prefill and sync" adds the time in which the finished trace reaches the disk.
"""
import argparse
import ctypes
import json
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

VOCABULARY = 49152


def token_ids(count):
    generator = random.Random(1)
    return [generator.randrange(3, VOCABULARY) for _ in range(count)]


def llama_once(model, tokens, generate, threads):
    """One prefill and decode by llama.cpp; tokens per second of each."""
    import llama_cpp as ll
    quiet = ll.llama_log_callback(lambda level, text, user: None)
    ll.llama_log_set(quiet, ctypes.c_void_p(0))
    ll.llama_backend_init()
    loaded = ll.llama_model_load_from_file(model.encode(), ll.llama_model_default_params())
    settings = ll.llama_context_default_params()
    settings.n_ctx = tokens + generate + 1
    settings.n_batch = tokens
    settings.n_threads = settings.n_threads_batch = threads
    context = ll.llama_init_from_model(loaded, settings)
    if not loaded or not context:
        sys.exit(f"{model}: llama.cpp cannot load it")

    def decode(ids):
        array = (ll.llama_token * len(ids))(*ids)
        if ll.llama_decode(context, ll.llama_batch_get_one(array, len(ids))) != 0:
            sys.exit(f"{model}: llama.cpp cannot decode")
        ll.llama_synchronize(context)

    decode(token_ids(16))  # first touch of weights and buffers
    ll.llama_memory_clear(ll.llama_get_memory(context), True)
    start = time.perf_counter()
    decode(token_ids(tokens))
    prefill = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(generate):
        decode([3])  # the logits are computed, which one is chosen costs nothing
    spent = time.perf_counter() - start
    print(json.dumps({"prefill": tokens / prefill, "decode": generate / spent,
                      "system": ll.llama_print_system_info().decode().strip()}))


def llama_convert(model, out, kind):
    import llama_cpp as ll
    settings = ll.llama_model_quantize_default_params()
    settings.ftype = {"F32": ll.LLAMA_FTYPE_ALL_F32, "F16": ll.LLAMA_FTYPE_MOSTLY_F16}[kind]
    settings.allow_requantize = True
    if ll.llama_model_quantize(model.encode(), out.encode(), ctypes.byref(settings)) != 0:
        sys.exit(f"{model}: llama.cpp cannot convert it to {kind}")


def call(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def kvreplay_once(arguments, folder, record):
    ids = folder / "ids.txt"
    ids.write_text(",".join(map(str, token_ids(arguments.tokens))))
    target = ["--out", folder / "run.h5", "--overwrite"] if record else ["--no-record"]
    started = time.perf_counter()
    output = call(arguments.kvreplay, "capture", "--model", arguments.model, "--tokens", f"@{ids}", "--generate",
                  str(arguments.generate), "--ignore-eos", "--threads", str(arguments.threads), *target)
    result = {"whole run, seconds": time.perf_counter() - started}
    for what in ("prefill", "decode"):
        result[what] = float(re.search(rf"^{what} .*?([\d.]+) tokens/s$", output, re.MULTILINE).group(1))
    synced = re.search(r"synced in ([\d.]+) s", output)
    if synced:
        seconds = arguments.tokens / result["prefill"] + float(synced.group(1))
        result["prefill and sync"] = arguments.tokens / seconds
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvreplay", default="build/release/kvreplay")
    parser.add_argument("--model", required=True, help="a GGUF file with a vocabulary of 49,152 (SmolLM2)")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", help="where traces and conversions go (about 2 GB); default: a temporary one")
    parser.add_argument("--llama-once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.llama_once:
        llama_once(arguments.model, arguments.tokens, arguments.generate, arguments.threads)
        return

    if os.getloadavg()[0] > 0.5:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}); llama.cpp's threads wait for each other by spinning, so "
              "its figures suffer most: repeat on an idle machine", file=sys.stderr)

    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        runs = {}
        versions = [call(arguments.kvreplay, "--version").strip()]
        load = os.getloadavg()[0]

        def llama(model):
            return lambda: json.loads(call(sys.executable, __file__, "--llama-once", "--model", model, "--tokens",
                                           str(arguments.tokens), "--generate", str(arguments.generate), "--threads",
                                           str(arguments.threads)).splitlines()[-1])

        try:
            import llama_cpp
        except (ImportError, OSError) as error:
            print(f"llama.cpp is not timed: {error}; install llama-cpp-python, built with native flags", file=sys.stderr)
        else:
            versions.append(f"llama-cpp-python {llama_cpp.__version__}")
            runs["llama.cpp, file as it is"] = llama(arguments.model)
            for kind in ("F16", "F32"):
                converted = str(folder / f"{kind}.gguf")
                call(sys.executable, "-c", "import sys; sys.path[0:0] = [sys.argv[4]]; import against_llama_cpp as a; "
                     "a.llama_convert(*sys.argv[1:4])", arguments.model, converted, kind, str(pathlib.Path(__file__).parent))
                runs[f"llama.cpp, {kind}"] = llama(converted)
        runs["kvreplay, recording fp16"] = lambda: kvreplay_once(arguments, folder, True)
        runs["kvreplay, --no-record"] = lambda: kvreplay_once(arguments, folder, False)

        results = {label: [] for label in runs}
        for repeat in range(arguments.repeats):
            for label, run in runs.items():
                results[label].append(run())
                print(f"repeat {repeat + 1}/{arguments.repeats}: {label}: " + ", ".join(
                    f"{k} {v:.1f}" for k, v in results[label][-1].items() if k != "system"), file=sys.stderr)

    processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    print("; ".join(versions) + f"; Python {platform.python_version()}; {processor.group(1) if processor else '?'}, "
          f"{os.cpu_count()} cores, load {load:.1f} before")
    print(f"{arguments.tokens} tokens of prefill, {arguments.generate} decoded behind them, {arguments.threads} threads, "
          f"{arguments.repeats} repeats in turn; tokens/s, median (least to most)")
    median = {}
    for label, found in results.items():
        median[label] = {}
        for what in found[0]:
            if what == "system":
                continue
            values = [entry[what] for entry in found]
            median[label][what] = statistics.median(values)
            print(f"{label:26} {what:18} {median[label][what]:8.1f} ({min(values):.1f} to {max(values):.1f})")
    for label, found in results.items():
        if "system" in found[0]:
            print(f"llama.cpp was built for {found[0]['system']}")
            break

    recorded, plain = median["kvreplay, recording fp16"], median["kvreplay, --no-record"]
    print(f"recording takes {100 * (plain['prefill'] / recorded['prefill'] - 1):+.1f} % of the prefill's time, "
          f"{100 * (plain['prefill'] / recorded['prefill and sync'] - 1):+.1f} % with the final sync")
    for label in results:
        if label.startswith("llama.cpp"):
            print(f"kvreplay recording against {label[11:]}: prefill {recorded['prefill'] / median[label]['prefill']:.2f} x "
                  f"(with sync {recorded['prefill and sync'] / median[label]['prefill']:.2f} x), "
                  f"decode {recorded['decode'] / median[label]['decode']:.2f} x")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Blocks of every decodable type and the floats that the `gguf` package makes of them.

    make_pairs.py OUT [MODEL.gguf] [--blocks N] [--seed S]

writes OUT/<type>.blocks (stored bytes) and OUT/<type>.values (float32, little-endian). The blocks are
random bytes, with scales that are normal, subnormal, negative, zero and large, and none that is NaN;
with MODEL.gguf, blocks evenly spread over its tensors come first.
"""
import argparse
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

# Where a block holds fp16 scales, in bytes.
HALVES = {T.F32: [], T.F16: [0], T.BF16: [], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2],
          T.Q8_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}


def random_blocks(kind, count, rng):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    edge = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF],
                    dtype=np.uint16)
    for at in HALVES[kind]:
        half = rng.integers(0, 0x10000, count, dtype=np.uint16)
        half[(half & 0x7C00) == 0x7C00] &= 0xBFFF  # no infinity, no NaN: their payloads may differ
        chosen = rng.random(count) < 0.25
        half[chosen] = rng.choice(edge, chosen.sum())
        blocks[:, at:at + 2] = half.view(np.uint8).reshape(count, 2)
    if kind in (T.F32, T.BF16):  # likewise
        top = blocks[:, -2:].copy().view(np.uint16)
        top[(top & 0x7F80) == 0x7F80] &= 0xBFFF
        blocks[:, -2:] = top.view(np.uint8)
    return blocks


def model_blocks(reader, kind, count):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    found = [t.data.view(np.uint8).reshape(-1, size) for t in reader.tensors if t.tensor_type == kind]
    total = sum(len(blocks) for blocks in found)
    if total == 0:
        return np.empty((0, size), np.uint8)
    picks = np.linspace(0, total - 1, min(count, total)).astype(np.int64)
    starts = np.cumsum([0] + [len(blocks) for blocks in found])
    which = np.searchsorted(starts, picks, side="right") - 1
    return np.stack([found[w][p - starts[w]] for w, p in zip(which, picks)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(arguments.model) if arguments.model else None
    rng = np.random.default_rng(arguments.seed)
    for kind in HALVES:
        block_values, _ = gguf.GGML_QUANT_SIZES[kind]
        count = arguments.blocks if block_values > 1 else 32 * arguments.blocks
        blocks = random_blocks(kind, count, rng)
        if reader:
            blocks = np.concatenate([model_blocks(reader, kind, count), blocks])
        with np.errstate(over="ignore"):
            values = gguf.quants.dequantize(blocks.reshape(-1), kind).astype("<f4")
        assert values.size == len(blocks) * block_values
        blocks.tofile(arguments.out / f"{kind.name.lower()}.blocks")
        values.tofile(arguments.out / f"{kind.name.lower()}.values")
        print(f"{kind.name}: {len(blocks)} blocks, {values.size} values")


if __name__ == "__main__":
    main()

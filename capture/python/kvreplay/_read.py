"""Traces as numpy arrays (traces/FORMAT.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import List, Optional, Union

import h5py
import numpy as np

from ._library import InputError


class HeadRows(Sequence):
    """Rows of one head: `rows[i]` has the i + 1 probabilities of query i over keys 0..i.

    In fp16 and fp32 they are views of the file, read when they are looked at; in other encodings they are computed.
    """

    def __init__(self, trace: "Trace", layer: int, head: int) -> None:
        self._trace = trace
        slot = trace._slot(head)
        group = trace._layer(layer)
        if trace.encoding != "factors":
            self._flat = _flat(trace, group["rows"], slot)
            return
        self._attention = {name: group.attrs[name].item() for name in ("scale", "softcap", "window")}
        self._queries = _flat(trace, group["queries"], slot)
        self._keys = _flat(trace, group["keys"], trace._kv_slot(slot))[:trace.tokens].astype(np.float64)

    def __len__(self) -> int:
        return self._trace.tokens

    def __getitem__(self, row):
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        trace = self._trace
        if row not in trace.held_rows():  # no IndexError, by which loops over all rows would just end
            raise KeyError(f"{trace.path} does not hold row {row}; it holds one in {trace.rows_every} from {trace.rows_from} on")
        if trace.encoding == "factors":
            return self._computed(row)
        start = int(trace._offsets[row])
        stored = self._flat[start:start + row + 1]
        if trace.encoding != "u16log":
            return stored
        return np.where(stored == 65535, np.float32(0), np.exp2(stored.astype(np.float32) / -2048))

    def dense(self) -> np.ndarray:
        """All rows, float32 [n, n], zeros above the diagonal and where rows are not held."""
        n = len(self)
        dense = np.zeros((n, n), np.float32)
        for i in self._trace.held_rows():
            dense[i, :i + 1] = self[i]
        return dense

    def _computed(self, row: int) -> np.ndarray:
        query = self._queries[(row - self._trace.rows_from) // self._trace.rows_every].astype(np.float64)
        scores = self._attention["scale"] * (self._keys[:row + 1] @ query)
        softcap, window = self._attention["softcap"], self._attention["window"]
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        if window:
            scores[:max(0, row + 1 - window)] = -np.inf
        weights = np.exp(scores - scores.max())
        return (weights / weights.sum()).astype(np.float32)


class Trace:
    """One captured sequence of one model; open until close() or the end of a `with`."""

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise InputError(f"{self.path} does not exist; check the path")
        try:
            self._file = h5py.File(self.path, "r")
        except OSError as error:
            raise InputError(f"{self.path} cannot be read as HDF5: {error}") from error
        try:
            self._read_facts()
        except (KeyError, ValueError, TypeError, OSError) as error:
            self._file.close()
            raise InputError(f"{self.path} is a damaged kvreplay trace: {error}") from error
        except InputError:
            self._file.close()
            raise

    def _read_facts(self) -> None:
        attributes = self._file.attrs
        if _text(attributes.get("format")) != "kvreplay trace":
            raise InputError(f"{self.path} is not a kvreplay trace")
        if not attributes["complete"]:
            raise InputError(f"{self.path} is incomplete: its capture has not ended or was interrupted")
        self.tokens = int(attributes["tokens"])
        self.prompt_tokens = int(attributes["prompt_tokens"])
        self.layers: List[int] = [int(layer) for layer in np.atleast_1d(attributes["layers"])]
        self.heads: List[int] = [int(head) for head in np.atleast_1d(attributes["heads"])]
        self.model_heads = int(attributes["model_heads"])
        self.kv_heads = int(attributes["kv_heads"])
        self.encoding = _text(attributes["encoding"])
        self.model_name = _text(attributes.get("model_name"))
        self.architecture = _text(attributes.get("architecture"))
        self.rows_from = int(attributes.get("rows_from", 0))
        self.rows_every = int(attributes.get("rows_every", 1))
        if self.encoding != "factors":
            self._offsets = self._file["row_offsets"][:]

    def rows(self, layer: int, head: int) -> HeadRows:
        """The rows of one query head; layer and head are indices of the model."""
        return HeadRows(self, layer, head)

    def held_rows(self) -> range:
        return range(self.rows_from, self.tokens, self.rows_every)

    def values(self, layer: int, head: int) -> np.ndarray:
        """V of the KV head that a query head reads, float32 [n, d]."""
        group = self._layer(layer)
        if "values" not in group:
            raise ValueError(f"{self.path} does not hold values; capture it with values=True")
        return _flat(self, group["values"], self._kv_slot(self._slot(head)))[:self.tokens]

    @property
    def token_ids(self) -> Optional[np.ndarray]:
        return self._file["tokens/ids"][:] if "tokens/ids" in self._file else None

    @property
    def pieces(self) -> Optional[List[str]]:
        """The text of each token; bytes that are no UTF-8 come as backslashes."""
        if "tokens/piece_bytes" not in self._file:
            return None
        text = self._file["tokens/piece_bytes"][:].tobytes()
        ends = self._file["tokens/piece_offsets"][:]
        return [text[int(a):int(b)].decode(errors="backslashreplace") for a, b in zip(ends[:-1], ends[1:])]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        return (f"<kvreplay.Trace {self.path}: {self.tokens} tokens ({self.prompt_tokens} of the prompt), "
                f"{len(self.layers)} layers, {len(self.heads)} heads, {self.encoding}>")

    def _layer(self, layer: int) -> h5py.Group:
        if layer not in self.layers:
            raise ValueError(f"{self.path} does not hold layer {layer}; it holds {self.layers}")
        return self._file[f"layers/{layer}"]

    def _slot(self, head: int) -> int:
        if head not in self.heads:
            raise ValueError(f"{self.path} does not hold head {head}; it holds {self.heads}")
        return self.heads.index(head)

    def _kv_slot(self, slot: int) -> int:
        of_heads = np.asarray(self.heads) // (self.model_heads // self.kv_heads)
        return int(np.unique(of_heads).searchsorted(of_heads[slot]))


def read(path: Union[str, os.PathLike]) -> Trace:
    """Opens a trace. Raises kvreplay.InputError for what is none."""
    return Trace(path)


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else "" if value is None else str(value)


def _flat(trace: Trace, dataset: h5py.Dataset, slot: int) -> np.ndarray:
    """One head's part of a dataset: a view of the file where it lies in one piece."""
    offset = dataset.id.get_offset()
    if offset is None:
        return dataset[slot]
    count = int(np.prod(dataset.shape[1:]))
    start = offset + slot * count * dataset.dtype.itemsize
    return np.memmap(trace.path, dataset.dtype, "r", start, dataset.shape[1:])

"""Attentions that were saved before, as traces; traces as dense arrays."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import h5py
import numpy as np

from ._library import InputError, OutputError, program, raise_for
from ._read import Trace
from ._simulate import _option, _run

Path = Union[str, os.PathLike]
_Layer = Callable[[], np.ndarray]  # [heads, n, n], loaded when it is called


def import_attentions(source: Any, path: Path, *, batch: int = 0, kv_heads: Optional[int] = None,
                      prompt_tokens: Optional[int] = None, model_name: Optional[str] = None, encoding: str = "fp16",
                      tolerance: Optional[float] = None, overwrite: bool = False) -> None:
    """Makes a trace of attentions of all layers.

    source: what `output_attentions=True` hands out, of a forward pass (a tuple of layers [batch, heads, n, n]) or of
    generate() (a tuple of steps of these); an array [layers, heads, n, n]; or a file of either:
      .pt, .pth     torch.save() of one of these
      .npy, .npz    numpy.save() of an array, numpy.savez() of a layer an array, in the order of the numbers in their names
      .safetensors  a layer a tensor, likewise
      .h5, .hdf5    a dataset a layer, likewise, or layer_L/batch_B/head_H as attention-saver writes
    Where such a file has one array only, it holds all layers. Arrays of less than three axes are none of a layer.
    batch: which sequence, where there are several. kv_heads: of the model, if not as many as query heads. tolerance: as in
    `kvreplay help trace import`; bfloat16 needs 0.01. Raises kvreplay.InputError for what is no causal attention.
    """
    from_file = isinstance(source, (str, os.PathLike))
    name = os.fspath(source) if from_file else "the attentions"
    if os.path.exists(path) and not overwrite:
        raise OutputError(f"{os.fspath(path)} exists; pass overwrite=True to replace it")
    with tempfile.TemporaryDirectory(dir=pathlib.Path(path).resolve().parent, prefix=".kvreplay-import-") as folder:
        # The trace names the file that it comes from.
        file = pathlib.Path(source) if from_file else pathlib.Path("attentions")
        dense = pathlib.Path(folder) / (file.name + ("" if file.suffix == ".npy" else ".npy"))
        _write_dense(_layers(source, name, batch), name, dense)
        command = [program(), "trace", "import", str(dense), "--out", os.fspath(path)]
        for option, value in dict(kv_heads=kv_heads, prompt_tokens=prompt_tokens, model_name=model_name, encoding=encoding,
                                  tolerance=tolerance, overwrite=overwrite).items():
            command += _option(option, value)
        code, said = _run(command, False)
        raise_for(code, said.replace(str(dense), name))


def export_dense(trace: Trace, path: Path, *, overwrite: bool = False) -> None:
    """Writes all rows as float32 [layers, heads, n, n], zeros above the diagonal: 4 n^2 bytes a head.

    path: .npz (arrays `attention`, `layers`, `heads`, `token_ids`) or .h5 (datasets of these names, read by
    `kvreplay trace import FILE.h5:/attention`).
    """
    path = pathlib.Path(path)
    if path.suffix not in (".npz", ".h5", ".hdf5"):
        raise ValueError(f"{path} is neither .npz nor .h5")
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; pass overwrite=True to replace it")
    facts = {"layers": np.array(trace.layers), "heads": np.array(trace.heads)}
    if trace.token_ids is not None:
        facts["token_ids"] = trace.token_ids
    shape = (len(trace.layers), len(trace.heads), trace.tokens, trace.tokens)
    partial = path.with_name(path.name + ".partial")
    try:
        if path.suffix == ".npz":
            attention = np.empty(shape, np.float32)
            _fill(attention, trace)
            with open(partial, "wb") as file:
                np.savez(file, attention=attention, **facts)
        else:
            with h5py.File(partial, "w") as file:
                _fill(file.create_dataset("attention", shape, np.float32), trace)
                for name, value in facts.items():
                    file[name] = value
        os.replace(partial, path)
    finally:
        if partial.exists():
            partial.unlink()


def _fill(attention: Any, trace: Trace) -> None:
    for at, layer in enumerate(trace.layers):
        for slot, head in enumerate(trace.heads):
            attention[at, slot] = trace.rows(layer, head).dense()


def _write_dense(layers: List[_Layer], name: str, path: pathlib.Path) -> None:
    shape: Tuple[int, ...] = ()
    kind: Any = None
    with open(path, "wb") as file:  # not mapped: a disk that is full is an error then, not the end of the process
        for at, layer in enumerate(layers):
            rows = layer()
            if rows.ndim != 3 or rows.shape[1] != rows.shape[2]:
                raise InputError(f"{name}: layer {at} has the shape {rows.shape}, where [heads, n, n] is expected")
            if at == 0:
                shape, kind = rows.shape, rows.dtype
                np.lib.format.write_array_header_1_0(
                    file, {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (len(layers), *shape)})
            elif rows.shape != shape:
                raise InputError(f"{name}: layer {at} has the shape {rows.shape}, and the first has {shape}")
            np.ascontiguousarray(rows, kind).tofile(file)
    if not layers:
        raise InputError(f"{name} holds no attention")


def _layers(source: Any, name: str, batch: int) -> List[_Layer]:
    if isinstance(source, (str, os.PathLike)):
        source = _opened(pathlib.Path(source))
    if isinstance(source, h5py.File):
        return _of_hdf5(source, name, batch)
    if isinstance(source, (dict, np.lib.npyio.NpzFile)):
        keys = sorted((key for key in source if source[key].ndim >= 3), key=_numbers)
        return _of_file([(lambda key=key: source[key]) for key in keys], batch, name)
    if isinstance(source, (tuple, list)):
        if source and isinstance(source[0], (tuple, list)):
            return _of_steps(source, batch, name)
        return _of_sequence([(lambda layer=layer: layer) for layer in source], batch, name)
    return _of_file([lambda: source], batch, name)


def _opened(path: pathlib.Path) -> Any:
    kinds: Dict[str, Callable[[pathlib.Path], Any]] = {
        ".npy": lambda file: np.load(file, mmap_mode="r"), ".npz": np.load, ".h5": h5py.File, ".hdf5": h5py.File,
        ".pt": _torch_load, ".pth": _torch_load, ".safetensors": _safetensors}
    if path.suffix not in kinds:
        raise ValueError(f"{path} is of no known kind; these are: {', '.join(kinds)}")
    try:
        return kinds[path.suffix](path)
    except ImportError:
        raise
    except Exception as error:  # each library has errors of its own for files that are damaged
        raise InputError(f"{path} cannot be read: {error}") from error


def _torch_load(path: pathlib.Path) -> Any:
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def _safetensors(path: pathlib.Path) -> Any:
    import safetensors

    with safetensors.safe_open(path, framework="numpy") as file:
        has_bf16 = any(file.get_slice(name).get_dtype() == "BF16" for name in file.keys())
    # numpy has no bfloat16.
    with safetensors.safe_open(path, framework="pt" if has_bf16 else "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def _array(tensor: Any) -> np.ndarray:
    """Of what numpy, torch or h5py hold; bfloat16, which numpy has not, as float32."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
        tensor = tensor.numpy()
    array = np.asarray(tensor)
    return array if array.dtype in (np.float16, np.float32, np.float64) else array.astype(np.float32)


def _sequence_of(array: np.ndarray, batch: int, name: str) -> np.ndarray:
    """[heads, n, n] of [batch, heads, n, n]; what has three axes has no batch."""
    if array.ndim != 4:
        return array
    if batch >= len(array):
        raise ValueError(f"{name} has {len(array)} sequences, and none of number {batch}")
    return array[batch]


def _of_file(layers: List[Callable[[], Any]], batch: int, name: str) -> List[_Layer]:
    """A layer an entry, or one entry of all: [layers, heads, n, n] or with the batch behind layers."""
    if len(layers) == 1:
        whole = _array(layers[0]())
        if whole.ndim in (4, 5):
            return [(lambda at=at: _sequence_of(whole[at], batch, name)) for at in range(len(whole))]
    return _of_sequence(layers, batch, name)


def _of_sequence(layers: List[Callable[[], Any]], batch: int, name: str) -> List[_Layer]:
    return [(lambda layer=layer: _sequence_of(_array(layer()), batch, name)) for layer in layers]


def _of_steps(steps: Any, batch: int, name: str) -> List[_Layer]:
    """Of generate(): the prompt's rows first, then one row or more a step, of as many keys as there were."""

    def layer(at: int) -> np.ndarray:
        parts = [_sequence_of(_array(step[at]), batch, name) for step in steps]
        n = sum(part.shape[-2] for part in parts)
        rows = np.zeros((parts[0].shape[0], n, n), np.result_type(*parts))
        first = 0
        for part in parts:
            last = first + part.shape[-2]
            if part.shape[-1] != last:
                raise InputError(f"{name}: rows {first} to {last - 1} of layer {at} give {part.shape[-1]} keys, not {last}; caches "
                                 "that hold a window or room for more have no place for the others")
            rows[:, first:last, :last] = part
            first = last
        return rows

    return [(lambda at=at: layer(at)) for at in range(len(steps[0]))]


def _numbers(name: str) -> Tuple[List[int], str]:
    return [int(number) for number in re.findall(r"\d+", name)], name


def _datasets(group: h5py.Group) -> Iterator[str]:
    names: List[str] = []
    group.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return iter(sorted(names, key=_numbers))


def _of_hdf5(file: h5py.File, name: str, batch: int) -> List[_Layer]:
    by_head: Dict[int, List[str]] = {}
    others: List[str] = []
    for dataset in _datasets(file):
        place = re.fullmatch(r"layer_(\d+)/batch_(\d+)/head_(\d+)", dataset)
        if place is None:
            others.append(dataset)
        elif int(place[2]) == batch:
            by_head.setdefault(int(place[1]), []).append(dataset)
    if by_head:
        return [(lambda heads=heads: np.stack([_array(file[head][:]) for head in heads])) for _, heads in sorted(by_head.items())]
    of_attention = [dataset for dataset in others if file[dataset].ndim >= 3]
    return _of_file([(lambda dataset=dataset: file[dataset][:]) for dataset in of_attention], batch, name)

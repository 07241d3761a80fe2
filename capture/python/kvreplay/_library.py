"""libkvreplay (capture/api/kvreplay.h) and the program, as they are installed beside this file."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Optional

_HERE = pathlib.Path(__file__).parent
_ERROR_SIZE = 1024

F32, F16, BF16 = 0, 1, 2


class InputError(RuntimeError):
    """A file or a number that cannot be what it should be: a damaged trace, scores that are not finite."""


class OutputError(OSError):
    """A result that cannot be written: it exists, no permission, disk full."""


class Attention(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_double), ("softcap", ctypes.c_double), ("window", ctypes.c_uint32)]


class Model(ctypes.Structure):
    _fields_ = [
        ("layers", ctypes.c_uint32),
        ("heads", ctypes.c_uint32),
        ("kv_heads", ctypes.c_uint32),
        ("head_size", ctypes.c_uint32),
        ("attention", ctypes.POINTER(Attention)),
        ("name", ctypes.c_char_p),
        ("architecture", ctypes.c_char_p),
        ("compute_type", ctypes.c_char_p),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("tokens", ctypes.c_uint32),
        ("prompt_tokens", ctypes.c_uint32),
        ("prompt_ids", ctypes.POINTER(ctypes.c_uint32)),
        ("encoding", ctypes.c_char_p),
        ("layers", ctypes.POINTER(ctypes.c_uint32)),
        ("layer_count", ctypes.c_uint32),
        ("heads", ctypes.POINTER(ctypes.c_uint32)),
        ("head_count", ctypes.c_uint32),
        ("rows_from", ctypes.c_uint32),
        ("rows_every", ctypes.c_uint32),
        ("values", ctypes.c_int),
        ("norms", ctypes.c_int),
        ("overwrite", ctypes.c_int),
    ]


class Vectors(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("memory", ctypes.c_int),
        ("token_stride", ctypes.c_size_t),
        ("head_stride", ctypes.c_size_t),
    ]


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    path = os.environ.get("KVREPLAY_LIBRARY", str(_HERE / "lib" / "libkvreplay.so.0"))
    library = ctypes.CDLL(path)
    error = [ctypes.c_char_p, ctypes.c_size_t]
    vectors = ctypes.POINTER(Vectors)
    numbers = ctypes.POINTER(ctypes.c_uint32)
    library.kvreplay_begin.restype = ctypes.c_void_p
    library.kvreplay_begin.argtypes = [ctypes.c_char_p, ctypes.POINTER(Model), ctypes.POINTER(Options),
                                       ctypes.POINTER(ctypes.c_int), *error]
    library.kvreplay_record.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, vectors,
                                        vectors, vectors, *error]
    library.kvreplay_end.argtypes = [ctypes.c_void_p, ctypes.c_uint32, numbers, ctypes.POINTER(ctypes.c_char_p), *error]
    library.kvreplay_abort.argtypes = [ctypes.c_void_p]
    library.kvreplay_abort.restype = None
    library.kvreplay_version.restype = ctypes.c_char_p
    return library


def program() -> str:
    """The kvreplay program."""
    return os.environ.get("KVREPLAY_PROGRAM", str(_HERE / "bin" / "kvreplay"))


def version() -> str:
    return _library().kvreplay_version().decode()


def raise_for(code: int, text: str) -> None:
    """What an exit code or KVREPLAY_ERROR_* means, as an exception; nothing for 0."""
    if code == 0:
        return
    kind = {2: ValueError, 3: InputError, 4: OutputError, 130: KeyboardInterrupt}.get(code, RuntimeError)
    raise kind(text or f"kvreplay ended with {code}")


class Writer:
    """A trace that is being written."""

    def __init__(self, path: os.PathLike, model: Model, options: Options) -> None:
        self._trace: Optional[int] = None
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        code = ctypes.c_int()
        self._trace = _library().kvreplay_begin(os.fsencode(path), ctypes.byref(model), ctypes.byref(options),
                                                ctypes.byref(code), error, _ERROR_SIZE)
        raise_for(code.value, error.value.decode(errors="replace"))

    def record(self, layer: int, position: int, tokens: int, queries: Vectors, keys: Vectors, values: Vectors) -> None:
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        code = _library().kvreplay_record(self._trace, layer, position, tokens, ctypes.byref(queries),
                                          ctypes.byref(keys), ctypes.byref(values), error, _ERROR_SIZE)
        raise_for(code, error.value.decode(errors="replace"))

    def end(self, tokens: int, ids: Optional[list], texts: Optional[list]) -> None:
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        trace, self._trace = self._trace, None
        of_ids = (ctypes.c_uint32 * tokens)(*ids) if ids is not None else None
        of_texts = (ctypes.c_char_p * tokens)(*texts) if texts is not None else None
        code = _library().kvreplay_end(trace, tokens, of_ids, of_texts, error, _ERROR_SIZE)
        raise_for(code, error.value.decode(errors="replace"))

    def abort(self) -> None:
        trace, self._trace = self._trace, None
        _library().kvreplay_abort(trace)

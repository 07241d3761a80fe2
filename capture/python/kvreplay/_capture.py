"""Recording of Hugging Face transformers models."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import re
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from . import _library

_IMPLEMENTATIONS = ("eager", "sdpa")
# What attention functions may be given that makes a row more than the softmax of scaled products.
_MORE_THAN_PRODUCTS = ("s_aux", "position_bias", "head_mask", "alibi", "attn_bias")


class _Part(NamedTuple):
    """What one layer attended with in one forward pass; the numbers of a vector lie behind one another."""

    layer: int
    queries: Any  # [heads, tokens, head_size]
    keys: Any  # [kv_heads, tokens, head_size]
    values: Any  # alike; None where the trace needs none


class _Attention(NamedTuple):
    scale: float
    softcap: float
    window: int


class _Shape(NamedTuple):
    heads: int
    kv_heads: int
    head_size: int


class capture:
    """Records what a model attends to while it runs inside the `with`, prefill and decoding.

    >>> with kvreplay.capture(model, "run.h5", tokenizer=tokenizer):
    ...     model.generate(**inputs, max_new_tokens=64)

    The model's own attention, eager or sdpa, computes its outputs; beside it the queries and keys behind the position embedding
    go to the trace. Causal models whose attention goes through transformers' attention functions and is the softmax of scaled
    products, with or without softcap and window. One sequence: batches of more than one, padding, encoders and caches that were
    filled before or rolled back raise ValueError. Where the block ends by an exception, rows that were whole stay as PATH.partial.

    tokenizer: adds the text of each token. max_tokens: room for so many; taken from generate(max_new_tokens=), and where it is
    not known, queries and keys wait in memory for the end of the block. prompt_tokens: the input of generate(), or the tokens of
    the first forward pass, unless given. layers, heads: model indices; all unless given. encoding, values, norms, rows_from,
    rows_every: as `kvreplay help capture` says of the options of these names.
    """

    def __init__(self, model: Any, path: Union[str, os.PathLike], *, tokenizer: Any = None, encoding: str = "fp16",
                 max_tokens: Optional[int] = None, prompt_tokens: Optional[int] = None, layers: Optional[Sequence[int]] = None,
                 heads: Optional[Sequence[int]] = None, values: bool = False, norms: bool = False, rows_from: int = 0,
                 rows_every: int = 1, overwrite: bool = False, progress: bool = True) -> None:
        self.path = os.fspath(path)
        if os.path.exists(self.path) and not overwrite:
            raise _library.OutputError(f"{self.path} exists; pass overwrite=True to replace it")
        if not hasattr(getattr(model, "config", None), "get_text_config"):
            raise TypeError(f"a {type(model).__name__} is no transformers model: pass what AutoModelForCausalLM gives")
        self._model = model
        self._config = model.config.get_text_config()
        self._layers: int = self._config.num_hidden_layers
        self._tokenizer = tokenizer
        self._options = dict(encoding=encoding.encode(), rows_from=rows_from, rows_every=rows_every, values=int(values),
                             norms=int(norms), overwrite=int(overwrite))
        self._chosen = {"layer": _chosen("layer", layers, self._layers),
                        "head": _chosen("head", heads, self._config.num_attention_heads)}
        self._needs_values = values or norms
        self._max_tokens = max_tokens
        self._prompt_tokens = prompt_tokens
        self._progress = progress and sys.stderr.isatty()

        self._shape: Optional[_Shape] = None
        self._attention: Dict[int, _Attention] = {}
        self._positions: Dict[int, int] = {}  # tokens that each layer has attended with
        self._written: Dict[int, int] = {}  # and those of them that are in the trace
        self._first_tokens = 0  # of the first forward pass
        self._ids: Optional[List[int]] = []  # None: not known, as where the model is given embeddings
        self._ids_of_pass: Optional[List[int]] = None  # that were embedded and of which no layer has attended yet
        self._masks_seen: set = set()
        self._waiting: List[_Part] = []
        self._writer: Optional[_library.Writer] = None
        self._bar: Any = None
        self._undo = contextlib.ExitStack()

    # The block

    def __enter__(self) -> "capture":
        self._implementation = self._config._attn_implementation
        if str(self._implementation).startswith("kvreplay_"):
            raise ValueError("another capture of this model is running; end its block first")
        if self._implementation not in _IMPLEMENTATIONS:
            raise ValueError(f"the attention implementation {self._implementation!r} cannot be recorded; load the model with "
                             'attn_implementation="sdpa" or "eager", of which the rows are the same')
        if not getattr(self._model, "_supports_attention_backend", False):
            raise ValueError(f"{type(self._model).__name__} does not use transformers' attention functions, so its attention "
                             "cannot be recorded")
        try:
            self._hook()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, kind: Optional[type], *_: Any) -> None:
        try:
            if kind is None:
                self._end()
        finally:
            self._waiting = []
            if self._writer is not None:
                self._writer.abort()  # nothing, where it has ended
            if self._bar is not None:
                self._bar.close()
            self._undo.close()

    def _hook(self) -> None:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        self._own = ALL_ATTENTION_FUNCTIONS[self._implementation] if self._implementation != "eager" else None
        name = f"kvreplay_{self._implementation}_{id(self):x}"
        # Without a mask function of the same name the model would see no mask at all.
        for functions, function in ((ALL_ATTENTION_FUNCTIONS, self._attend),
                                    (ALL_MASK_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS[self._implementation])):
            functions.register(name, function)  # for all of the library: masks are looked up there only
            self._undo.callback(functions._global_mapping.pop, name)
        self._undo.callback(self._model.set_attn_implementation, self._implementation)
        self._model.set_attn_implementation(name)
        # Not of the model: generate() calls its forward() past the hooks where it feeds the prompt in chunks.
        self._undo.callback(self._model.get_input_embeddings().register_forward_pre_hook(self._take_ids).remove)
        if hasattr(self._model, "generate"):
            before = self._model.__dict__.get("generate")  # where the caller has put one of its own on the model
            self._undo.callback(self._restore_generate, before)
            self._model.generate = functools.partial(self._generate, self._model.generate)

    def _restore_generate(self, before: Optional[Callable[..., Any]]) -> None:
        if before is None:
            del self._model.generate
        else:
            self._model.generate = before

    # What the model calls

    def _generate(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Takes the length of the text from what transformers will take it from; where that is not sure, it stays unknown."""
        inputs = kwargs.get("input_ids", kwargs.get("inputs", args[0] if args else None))
        config = kwargs.get("generation_config") or (args[1] if len(args) > 1 else None) or self._model.generation_config
        new = kwargs.get("max_new_tokens") or getattr(config, "max_new_tokens", None)
        if not self._positions and inputs is not None:
            self._prompt_tokens = self._prompt_tokens or inputs.shape[-1]
            if new is not None:
                self._max_tokens = self._max_tokens or inputs.shape[-1] + new
        return own(*args, **kwargs)

    def _take_ids(self, _embeddings: Any, args: tuple) -> None:
        self._ids_of_pass = args[0].flatten().tolist()

    def _attend(self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *args: Any, **kwargs: Any) -> Any:
        self._take(module, query, key, value, attention_mask, kwargs)
        own = self._own or _eager(module)
        return own(module, query, key, value, attention_mask, *args, **kwargs)

    def _take(self, module: Any, query: Any, key: Any, value: Any, mask: Any, kwargs: Dict[str, Any]) -> None:
        layer = self._layer_of(module, query, kwargs)
        attention = self._attention_of(module, query, kwargs)
        if self._attention.setdefault(layer, attention) != attention:
            raise ValueError(f"layer {layer} changed from {self._attention[layer]} to {attention} along the way")
        shape = _Shape(query.shape[1], key.shape[1], query.shape[3])
        self._shape = self._shape or shape
        if shape != self._shape or key.shape[3] != shape.head_size or (self._needs_values and value.shape != key.shape):
            raise ValueError(f"layer {layer} has {shape} with keys of {tuple(key.shape)} and values of {tuple(value.shape)}, and a "
                             f"trace holds layers of one shape, {self._shape}")
        tokens, first = query.shape[2], self._positions.get(layer, 0)
        oldest = self._oldest_key(layer, first, tokens, key.shape[2], attention.window, kwargs)
        self._check_mask(mask, first, tokens, oldest, attention.window, layer)

        if first == max(self._positions.values(), default=0):  # the first layer to attend in this pass
            self._first_tokens = self._first_tokens or tokens
            known = self._ids is not None and self._ids_of_pass is not None and len(self._ids_of_pass) == tokens
            self._ids = self._ids + self._ids_of_pass if known else None
            self._ids_of_pass = None
        self._positions[layer] = first + tokens
        if self._chosen["layer"] is None or layer in self._chosen["layer"]:
            new = slice(first - oldest, first - oldest + tokens)
            self._waiting.append(_Part(layer, _on_host(query[0]), _on_host(key[0, :, new]),
                                       _on_host(value[0, :, new]) if self._needs_values else None))
        if self._writer is None and self._max_tokens is not None and len(self._attention) == self._layers:
            self._begin(self._max_tokens)  # the layers of the first pass are through: the attention of all is known
        if self._writer is not None:
            self._write_waiting()

    def _layer_of(self, module: Any, query: Any, kwargs: Dict[str, Any]) -> int:
        layer = getattr(module, "layer_idx", None)
        if layer is None or not getattr(module, "is_causal", True):
            raise ValueError(f"{type(module).__name__} is no causal self-attention of a numbered layer; encoders and "
                             "cross-attention have no place in a trace")
        if query.shape[0] != 1:
            raise ValueError(f"the batch has {query.shape[0]} sequences, and a trace holds one; run them one by one")
        more = next((name for name in _MORE_THAN_PRODUCTS if kwargs.get(name) is not None), None)
        if more is None and self._own is None and getattr(module, "reorder_and_upcast_attn", False):
            more = "reorder_and_upcast_attn"
        if more is not None:
            raise ValueError(f"the attention of {type(module).__name__} is more than the softmax of scaled products ({more}), so "
                             "that queries and keys do not give its rows")
        return layer

    def _attention_of(self, module: Any, query: Any, kwargs: Dict[str, Any]) -> _Attention:
        scale = kwargs.get("scaling")
        if scale is None:
            scale = 1 / math.sqrt(query.shape[-1])
            if self._own is None and hasattr(module, "scale_attn_weights"):  # GPT-2's eager attention scales by these
                scale = scale if module.scale_attn_weights else 1.0
                scale /= module.layer_idx + 1 if module.scale_attn_by_inverse_layer_idx else 1
        softcap = kwargs.get("softcap") if self._implementation != "sdpa" else 0  # which passes over it
        return _Attention(float(scale), float(softcap or 0), int(kwargs.get("sliding_window") or 0))

    @staticmethod
    def _oldest_key(layer: int, first: int, tokens: int, held: int, window: int, kwargs: Dict[str, Any]) -> int:
        """The position of the first of `held` keys: a cache gives all tokens, those of the window, or room for more."""
        at = next((int(kwargs[name].flatten()[0]) for name in ("cache_position", "position_ids")
                   if kwargs.get(name) is not None), None)
        if at is not None and at != first:
            raise ValueError(f"layer {layer} is at position {at} where {first} comes next; a cache that was filled before the "
                             "block or rolled back, and a second text, cannot be recorded")
        if (held > first + tokens and at is None) or held < min(first + tokens, window or first + tokens):
            raise ValueError(f"layer {layer} has {held} keys where {first + tokens} tokens have come; a cache that was filled "
                             "before the block, and a model that runs on without one, cannot be recorded")
        return max(0, first + tokens - held)

    def _check_mask(self, mask: Any, first: int, tokens: int, oldest: int, window: int, layer: int) -> None:
        """A mask hides later tokens and those before the window, and no others."""
        import torch

        if mask is None or (id(mask), window, first) in self._masks_seen:
            return
        self._masks_seen.add((id(mask), window, first))
        sees = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
        query = torch.arange(first, first + tokens, device=mask.device)[:, None]
        key = torch.arange(oldest, oldest + mask.shape[-1], device=mask.device)[None, :]
        expected = key <= query
        if window:
            expected = expected & (key > query - window)
        if sees.shape != expected.shape or not torch.equal(sees, expected):
            raise ValueError(f"the mask of layer {layer} is not causal over all tokens; padding and packed sequences cannot be "
                             "recorded, so give the model one sequence without padding")

    # The trace

    def _begin(self, tokens: int) -> None:
        prompt = min(self._prompt_tokens or self._first_tokens, tokens)
        attention = (_library.Attention * self._layers)()
        for layer, (scale, softcap, window) in self._attention.items():
            attention[layer] = _library.Attention(scale, softcap, window)
        model = _library.Model(
            layers=self._layers, attention=attention, name=str(getattr(self._model.config, "_name_or_path", "")).encode(),
            architecture=str(self._model.config.model_type).encode(),
            compute_type=str(self._model.dtype).replace("torch.", "").encode(), **self._shape._asdict())
        options = _library.Options(tokens=tokens, prompt_tokens=prompt, **self._options)
        if self._ids is not None and len(self._ids) >= prompt:
            options.prompt_ids = (ctypes.c_uint32 * prompt)(*self._ids[:prompt])
        for name, chosen in self._chosen.items():
            if chosen is not None:
                setattr(options, f"{name}s", (ctypes.c_uint32 * len(chosen))(*chosen))
                setattr(options, f"{name}_count", len(chosen))
        self._writer = _library.Writer(self.path, model, options)
        self._room = tokens
        if self._progress:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=tokens, unit="token", desc=f"recording {os.path.basename(self.path)}")

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for part in waiting:
            first, tokens = self._written.get(part.layer, 0), part.queries.shape[1]
            if first + tokens > self._room:
                raise ValueError(f"token {first + tokens} comes where the trace has room for {self._room}; pass "
                                 "capture(max_tokens=) with room for all that will run inside the block")
            self._writer.record(part.layer, first, tokens, *map(_vectors, part[1:]))
            self._written[part.layer] = first + tokens
            if self._bar is not None and part.layer == (self._chosen["layer"] or [self._layers - 1])[-1]:
                self._bar.update(tokens)

    def _end(self) -> None:
        if not self._positions:
            raise ValueError("the model did not run inside the block, so there is nothing to record")
        tokens = max(self._positions.values())
        if len(self._attention) != self._layers or min(self._positions.values()) != tokens:
            raise ValueError(f"of the model's {self._layers} layers not all attended to all {tokens} tokens through transformers' "
                             "attention functions, so there is no whole trace")
        if self._writer is None:
            self._begin(tokens)
        self._write_waiting()
        ids = self._ids if self._ids is not None and len(self._ids) == tokens else None
        texts = [_text(self._tokenizer, token) for token in ids] if ids is not None and self._tokenizer is not None else None
        self._writer.end(tokens, ids, texts)


def _chosen(kind: str, indices: Optional[Sequence[int]], count: int) -> Optional[List[int]]:
    if indices is None:
        return None
    wrong = [index for index in indices if not 0 <= index < count]
    if wrong or len(indices) == 0:
        raise ValueError(f"{kind}s={list(indices)}: the model has {kind}s 0 to {count - 1}")
    return sorted(set(indices))


def _eager(module: Any) -> Callable[..., Any]:
    """Eager attention is no entry of the registry: each model's file has its own."""
    own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if own is None:
        raise ValueError(f"{type(module).__module__} has no eager_attention_forward to go on with")
    return own


def _on_host(tensor: Any) -> Any:
    import torch

    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _vectors(tensor: Any) -> _library.Vectors:
    import torch

    if tensor is None:
        return _library.Vectors()
    types = {torch.float32: _library.F32, torch.float16: _library.F16, torch.bfloat16: _library.BF16}
    return _library.Vectors(tensor.data_ptr(), types[tensor.dtype], 0, tensor.stride(1), tensor.stride(0))


@functools.lru_cache(maxsize=None)
def _bytes_of_characters() -> Dict[str, int]:
    """The characters in which byte-level BPE writes bytes (GPT-2): printable ones themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + at): byte for at, byte in enumerate(others)}}


def _text(tokenizer: Any, token: int) -> bytes:
    """A token's own bytes, which need not be UTF-8, without zeros."""
    piece = tokenizer.convert_ids_to_tokens(token)
    text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    if not isinstance(piece, str):
        return text.encode().replace(b"\0", b"")
    if re.fullmatch("<0x[0-9A-F]{2}>", piece):  # byte fallback
        return bytes([int(piece[3:5], 16)]).replace(b"\0", b"")
    table = _bytes_of_characters()
    if "\ufffd" in text and all(character in table for character in piece):  # a part of a character
        return bytes(table[character] for character in piece).replace(b"\0", b"")
    if piece.startswith("\u2581") and not text.startswith(" "):  # SentencePiece's space, which decoding one token drops
        text = " " + text
    return text.encode().replace(b"\0", b"")

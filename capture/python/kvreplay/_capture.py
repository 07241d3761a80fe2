"""Recording of Hugging Face transformers models."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Union

from . import _library


class _Part(NamedTuple):
    """What one layer attended with in one forward pass; the numbers of a vector lie behind one another."""

    layer: int
    queries: Any  # [heads, tokens, head_size]
    keys: Any  # [kv_heads, tokens, head_size]
    values: Any


class _Attention(NamedTuple):
    scale: float
    softcap: float
    window: int


class capture:
    """Records what a model attends to while it runs inside the `with`, prefill and decoding.

    >>> with kvreplay.capture(model, "run.h5", tokenizer=tokenizer):
    ...     model.generate(**inputs, max_new_tokens=64)

    The model's own attention computes its outputs, which stay the same to the bit; beside it the queries and keys behind the
    position embedding go to the trace. One sequence: batches of more than one, padding, encoders and rolled-back caches raise
    ValueError. Where the block ends by an exception, rows that were whole stay as PATH.partial.

    tokenizer: adds the text of each token. max_tokens: room for so many; known by itself within generate(), and where it is
    not known at all, queries and keys wait in memory for the end of the block. prompt_tokens: the tokens of the first forward
    pass unless given. layers, heads: model indices; all unless given. encoding, values, norms, rows_from, rows_every: as
    `kvreplay help capture` says of the options of these names.
    """

    def __init__(self, model: Any, path: Union[str, os.PathLike], *, tokenizer: Any = None, encoding: str = "fp16",
                 max_tokens: Optional[int] = None, prompt_tokens: Optional[int] = None, layers: Optional[Sequence[int]] = None,
                 heads: Optional[Sequence[int]] = None, values: bool = False, norms: bool = False, rows_from: int = 0,
                 rows_every: int = 1, overwrite: bool = False, progress: bool = True) -> None:
        self.path = os.fspath(path)
        if os.path.exists(self.path) and not overwrite:
            raise _library.OutputError(f"{self.path} exists; pass overwrite=True to replace it")
        self._model = model
        self._config = model.config.get_text_config()
        self._layers: int = self._config.num_hidden_layers
        self._tokenizer = tokenizer
        self._options = dict(encoding=encoding.encode(), rows_from=rows_from, rows_every=rows_every, values=int(values),
                             norms=int(norms), overwrite=int(overwrite))
        self._lists = {"layer": layers, "head": heads}
        self._max_tokens = max_tokens
        self._prompt_tokens = prompt_tokens
        self._progress = progress and sys.stderr.isatty()

        self._new_tokens: Optional[int] = None  # of the generate() that runs
        self._attention: Dict[int, _Attention] = {}
        self._positions: Dict[int, int] = {}  # tokens that each layer has attended with
        self._written: Dict[int, int] = {}  # and those of them that are in the trace
        self._ids: Optional[List[int]] = []  # None: not known
        self._waiting: List[_Part] = []
        self._writer: Optional[_library.Writer] = None
        self._masks_seen: Set[Any] = set()
        self._bar: Any = None

    # The block

    def __enter__(self) -> "capture":
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        self._implementation = self._config._attn_implementation
        if self._implementation not in ALL_MASK_ATTENTION_FUNCTIONS:
            raise ValueError(f"the attention implementation {self._implementation!r} is not known; load the model with "
                             'attn_implementation="sdpa" or "eager"')
        self._functions = ALL_ATTENTION_FUNCTIONS
        name = f"kvreplay_{self._implementation}"
        AttentionInterface.register(name, self._attend)
        # Without a mask function of the same name the model would see no mask at all.
        AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[self._implementation])
        self._model.set_attn_implementation(name)
        self._ids_hook = self._model.register_forward_pre_hook(self._take_ids, with_kwargs=True)
        self._generate = self._model.generate if hasattr(self._model, "generate") else None
        if self._generate is not None:
            self._model.generate = self._generate_and_know_its_length
        return self

    def __exit__(self, kind: Optional[type], *_: Any) -> None:
        self._model.set_attn_implementation(self._implementation)
        self._ids_hook.remove()
        if self._generate is not None:
            del self._model.generate
        try:
            if kind is None:
                self._end()
        finally:
            if self._writer is not None:
                self._writer.abort()  # nothing, where it has ended
            if self._bar is not None:
                self._bar.close()

    # What the model calls

    def _generate_and_know_its_length(self, *args: Any, **kwargs: Any) -> Any:
        config = kwargs.get("generation_config") or self._model.generation_config
        self._new_tokens = kwargs.get("max_new_tokens") or config.max_new_tokens
        if self._new_tokens is None and self._max_tokens is None:
            self._max_tokens = kwargs.get("max_length") or config.max_length
        return self._generate(*args, **kwargs)

    def _take_ids(self, _model: Any, args: tuple, kwargs: Dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            self._ids = None
        if self._ids is not None:
            self._ids += ids[0].tolist()
        self._masks_seen.clear()

    def _attend(self, module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *args: Any, **kwargs: Any) -> Any:
        self._take(module, query, key, value, attention_mask, kwargs)
        own = self._functions[self._implementation] if self._implementation != "eager" else _eager(module)
        return own(module, query, key, value, attention_mask, *args, **kwargs)

    def _take(self, module: Any, query: Any, key: Any, value: Any, mask: Any, kwargs: Dict[str, Any]) -> None:
        layer = getattr(module, "layer_idx", None)
        if layer is None or not getattr(module, "is_causal", True):
            raise ValueError(f"{type(module).__name__} is no causal self-attention of a numbered layer; encoders and "
                             "cross-attention have no place in a trace")
        if query.shape[0] != 1:
            raise ValueError(f"the batch has {query.shape[0]} sequences, and a trace holds one; run them one by one")
        scale = kwargs.get("scaling")
        window = kwargs.get("sliding_window")
        softcap = kwargs.get("softcap") if self._implementation != "sdpa" else 0  # which passes over it
        attention = _Attention(float(scale) if scale is not None else 1 / math.sqrt(query.shape[-1]), float(softcap or 0),
                               int(window or 0))
        if self._attention.setdefault(layer, attention) != attention:
            raise ValueError(f"layer {layer} changed from {self._attention[layer]} to {attention} along the way")

        tokens, first = query.shape[2], self._positions.get(layer, 0)
        at = next((int(kwargs[name].flatten()[0]) for name in ("cache_position", "position_ids")
                   if kwargs.get(name) is not None), None)
        if at is not None and at != first:
            raise ValueError(f"layer {layer} is at position {at} where {first} comes next; a cache that was filled before the "
                             "block or rolled back, and a second text, cannot be recorded")
        held = key.shape[2]  # by the cache: all tokens, those of the window, or room for more
        if (held > first + tokens and at is None) or held < min(first + tokens, attention.window or first + tokens):
            raise ValueError(f"layer {layer} has {held} keys where {first + tokens} tokens have come; a cache that was filled "
                             "before the block, and a model that runs on without one, cannot be recorded")
        oldest = 0 if held > first + tokens else first + tokens - held
        self._check_mask(mask, first, tokens, oldest, attention.window, layer)
        new = slice(first - oldest, first - oldest + tokens)
        part = _Part(layer, _on_host(query[0]), _on_host(key[0, :, new]), _on_host(value[0, :, new]))
        self._positions[layer] = first + tokens
        if self._writer is None:
            self._waiting.append(part)
            self._begin_if_known()
        else:
            self._write(part)

    def _check_mask(self, mask: Any, first: int, tokens: int, oldest: int, window: int, layer: int) -> None:
        """A mask hides later tokens and those before the window, and no others."""
        import torch

        if mask is None or not hasattr(mask, "shape") or (mask.data_ptr(), window) in self._masks_seen:
            return
        self._masks_seen.add((mask.data_ptr(), window))
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

    def _known_tokens(self) -> Optional[int]:
        if self._max_tokens is not None:
            return self._max_tokens
        if self._new_tokens is not None:
            return self._positions[self._waiting[0].layer] + self._new_tokens
        return None

    def _begin_if_known(self) -> None:
        if len(self._attention) == self._layers and self._known_tokens() is not None:
            # The layers of the first pass are through, so the attention of all is known.
            self._begin(max(self._known_tokens(), max(self._positions.values())))

    def _begin(self, tokens: int) -> None:
        first = self._waiting[0]
        prompt = self._prompt_tokens or first.queries.shape[1]
        attention = (_library.Attention * self._layers)()
        for layer, (scale, softcap, window) in self._attention.items():
            attention[layer] = _library.Attention(scale, softcap, window)
        model = _library.Model(
            layers=self._layers, heads=first.queries.shape[0], kv_heads=first.keys.shape[0], head_size=first.queries.shape[2],
            attention=attention, name=str(getattr(self._model.config, "_name_or_path", "")).encode(),
            architecture=str(self._model.config.model_type).encode(),
            compute_type=str(self._model.dtype).replace("torch.", "").encode())
        options = _library.Options(tokens=tokens, prompt_tokens=min(prompt, tokens), **self._options)
        if self._ids is not None and len(self._ids) >= prompt:
            options.prompt_ids = (ctypes.c_uint32 * prompt)(*self._ids[:prompt])
        for name, chosen in self._lists.items():
            if chosen is not None:
                chosen = sorted(set(chosen))
                setattr(options, f"{name}s", (ctypes.c_uint32 * len(chosen))(*chosen))
                setattr(options, f"{name}_count", len(chosen))
        self._writer = _library.Writer(self.path, model, options)
        if self._progress:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=tokens, unit="token", desc=f"recording {os.path.basename(self.path)}")
        waiting, self._waiting = self._waiting, []
        for part in waiting:
            self._write(part)

    def _write(self, part: _Part) -> None:
        tokens = part.queries.shape[1]
        first = self._written.get(part.layer, 0)
        self._writer.record(part.layer, first, tokens, _vectors(part.queries), _vectors(part.keys), _vectors(part.values))
        self._written[part.layer] = first + tokens
        if self._bar is not None and part.layer == self._layers - 1:
            self._bar.update(tokens)

    def _end(self) -> None:
        if not self._positions:
            raise ValueError("the model did not run inside the block, so there is nothing to record")
        tokens = max(self._positions.values())
        if len(self._attention) != self._layers or min(self._positions.values()) != tokens:
            raise ValueError(f"of the model's {self._layers} layers not all attended to all {tokens} tokens through an attention "
                             "function of transformers, so there is no whole trace")
        if self._writer is None:
            self._begin(tokens)
        ids = self._ids if self._ids is not None and len(self._ids) == tokens else None
        texts = [_text(self._tokenizer, token) for token in ids] if ids is not None and self._tokenizer is not None else None
        self._writer.end(tokens, ids, texts)


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

    types = {torch.float32: _library.F32, torch.float16: _library.F16, torch.bfloat16: _library.BF16}
    return _library.Vectors(tensor.data_ptr(), types[tensor.dtype], 0, tensor.stride(1), tensor.stride(0))


def _text(tokenizer: Any, token: int) -> bytes:
    """A token's own text; decoding it alone would drop the space that SentencePiece writes as U+2581."""
    piece = tokenizer.convert_ids_to_tokens(token)
    text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    if isinstance(piece, str) and piece.startswith("\u2581") and not text.startswith(" "):
        text = " " + text
    return text.encode().replace(b"\0", b"")

#!/usr/bin/env python3
"""Attention rows and log-probabilities of SmolLM2 by an implementation that shares nothing with KVReplay.

    make_reference.py SmolLM2-135M-Instruct.Q4_1.gguf OUT.h5

The `gguf` package dequantises the file to fp32, transformers' LlamaForCausalLM (eager attention) runs the weights
on the first 1,000 tokens of the Book of Ruth (Debian's `bible-kjv`), tokenised by the `tokenizers` package with the
vocabulary in the file. It runs as it is, in fp32, and in float64, where the places that transformers keeps in fp32 (norm,
rotation, softmax) are replaced; OUT.h5 holds the float64 run. See README.md for the layout.
"""
import argparse
import importlib.metadata
import math
import subprocess
import types

import gguf
import h5py
import numpy as np
import tokenizers
import torch
import transformers
from transformers.models.llama import modeling_llama

TOKENS = 1000
LAYERS = [0, 14, 29]
HEADS = [0, 4, 8]
QUERIES = [0, 1, 2, 63, 64, 127, 500, 640, 999]


def text_of_ruth():
    lines = subprocess.run(["bible", "-f", "ruth1:1-4:22"], check=True, capture_output=True, text=True).stdout.splitlines()
    return "\n".join(line.split(" ", 1)[1].rstrip() for line in lines if line.strip())


def tokenizer_of(fields):
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"].contents()]
    result = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    # What the pre-tokenizer that the file names, "smollm", stands for.
    result.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    return result


def unpermuted(weight, heads):
    """Undoes the row order of llama-architecture GGUF files: pairs (2i, 2i+1) back to (i, i + d/2)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def model_of(reader, fields):
    def number(key):
        return fields["llama." + key].contents()

    heads, kv_heads = number("attention.head_count"), number("attention.head_count_kv")
    config = transformers.LlamaConfig(
        vocab_size=number("vocab_size"), hidden_size=number("embedding_length"),
        intermediate_size=number("feed_forward_length"), num_hidden_layers=number("block_count"),
        num_attention_heads=heads, num_key_value_heads=kv_heads, rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_theta=number("rope.freq_base"), max_position_embeddings=number("context_length"), tie_word_embeddings=True,
        attn_implementation="eager")
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    state = {}
    for tensor in reader.tensors:
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        parts = tensor.name.split(".")
        if parts[0] == "token_embd":
            name = "model.embed_tokens.weight"
            state["lm_head.weight"] = torch.from_numpy(weight)
        elif parts[0] == "output_norm":
            name = "model.norm.weight"
        else:
            if parts[2] == "attn_q":
                weight = unpermuted(weight, heads)
            if parts[2] == "attn_k":
                weight = unpermuted(weight, kv_heads)
            name = f"model.layers.{parts[1]}.{names[parts[2]]}.weight"
        state[name] = torch.from_numpy(np.ascontiguousarray(weight))
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(state, strict=True)
    return model.eval()


def run(model, ids):
    """log p(token i+1 | 0..i), the chosen rows, and their scores' log-sum-exp."""
    chosen = {}
    original = modeling_llama.nn.functional.softmax
    layer = 0

    def watching_softmax(scores, dim=-1, dtype=None):
        nonlocal layer
        wide = scores.dtype == torch.float64
        rows = original(scores, dim=dim, dtype=None if wide else dtype)
        if layer in LAYERS:
            chosen[layer] = (rows[0].double().numpy(), torch.logsumexp(scores[0].double(), -1).numpy())
        layer += 1
        return rows

    functional = types.SimpleNamespace(**{n: getattr(torch.nn.functional, n) for n in dir(torch.nn.functional)})
    functional.softmax = watching_softmax
    kept = modeling_llama.nn
    modeling_llama.nn = types.SimpleNamespace(**{n: getattr(torch.nn, n) for n in dir(torch.nn) if n[0] != "_"})
    modeling_llama.nn.functional = functional
    try:
        with torch.no_grad():
            hidden = model.model(torch.from_numpy(ids.astype(np.int64))[None], use_cache=False).last_hidden_state[0]
            logits = (hidden @ model.lm_head.weight.T).double()
    finally:
        modeling_llama.nn = kept
    assert sorted(chosen) == LAYERS
    next_log = torch.log_softmax(logits[:-1], -1)[torch.arange(len(ids) - 1), torch.from_numpy(ids[1:].astype(np.int64))]
    rows = [[[chosen[l][0][h, q, :q + 1] for q in QUERIES] for h in HEADS] for l in LAYERS]
    for l in LAYERS:
        assert np.all(np.triu(chosen[l][0], 1) == 0)  # causal
    lse = np.array([[[chosen[l][1][h, q] for q in QUERIES] for h in HEADS] for l in LAYERS])
    return next_log.numpy(), np.array([[np.concatenate(r) for r in heads] for heads in rows]), lse


def widen(model):
    """The same model in float64 throughout."""
    model = model.double()

    def norm(self, hidden):
        return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def rotation(self, values, positions):
        frequency = 1.0 / self.base ** (torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim)
        angle = positions[..., None].double() * frequency
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()

    for module in model.modules():
        if isinstance(module, modeling_llama.LlamaRMSNorm):
            module.forward = types.MethodType(norm, module)
        if isinstance(module, modeling_llama.LlamaRotaryEmbedding):
            module.forward = types.MethodType(rotation, module)
    return model


def perplexity(log):
    return math.exp(-log.mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    reader = gguf.GGUFReader(arguments.model)
    fields = reader.fields
    ids = np.array(tokenizer_of(fields).encode(text_of_ruth()).ids[:TOKENS], np.uint32)
    assert len(ids) == TOKENS
    print("first ids", ids[:8].tolist(), "last", ids[-3:].tolist())

    model = model_of(reader, fields)
    narrow = run(model, ids)
    wide = run(widen(model), ids)
    print(f"perplexity: float64 {perplexity(wide[0]):.6f}, fp32 {perplexity(narrow[0]):.6f}")
    print("fp32 against float64, largest difference: log-probability %.2e, rows %.2e, log-sum-exp %.2e"
          % tuple(np.abs(n - w).max() for n, w in zip(narrow, wide)))
    for module in model.modules():
        if isinstance(module, modeling_llama.LlamaRotaryEmbedding):
            module.base *= 1.05
    other = run(model, ids)
    print("RoPE base 5 %% too large: perplexity %.6f (%+.3f %%), rows off by up to %.2e"
          % (perplexity(other[0]), 100 * (perplexity(other[0]) / perplexity(wide[0]) - 1), np.abs(other[1] - wide[1]).max()))
    for l, layer in enumerate(LAYERS):
        print("  layer %d: rows off by up to %s in heads %s"
              % (layer, np.round(np.abs(other[1][l] - wide[1][l]).max(-1), 4).tolist(), HEADS))

    with h5py.File(arguments.out, "w") as out:
        out["tokens"] = ids
        out["logprob_next"] = wide[0].astype(np.float32)
        out["layers"], out["heads"], out["queries"] = (np.array(v, np.uint32) for v in (LAYERS, HEADS, QUERIES))
        out["row_offset"] = np.cumsum([0] + [q + 1 for q in QUERIES]).astype(np.uint32)
        out["rows"] = wide[1].astype(np.float32)
        out["lse"] = wide[2].astype(np.float32)
        out.attrs["perplexity"] = perplexity(wide[0])
        out.attrs["made_with"] = (f"gguf {importlib.metadata.version('gguf')}, transformers "
                                  f"{transformers.__version__}, torch {torch.__version__}, tokenizers {tokenizers.__version__}, "
                                  f"numpy {np.__version__}")


if __name__ == "__main__":
    main()

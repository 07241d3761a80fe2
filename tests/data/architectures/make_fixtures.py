"""Writes tiny random models as Hugging Face folders and GGUF, with what transformers computes of them.

usage: make_fixtures.py [--out FOLDER]        README.md says with which versions it was run
"""
import argparse
import math
import pathlib
import shutil

import gguf
import numpy
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
TOKENS = 20
LAYERS = 2
SIZES = dict(vocab_size=64, hidden_size=24, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=40,
             max_position_embeddings=64)
GROUPED = dict(SIZES, num_key_value_heads=2)
LLAMA3 = dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=16)
OPT = dict(vocab_size=64, hidden_size=24, num_hidden_layers=LAYERS, num_attention_heads=4, ffn_dim=40,
           max_position_embeddings=64)
GPT2 = dict(vocab_size=64, n_embd=24, n_layer=LAYERS, n_head=4, n_positions=64)
GEMMA = dict(GROUPED, head_dim=8, query_pre_attn_scalar=5, sliding_window=6)


# Name: the model, the type of its weights, the architecture in GGUF where there is one, and what is changed.
CASES = {
    'llama': (transformers.LlamaConfig(**dict(GROUPED, vocab_size=424, rms_norm_eps=1e-5)), torch.float16, 'LLAMA'),
    'llama3': (transformers.LlamaConfig(**GROUPED, rope_scaling=LLAMA3, rope_theta=500.0, tie_word_embeddings=True),
               torch.bfloat16, 'LLAMA'),
    'llama_linear': (transformers.LlamaConfig(**GROUPED, rope_scaling=dict(rope_type='linear', factor=4.0),
                                              head_dim=10, attention_bias=True), torch.float16, None),
    'llama_yarn': (transformers.LlamaConfig(**GROUPED, rope_scaling=YARN), torch.float32, None),
    'mistral': (transformers.MistralConfig(**GROUPED, sliding_window=7), torch.float16, None),
    'qwen2': (transformers.Qwen2Config(**GROUPED, use_sliding_window=True, sliding_window=5, max_window_layers=1,
                                       tie_word_embeddings=True), torch.float16, None),
    'qwen2_full': (transformers.Qwen2Config(**GROUPED), torch.float16, 'QWEN2'),
    'qwen3': (transformers.Qwen3Config(**GROUPED, head_dim=10), torch.float16, 'QWEN3'),
    'gemma2': (transformers.Gemma2Config(**GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
               torch.float16, 'GEMMA2'),
    'gemma3': (transformers.Gemma3TextConfig(**GEMMA, layer_types=['sliding_attention', 'full_attention'],
                                             rope_theta=1e6, rope_scaling=dict(rope_type='linear', factor=8.0),
                                             rope_local_base_freq=300.0), torch.float16, 'GEMMA3'),
    'opt': (transformers.OPTConfig(**OPT, word_embed_proj_dim=24), torch.float16, None),
    'gpt_neox': (transformers.GPTNeoXConfig(**dict(SIZES, hidden_size=32), rotary_pct=0.5), torch.float16, 'GPTNEOX'),
    'pythia_scores': (transformers.GPTNeoXConfig(**dict(SIZES, hidden_size=32), rotary_pct=0.25,
                                                 use_parallel_residual=False), torch.float16, None),
    'gpt2': (transformers.GPT2Config(**GPT2), torch.float16, 'GPT2'),
    'gpt2_scaled': (transformers.GPT2Config(**GPT2, scale_attn_by_inverse_layer_idx=True, activation_function='relu'),
                    torch.float16, None),
    'opt_350m': (transformers.OPTConfig(**OPT, word_embed_proj_dim=12, do_layer_norm_before=False), torch.float16, None),
    'opt_projected': (transformers.OPTConfig(**OPT, word_embed_proj_dim=12), torch.float16, None),
}


def randomise(model, seed):
    """Scores come out a few units wide, so that rows are neither flat nor one-hot."""
    generator = torch.Generator().manual_seed(seed)
    conv = {name + '.weight' for name, module in model.named_modules() if type(module).__name__ == 'Conv1D'}
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            is_gain = name.endswith('weight')
            shift = 0 if 'gemma' in type(model).__name__.lower() else 1
            parameter.data = noise * 0.2 + (shift if is_gain else 0)
        elif 'embed' in name and 'embed_out' not in name or 'wte' in name or 'wpe' in name:
            parameter.data = noise
        else:
            inputs = parameter.shape[0] if name in conv else parameter.shape[1]
            parameter.data = noise * 1.2 / math.sqrt(inputs)


def make_scores_huge(model):
    """As in layer 5 of Pythia-70m, where scores reach -1.1e5: in the last layer those of head 0 are all about -1e5,
    so that an additive mask of -1e5 would leak; head 1's reach 1e5 and its rows are one-hot."""
    attention = model.gpt_neox.layers[-1].attention
    size = attention.head_size
    weight = attention.query_key_value.weight.data.view(-1, 3, size, weight_inputs := SIZES['hidden_size'] + 8)
    bias = attention.query_key_value.bias.data.view(-1, 3, size)
    weight[0, :2] = 0
    bias[0, :2] = 0
    bias[0, 0, size - 1], bias[0, 1, size - 1] = 512, -552  # behind the values that are rotated
    weight[1, :2] *= 150


def run(model, ids):
    with torch.no_grad():
        out = model(ids, output_attentions=True, use_cache=False)
    return torch.cat(out.attentions), out.logits[0]


def permuted(weight, heads):
    """Rows of Q and K as converters order them for llama: pairs (i, i + d/2) become neighbours."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, name, model, architecture, dtype):
    config = model.config
    arch = gguf.MODEL_ARCH[architecture]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    heads = config.num_attention_heads
    kv_heads = getattr(config, 'num_key_value_heads', heads)
    head_size = getattr(config, 'head_dim', None) or config.hidden_size // heads
    writer.add_name(name)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(config.hidden_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_feed_forward_length(getattr(config, 'intermediate_size', None) or 4 * config.hidden_size)
    writer.add_head_count(heads)
    if kv_heads != heads:
        writer.add_head_count_kv(kv_heads)
    if head_size != config.hidden_size // heads:
        writer.add_key_length(head_size)
        writer.add_value_length(head_size)
    if hasattr(config, 'rms_norm_eps'):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_theta)
    elif hasattr(config, 'layer_norm_eps'):
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_rope_dimension_count(int(head_size * config.rotary_pct))
        writer.add_parallel_residual(config.use_parallel_residual)
    else:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    if architecture == 'GEMMA2':
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture.startswith('GEMMA'):
        writer.add_sliding_window(config.sliding_window)
        writer.add_float32(f'{writer.arch}.attention.scale', config.query_pre_attn_scalar ** -0.5)
    if architecture == 'GEMMA3':
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_scaling['factor'])
        writer.add_float32(f'{writer.arch}.rope.freq_base_swa', config.rope_local_base_freq)
        writer.add_array(f'{writer.arch}.attention.sliding_window_pattern',
                         [kind == 'sliding_attention' for kind in config.layer_types])
    if getattr(config, 'rope_scaling', None) and architecture == 'LLAMA':
        rope = model.model.rotary_emb
        plain = config.rope_theta ** -(numpy.arange(0, head_size, 2) / head_size)
        writer.add_tensor('rope_freqs.weight', (plain / rope.inv_freq.numpy()).astype(numpy.float32))

    names = gguf.get_tensor_name_map(arch, LAYERS)
    for stored, tensor in model.state_dict().items():
        if stored == 'lm_head.weight' and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        if architecture == 'LLAMA' and '.q_proj.' in stored:
            values = permuted(values, heads)
        if architecture == 'LLAMA' and '.k_proj.' in stored:
            values = permuted(values, kv_heads)
        if architecture == 'GPT2' and values.ndim == 2 and '.h.' in stored:
            values = values.T
        if architecture == 'GPTNEOX' and 'query_key_value' in stored:
            by_head = values.reshape(heads, 3, head_size, *values.shape[1:])
            values = by_head.swapaxes(0, 1).reshape(values.shape)
        if architecture.startswith('GEMMA') and 'norm' in stored:
            values = values + 1
        kind = numpy.float16 if values.ndim == 2 and dtype == torch.float16 else numpy.float32
        writer.add_tensor(names.get_name(stored, try_suffixes=('.weight', '.bias')), numpy.ascontiguousarray(values, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', type=pathlib.Path, default=HERE)
    out = parser.parse_args().out
    print('torch', torch.__version__, 'transformers', transformers.__version__, 'numpy', numpy.__version__)
    for seed, (name, (config, dtype, architecture)) in enumerate(CASES.items()):
        config._attn_implementation = 'eager'
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        randomise(model, seed)
        if name == 'pythia_scores':
            make_scores_huge(model)
        stored = {key: value.to(dtype) for key, value in model.state_dict().items()}
        model.load_state_dict(stored)  # the same numbers, in fp32
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder, state_dict=stored, max_shard_size='20KB' if name == 'llama' else '5GB')
        (folder / 'generation_config.json').unlink(missing_ok=True)
        ids = (torch.arange(TOKENS) ** 2 + 5 * torch.arange(TOKENS) + 1)[None] % config.vocab_size
        if architecture:
            write_gguf(folder / 'model.gguf', name, model, architecture, dtype)
        rows, logits = run(model, ids)
        exact_rows, exact_logits = run(model.double(), ids)
        save_file({'ids': ids[0].to(torch.int32), 'rows': rows.contiguous(), 'logits': logits.contiguous()},
                  folder / 'reference.safetensors')
        differences = [float((a - b).abs().max()) for a, b in ((rows, exact_rows), (logits, exact_logits))]
        print(f'{name:14} in float64 rows differ by {differences[0]:.1e}, logits by {differences[1]:.1e};',
              f'largest probability of the last row {float(rows[:, :, -1].max()):.2f}')


main()

"""Recording of tiny random transformers models: rows against their own eager attention, outputs to the bit."""
import contextlib

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", minversion="4.56", reason="needs transformers")
import kvreplay  # noqa: E402

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=2))


def qwen3():
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=8))


def mistral_window():
    return transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL, num_key_value_heads=1, sliding_window=16))


def gemma2():
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **SMALL, num_key_value_heads=2, head_dim=8, sliding_window=16, attn_logit_softcapping=5.0, query_pre_attn_scalar=8))


def pythia():
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SMALL))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=128,
                                                                bos_token_id=1, eos_token_id=2))


def opt():
    return transformers.OPTForCausalLM(transformers.OPTConfig(
        vocab_size=96, hidden_size=32, ffn_dim=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128,
        word_embed_proj_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=2))


MODELS = [llama, qwen3, mistral_window, gemma2, pythia, gpt2, opt]


def made(factory, implementation="eager", scale=4.0):
    torch.manual_seed(3)
    model = factory().eval()
    model.set_attn_implementation(implementation)
    with torch.no_grad():  # rows that are far from even
        for name, parameter in model.named_parameters():
            if any(part in name for part in ("q_proj.weight", "k_proj.weight", "query_key_value.weight", "c_attn.weight")):
                parameter *= scale
    return model


def prompt(tokens=40, seed=5):
    return torch.randint(3, 96, (1, tokens), generator=torch.Generator().manual_seed(seed))


def worst_difference(trace, layer, attentions, first):
    """Of rows first .. in a layer against [1, heads, rows, keys], the latest keys."""
    worst = 0.0
    weights = attentions[0].float().numpy()
    for head in trace.heads:
        rows = trace.rows(layer, head)
        for at in range(weights.shape[1]):
            expected = weights[head, at]
            mine = np.asarray(rows[first + at], np.float32)
            keys = min(len(mine), len(expected))  # a cache may hold a window only
            difference = np.abs(mine[len(mine) - keys:] - expected[:len(mine)][-keys:]).max()
            worst = max(worst, difference) if difference >= 0 else np.inf  # not NaN
    return worst


@pytest.mark.parametrize("factory", MODELS)
def test_rows_are_those_of_eager_attention(factory, tmp_path):
    model = made(factory)
    ids = prompt()
    arguments = dict(max_new_tokens=12, do_sample=False, return_dict_in_generate=True, output_attentions=True, output_logits=True,
                     eos_token_id=None, pad_token_id=0)
    plain = model.generate(ids, **arguments)
    with kvreplay.capture(model, tmp_path / "t.h5", encoding="fp32"):
        recorded = model.generate(ids, **arguments)
    # The model's outputs are its own to the bit.
    assert torch.equal(plain.sequences, recorded.sequences)
    for mine, other in zip(plain.logits, recorded.logits):
        assert torch.equal(mine, other)
    assert model.config._attn_implementation == "eager"
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert trace.tokens == 40 + 12 - 1 and trace.prompt_tokens == 40
        assert trace.token_ids.tolist() == plain.sequences[0, :-1].tolist()
        for layer in trace.layers:
            assert worst_difference(trace, layer, plain.attentions[0][layer], 0) < 1e-6
            for step in range(1, 12):
                assert worst_difference(trace, layer, plain.attentions[step][layer], 40 + step - 1) < 1e-6


@pytest.mark.parametrize("factory", MODELS)
def test_sdpa_gives_the_same_outputs_and_rows(factory, tmp_path):
    ids = prompt(30)
    eager = made(factory)
    for module in eager.modules():
        if hasattr(module, "attn_logit_softcapping"):
            module.attn_logit_softcapping = None  # sdpa passes over it
    with torch.no_grad():
        attentions = eager(ids, output_attentions=True).attentions
        model = made(factory, "sdpa")
        plain = model(ids).logits
        with kvreplay.capture(model, tmp_path / "t.h5", encoding="factors", values=True):
            recorded = model(ids).logits
    assert torch.equal(plain, recorded)
    assert model.config._attn_implementation == "sdpa"
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert trace.tokens == trace.prompt_tokens == 30
        for layer in trace.layers:
            assert worst_difference(trace, layer, attentions[layer], 0) < 2e-6
        assert trace.values(0, 3).shape[0] == 30


def test_a_loop_of_ones_own_waits_for_its_end(tmp_path):
    model = made(llama)
    ids = prompt(20)
    with torch.no_grad(), kvreplay.capture(model, tmp_path / "t.h5", layers=[2], heads=[1, 3], encoding="fp32"):
        out = model(ids[:, :15], use_cache=True)
        for at in range(15, 20):
            out = model(ids[:, at:at + 1], past_key_values=out.past_key_values)
    with torch.no_grad():
        attentions = model(ids, output_attentions=True).attentions
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert (trace.tokens, trace.prompt_tokens, trace.layers, trace.heads) == (20, 15, [2], [1, 3])
        assert trace.token_ids.tolist() == ids[0].tolist()
        assert worst_difference(trace, 2, attentions[2], 0) < 1e-6


def test_half_precision_models_record_what_they_attend_with(tmp_path):
    model = made(llama).to(torch.bfloat16)
    with torch.no_grad(), kvreplay.capture(model, tmp_path / "t.h5"):
        attentions = model(prompt(25), output_attentions=True).attentions
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert worst_difference(trace, 1, attentions[1], 0) < 2e-2  # bf16 rounds scores and weights


def test_simulate_gives_a_table(tmp_path):
    with torch.no_grad(), kvreplay.capture(model := made(llama), tmp_path / "t.h5"):
        model(prompt(40))
    table = kvreplay.simulate(tmp_path / "t.h5", policy=["h2o", "local"], budget=[8, "50%"], needed="none")
    loss = table.where(metric="mass_loss", statistic="mean", layer=-1, head=-1)
    assert sorted(zip(loss["policy"], loss["budget_tokens"])) == [("h2o", 8), ("h2o", 20), ("local", 8), ("local", 20)]
    assert (loss["value"] > 0).all() and (loss["value"] < 1).all()
    assert table.manifest["scope"] == "head"
    pandas = pytest.importorskip("pandas")
    assert len(pandas.DataFrame(table)) == len(table["value"])


def test_two_models_and_one_inside_the_other(tmp_path):
    one, other = made(llama), made(gpt2)
    plain = one(prompt(12)).logits, other(prompt(9)).logits
    with torch.no_grad(), kvreplay.capture(one, tmp_path / "one.h5"), kvreplay.capture(other, tmp_path / "other.h5"):
        assert torch.equal(one(prompt(12)).logits, plain[0])
        assert torch.equal(other(prompt(9)).logits, plain[1])
    assert kvreplay.read(tmp_path / "one.h5").architecture == "llama"
    assert kvreplay.read(tmp_path / "other.h5").tokens == 9


def test_nothing_is_left_behind(tmp_path):
    import gc
    import weakref

    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model = made(llama)
    mine = lambda *args, **kwargs: "mine"  # noqa: E731
    model.generate = mine
    for name in ("a", "b"):
        with contextlib.suppress(KeyError):
            with torch.no_grad(), kvreplay.capture(model, tmp_path / f"{name}.h5") as recorded:
                model(prompt(5))
                if name == "b":
                    raise KeyError
    assert model.generate is mine
    assert not [name for functions in (ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS) for name in functions if "kvreplay" in name]
    recorded = weakref.ref(recorded)
    gc.collect()
    assert recorded() is None


@pytest.mark.parametrize("arguments", [
    dict(), dict(max_length=40), dict(max_new_tokens=6, prefill_chunk_size=8),
    dict(generation_config=transformers.GenerationConfig(max_new_tokens=6, eos_token_id=None, pad_token_id=0)),
    dict(max_new_tokens=6, cache_implementation="static")], ids=lambda arguments: ",".join(arguments) or "none")
def test_generate_in_its_ways(tmp_path, arguments):
    model = made(llama)
    model.generation_config.eos_token_id = None
    with kvreplay.capture(model, tmp_path / "t.h5"):
        out = model.generate(prompt(30), do_sample=False, **arguments)
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert (trace.tokens, trace.prompt_tokens) == (out.shape[1] - 1, 30)
        assert trace.token_ids.tolist() == out[0, :-1].tolist()
        np.testing.assert_allclose([row.astype(np.float64).sum() for row in trace.rows(2, 3)], 1, atol=1e-3)


@pytest.mark.parametrize("options", [dict(scale_attn_by_inverse_layer_idx=True), dict(scale_attn_weights=False)])
def test_scales_of_gpt2(tmp_path, options):
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=64,
                                                                 attn_implementation="eager", **options)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "c_attn.weight" in name:
                parameter *= 10
        attentions = model(prompt(20), output_attentions=True).attentions
        with kvreplay.capture(model, tmp_path / "t.h5", encoding="fp32"):
            model(prompt(20))
    with kvreplay.read(tmp_path / "t.h5") as trace:
        for layer in trace.layers:
            assert worst_difference(trace, layer, attentions[layer], 0) < 1e-6


class Letters:
    """A tokenizer of byte-level BPE (0, 1), byte fallback (2) and SentencePiece (3)."""

    def convert_ids_to_tokens(self, token):
        return ["\u0120caf", "\u00c3", "<0xC3>", "\u2581the"][token % 4]

    def decode(self, ids, clean_up_tokenization_spaces):
        return [" caf", "\ufffd", "\ufffd", "the"][ids[0] % 4]


def test_texts_of_tokens_are_bytes(tmp_path):
    model = made(llama)
    ids = torch.tensor([[4, 5, 6, 7]])
    with torch.no_grad(), kvreplay.capture(model, tmp_path / "t.h5", tokenizer=Letters()):
        model(ids)
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert trace.pieces == [" caf", "\\xc3", "\\xc3", " the"]


def refused(words, model, tmp_path, run):
    path = tmp_path / "refused.h5"
    with pytest.raises(ValueError, match=words):
        with torch.no_grad(), kvreplay.capture(model, path):
            run(model)
    assert not path.exists()
    assert model.config._attn_implementation in ("eager", "sdpa")


def test_what_cannot_be_recorded_is_refused(tmp_path):
    model = made(llama)
    refused("the batch has 2 sequences", model, tmp_path, lambda m: m(prompt().repeat(2, 1)))
    padded = torch.ones(1, 40, dtype=torch.long)
    padded[0, :5] = 0
    refused("not causal over all tokens; padding", model, tmp_path, lambda m: m(prompt(), attention_mask=padded))
    refused("did not run inside the block", model, tmp_path, lambda m: None)
    cache = model(prompt(10), use_cache=True).past_key_values
    refused("filled before the block", model, tmp_path, lambda m: m(prompt(5), past_key_values=cache))
    refused("comes next", model, tmp_path, lambda m: (m(prompt(5)), m(prompt(5))))
    refused("runs on without one", made(gpt2), tmp_path, lambda m: (m(prompt(5)), m(prompt(5))))
    refused("BloomForCausalLM does not use", transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=96, hidden_size=32, n_layer=2, n_head=4)), tmp_path, lambda m: m(prompt(5)))
    upcast = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=96, n_embd=32, n_layer=2, n_head=4, reorder_and_upcast_attn=True, attn_implementation="eager"))
    refused("reorder_and_upcast_attn", upcast, tmp_path, lambda m: m(prompt(5)))
    sinks = transformers.GptOssForCausalLM(transformers.GptOssConfig(
        **SMALL, num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1, attn_implementation="eager"))
    refused("s_aux", sinks, tmp_path, lambda m: m(prompt(5)))
    cache = transformers.DynamicCache()
    with pytest.raises(ValueError, match="token 14 comes where the trace has room for 8; pass capture.max_tokens=."):
        with torch.no_grad(), kvreplay.capture(model, tmp_path / "t.h5", max_tokens=8):
            for tokens in (5, 9):
                model(prompt(tokens), past_key_values=cache)
    with pytest.raises(ValueError, match="another capture of this model is running"):
        with kvreplay.capture(model, tmp_path / "t.h5"), kvreplay.capture(model, tmp_path / "u.h5"):
            pass
    with pytest.raises(ValueError, match=r"layers=\[7\]: the model has layers 0 to 2"):
        kvreplay.capture(model, tmp_path / "t.h5", layers=[7])
    flex = made(llama)
    flex.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="'flex_attention' cannot be recorded"):
        kvreplay.capture(flex, tmp_path / "t.h5").__enter__()
    with pytest.raises(ValueError, match="fp8"):
        with torch.no_grad(), kvreplay.capture(model, tmp_path / "t.h5", encoding="fp8"):
            model(prompt(5))


def test_an_exception_of_the_block_goes_on_and_seals_nothing(tmp_path):
    model = made(llama)
    with pytest.raises(KeyError):
        with torch.no_grad(), kvreplay.capture(model, tmp_path / "t.h5", max_tokens=64):
            model(prompt(10))
            raise KeyError("mine")
    assert not (tmp_path / "t.h5").exists()
    assert (tmp_path / "t.h5.partial").exists()
    (tmp_path / "t.h5").write_text("mine")
    with pytest.raises(kvreplay.OutputError, match="overwrite=True"):
        kvreplay.capture(model, tmp_path / "t.h5")


def test_attentions_that_were_handed_out_become_the_same_trace(tmp_path):
    model = made(qwen3)
    ids = prompt(20)
    arguments = dict(max_new_tokens=8, do_sample=False, return_dict_in_generate=True, output_attentions=True, eos_token_id=None,
                     pad_token_id=0)
    with kvreplay.capture(model, tmp_path / "captured.h5", encoding="fp32"):
        steps = model.generate(ids, **arguments).attentions
    torch.save(steps, tmp_path / "steps.pt")
    whole = tuple(layer for layer in model(ids.repeat(2, 1), output_attentions=True).attentions)
    torch.save(whole, tmp_path / "whole.pt")
    kvreplay.import_attentions(steps, tmp_path / "a.h5", kv_heads=2, prompt_tokens=20, encoding="fp32")
    kvreplay.import_attentions(tmp_path / "steps.pt", tmp_path / "b.h5", kv_heads=2, prompt_tokens=20, encoding="fp32")
    kvreplay.import_attentions(tmp_path / "whole.pt", tmp_path / "c.h5", batch=1, kv_heads=2, encoding="fp32")
    with kvreplay.read(tmp_path / "captured.h5") as captured:
        for name, tokens in (("a", 27), ("b", 27), ("c", 20)):
            with kvreplay.read(tmp_path / f"{name}.h5") as trace:
                assert (trace.tokens, trace.kv_heads, trace.prompt_tokens) == (tokens, 2, 20)
                for layer in trace.layers:
                    for head in trace.heads:
                        difference = trace.rows(layer, head).dense() - captured.rows(layer, head).dense()[:tokens, :tokens]
                        assert np.abs(difference).max() < 1e-6
    half = tuple(layer.to(torch.bfloat16) for layer in whole)
    kvreplay.import_attentions(half, tmp_path / "d.h5", tolerance=0.02)
    with pytest.raises(ValueError, match="2 sequences, and none of number 2"):
        kvreplay.import_attentions(whole, tmp_path / "e.h5", batch=2)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(TypeError, match="a dict is no transformers model"):
        kvreplay.capture({}, tmp_path / "t.h5")
    assert not list(tmp_path.iterdir())

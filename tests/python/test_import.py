"""Attentions in the files that people have, and back."""
import subprocess
import sys

import h5py
import numpy as np
import pytest

import kvreplay


def attentions(layers=3, heads=4, n=70, seed=1):
    """Causal rows that sum to 1, float32 [layers, heads, n, n]."""
    weights = np.tril(np.random.default_rng(seed).exponential(size=(layers, heads, n, n)) ** 3) + np.eye(n) * 1e-3
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def saved(tmp_path, kind, dense):
    path = tmp_path / f"saved.{kind.split(' ')[0]}"
    if kind == "npy":
        np.save(path, dense)
    elif kind == "npz":  # more than ten, so that the order of names is not that of numbers
        np.savez_compressed(path, **{f"layer_{at}": layer for at, layer in enumerate(dense)})
    elif kind == "npz batch":
        np.savez(path, *[np.stack([layer[::-1], layer]) for layer in dense])
    elif kind == "safetensors":
        safetensors = pytest.importorskip("safetensors.numpy")
        safetensors.save_file({f"attn.{at}": np.ascontiguousarray(layer[None]) for at, layer in enumerate(dense)}, path)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            for at, layer in enumerate(dense):
                file.create_dataset(f"attention/{at}", data=layer, chunks=True, compression="gzip")
    elif kind == "h5 saver":
        with h5py.File(path, "w") as file:
            for at, layer in enumerate(dense):
                for head, rows in enumerate(layer):
                    file[f"layer_{at + 4}/batch_1/head_{head}"] = rows
                    file[f"layer_{at + 4}/batch_0/head_{head}"] = rows * 0
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "npz batch", "safetensors", "h5", "h5 saver"])
def test_files_of_all_kinds(tmp_path, kind):
    dense = attentions(layers=12)
    path = saved(tmp_path, kind, dense)
    kvreplay.import_attentions(path, tmp_path / "t.h5", encoding="fp32", kv_heads=2, prompt_tokens=50, model_name="mine",
                               batch=1 if "batch" in kind or "saver" in kind else 0)
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert (trace.tokens, trace.prompt_tokens, trace.kv_heads, trace.model_name) == (70, 50, 2, "mine")
        for layer in range(12):
            for head in range(4):
                np.testing.assert_array_equal(trace.rows(layer, head).dense(), dense[layer, head])
    assert not list(tmp_path.glob(".kvreplay-import-*"))


@pytest.mark.parametrize("kind", ["npz", "h5"])
def test_what_is_exported_can_be_imported(tmp_path, kind):
    dense = attentions()
    kvreplay.import_attentions(dense, tmp_path / "t.h5", encoding="fp32")
    with kvreplay.read(tmp_path / "t.h5") as trace:
        kvreplay.export_dense(trace, tmp_path / f"dense.{kind}")
        with pytest.raises(kvreplay.OutputError, match="overwrite=True"):
            kvreplay.export_dense(trace, tmp_path / f"dense.{kind}")
        with pytest.raises(ValueError, match="neither"):
            kvreplay.export_dense(trace, tmp_path / "dense.txt")
    if kind == "npz":
        np.testing.assert_array_equal(np.load(tmp_path / "dense.npz")["attention"], dense)
    kvreplay.import_attentions(tmp_path / f"dense.{kind}", tmp_path / "again.h5", encoding="fp32")
    with kvreplay.read(tmp_path / "again.h5") as trace:
        np.testing.assert_array_equal(trace.rows(2, 3).dense(), dense[2, 3])
    with h5py.File(tmp_path / "again.h5") as file:
        assert f"dense.{kind}" in str(file.attrs["source"])


def test_a_model_of_one_layer(tmp_path):
    two = np.stack([attentions(1)[0], attentions(1, seed=2)[0]])  # [batch, heads, n, n]
    kvreplay.import_attentions((two,), tmp_path / "t.h5", batch=1, encoding="fp32")
    with kvreplay.read(tmp_path / "t.h5") as trace:
        assert trace.layers == [0]
        np.testing.assert_array_equal(trace.rows(0, 2).dense(), two[1, 2])


def test_what_is_no_attention_is_refused(tmp_path):
    def refused(source, kind, words, **options):
        with pytest.raises(kind, match=words):
            kvreplay.import_attentions(source, tmp_path / "no.h5", **options)
        assert not (tmp_path / "no.h5").exists()

    dense = attentions()
    refused(dense * 2, kvreplay.InputError, "the attentions.*sum")
    refused(dense[:, :, :, :60], kvreplay.InputError, r"shape \(4, 70, 60\)")
    refused([dense[0], dense[1, :2]], kvreplay.InputError, "layer 1 has the shape")
    refused((), kvreplay.InputError, "holds no attention")
    refused(dense, ValueError, "KV heads", kv_heads=3)
    refused(tmp_path / "none.npy", kvreplay.InputError, "none.npy cannot be read")
    refused(tmp_path / "saved.txt", ValueError, "of no known kind")
    (tmp_path / "bad.npz").write_bytes(b"PK\3\4 and no more")
    refused(tmp_path / "bad.npz", kvreplay.InputError, "bad.npz cannot be read")
    refused(((dense[0], dense[1]), (dense[0, :, 69:, :60], dense[1, :, 69:, :60])), kvreplay.InputError, "give 60 keys, not 71")
    (tmp_path / "mine.h5").write_text("mine")
    with pytest.raises(kvreplay.OutputError, match="overwrite=True"):
        kvreplay.import_attentions(dense, tmp_path / "mine.h5")


def test_the_command_line(tmp_path):
    np.save(tmp_path / "a.npy", attentions())

    def run(*arguments):
        return subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; sys.argv = ['kvreplay', *sys.argv[1:]]; "
                               "import runpy; runpy.run_module('kvreplay', run_name='__main__')", *map(str, arguments)],
                              capture_output=True, text=True)

    assert run("import", tmp_path / "a.npy", tmp_path / "t.h5", "--kv-heads", "2").returncode == 0
    assert run("export", tmp_path / "t.h5", tmp_path / "d.npz").returncode == 0
    assert np.load(tmp_path / "d.npz")["attention"].shape == (3, 4, 70, 70)
    again = run("import", tmp_path / "a.npy", tmp_path / "t.h5")
    assert again.returncode == 4 and "overwrite" in again.stderr and "Traceback" not in again.stderr
    assert run("import", tmp_path / "none.npy", tmp_path / "u.h5").returncode == 3
    assert run("export", tmp_path / "none.h5", tmp_path / "u.npz").returncode == 3
    assert run("import", tmp_path / "a.npy", tmp_path / "u.h5", "--kv-heads", "3").returncode == 2

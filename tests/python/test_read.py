"""kvreplay.read() and simulate() on traces that the program made; rows against what `kvreplay trace dump` prints."""
import os
import subprocess

import h5py
import numpy as np
import pytest

import kvreplay
from kvreplay._library import program


def synth(path, encoding="fp32", tokens=150):
    subprocess.run([program(), "trace", "synth", "--tokens", str(tokens), "--layers", "2", "--heads", "4", "--kv-heads", "2",
                    "--seed", "3", "--encoding", encoding, "--out", path], check=True, stdout=subprocess.DEVNULL)
    return path


def dumped(path, layer, head):
    out = path.with_suffix(".npy")
    subprocess.run([program(), "trace", "dump", path, "--layer", str(layer), "--head", str(head), "--format", "npy", "--out", out,
                    "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    return np.load(out)


@pytest.mark.parametrize("encoding", ["fp16", "fp32", "u16log"])
def test_rows_are_those_that_dump_prints(tmp_path, encoding):
    path = synth(tmp_path / "t.h5", encoding)
    with kvreplay.read(path) as trace:
        assert (trace.tokens, trace.layers, trace.heads, trace.kv_heads) == (150, [0, 1], [0, 1, 2, 3], 2)
        assert "150 tokens" in repr(trace)
        for layer, head in ((0, 0), (1, 3)):
            rows = trace.rows(layer, head)
            expected = dumped(path, layer, head)
            np.testing.assert_allclose(rows.dense(), expected, rtol=1e-6)
            assert len(rows) == 150 and len(rows[149]) == 150 and len(rows[-1]) == 150
            assert [len(row) for row in rows[62:66]] == [63, 64, 65, 66]
        if encoding != "u16log":
            assert isinstance(trace.rows(0, 0)[10], np.memmap)
        assert trace.token_ids is None or len(trace.token_ids) == 150
        assert trace.pieces is None or len(trace.pieces) == 150


def test_a_trace_of_some_rows_says_which_it_holds(tmp_path):
    path = synth(tmp_path / "t.h5")
    some = tmp_path / "some.h5"
    with h5py.File(path) as source, h5py.File(some, "w") as target:
        for name, value in {**source.attrs, "version": 2, "rows_from": 10, "rows_every": 7}.items():
            target.attrs[name] = value
        held = np.arange(150) >= 10
        held &= (np.arange(150) - 10) % 7 == 0
        lengths = np.where(held, np.diff(source["row_offsets"][:].astype(np.int64)), 0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        target["row_offsets"] = offsets.astype(np.uint64)
        for layer in ("0", "1"):
            rows = source[f"layers/{layer}/rows"][:]
            starts = source["row_offsets"][:-1][held].astype(np.int64)
            target[f"layers/{layer}/rows"] = np.concatenate(
                [rows[:, start:start + length] for start, length in zip(starts, lengths[held])], axis=1)
    with kvreplay.read(path) as whole, kvreplay.read(some) as trace:
        assert list(trace.held_rows()) == list(range(10, 150, 7))
        for row in trace.held_rows():
            np.testing.assert_array_equal(trace.rows(1, 2)[row], whole.rows(1, 2)[row])
        with pytest.raises(KeyError, match="does not hold row 11; it holds one in 7 from 10 on"):
            trace.rows(1, 2)[11]
        with pytest.raises(KeyError):
            list(trace.rows(1, 2))


def test_chunked_and_compressed_rows_are_read_too(tmp_path):
    path = synth(tmp_path / "t.h5")
    other = tmp_path / "chunked.h5"
    with h5py.File(path) as source, h5py.File(other, "w") as target:
        for name, value in source.attrs.items():
            target.attrs[name] = value
        source.copy("row_offsets", target)
        for layer in ("0", "1"):
            group = target.create_group(f"layers/{layer}")
            for name, value in source[f"layers/{layer}"].attrs.items():
                group.attrs[name] = value
            rows = source[f"layers/{layer}/rows"]
            group.create_dataset("rows", data=rows[:], chunks=(1, 4096), compression="gzip")
    with kvreplay.read(path) as one, kvreplay.read(other) as two:
        np.testing.assert_array_equal(one.rows(1, 2).dense(), two.rows(1, 2).dense())


def test_what_is_not_there_is_said(tmp_path):
    path = synth(tmp_path / "t.h5")
    with kvreplay.read(path) as trace:
        with pytest.raises(ValueError, match="does not hold layer 7"):
            trace.rows(7, 0)
        with pytest.raises(ValueError, match="does not hold head 9"):
            trace.rows(0, 9)
        with pytest.raises(IndexError):
            trace.rows(0, 0)[150]
        with pytest.raises(ValueError, match="does not hold values"):
            trace.values(0, 0)
    with pytest.raises(kvreplay.InputError, match="none.h5"):
        kvreplay.read(tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("text")
    with pytest.raises(kvreplay.InputError, match="text.h5"):
        kvreplay.read(tmp_path / "text.h5")
    damaged = synth(tmp_path / "damaged.h5")
    with h5py.File(damaged, "a") as file:
        del file.attrs["heads"]
    with pytest.raises(kvreplay.InputError, match="damaged.h5 is a damaged kvreplay trace"):
        kvreplay.read(damaged)
    with h5py.File(tmp_path / "other.h5", "w"):
        pass
    with pytest.raises(kvreplay.InputError, match="is not a kvreplay trace"):
        kvreplay.read(tmp_path / "other.h5")


def test_simulate_is_the_command(tmp_path):
    path = synth(tmp_path / "t.h5")
    table = kvreplay.simulate(path, policy="h2o,local", budget=[10, "50%"], needed="none", detail="layer", threads=1)
    csv = tmp_path / "r.csv"
    subprocess.run([program(), "simulate", path, "--policy", "h2o,local", "--budget", "10,50%", "--needed", "none", "--detail",
                    "layer", "--csv", csv], check=True, stdout=subprocess.DEVNULL)
    lines = csv.read_text().splitlines()
    assert len(table["value"]) == len(lines) - 1
    assert list(table) == lines[0].split(",")
    overall = table.where(policy="h2o", metric="mass_loss", statistic="mean", layer=-1, budget_tokens=10)
    assert repr(float(overall["value"][0])) in next(
        line for line in lines if line.startswith("t.h5,h2o,") and ",10,10,,,mass_loss,mean," in line)
    assert table.manifest["threads"] == 1


def test_the_programs_sentence_is_the_exceptions(tmp_path):
    path = synth(tmp_path / "t.h5")
    with pytest.raises(ValueError, match="h3o"):
        kvreplay.simulate(path, policy="h3o")
    with pytest.raises(kvreplay.InputError, match="none.h5"):
        kvreplay.simulate(tmp_path / "none.h5")
    with pytest.raises(ValueError, match="budget"):
        kvreplay.simulate(path, budget=151)


def test_progress_is_shown_on_terminals_and_errors_are_still_raised(tmp_path, monkeypatch, capsys):
    path = synth(tmp_path / "t.h5", tokens=900)
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError:
        pytest.skip("this machine has no pseudo-terminals")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    descriptors = len(os.listdir("/proc/self/fd"))
    table = kvreplay.simulate(path, policy="h2o,tova,random", budget="10%,20%,30%")
    assert len(table["value"]) > 0
    monkeypatch.setenv("KVREPLAY_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        kvreplay.simulate(path)
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with pytest.raises(ValueError, match="h3o"):
        kvreplay.simulate(path, policy="h3o")
    assert "h3o" in capsys.readouterr().err


def test_without_pseudo_terminals_there_is_no_progress_and_all_the_rest(tmp_path, monkeypatch):
    def none():
        raise OSError("out of pty devices")

    path = synth(tmp_path / "t.h5")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("pty.openpty", none)
    assert len(kvreplay.simulate(path, policy="h2o", budget="10%", needed="none")["value"]) > 0
    with pytest.raises(ValueError, match="h3o"):
        kvreplay.simulate(path, policy="h3o")

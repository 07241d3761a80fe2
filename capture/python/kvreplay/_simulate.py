"""`kvreplay simulate` as a table."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterable, List, Union

import h5py
import numpy as np

from ._library import program, raise_for

Path = Union[str, os.PathLike]


class Results(Dict[str, np.ndarray]):
    """Columns by name (simulator/RESULTS.md): pandas.DataFrame(results) takes it. A layer or head of -1: all of them.

    `manifest`: resolved parameters, seed, versions, hashes of the traces.
    """

    manifest: Dict[str, Any]

    def where(self, **columns: Any) -> "Results":
        """The rows in which the columns have these values."""
        rows = np.ones(len(next(iter(self.values()))), bool)
        for name, value in columns.items():
            rows &= self[name] == value
        part = Results({name: column[rows] for name, column in self.items()})
        part.manifest = self.manifest
        return part


def simulate(traces: Union[Path, Iterable[Path]], *, policy: Union[str, List[str]] = "full,local,sinks,h2o,tova,random,topk-row",
             budget: Union[str, int, List[Any]] = "5%,10%,20%,50%", progress: bool = True, **options: Any) -> Results:
    """Replays traces under policies at budgets.

    Other options are those of `kvreplay help simulate`, with _ for -: needed="top:4", scope="group", against="optimum",
    detail="layer", threads=2, union=True. Progress goes to stderr where that is a terminal. Raises ValueError for
    arguments, kvreplay.InputError for traces, with the program's sentence.
    """
    if isinstance(traces, (str, os.PathLike)):
        traces = [traces]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "results.h5"
        command = [program(), "simulate", *map(os.fspath, traces), "--out", str(out)]
        for name, value in {"policy": policy, "budget": budget, **options}.items():
            command += _option(name, value)
        code, said = _run(command, progress and sys.stderr.isatty())
        raise_for(code, said)
        return _table(out)


def _option(name: str, value: Any) -> List[str]:
    option = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return [option, str(value)]


def _run(command: List[str], progress: bool) -> "tuple[int, str]":
    """Exit code and what was said on stderr last."""
    terminal = _terminal() if progress else None
    if terminal is None:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        return done.returncode, _sentence(done.stderr)
    ours, theirs = terminal
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            theirs = -1
            said = _shown(ours)
    finally:
        for descriptor in (ours, theirs):
            if descriptor >= 0:
                os.close(descriptor)
    return process.returncode, _sentence(said)


def _terminal() -> "tuple[int, int] | None":
    """Both ends of one, as the program shows progress on terminals only; None where the machine has no more."""
    try:
        return pty.openpty()
    except OSError:
        return None


def _shown(terminal: int) -> str:
    """Passes on to stderr what comes, and gives the end of it."""
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            part = b""  # how Linux says that the other side is closed
        if not part:
            return said.decode(errors="replace")
        said = (said + part)[-4096:]
        sys.stderr.write(part.decode(errors="replace"))
        sys.stderr.flush()


def _sentence(said: str) -> str:
    """The program's sentence, without its hint on how to ask for help."""
    lines = [line.split("\r")[-1].strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not line.startswith("`kvreplay help")]
    return lines[-1] if lines else ""


def _table(path: pathlib.Path) -> Results:
    with h5py.File(path) as file:
        rows = file["results"][:]
        results = Results()
        for name in rows.dtype.names:
            column = rows[name]
            results[name] = np.char.decode(column, "utf-8") if column.dtype.kind == "S" else column
        results.manifest = json.loads(file.attrs["manifest"])
    return results

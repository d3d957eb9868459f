"""Load in small: `make torture` has the same with 256 ranks, 64 readers and 10,000 connections (tools/campaign/load.py)."""

import os
import pathlib
import sys

from conftest import BUILD

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "campaign"))

import load  # noqa: E402

SHOAL = BUILD / "shoal"


def test_more_ranks_than_processors(mpi, tmp_path, monkeypatch):
    # Open MPI leaves memory behind, which the address sanitizer would report
    monkeypatch.setenv("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    _, seen, fault = load.ranks(SHOAL, tmp_path, mpi, 12)
    assert fault is None and seen == "1200 samples exactly once"


def test_readers_of_a_catalog_that_is_replaced(tmp_path):
    _, seen, fault = load.readers(SHOAL, tmp_path, 4, 1)
    assert fault is None and "epochs of 4 readers" in seen


def test_a_server_that_throttles_is_survived(tmp_path):
    _, seen, fault = load.throttled(SHOAL, tmp_path, 1, 100, 400, 20)
    assert fault is None and "400 samples exactly once" in seen
    assert "400 requests served" in seen and "; 0 throttled" not in seen

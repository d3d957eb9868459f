"""The page of the guide on buckets: every command runs against a real server, and prints what the page says."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import page as pages  # noqa: E402


def test_every_command_of_the_page_on_buckets_runs(ceph, ceph_client, monkeypatch):
    ceph_client.good("make", uri="s3://bucket")
    for name, value in ceph.items():
        monkeypatch.setenv(name, value)
    assert pages.run_page(ROOT / "docs" / "guide" / "buckets.md") > 0

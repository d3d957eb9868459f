"""Samples inside files, through the package: a sample's bytes are those of its extent."""

import os
import subprocess

import shoal

SHOAL = os.environ.get("SHOAL", os.path.join(os.path.dirname(__file__), "..", "..", "build", "shoal"))


def test_a_loader_gives_the_bytes_of_samples_inside_files(tmp_path):
    (tmp_path / "data").mkdir()
    want = []
    for name, nr in (("a.jsonl", 7), ("b.jsonl", 0), ("c.jsonl", 40)):
        lines = [b"%d\n" % 10**(i % 30) for i in range(nr)]
        (tmp_path / "data" / name).write_bytes(b"".join(lines))
        want += lines
    command = [SHOAL, "index", tmp_path / "data", "--samples", "auto", "-q", "-o", tmp_path / "x.cat"]
    subprocess.run(command, check=True)
    seen = {}
    for batch in shoal.Loader(tmp_path / "x.cat", batch_size=5, seed=7):
        for sample, content in zip(batch.ids, batch):
            seen[int(sample)] = bytes(content)
    assert seen == dict(enumerate(want))

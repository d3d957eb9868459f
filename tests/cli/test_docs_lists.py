"""The commands of docs/lists.md work when pasted, in its order."""

import os
import re
import subprocess

from conftest import ROOT, binary


def test_the_commands_of_the_page_work_as_pasted(tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "lists.md").read_text(), re.M | re.S)
    assert len(blocks) >= 6
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "shoal").symlink_to(binary())
    work = tmp_path / "work"
    work.mkdir()
    env = dict(os.environ, PATH="%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    done = subprocess.run(["bash", "-euo", "pipefail"], input="".join(blocks), cwd=work, env=env, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("train/img_1.jpg\ntrain/img_10.jpg\ntrain/img_100.jpg\n")
    assert "label 1\n" in done.stdout and done.stdout.count("they differ") == 1
    assert "found.cat" in os.listdir(work)

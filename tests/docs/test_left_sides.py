"""coming-from.md: what it says that users of other tools write today runs, in these tools.

test_pages.py runs the right sides, and the left ones of find and DistributedSampler. Those of DLIO run by the dlio_benchmark that
Shoal serves, which takes the same words; the others need their tools: pip install awscli webdataset mosaicml-streaming s3dlio, in
the Python that PYTHON names (default: this one)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "s3"), str(ROOT / "tests" / "python" / "dlio")]
import objects  # noqa: E402
import page as pages  # noqa: E402
from bucket import Bucket  # noqa: E402
from objects import ACCESS, SECRET  # noqa: E402

PYTHON = os.environ.get("PYTHON", sys.executable)
SECTIONS = re.split(r"^## (.*)\n", (ROOT / "docs" / "coming-from.md").read_text(), flags=re.M)
BLOCKS = {name: re.findall(r"^```(bash|py)\n(.*?)^```$", text, re.M | re.S) for name, text in zip(SECTIONS[1::2], SECTIONS[2::2])}

# By section: the module or the command that it needs, and what its blocks take for granted.
NEEDS = {
    "aws s3 ls": ("aws", ""),
    "WebDataset": ("webdataset", """
import io, pathlib, tarfile
pathlib.Path("shards").mkdir()
for i in range(100):
    with tarfile.open("shards/%06d.tar" % i, "w") as tar:
        for name in ("%d.txt" % i, "%d.cls" % i):
            entry = tarfile.TarInfo(name)
            entry.size = 1
            tar.addfile(entry, io.BytesIO(b"7"))
"""),
    "Mosaic Streaming": ("streaming", 'import pathlib\npaths = sorted(pathlib.Path("data/train").glob("*/*"))\n'),
    "s3dlio": ("s3dlio", ""),
    "DLIO": ("dlio_benchmark", ""),
}


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """The 400 files of the page, in a folder and in a bucket. What others sign is not checked."""
    monkeypatch.setattr(objects, "wrong_signature", lambda *_: None)
    names = [f"{folder}/{i:03}" for folder in ("cat", "dog", "emu", "fox") for i in range(1, 101)]
    with Bucket() as server:
        for name in names:
            content = (name.replace("/", " ") + "\n").encode()
            server.objects[b"bucket", f"train/{name}.txt".encode()] = content
            path = tmp_path / "data" / "train" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, value in {"AWS_ENDPOINT_URL": server.url, "S3_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS,
                            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1", "no_proxy": "*"}.items():
            monkeypatch.setenv(name, value)
        yield server


def run(command, folder):
    environment = {**pages.environment(), "PATH": f"{folder}/bin:{os.path.dirname(PYTHON)}:{pages.environment()['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def test_every_section_is_run_by_some_test():
    assert {name for name, blocks in BLOCKS.items() if blocks} == set(NEEDS)


@pytest.mark.parametrize("section", NEEDS)
def test_what_is_written_today_runs(section, bucket, tmp_path):
    tool, before = NEEDS[section]
    if section == "DLIO":
        run([PYTHON, "-m", "shoal.dlio.shim", "install", "bin"], tmp_path)
    elif section == "aws s3 ls":
        if not shutil.which("aws", path=os.path.dirname(PYTHON) + os.pathsep + os.environ["PATH"]):
            pytest.skip("no aws: pip install awscli")
    elif subprocess.run([PYTHON, "-c", "import " + tool], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip(f"no {tool}: the docstring says what to install")
    kinds, texts = zip(*BLOCKS[section])
    if set(kinds) == {"bash"}:
        said = "".join(run(["bash", "-ec", text], tmp_path) for text in texts)
        assert section == "DLIO" or "train/cat/001.txt" in said and "dog/001.txt" in said, said
    else:
        (tmp_path / "program.py").write_text("import ast, asyncio, inspect\ntext = '''" + before + "\n".join(texts).replace("\\", "\\\\") + """'''
code = compile(text, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
end = eval(code, globals())
if inspect.iscoroutine(end):
    asyncio.run(end)
""")
        run([PYTHON, "program.py"], tmp_path)

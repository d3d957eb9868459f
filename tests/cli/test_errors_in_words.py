"""What a user may get wrong, once each: one sentence that names the thing and what to do about it, an exit status, and
nothing left behind. Each case is one process of some milliseconds."""

import os
import subprocess

import pytest

from conftest import binary

WORKLOAD = """model: {name: x}
framework: pytorch
workflow: {train: true}
dataset: {format: npz, num_files_train: 8, record_length_bytes: 3000}
reader: {batch_size: 2}
train: {epochs: 2, computation_time: 0.001}
"""


def run(arguments, cwd, **env):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    return subprocess.run([binary(), *arguments], cwd=cwd, env={**keep, "HOME": str(cwd), **env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory d of three files, a catalog c.cat of it, and what is not a catalog."""
    here = tmp_path_factory.mktemp("place")
    (here / "d").mkdir()
    for i in range(3):
        (here / "d" / f"{i}.jpg").write_bytes(b"12")
    (here / "empty").mkdir()
    assert run(["index", "d", "-q", "-o", "c.cat"], here).returncode == 0
    whole = (here / "c.cat").read_bytes()
    (here / "truncated").write_bytes(whole[:500])
    (here / "zero").touch()
    (here / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF" * 100)
    (here / "v.csv").write_text("name,v\na,1\n")
    (here / "w.yaml").write_text(WORKLOAD)
    (here / "bad.yaml").write_text("train: {epochs: lots}\n")
    assert run(["index", "d", "-q", "-o", "moved.cat"], here).returncode == 0
    (here / "gone").mkdir()
    (here / "gone" / "x").touch()
    assert run(["index", "gone", "-q", "-o", "moved.cat", "--force"], here).returncode == 0
    (here / "gone" / "x").unlink()
    (here / "gone").rmdir()
    return here


USAGE, FAILED = 2, 1

# What is typed, the exit status, and what the message says.
CASES = [
    # Typing errors
    ("indx", USAGE, "unknown command 'indx'; did you mean index?"),
    ("help nosuch", USAGE, "unknown command 'nosuch'"),
    ("index d --outptu x", USAGE, "unknown option '--outptu'; did you mean --output?"),
    ("order c.cat --r 2", USAGE, "'--r' is ambiguous: --ranks, --rank, --remainder"),
    ("--verison", USAGE, "unknown option '--verison'; did you mean --version?"),
    ("-q info c.cat", USAGE, "unknown option '-q'; options follow a command, as in 'shoal ls -q'"),
    ("read c.cat --data-dir d", USAGE, "unknown option '--data-dir'; did you mean --data?"),
    ("merge c.cat -f -o x", USAGE, "unknown option '-f'; did you mean --force?"),
    ("index d -o=z.cat", USAGE, "write '-o z.cat' or '--output=z.cat'"),
    ("info --endpoint", USAGE, "option '--endpoint' needs a value"),
    ("index d -o x --force=1", USAGE, "takes no value"),
    ("read", USAGE, "give one catalog"),
    ("read c.cat c.cat", USAGE, "give one catalog"),
    ("diff c.cat", USAGE, "give two catalogs"),
    ("ls c.cat 1*", USAGE, "give one catalog; patterns for names are given with --include"),
    # Habits from other tools
    ("read c.cat --ranks 2", USAGE, "there are as many ranks as mpirun starts"),
    ("read c.cat --on-error skip", USAGE, "--keep-going"),
    ("run w.yaml --data d --results r --param a=b", USAGE, "write KEY=VALUE without an option"),
    ("run w.yaml --data d --results r --epochs 2", USAGE, "write train.epochs=VALUE without an option"),
    ("run w.yaml --data d --results r --num-files-train 3", USAGE, "write dataset.num_files_train=VALUE without an option"),
    ("datasize --model unet3d", USAGE, "the workload is the first argument"),
    ("run w.yaml --data d --results r --accelerators 2", USAGE, "--accelerators-per-rank"),
    # Values
    ("index d -o x --memory lots", USAGE, "--memory 'lots' is not a size, such as 256M or 1.5GB"),
    ("index d -o x --memory 1K", USAGE, "--memory must be 48M or more"),
    ("index d -o x --threads many", USAGE, "--threads 'many' is not a whole number"),
    ("index d -o x --threads 0", USAGE, "--threads must be 1 to 1024"),
    ("ls c.cat --id -1", USAGE, "--id '-1' is not a whole number"),
    ("read c.cat --batch 1e6", USAGE, "--batch '1e6' is not a whole number"),
    ("read c.cat --timeout soon", USAGE, "--timeout 'soon' is not a time, such as 0.5, 30s or 10m"),
    ("read c.cat --duration 0", USAGE, "--duration must be 0.001 to 1000000"),
    ("read c.cat --repeat 0", USAGE, "--repeat must be 1 to 10000"),
    ("order c.cat --mode shuffle", USAGE, "is not sequential, global, files, window or local"),
    ("read c.cat --engine foo", USAGE, "is not auto, uring or threads"),
    ("order c.cat --rank 2 --ranks 2", USAGE, "--rank 2 must be less than --ranks 2"),
    ("split c.cat --part a=2", USAGE, "is not NAME=SHARE, such as train=0.9"),
    ("datasize retinanet_b200 --memory-per-host 256", USAGE, "did you leave out the G?"),
    ("datasize w.yaml", USAGE, "say how many accelerators there are: --accelerators A"),
    ("datasize w.yaml --accelerators 4 --hosts 2", USAGE, "say how much memory those 2 hosts have"),
    ("index --pattern abc --count 3 --root /r -o x", USAGE, "write {:07d} in its place"),
    ("index --pattern a{:03d} --root /r -o x", USAGE, "--count N"),
    # Sources
    ("index nosuch -o x", FAILED, "'nosuch': cannot open it: No such file or directory"),
    ("index d d -o x", USAGE, "give one directory or LIST"),
    ("index photo.jpg -o x", FAILED, "'photo.jpg': line 1"),
    ("index c.cat -o x", FAILED, "'c.cat': it is a catalog already"),
    ("index empty -o x", FAILED, "there is no file in", "--force"),
    ("index d --include *.{jpg,jpeg} -o x", FAILED, "{a,b} is not a pattern here"),
    ("index s3:/bucket/x -o x", FAILED, "did you mean 's3://bucket/x'?"),
    ("list s3:/bucket/x", FAILED, "did you mean 's3://bucket/x'?"),
    ("info s3:/bucket/x", FAILED, "did you mean 's3://bucket/x'?"),
    ("index gs://bucket/x -o x", FAILED, "'gs://' is not a kind of store: use file://, s3://, null: or a path"),
    ("list gs://bucket/x", FAILED, "shoal list: 'gs://bucket/x': 'gs://' is not a kind of store: use file://, s3://, null: or a path\n"),
    ("datagen nosuch --data e", USAGE, "there is no workload 'nosuch'"),
    ("find c.cat 1.jpg --limit 3", USAGE, "--limit is for files that are looked for, not for names: give one or the other"),
    ("index v.csv --format inventory --columns Bucket,Key,Sise -o x", FAILED, "an inventory has no column 'Sise'; did you mean Size?"),
    ("index v.csv --format inventory --columns Bucket,Key,Key -o x", FAILED, "column 'Key' is named twice"),
    ("merge c.cat --root /elsewhere -o x", FAILED, "is not below 'file:///elsewhere': its names cannot be relative to that"),
    ("index s3://bucket/x -o x", FAILED, "AWS_ACCESS_KEY_ID", "--anonymous"),
    ("index s3://bucket/x --threads 3 -o x", USAGE, "a bucket is listed with --connections N"),
    ("list c.cat", FAILED, "'c.cat' is a file, not a directory; 'shoal ls' prints the names in a catalog"),
    ("info http://host/x.cat", FAILED, "'http://' is not a kind of store"),
    # Targets
    ("index d -o /dev/null", FAILED, "cannot write '/dev/null': it is not a regular file"),
    ("index d", USAGE, "-o FILE"),
    ("index d -o nosuchdir/x.cat", FAILED, "cannot write 'nosuchdir/x.cat': there is no directory 'nosuchdir'"),
    ("merge c.cat -o nosuchdir/x.cat", FAILED, "cannot write 'nosuchdir/x.cat': there is no directory 'nosuchdir'"),
    ("index d -o empty", FAILED, "'empty' is a directory: name a file"),
    ("index d -o photo.jpg", FAILED, "'photo.jpg' exists and is not a catalog", "--force"),
    ("filter c.cat -o photo.jpg", FAILED, "'photo.jpg' exists and is not a catalog", "--force"),
    ("merge c.cat", USAGE, "-o FILE"),
    ("manifest c.cat", USAGE, "-o DIR"),
    ("run w.yaml --data d --results photo.jpg", FAILED, "'photo.jpg' is a file: results need a folder"),
    # Catalogs
    ("info none", FAILED, "'none': cannot open it: No such file or directory"),
    ("info d", FAILED, "'d': it is a directory, not a file"),
    ("info photo.jpg", FAILED, "'photo.jpg': not a catalog"),
    ("info zero", FAILED, "'zero': empty file, not a catalog"),
    ("info truncated", FAILED, "'truncated': truncated catalog: 500 of "),
    ("stat d", FAILED, "'d': it is a directory, not a file; make a catalog of it with 'shoal index'"),
    ("find c.cat nope", FAILED, "there is no name 'nope'"),
    ("find c.cat {}/d/1.jpg", FAILED, "names are relative to 'file://", "did you mean '1.jpg'?"),
    ("find c.cat d/1.jpg", FAILED, "did you mean '1.jpg'?"),
    ("cat c.cat d/1.jpg", FAILED, "did you mean '1.jpg'?"),
    ("cat c.cat 99", FAILED, "there is no sample 99: it has 3"),
    ("ls c.cat --from 99", FAILED, "there is no id 99: it has 3 files"),
    # Reading and running
    ("read c.cat --slot 1", FAILED, "raise --slot to 2, or use --pieces"),
    ("read moved.cat", FAILED, "there is no directory", "if the data has moved", "--data"),
    ("run retinanet --data d --results r", USAGE, "did you mean retinanet_b200"),
    ("run w.yaml --data d", USAGE, "--results DIR"),
    ("run w.yaml --results r", USAGE, "--data DIR"),
    ("run w.yaml --data d --results r dataset.num_file_train=3", USAGE, "did you mean dataset.num_files_train?"),
    ("run w.yaml --data d --results r --force --resume", USAGE, "--resume and --force exclude each other"),
    ("run w.yaml --data d --results r train.epochs=many", USAGE, "train.epochs must be a whole number from 1", "not 'many'"),
    ("datagen w.yaml --data e dataset.format=nosuch", USAGE, "override 'dataset.format'", "not 'nosuch'"),
    ("datasize w.yaml --accelerators 2 train.epoch=3", USAGE, "override 'train.epoch'", "did you mean train.epochs?"),
    ("workloads w.yaml nosuch=1", USAGE, "override 'nosuch': there is no key"),
    ("run bad.yaml --data d --results r", FAILED, "bad.yaml:1:", "not 'lots'"),
    ("datagen w.yaml --data photo.jpg -q", FAILED, "'photo.jpg' is a file, not a directory"),
    ("report none", FAILED, "report: 'none' does not exist"),
    ("report w.yaml", FAILED, "report: 'w.yaml' is a file: give the folder of results that it lies in"),
    ("report r -o - --json", USAGE, "--json and the page cannot both go to standard output"),
    ("filter c.cat --min-size 3 --max-size 2 -o x", USAGE, "--min-size is larger than --max-size"),
    ("ls c.cat --count 3", USAGE, "--limit is the most files to print"),
    ("column import c.cat v.csv", FAILED, "'v.csv', line 1", "--header"),
    ("workloads nosuch", USAGE, "there is no workload 'nosuch'"),
]


@pytest.mark.parametrize("typed, status, words", [(typed, status, words) for typed, status, *words in CASES],
                         ids=[case[0] for case in CASES])
def test_an_error_is_one_sentence_that_helps(place, typed, status, words):
    before = {path.name for path in place.iterdir()}
    result = run(typed.replace("{}/", f"{place}/").split(), place)
    said = result.stderr.decode()
    assert result.returncode == status, said
    assert result.stdout == b""
    assert all(word in said for word in words), said
    told = [line for line in said.splitlines() if not line.startswith("Try 'shoal ")]
    assert len(told) == 1 and told[0].startswith("shoal"), said
    assert ("Try 'shoal" in said) == (status == USAGE)
    assert {path.name for path in place.iterdir()} - before <= {"r"}


def test_an_mpi_that_does_not_exist_is_told(place):
    result = run(["read", "c.cat"], place, SHOAL_MPI="foo")
    assert result.returncode == 1 and b"it can be none, openmpi, mpich, or the path of a module" in result.stderr


def test_a_temporary_directory_that_does_not_exist_is_named(place):
    result = run(["index", "d", "-o", "x", "--dry-run"], place, TMPDIR="/nonexistent")
    assert result.returncode == 1
    assert result.stderr == (b"shoal index: cannot create a temporary directory in '/nonexistent': No such file or directory; "
                             b"choose another place with --tmp-dir\n")


@pytest.mark.parametrize("command", ["list", "index"])
def test_a_directory_that_cannot_be_read_names_the_way_around(place, tmp_path, command):
    if os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"):
        pytest.skip("root may read everything")
    (tmp_path / "d" / "closed").mkdir(parents=True)
    (tmp_path / "d" / "a").touch()
    (tmp_path / "d" / "closed").chmod(0)
    tmp_path.chmod(0o777)
    user = ["/usr/bin/setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    os.chmod(tmp_path.parent, 0o755)
    os.chmod(tmp_path.parent.parent, 0o755)
    if subprocess.run([*user, binary(), "list", tmp_path], cwd="/", stdout=subprocess.DEVNULL, check=False,
                      stderr=subprocess.DEVNULL).returncode > 1:
        pytest.skip("another user cannot run the command here")
    more = ["-o", "x"] if command == "index" else []
    result = subprocess.run([*user, binary(), command, "d", *more], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            check=False)
    (tmp_path / "d" / "closed").chmod(0o755)
    assert result.returncode == 1 and b"Permission denied" in result.stderr and b"--keep-going" in result.stderr

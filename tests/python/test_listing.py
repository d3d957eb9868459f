"""Lists as streams, and catalogs made of catalogs."""
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import shoal

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "s3"))  # it has a conftest.py, too
from objects import ACCESS, SECRET, Objects, etag  # noqa: E402


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Names that sort otherwise than directories do, and what they are."""
    folder = tmp_path_factory.mktemp("tree")
    sizes = {}
    for a in ("a", "a-b", "a.c", "a0", "\udcff"):
        for i in range(40):
            name = "%s/x%d/%d.bin" % (a, i % 7, i)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"x" * i)
            sizes[name] = i
        (folder / (a + ".txt")).write_bytes(b"")
        sizes[a + ".txt"] = 0
    return folder, {os.fsdecode(name): sizes[os.fsdecode(name)] for name in sorted(map(os.fsencode, sizes))}


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    with Objects() as server:
        for name, value in {"HOME": str(tmp_path), "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS,
                            "AWS_SECRET_ACCESS_KEY": SECRET, "SHOAL_S3_BACKOFF_MS": "20", "no_proxy": "*"}.items():
            monkeypatch.setenv(name, value)
        for i in range(5000):
            server.objects[b"bucket", b"d/%05d" % (i * 7 % 5000)] = b"x" * (i % 10)
        yield server


def native_threads():
    """Without Python's own, as those of the server here."""
    return len(os.listdir("/proc/self/task")) - threading.active_count()


def wait_for_native_threads(nr):
    until = time.monotonic() + 60
    while native_threads() != nr:  # Python's own end at times between the two counts
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_directory_is_listed_in_order_without_a_catalog(tree):
    folder, sizes = tree
    assert list(shoal.list(folder)) == list(sizes)
    assert [(e.name, e.size) for e in shoal.list(folder, sizes=True)] == list(sizes.items())
    assert shoal.count(folder) == len(sizes) and shoal.count(folder, include="*.txt") == 5
    names = list(sizes)
    assert list(shoal.list(folder, start_after=names[9], end_before=names[30])) == names[10:30]
    assert list(shoal.list(folder, limit=3)) == names[:3]
    parts = [list(shoal.list(folder, shard=(k, 3))) for k in range(3)]
    assert sorted(sum(parts, []), key=os.fsencode) == names and all(parts)
    assert [e.size for e in shoal.list(folder, sizes=True, min_size=38)] == [38, 39] * 5
    assert shoal.list(folder).root.endswith(str(folder))


def test_a_bucket_is_listed_in_order_with_etags(bucket):
    names = ["%05d" % i for i in range(5000)]
    assert list(shoal.list("s3://bucket/d")) == names
    first = next(shoal.list("s3://bucket/d", sizes=True, etags=True))
    assert first == shoal.Entry("00000", 0, etag(b""), 1)
    assert shoal.count("s3://bucket/d", start_after="00099", end_before="01000") == 900
    assert sum((list(shoal.list("s3://bucket/d", shard=(k, 3))) for k in range(3)), []) == names


def test_what_cannot_be_listed_is_an_error(tree, bucket):
    with pytest.raises(FileNotFoundError):
        shoal.list("/nowhere/at/all")
    with pytest.raises(shoal.BadValueError, match="ETags"):
        shoal.list(tree[0], etags=True)
    with pytest.raises(shoal.BadValueError, match="regular expression"):
        shoal.list(tree[0], regex="(")
    with pytest.raises(shoal.BadValueError, match="limit"):
        shoal.list(tree[0], limit=0)
    with pytest.raises(shoal.BadValueError, match="no shard"):
        shoal.list(tree[0], shard=(2, 2))
    with pytest.raises(OSError):
        list(shoal.list("s3://no-such-bucket/x"))


def test_an_iterator_that_is_dropped_ends_its_threads(tree, bucket):
    before = native_threads()
    for uri in (tree[0], "s3://bucket/d"):
        listing = shoal.list(uri, threads=8)
        next(listing)
        assert native_threads() > before
        del listing
        gc.collect()
        wait_for_native_threads(before)
        with shoal.list(uri, threads=8) as listing:
            next(listing)
        wait_for_native_threads(before)
        assert list(listing) == []


def test_one_thread_at_a_time_uses_a_listing(tree):
    handle = shoal.list(tree[0])._handle
    errors = []

    def take():
        try:
            while handle.next(1):
                pass
        except ValueError as e:
            errors.append(str(e))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("another thread" in e for e in errors)


def test_ctrl_c_ends_a_listing_that_waits():
    """The server accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = ("import shoal\n"
                "try: next(shoal.list('s3://bucket/x', endpoint='http://127.0.0.1:%d'))\n"
                "except KeyboardInterrupt: print('interrupted')" % server.getsockname()[1])
        env = dict(os.environ, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="y", no_proxy="*")
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
        connection = server.accept()[0]
        assert connection.recv(4) == b"GET "  # it waits for the answer now
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=60)[0] == "interrupted\n"
        connection.close()


def test_a_listing_of_another_process_is_refused(tree):
    listing = shoal.list(tree[0])
    next(listing)
    pid = os.fork()
    if pid == 0:
        try:
            list(listing)
        except RuntimeError as e:
            os._exit(0 if "fork" in str(e) else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(listing)) == len(tree[1]) - 1


def test_uris_become_a_catalog_for_loaders(tree):
    folder, sizes = tree
    uris = ("%s/%s" % (folder, name) for name in reversed(list(sizes)))
    catalog = shoal.from_uris(uris, root=folder)
    assert list(catalog) == list(sizes)
    with_sizes = shoal.from_uris((("file://%s/%s" % (folder, name), size) for name, size in sizes.items()))
    loader = shoal.Loader(with_sizes, batch_size=16)
    assert sum(len(batch) for batch in loader) == len(sizes)
    path = pickle.loads(pickle.dumps(catalog)).path
    assert os.path.exists(path)
    del catalog, loader
    gc.collect()
    assert not os.path.exists(path)
    with pytest.raises(TypeError, match="iterable"):
        shoal.from_uris("s3://bucket/x")


def test_catalogs_are_merged_filtered_and_split(tree, tmp_path):
    folder, sizes = tree
    whole = shoal.index(folder, tmp_path / "all.cat")
    small = shoal.filter(whole, tmp_path / "small.cat", max_size=10)
    large = shoal.filter(whole, tmp_path / "large.cat", min_size=11)
    assert len(small) + len(large) == len(whole) and small.root == whole.root
    assert shoal.merge([large, small], tmp_path / "merged.cat") == whole
    with pytest.raises(OSError, match="more than one"):
        shoal.merge([whole, small], tmp_path / "x.cat", repeated="fail")
    assert shoal.merge([whole, small], tmp_path / "y.cat", repeated="last") == whole
    assert not (tmp_path / "x.cat").exists()
    few = shoal.filter(whole, tmp_path / "few.cat", files_from=list(sizes)[3:6])
    assert list(few) == list(sizes)[3:6]
    rest = shoal.filter(whole, tmp_path / "rest.cat", files_not_from=few)
    assert len(rest) == len(whole) - 3
    parts = shoal.split(whole, {"train": 0.8, "valid": 0.1, "test": 0.1}, tmp_path / "made" / "by it", seed=3)
    assert sorted(os.listdir(tmp_path / "made" / "by it")) == ["test.cat", "train.cat", "valid.cat"]
    assert sorted(name for part in parts.values() for name in part) == sorted(sizes)
    again = shoal.split(rest, {"train": 0.8, "valid": 0.1, "test": 0.1}, tmp_path, seed=3)
    assert set(again["train"]) == set(parts["train"]) - set(few)
    with pytest.raises(shoal.NotFoundError):
        shoal.filter(whole, tmp_path / "none.cat", include="*.nothing")
    (tmp_path / "notes").write_text("precious")
    with pytest.raises(shoal.Error, match="not a catalog"):
        shoal.filter(whole, tmp_path / "notes", limit=3)
    with pytest.raises(OSError, match="not a catalog"):
        shoal.split(whole, {"a": 0.5}, {"a": tmp_path / "notes"})
    assert (tmp_path / "notes").read_text() == "precious"
    for write in (lambda force: shoal.filter(whole, tmp_path / "all.cat", limit=1, force=force),
                  lambda force: shoal.merge([few], tmp_path / "merged.cat", force=force),
                  lambda force: shoal.split(few, {"m": 1}, {"m": tmp_path / "y.cat"}, force=force)["m"]):
        with pytest.raises(OSError, match=r"and only \d (was|were) found now: .* force=True"):
            write(False)
        assert len(write(True)) < 4
    with pytest.raises(shoal.BadValueError, match="shares"):
        shoal.split(whole, {"a": 0.9, "b": 0.2}, tmp_path)


def test_two_catalogs_are_compared(tree, tmp_path):
    whole = shoal.index(tree[0], tmp_path / "all.cat")
    part = shoal.filter(whole, tmp_path / "part.cat", exclude="*.txt")
    assert shoal.diff(whole, whole).good
    told = []
    found = shoal.diff(whole, part, told.append)
    assert found.missing == 5 and found.same == len(part) and [d.name for d in told] == [d.name for d in found.first]
    assert told[0].kind == "missing"

    def enough(difference):
        raise LookupError("enough")

    with pytest.raises(LookupError):
        shoal.diff(whole, part, enough)


def test_figures_of_a_catalog_and_of_a_directory_agree(tree, tmp_path):
    whole = shoal.index(tree[0], tmp_path / "all.cat")
    figures = shoal.stat(whole)
    assert figures == shoal.stat(tree[0])
    assert figures.files == len(whole) and figures.bytes == whole.nr_bytes
    assert {row.name for row in figures.folders} == {"", "a", "a-b", "a.c", "a0", "\udcff"}
    assert figures.extensions[0] == (".bin", 200, whole.nr_bytes) and figures.extensions[1][:2] == (".txt", 5)
    assert figures.largest[0].bytes == 39 and figures.sizes[0] == 10 and figures.depth == (5, 0, 200)

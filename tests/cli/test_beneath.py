"""--beneath: symbolic links that lead out of the root are refused, those that stay below it are not."""

import os

import pytest

REFUSED = b"a symbolic link of its path is absolute or leads out of the root"
INSIDE = ["d/file", "d/link", "folder/file"]
OUTSIDE = ["d/out", "outer/secret", "d/absolute"]


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    (made / "d").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (made / "d" / "file").write_bytes(b"inside")
    for name, target in (("d/link", "file"), ("folder", "d"), ("d/out", "../../outside/secret"), ("outer", "../outside"),
                         ("d/absolute", made / "d" / "file")):
        (made / name).symlink_to(target)
    return made


@pytest.fixture
def catalog(shoal, root, tmp_path):
    (tmp_path / "list").write_text("".join(f"{name}\t6\n" for name in INSIDE + OUTSIDE))
    out = tmp_path / "c.cat"
    assert shoal("index", tmp_path / "list", "--root", root, "-q", "-o", out).returncode == 0
    return out


@pytest.mark.parametrize("engine", ["uring", "threads"])
def test_only_samples_below_the_root_are_read(shoal, catalog, engine):
    done = shoal("read", catalog, "--engine", engine, "--keep-going", "--json", "-q")
    assert done.returncode == 0, done.stderr  # links are followed, as datasets are often built of them
    done = shoal("read", catalog, "--engine", engine, "--keep-going", "--json", "-q", "--beneath")
    assert done.returncode == 1
    for name in OUTSIDE:
        assert f"'{name}' is refused".encode() in done.stderr + done.stdout
    assert b'"samples": 3' in done.stdout


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_file_outside_is_not_printed(shoal, catalog, name):
    assert shoal("cat", catalog, name).stdout in (b"secret", b"inside")
    by_option = shoal("cat", catalog, name, "--beneath")
    by_environment = shoal("cat", catalog, name, env={**os.environ, "SHOAL_BENEATH": "1"})
    for done in (by_option, by_environment):
        assert done.returncode == 1 and done.stdout == b"" and REFUSED in done.stderr
    assert shoal("cat", catalog, name, env={**os.environ, "SHOAL_BENEATH": "0"}).returncode == 0


@pytest.mark.parametrize("name", INSIDE)
def test_a_file_below_the_root_is_printed(shoal, catalog, name):
    assert shoal("cat", catalog, name, "--beneath").stdout == b"inside"


def test_a_listing_does_not_follow_links_out(shoal, root, tmp_path):
    out = tmp_path / "listed.cat"
    done = shoal("index", root, "--follow", "--beneath", "-o", out)
    assert done.returncode == 1 and REFUSED in done.stderr and not out.exists()
    done = shoal("index", root, "--follow", "--beneath", "--keep-going", "-o", out)
    assert done.returncode == 1 and REFUSED in done.stderr
    assert set(shoal("ls", out).stdout.split()) == {b"d/file", b"d/link", b"folder/file", b"folder/link"}
    without = shoal("list", root, "--follow").stdout.split()
    assert b"outer/secret" in without and b"d/out" in without


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_samples_of_a_file_outside_are_not_found(shoal, root, tmp_path, name):
    (tmp_path / "one").write_text(f"{name}\t6\n")
    words = ["index", tmp_path / "one", "--root", root, "--samples", "fixed:2", "-q", "-o", tmp_path / "s.cat"]
    by_option = shoal(*words, "--beneath")
    by_environment = shoal(*words, env={**os.environ, "SHOAL_BENEATH": "1"})
    for done in (by_option, by_environment):
        assert done.returncode == 1 and REFUSED in done.stderr and not (tmp_path / "s.cat").exists()
    assert shoal(*words).returncode == 0
    (tmp_path / "one").write_text(name + "\n")  # its size is looked up
    done = shoal(*words[:-1], tmp_path / "other.cat", "--beneath")
    assert done.returncode == 1 and REFUSED in done.stderr


def test_the_samples_of_files_below_the_root_are_found(shoal, root, tmp_path):
    (tmp_path / "inside").write_text("".join(f"{name}\t6\n" for name in INSIDE))
    done = shoal("index", tmp_path / "inside", "--root", root, "--samples", "fixed:2", "-q", "-o", tmp_path / "s.cat",
                 "--beneath")
    assert done.returncode == 0, done.stderr
    assert b"fixed           3 files, 9 samples" in shoal("info", tmp_path / "s.cat").stdout


def test_data_is_not_written_through_links_that_lead_out(shoal, tmp_path):
    (tmp_path / "w.yaml").write_text("model: {name: small}\nframework: pytorch\n"
                                     "dataset: {format: npz, num_files_train: 4, num_subfolders_train: 2, "
                                     "record_length_bytes: 1000}\n")
    data = tmp_path / "data"
    (tmp_path / "outside").mkdir()
    (data / "train").mkdir(parents=True)
    (data / "train" / "1").symlink_to("../../outside")
    words = ["datagen", tmp_path / "w.yaml", "--data", data, "-q", "--threads", "1"]
    done = shoal(*words, "--beneath")
    assert done.returncode == 1 and REFUSED in done.stderr
    assert not os.listdir(tmp_path / "outside")
    (data / "train" / "1").unlink()
    (data / "train" / "real").mkdir()
    (data / "train" / "1").symlink_to("../train/real")  # beside it, and below the root
    done = shoal(*words, "--beneath", "--resume")
    assert done.returncode == 0, done.stderr
    assert len(os.listdir(data / "train" / "real")) == 2

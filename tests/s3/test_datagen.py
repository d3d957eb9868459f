"""shoal datagen to a bucket: the same table of operations, so the same files."""

import json

KEYS = ["dataset.num_files_train=9", "dataset.record_length_bytes=3000", "dataset.num_subfolders_train=2"]


def datagen(client, *options, data="s3://bucket/some/set"):
    done = client.shoal("datagen", "retinanet_b200", "--data", data, "-q", "--json", *options, *KEYS)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr.decode()


def test_a_bucket_gets_the_files_that_a_directory_gets(server, client, tmp_path):
    status, facts, err = datagen(client, "--catalog", tmp_path / "c")
    assert (status, err) == (0, "") and facts["written"] == 9
    datagen(client, data=tmp_path / "d")
    keys = sorted(key for _, key in server.objects if b"/train/" in key)
    assert keys == sorted(b"some/set/" + str(path.relative_to(tmp_path / "d")).encode()
                          for path in (tmp_path / "d/train").rglob("*.jpeg"))
    for key in keys:
        stored = server.objects[b"bucket", key]
        assert bytes(getattr(stored, "body", stored)) == (tmp_path / "d" / key[len(b"some/set/"):].decode()).read_bytes()
    info = json.loads(client.shoal("info", tmp_path / "c", "--json").stdout)
    assert (info["files"], info["root"]) == (9, "s3://bucket/some/set")


def test_what_shoal_writes_into_a_bucket_is_never_listed(server, client, tmp_path):
    assert datagen(client)[0] == 0
    keys = {key for _, key in server.objects}
    assert {b"some/set/.shoal-dataset", b"some/set/catalog.shoal"} < keys
    server.objects[b"bucket", b"some/set/my-catalog.shoal"] = b"x"  # not ours
    wanted = sorted([key[len(b"some/set/"):] for key in keys if key.endswith(b".jpeg")] + [b"my-catalog.shoal"])
    for uri, prefix in (("s3://bucket/some/set", b""), ("s3://bucket/some", b"set/"), ("s3://bucket", b"some/set/")):
        assert client.shoal("index", uri, "-q", "--force", "-o", tmp_path / "c").returncode == 0
        assert client.shoal("ls", tmp_path / "c").stdout.split() == [prefix + name for name in wanted]
        assert client.shoal("list", uri).stdout.split() == [prefix + name for name in wanted]


def test_logs_traces_and_pages_in_a_bucket_are_never_listed_and_results_cost_no_request(server, client):
    """Results are written to directories only: with an object called summary.json per folder a request each would be many."""
    data = [b"a.json", b"begin.json", b"plan.json", b"series.0", b"summary.json", b"x.oplog"]
    server.objects.update({(b"bucket", b"d/" + name): b'{"command": "read", "version": "1"}' for name in data})
    server.objects[b"bucket", b"d/reads.oplog"] = b"\x89SHOPL\r\n" + bytes(56)
    server.objects[b"bucket", b"d/my-trace.json"] = b'{"displayTimeUnit": "ms", "otherData": {"one_read_in": 16}}'
    server.objects[b"bucket", b"d/report.html"] = b"<!DOCTYPE html>\n<title>Shoal report</title>"
    server.log.clear()
    assert client.shoal("list", "s3://bucket/d").stdout.split() == data
    asked = sorted(request.key for request in server.log if request.key)
    assert asked == [b"d/my-trace.json", b"d/reads.oplog", b"d/report.html", b"d/x.oplog"], server.log


def test_what_is_missing_in_a_bucket_is_found_and_written(server, client, tmp_path):
    datagen(client, "--no-catalog")
    del server.objects[b"bucket", b"some/set/train/1/img_3_of_9.jpeg"]
    status, facts, err = datagen(client, "--verify")
    assert status == 1 and "img_3_of_9.jpeg' is missing" in err and facts["missing"] == 1
    status, facts, err = datagen(client, "--resume", "--no-catalog")
    assert (status, facts["written"], facts["good"]) == (0, 1, 8)
    status, facts, err = datagen(client, "--verify")
    assert (status, facts["good"], err) == (0, 9, "")


def test_another_dataset_in_a_bucket_is_told(client):
    datagen(client, "--no-catalog")
    status, _, err = datagen(client, "--no-catalog", "--resume", "dataset.file_prefix=other")
    assert status == 1 and "dataset.file_prefix=img" in err


def test_files_that_are_there_are_not_written_over_unasked(server, client):
    datagen(client, "--no-catalog")
    server.log.clear()
    status, _, err = datagen(client, "--no-catalog")
    assert status == 1 and "already" in err and "--resume" in err
    assert [r for r in server.log if r.method == "PUT"] == []


def test_a_server_that_refuses_is_told_in_one_sentence(server, client):
    datagen(client, "--no-catalog")
    status, _, err = datagen(client, "--no-catalog", "--endpoint", "http://127.0.0.1:9", "--resume")
    assert status == 1 and len(err.splitlines()) == 1 and "127.0.0.1" in err


def test_a_bucket_that_is_not_there_is_told_and_not_each_file_of_it(client):
    for options in (["--verify"], ["--verify", "--resume"], ["--resume"], []):
        status, _, err = datagen(client, *options, data="s3://nothere/set")
        assert status == 1 and len(err.splitlines()) == 1 and "there is no bucket 'nothere'" in err


def test_catalogs_of_train_and_valid_go_beside_the_whole(server, client, tmp_path):
    done = client.shoal("datagen", "unet3d_h100", "--data", "s3://bucket/u", "-q", "dataset.num_files_train=3",
                        "dataset.num_files_eval=2", "dataset.record_length_bytes=4000", "dataset.record_length_bytes_stdev=0",
                        TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, b"")
    for name, files in [("", 5), ("-train", 3), ("-valid", 2)]:
        info = json.loads(client.shoal("info", f"s3://bucket/u/catalog{name}.shoal", "--json").stdout)
        assert (info["files"], info["root"]) == (files, "s3://bucket/u")
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_that_cannot_be_sent_is_told_and_leaves_nothing(server, client, tmp_path):
    status, _, err = datagen(client, "--catalog", "s3://bucket/c", data=tmp_path / "d")
    assert status == 0 and (b"bucket", b"c") in server.objects
    client.env.update(TMPDIR=str(tmp_path / "t"), AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1")
    (tmp_path / "t").mkdir()
    status, _, err = datagen(client, "--catalog", "s3://bucket/other", "--force", data=tmp_path / "d")
    assert status == 1 and len(err.splitlines()) == 1
    assert "the files are written, but not their catalog 's3://bucket/other'" in err and "127.0.0.1:9" in err
    assert list((tmp_path / "t").iterdir()) == []

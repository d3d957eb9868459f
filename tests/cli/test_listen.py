"""--listen: the report page, its data and metrics of a command while it works; strangers at the door; the results that read,
index and datagen leave for a report."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from browser import open_in_browser
from conftest import lines
from test_report import SMALL, data_of

SLOW = ["--data", "null:size=1000,delay_us=20000", "--in-flight", 4, "--batch", 4]  # 200 samples a second


@pytest.fixture
def catalog(shoal):
    return shoal.pattern("f{:05d}", 100_000, "--size", 1000)


class Listening:
    """A command that listens: where is what it prints first."""

    def __init__(self, shoal, *arguments, **options):
        self.process = shoal.start(*arguments, stdout=subprocess.DEVNULL, **options)
        self.first = self.process.stderr.readline().decode()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", self.first)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def get(self, path="/", method="GET", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers

    def data(self, wanted):
        """The run of data.json, once it is as wanted; nobody is answered before the work begins."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            run = json.loads(self.get("/data.json")[1])["runs"][0]
            if wanted(run):
                return run
            time.sleep(0.05)
        raise AssertionError(f"it never is: {run}")


def metrics(text):
    """name and labels: value; by the parser of Prometheus' own client."""
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def test_a_read_is_served_while_it_works(shoal, catalog):
    with Listening(shoal, "read", catalog, *SLOW, "--listen", "--progress=none") as it:
        run = it.data(lambda run: run["time"] and len(run["time"]["columns"].get("samples_per_second", [])) > 1)
        assert run["command"] == "read" and run["now"]["total"] == 100_000 and 0 < run["now"]["share"] < 1
        assert run["now"]["eta_seconds"] > 10 and run["now"]["samples_per_second"] > 0
        status, text, headers = it.get("/metrics")
        assert status == 200 and headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        seen = metrics(text)
        assert seen["shoal_samples_total",] >= 100 and seen["shoal_sample_bytes_total",] == 1000 * seen["shoal_samples_total",]
        assert seen["shoal_sample_latency_seconds_bucket", ("le", "+Inf")] == seen["shoal_sample_latency_seconds_count",] > 0
        # No delay is shorter than 20 ms.
        assert seen["shoal_sample_latency_seconds_bucket", ("le", "0.016384")] == 0
        assert seen["shoal_rank_samples_total", ("rank", "0")] == seen["shoal_samples_total",]
        status, page, headers = it.get("/?x=1")
        assert status == 200 and page.startswith("<!DOCTYPE html>") and "connect-src 'self'" in headers["Content-Security-Policy"]
        again = metrics(it.get("/metrics")[1])
        assert all(again[key] >= value for key, value in seen.items() if key[0].endswith(("_total", "_count")))


def test_strangers_get_words_and_nothing_else(shoal, catalog):
    with Listening(shoal, "read", catalog, *SLOW, "--listen=127.0.0.1", "--progress=none") as it:
        it.data(lambda run: True)
        for path in ("/etc/passwd", "/../data.json", "//", "/data.jsonx", "/%2e%2e/"):
            assert it.get(path)[0] == 404
        assert it.get(method="POST")[0] == 405 and it.get(method="DELETE")[0] == 405
        assert it.get(method="HEAD")[1] == "" and it.get(headers={"Host": "evil.example"})[0] == 421
        with socket.create_connection(("127.0.0.1", it.port)) as stranger:
            stranger.sendall(b"\x16\x03\x01 not HTTP\r\n\r\n")
            assert stranger.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"


def test_clients_that_hang_do_not_hold_up_the_end(shoal, catalog):
    with Listening(shoal, "read", catalog, "--data", "null", "--duration", "2s", "--listen", "--progress=none") as it:
        hanging = [socket.create_connection(("127.0.0.1", it.port)) for _ in range(20)]
        for one in hanging:
            one.sendall(b"GET / HT")
        assert it.process.wait(timeout=60) == 0
        for one in hanging:
            one.close()


def test_a_port_in_use_is_one_sentence_before_anything_is_written(shoal, catalog, tmp_path, fails):
    with Listening(shoal, "read", catalog, *SLOW, "--listen", "--progress=none") as it:
        address = f"--listen=127.0.0.1:{it.port}"
        result = shoal("read", catalog, *SLOW, address, "--results", tmp_path / "r")
        fails(result, 1, "Address already in use: choose another port")
        assert len(lines(result.stderr)) == 1
        fails(shoal("run", "unet3d_b200", "--data", "null", "--results", tmp_path / "r", address), 1, "choose another port")
        fails(shoal("index", tmp_path, "-o", tmp_path / "c.shoal", address), 1, "choose another port")
        fails(shoal("datagen", "unet3d_b200", "--data", tmp_path / "d", "-q", address, "dataset.num_files_train=1"), 1, "choose another")
    assert list(tmp_path.glob("[rcd]*")) in ([], [catalog])
    fails(shoal("read", catalog, "--listen=example.com:80"), 2, "'example.com:80' is not an IP address")


def test_a_tool_reads_where_it_listens_as_json(shoal, catalog):
    with Listening(shoal, "read", catalog, *SLOW, "--listen", "--progress=json") as it:
        assert json.loads(it.first) == {"progress": "read", "listening": f"http://127.0.0.1:{it.port}/"}


def test_a_wait_in_progress_grows_before_the_step_ends(shoal, catalog, tmp_path):
    with Listening(shoal, "read", catalog, "--data", "null:size=1000,delay_us=300000000", "--in-flight", 4, "--listen", "--progress=none") as it:
        run = it.data(lambda run: (run["now"]["idle_seconds"] or 0) > 1)
        assert run["now"]["samples"] == 0
        assert metrics(it.get("/metrics")[1])["shoal_idle_seconds",] > 1
        if shutil.which("chromium"):
            page, complaints = open_in_browser(f"http://127.0.0.1:{it.port}/", tmp_path)
            assert complaints == [] and "last progress" in page


def test_the_live_page_has_the_epochs_that_are_over_the_steps_and_the_configuration(shoal, tmp_path):
    arguments = ["run", "retinanet_b200", "--data", "null", "--results", tmp_path / "r", "--listen", "-q", *SMALL,
                 "train.computation_time=0.02", "train.epochs=2000"]
    with Listening(shoal, *arguments) as it:
        run = it.data(lambda run: len(json.loads(run["phases_text"])) > 1 and run["steps"]["epochs"])
        first = json.loads(run["phases_text"])[0]
        assert first["epoch"] == 1 and first["steps"] == 15 and 0 < first["au_percentage"] <= 100
        begin = json.loads(run["begin_text"])
        assert begin["command"] == "run" and begin["bytes_made_up"] is True and begin["epochs"] == 2000
        assert "computation_time: 0.02" in run["effective_text"]
        assert run["steps"]["ranks"] == 1 and run["steps"]["epochs"][0]["step_seconds"][0] >= 0.02
        if shutil.which("chromium"):
            page, complaints = open_in_browser(f"http://127.0.0.1:{it.port}/", tmp_path)
            assert complaints == [] and "cannot be drawn" not in page[page.index("<main"):page.index("</main>")]
            for words in ("AU by epoch", "Waiting in each step", "Where the time went", ">Configuration<", "last step"):
                assert words in page, words


def test_a_run_and_its_page_in_a_browser(shoal, tmp_path):
    shoal.good("datagen", "retinanet_b200", "--data", tmp_path / "data", "-q", *SMALL, stdout=subprocess.DEVNULL)
    arguments = ["run", "retinanet_b200", "--data", tmp_path / "data", "--results", tmp_path / "r", "--listen", "-q", *SMALL,
                 "train.computation_time=0.5", "train.epochs=20"]
    with Listening(shoal, *arguments) as it:
        run = it.data(lambda run: run["time"] and len(run["time"]["columns"].get("samples_per_second", [])) > 1)
        assert run["now"]["epochs"] == 20 and run["now"]["steps"] == 15 and run["now"]["au_bar_percentage"] == 1
        assert metrics(it.get("/metrics")[1])["shoal_epoch_steps",] == 15
        if shutil.which("chromium"):
            page, complaints = open_in_browser(f"http://127.0.0.1:{it.port}/", tmp_path)
            assert complaints == [] and 'data-ready="1"' in page and "AU so far" in page and "u-wrap" in page


def test_names_with_quotes_are_escaped(shoal, tmp_path):
    folder = tmp_path / "a\"b\\c<script>\u00e9"
    folder.mkdir()
    catalog = shoal.pattern("f{:05d}", 10_000, "--size", 1000, to=folder / "c.shoal")
    with Listening(shoal, "read", catalog, *SLOW, "--listen", "--progress=none") as it:
        assert it.data(lambda run: True)["name"] == str(catalog)
        [info] = [key for key in metrics(it.get("/metrics")[1]) if key[0] == "shoal_command_info"]
        assert dict(info[1:])["name"] == str(catalog)
        assert "<script>\u00e9" not in it.get()[1]


# ---- --results of commands other than run ----

def test_read_index_and_datagen_leave_results_for_a_report(shoal, catalog, tmp_path, fails):
    shoal.good("read", catalog, "--data", "null", "--results", tmp_path / "read", "--progress=none")
    (tmp_path / "tree").mkdir()
    for i in range(20):
        (tmp_path / "tree" / f"f{i}").write_bytes(b"x")
    shoal.good("index", tmp_path / "tree", "-q", "-o", tmp_path / "c.shoal", "--results", tmp_path / "index")
    shoal.good("datagen", "retinanet_b200", "--data", tmp_path / "data", "-q", *SMALL, "--results", tmp_path / "datagen")
    shoal.good("report", *(tmp_path / name for name in ("read", "index", "datagen")), "-o", tmp_path / "page.html")
    read, index, datagen = data_of(tmp_path / "page.html")
    assert json.loads(read["read_text"])["audit"]["exactly_once"] and json.loads(read["read_text"])["samples"] == 100_000
    assert json.loads(index["index_text"])["files"] == 20 and json.loads(datagen["datagen_text"])["written"] == 60
    assert read["time"]["columns"]["samples_per_second"][0] > 0 and read["steps"]["epochs"][0]["epoch"] == 1
    if shutil.which("chromium"):
        page, complaints = open_in_browser(tmp_path / "page.html", tmp_path)
        assert complaints == [] and 'data-ready="1"' in page
        assert all(words in page for words in ("read \u2013 read", "index \u2013 index", "datagen \u2013 datagen", "3 results side by side", "The null store made them"))
    for name in ("read", "index", "datagen"):
        fails(shoal("read", catalog, "--data", "null", "--steps", 1, "--results", tmp_path / name), 1, "has results already")


@pytest.mark.parametrize("command", ["run", "read", "index", "datagen"])
def test_what_is_killed_is_still_known_by_what_it_was(shoal, catalog, tmp_path, command):
    results = ["--results", tmp_path / "r"]
    words = {"run": ["retinanet_b200", "--data", "null:delay_us=100000", *SMALL, "train.epochs=1000", "metric.au=0.9"],
             "read": [catalog, *SLOW], "index": ["-", "-o", tmp_path / "c.shoal"],
             "datagen": ["retinanet_b200", "--data", tmp_path / "data", "dataset.num_files_train=1000000"]}[command]
    process = shoal.start(command, *words, *results, "--progress=none", stdin=subprocess.PIPE)
    end = time.monotonic() + 60
    while not (tmp_path / "r" / "begin.json").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    begin = json.loads((tmp_path / "r" / "begin.json").read_text())
    assert begin["command"] == command and begin["ranks"] == 1 and begin["cores"] >= 1 and begin["hostname"]
    shoal.good("report", tmp_path / "r", "-o", tmp_path / "page.html")
    if not shutil.which("chromium"):
        return
    page, complaints = open_in_browser(tmp_path / "page.html", tmp_path)
    title = re.search(r"<h1.*?>(.*?)</h1>", page)[1]
    assert complaints == [] and title == ("retinanet_b200" if command == "run" else command) + " \u2013 r"
    assert f"This {command} has no result" in page and begin["hostname"] in page
    assert ("The null store made them" in page) == (command in ("run", "read"))


def test_a_command_that_is_resumed_replaces_what_it_has_left_and_nothing_else(shoal, tmp_path, fails):
    data, results = tmp_path / "data", ["--results", tmp_path / "r"]
    datagen = ["datagen", "retinanet_b200", "--data", data, "-q", *SMALL, *results]
    index = ["index", data, "-o", tmp_path / "c.shoal", "-q", "--results", tmp_path / "i", "--resume"]
    shoal.good(*datagen)
    shoal.good(*index)
    for command, folder, file in ((datagen + ["--resume"], "r", "datagen.json"), (index, "i", "index.json")):
        fails(shoal(*command), 1, "has results already")  # of a command that came to its end
        (tmp_path / folder / file).unlink()  # as if it had been killed
        shoal.good(*command)
        assert json.loads((tmp_path / folder / file).read_text())["command"] == command[0]
        (tmp_path / folder / file).write_text('{"interrupted": true}')
        shoal.good(*command)
        (tmp_path / folder / file).unlink()
        (tmp_path / folder / "begin.json").write_text('{"command": "read"}')
        fails(shoal(*command), 1, "has results already")
        assert (tmp_path / folder / "begin.json").read_text() == '{"command": "read"}'


def test_a_read_that_is_killed_leaves_a_series_that_a_report_shows(shoal, catalog, tmp_path):
    process = shoal.start("read", catalog, *SLOW, "--results", tmp_path / "r", "--progress=none")
    end = time.monotonic() + 60
    while not ((tmp_path / "r" / "series.0").exists() and (tmp_path / "r" / "series.0").stat().st_size > 500):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.kill()
    process.communicate()
    shoal.good("report", tmp_path / "r", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert "read_text" not in run or run["read_text"] is None
    assert run["time"]["columns"]["samples_per_second"][0] > 0

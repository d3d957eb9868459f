"""shoal report: one page from the results of runs, which a browser opens without a network, an error or a surprise."""

import ctypes
import json
import re
import shutil
import subprocess
from struct import pack

import pytest

from conftest import binary

SMALL = ["dataset.num_files_train=60", "dataset.record_length_bytes=2000", "dataset.record_length_bytes_stdev=0",
         "train.epochs=2", "train.computation_time=0.001", "reader.batch_size=4", "metric.au=0.01"]
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
            "--virtual-time-budget=3000"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder, shoal_binary = tmp_path_factory.mktemp("results"), binary()
    for name, more in (("first", []), ("second", ["train.computation_time=0.002"])):
        if not (folder / "data").exists():
            subprocess.run([shoal_binary, "datagen", "retinanet_b200", "--data", folder / "data", "-q", *SMALL], check=True)
        subprocess.run([shoal_binary, "run", "retinanet_b200", "--data", folder / "data", "--results", folder / name, "-q",
                        *SMALL, *more], check=True, stdout=subprocess.DEVNULL)
    return folder


def data_of(page):
    """The runs that a page holds."""
    text = page.read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["runs"]


def open_in_browser(page, tmp_path, *more):
    """(the page as the browser has it after its scripts ran, what the scripts complained of)"""
    address = page if isinstance(page, str) else page.as_uri()
    done = subprocess.run([*CHROMIUM, f"--user-data-dir={tmp_path / 'browser'}", *more, "--dump-dom", address],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, complaints


def test_one_page_has_a_run_and_all_of_its_steps(shoal, results, tmp_path):
    shoal.good("report", results / "first", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["name"] == "first" and run["notes"] == [] and json.loads(run["summary_text"])["epochs"] == 2
    assert [(epoch["epoch"], len(epoch["step_seconds"])) for epoch in run["steps"]["epochs"]] == [(1, 15), (2, 15)]
    assert "default-src 'none'" in (tmp_path / "page.html").read_text()  # the browser refuses to fetch anything


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed; tools/install-deps test installs it")
@pytest.mark.parametrize("window", [["--window-size=1200,900"], ["--window-size=380,800"],
                                    ["--window-size=1200,900", "--blink-settings=preferredColorScheme=0"]],
                         ids=["wide", "phone", "dark"])
def test_a_browser_draws_two_runs_side_by_side_without_an_error(shoal, results, tmp_path, window):
    shoal.good("report", results / "first", results / "second", "-o", tmp_path / "page.html")
    page, complaints = open_in_browser(tmp_path / "page.html", tmp_path, *window)
    assert complaints == [] and 'data-ready="1"' in page
    assert "2 results side by side" in page and page.count("u-wrap") >= 5
    changed = re.search(r">workload.train.computation_time</th>(.*?)</tr>", page)[1]
    assert ">0.001<" in changed and ">0.002<" in changed


def test_results_of_a_crashed_run_are_shown_up_to_where_they_are(shoal, results, tmp_path):
    crashed = tmp_path / "crashed"
    shutil.copytree(results / "first", crashed)
    (crashed / "summary.json").unlink()
    half = (crashed / "0_output.json").read_bytes()
    (crashed / "0_output.json").write_bytes(half[:len(half) * 9 // 10])
    shoal.good("report", crashed, "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["summary_text"] is None and "0_output.json is truncated" in run["notes"][0]
    assert run["steps"]["epochs"][0]["epoch"] == 1


def test_a_run_that_was_killed_is_shown_from_its_time_series(shoal, results, tmp_path):
    killed = tmp_path / "killed"
    killed.mkdir()
    whole = (results / "first" / "series.0").read_bytes()
    (killed / "series.0").write_bytes(whole[:-3])
    shoal.good("report", killed, "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert "series.0 is incomplete" in run["notes"][0] and run["summary_text"] is None
    assert run["time"]["columns"]["samples_per_second"][0] > 0 and run["steps"]["epochs"][0]["epoch"] == 1
    (killed / "series.0").write_bytes(whole[:8] + b"\x02" + whole[9:])
    shoal.good("report", killed, "-o", tmp_path / "page.html")
    assert "version 2" in data_of(tmp_path / "page.html")[0]["notes"][0]


def a_series(path, rank, ranks, seconds):
    """A series written from docs/format/series.md alone, of 400 samples a second; rank 7 is slow for a while."""
    summed = lambda body: body + pack("<Q", XXHASH.XXH3_64bits(body, ctypes.c_size_t(len(body))))
    out, at, nr = [summed(b"\x89SHSER\r\n" + pack("<IIQQQIIII", 1, 64, 1, 1790000000 * 10**9, 10**9, rank, ranks, 1, 0))], 0, 0
    while at < seconds:
        width = 2 ** (nr // 1024)
        rate = 100 if rank == 7 and 1000 < at < 1200 else 400
        fields = [at * 10**9, width * 10**9, at * 4, width * 4, rate * width, rate * width * 150000, 10**7, 10**6, 9 * 10**8 * width, 0,
                  rate * width * 2 * 10**6, 10**8 * width, 5 * 10**8, 0, 0, 0, 4 * 10**6, at * 10**9, at]
        counts = [rate * width // 8 if 18 <= p < 26 else 0 for p in range(64)]
        name = b"train/</script>'\"\xff.npz"
        name += b"\0" * (8 - len(name) % 8)
        body = pack("<19Q", *fields) + pack("<64I", *counts) + name
        out.append(summed(pack("<IIII", 1, len(body) + 24, 1, 0) + body))
        at += width
        nr += 1
    path.write_bytes(b"".join(out))


def test_an_hour_of_24_ranks_fits_a_small_page_that_names_the_slow_rank(shoal, tmp_path):
    (tmp_path / "hour").mkdir()
    for rank in range(24):
        a_series(tmp_path / "hour" / f"series.{rank}", rank, 24, 3600)
    shoal.good("report", tmp_path / "hour", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    [run] = data_of(tmp_path / "page.html")
    at = int(1100 / run["time"]["width_seconds"])
    columns = run["time"]["columns"]
    assert columns["slowest_rank"][at] == 7 and columns["rank_low"][at] < 150 and columns["rank_high"][at] > 350
    assert len(run["time"]["stalls"]) == 10 and len(run["time"]["rank_rates"]) == 24
    if shutil.which("chromium"):
        page, complaints = open_in_browser(tmp_path / "page.html", tmp_path)
        assert complaints == [] and 'data-ready="1"' in page and "Rank 7 delivered" in page


def test_a_thousand_ranks_become_rows_of_neighbours(shoal, tmp_path):
    (tmp_path / "many").mkdir()
    for rank in range(1000):
        a_series(tmp_path / "many" / f"series.{rank}", rank, 1000, 3)
    shoal.good("report", tmp_path / "many", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["time"]["ranks"] == 1000 and len(run["time"]["rank_rates"]) == 64
    assert abs(run["time"]["columns"]["samples_per_second"][1] - 400_000) < 1000


def test_a_name_with_markup_is_text(shoal, results, tmp_path):
    bad = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(results / "first", bad)
    summary = json.loads((bad / "summary.json").read_text())
    summary["hostname"] = "</script><script>document.title='owned'</script>"
    summary["metric"]["train_au_mean_percentage"] = None
    (bad / "summary.json").write_text(json.dumps(summary))
    shoal.good("report", bad, "-o", tmp_path / "page.html")
    assert "<script>document.title" not in (tmp_path / "page.html").read_text()
    if shutil.which("chromium"):
        page, complaints = open_in_browser(tmp_path / "page.html", tmp_path)
        assert complaints == [] and "<title>owned" not in page and "<img src" not in page


def test_folders_without_results_and_pages_that_cannot_be_written_are_errors(shoal, results, tmp_path, fails):
    (tmp_path / "empty").mkdir()
    fails(shoal("report", tmp_path / "empty", "-o", tmp_path / "page.html"), 1, "has no results")
    fails(shoal("report", tmp_path / "nowhere", "-o", tmp_path / "page.html"), 1, "nowhere")
    fails(shoal("report", results / "first", "-o", tmp_path / "no" / "page.html"), 1, "page.html")
    assert not (tmp_path / "page.html").exists()

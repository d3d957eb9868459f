"""shoal report: one page from the results of runs, which a browser opens without a network, an error or a surprise."""

import base64
import ctypes
import json
import re
import shutil
import subprocess
from struct import pack
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from browser import DARK, PIXELS, look, needs_browser, open_in_browser
from conftest import binary
from test_compare import read_result

SMALL = ["dataset.num_files_train=60", "dataset.record_length_bytes=2000", "dataset.record_length_bytes_stdev=0",
         "train.epochs=2", "train.computation_time=0.001", "reader.batch_size=4", "metric.au=0.01"]
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64


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


def test_one_page_has_a_run_and_all_of_its_steps(shoal, results, tmp_path):
    shoal.good("report", results / "first", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["name"] == "first" and run["notes"] == [] and json.loads(run["summary_text"])["epochs"] == 2
    assert [(epoch["epoch"], len(epoch["step_seconds"])) for epoch in run["steps"]["epochs"]] == [(1, 15), (2, 15)]
    assert "default-src 'none'" in (tmp_path / "page.html").read_text()  # the browser refuses to fetch anything


@needs_browser
@pytest.mark.parametrize("width, more", [(1200, []), (360, []), (1200, [DARK])], ids=["wide", "phone", "dark"])
def test_a_browser_draws_two_runs_side_by_side_without_an_error(shoal, results, tmp_path, width, more):
    shoal.good("report", results / "first", results / "second", "-o", tmp_path / "page.html")
    page, complaints = open_in_browser(tmp_path / "page.html", tmp_path, *more)
    assert complaints == [] and 'data-ready="1"' in page and "2 results side by side" in page
    changed = re.search(r">train.computation_time</th>(.*?)</tr>", page)[1]
    assert ">0.001<" in changed and ">0.002<" in changed
    plots = look(tmp_path / "page.html", tmp_path, "document.querySelectorAll('details.all').forEach((one) => { one.open = true; "
                 "one.dispatchEvent(new Event('toggle')); });" + PIXELS, width, more=more)
    assert len(plots) >= 8 and all(plot["coloured"] > 40 for plot in plots), plots
    assert all(plot["width"] <= width for plot in plots)


@needs_browser
def test_of_several_results_it_is_said_which_are_better_or_worse_beyond_the_spread(shoal, tmp_path):
    for name, rates in (("base", [99, 100, 101]), ("slow", [49, 50, 51]), ("noisy", [60, 120, 150]), ("close", [99.5, 100.1, 100.6]), ("once", [70])):
        (tmp_path / name).mkdir()
        read_result(tmp_path / name / "read.json", rates)
    shoal.good("report", *(tmp_path / name for name in ("base", "slow", "noisy", "close", "once")), "-o", tmp_path / "page.html")
    seen = look(tmp_path / "page.html", tmp_path, """
      const cells = (row) => [...row.children].map((cell) => cell.textContent), figures = document.querySelector('[aria-label="figures of all results"] table');
      return { against: [...document.querySelector("main table").tBodies[0].rows].map((row) => cells(row).pop()), titles: [...document.querySelectorAll("figcaption")].map((one) => one.textContent),
               rates: cells([...figures.tBodies[0].rows].find((row) => row.children[0].textContent === "samples/s")),
               levels: [...document.querySelectorAll("h1, h2, h3, h4")].map((head) => +head.tagName[1]) };""")
    assert seen["against"] == ["-", "worse: samples/s \u221250 %", *["no difference beyond the spread"] * 2, "too few values to tell"]
    assert seen["rates"][1] == "100 \u00b1 1" and seen["rates"][2].startswith("50 \u00b1 1\u221250 % \u00b1 2.3, worse")  # t of 4 degrees of freedom, 2.78
    assert seen["titles"][0] == "Spread: samples/s"
    assert all(b <= a + 1 for a, b in zip(seen["levels"], seen["levels"][1:])), "no level of headings is left out"


# Of every element that reaches beyond the window and is not in a box that scrolls: what it is; and the first columns.
LAYOUT = """
  const scrolls = (node) => node && (node.matches(".scroll") || scrolls(node.parentElement));
  const inner = document.documentElement.clientWidth;
  return { scroll: document.documentElement.scrollWidth, inner,
           beyond: [...document.querySelectorAll("main *")].filter((node) => !scrolls(node) && !node.matches(".unseen, .unseen *, .u-over, .u-over *") &&
                   node.getBoundingClientRect().right > inner + 1).map((node) => `${node.tagName}.${node.className}`),
           columns: [...document.querySelectorAll(".scroll tbody th:first-child")].map((head) => [head.textContent, head.getBoundingClientRect().width, head.getClientRects()[0].height]) };
"""


@needs_browser
def test_on_a_phone_nothing_is_wider_than_the_window_and_names_are_not_broken_into_letters(shoal, results, tmp_path):
    shoal.good("report", results / "first", results / "second", "-o", tmp_path / "page.html")
    seen = look(tmp_path / "page.html", tmp_path, LAYOUT, width=360, height=800)
    assert seen["inner"] <= 360 and seen["scroll"] <= seen["inner"] and seen["beyond"] == []
    names = [column for column in seen["columns"] if len(column[0]) > 6]
    assert len(names) >= 10 and all(width >= 80 and height < 120 for _, width, height in names), names


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
    assert [stall["ranks"] for stall in run["time"]["stalls"]] == [24] * 10  # what hits all at once is one stall
    assert len(run["time"]["rank_rates"]) == 24
    if shutil.which("chromium"):
        page, complaints = open_in_browser(tmp_path / "page.html", tmp_path)
        assert complaints == [] and 'data-ready="1"' in page and "Rank 7 delivered" in page


def a_record(start, **more):
    """A second that begins at @start: 400 samples in four steps, of which each waited 10 ms."""
    f = {"duration": 1, "samples": 400, "load": 0.04, "load_max": 0.01, "compute": 0.9, "slow": 0.004, "slow_start": start, **more}
    ns = lambda seconds: round(seconds * 10**9)
    body = pack("<19Q", ns(start), ns(f["duration"]), 0, 4, f["samples"], 10**6, ns(f["load"]), ns(f["load_max"]), ns(f["compute"]), 0,
                10**9, 10**8, 5 * 10**8, 0, 0, 0, ns(f["slow"]), ns(f["slow_start"]), round(start)) + pack("<64I", *[0] * 64) + b"f\0\0\0\0\0\0\0"
    body = pack("<IIII", 1, len(body) + 24, 1, 0) + body
    return body + pack("<Q", XXHASH.XXH3_64bits(body, ctypes.c_size_t(len(body))))


def a_head(rank, ranks):
    head = b"\x89SHSER\r\n" + pack("<IIQQQIIII", 1, 64, 1, 1790000000 * 10**9, 10**9, rank, ranks, 1, 0)
    return head + pack("<Q", XXHASH.XXH3_64bits(head, ctypes.c_size_t(len(head))))


def test_one_stall_on_many_ranks_is_one_row_with_what_the_others_did(shoal, tmp_path):
    (tmp_path / "s").mkdir()
    for rank in range(4):
        out = [a_head(rank, 4)]
        for second in range(60):
            if rank < 3 and 20 <= second < 30:  # three ranks hang from 20.5 to 29.75
                if second == 20:
                    out.append(a_record(20, duration=10, samples=100, load=9.3, load_max=9.1, slow=9.25 - rank / 100, slow_start=20.5))
            else:
                out.append(a_record(second, **({"samples": 100, "load": 0.6} if rank == 3 and 20 <= second < 30 else {}),
                                    **({"slow": 0.2} if second == 40 and rank == 1 else {})))
        (tmp_path / "s" / f"series.{rank}").write_bytes(b"".join(out))
    shoal.good("report", tmp_path / "s", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    worst, second = run["time"]["stalls"][:2]
    assert (worst["rank"], worst["ranks"], worst["ms"], worst["wait_ms"], worst["at_seconds"]) == (0, 3, 9250, 9100, 20.5)
    assert abs(worst["others_per_second"] - 100) < 1 and abs(worst["others_wait_share"] - 0.6) < 0.01 and worst["others_usually"] == 400
    assert (second["rank"], second["ranks"], second["ms"]) == (1, 1, 200) and abs(second["others_per_second"] - 400) < 1
    assert all(stall["ranks"] == 4 for stall in run["time"]["stalls"][2:])
    if shutil.which("chromium"):
        page, _ = open_in_browser(tmp_path / "page.html", tmp_path)
        # 1790000000 is 2026-09-21 14:13:20 UTC.
        for words in ("14:13:40.500", "20.5 s", "0 and 2 others", "9.1 s", "100 samples/s each, 75 % less than usual", "waiting 60 % of the time", "all ranks stalled"):
            assert words in page, words


def test_a_stall_that_joins_two_has_each_rank_once(shoal, tmp_path):
    (tmp_path / "s").mkdir()
    stalls = [[(20.5, 4), (25, 4)], [(20.6, 8.3)]]  # rank 1 hangs all along, rank 0 once in between
    for rank in range(2):
        out = [a_head(rank, 2)]
        for second in range(40):
            out += [a_record(second, **({"slow": next((ns for at, ns in stalls[rank] if int(at) == second), 0)}),
                             slow_start=next((at for at, _ in stalls[rank] if int(at) == second), second))]
        (tmp_path / "s" / f"series.{rank}").write_bytes(b"".join(out))
    shoal.good("report", tmp_path / "s", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert [(stall["rank"], stall["ranks"], stall["ms"]) for stall in run["time"]["stalls"]] == [(1, 2, 8300)]


@pytest.mark.parametrize("slow, cause", [({"compute": 0.95, "load": 0.01}, "its compute took longer"), ({"compute": 0.3, "load": 0.65}, "it waited longer for data")],
                         ids=["by its compute", "by its data"])
def test_the_rank_that_holds_up_the_others_is_named_with_the_cause(shoal, tmp_path, slow, cause):
    """All ranks meet after every step, so their rates are equal: here all of them fall while rank 2 is slow."""
    (tmp_path / "s").mkdir()
    for rank in range(4):
        records = [a_record(second, **({"samples": 200, **(slow if rank == 2 else {"compute": 0.3, "load": 0.01})} if 10 <= second < 16 else {"compute": 0.6, "load": 0.01}))
                   for second in range(30)]
        (tmp_path / "s" / f"series.{rank}").write_bytes(a_head(rank, 4) + b"".join(records))
    shoal.good("report", tmp_path / "s", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    columns, shares = run["time"]["columns"], run["time"]["rank_busy_shares"]
    assert columns["last_rank"][10:16] == [2] * 6 and abs(columns["last_busy_share"][12] - sum(slow.values())) < 0.01
    assert abs(columns["last_wait_share"][12] - slow["load"]) < 0.01 and abs(shares[2][12] - sum(slow.values())) < 0.01 and abs(shares[1][12] - 0.31) < 0.01
    if shutil.which("chromium"):
        words = look(tmp_path / "page.html", tmp_path, "return document.querySelector('main').textContent;")
        held = 6 * (sum(slow.values()) - 0.31)
        seconds, percent = map(float, re.search(rf"the others waited ([\d.]+) s for rank 2, ([\d.]+) % of their time, longest around 10 s, because {cause}", words).groups())
        assert abs(seconds - held) < 0.02 and abs(percent - 100 * held / 30) < 0.1


@needs_browser
def test_a_run_of_three_steps_has_a_page(shoal, tmp_path):
    three = [*SMALL, "dataset.num_files_train=12", "train.epochs=1"]
    shoal.good("run", "retinanet_b200", "--data", "null:size=2000", "--results", tmp_path / "r", "-q", *three, stdout=subprocess.DEVNULL)
    shoal.good("report", tmp_path / "r", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert len(run["steps"]["epochs"][0]["step_seconds"]) == 3
    words = look(tmp_path / "page.html", tmp_path, "return document.querySelector('main').textContent;")
    assert "cannot be drawn" not in words and "AU" in words and "NaN" not in words and "undefined" not in words and "Infinity" not in words


def test_a_thousand_ranks_become_rows_of_neighbours(shoal, tmp_path):
    (tmp_path / "many").mkdir()
    for rank in range(1000):
        a_series(tmp_path / "many" / f"series.{rank}", rank, 1000, 3)
    shoal.good("report", tmp_path / "many", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["time"]["ranks"] == 1000 and len(run["time"]["rank_rates"]) == 64
    assert abs(run["time"]["columns"]["samples_per_second"][1] - 400_000) < 1000


@needs_browser
def test_the_map_of_waits_has_each_epoch_where_the_curves_have_it(shoal, results, tmp_path):
    page = tmp_path / "page.html"
    shoal.good("report", results / "first", "-o", page)
    edges = look(page, tmp_path, """
      const epoch = (epoch, width, nr) => ({ epoch, width, step_seconds: Array(nr).fill(1), wait_mean_ms: Array(nr).fill(1), wait_max_ms: Array(nr).fill(2), worst_rank: Array(nr).fill(0) });
      data.runs[0].steps = { ranks: 2, epochs: [epoch(1, 8, 2), epoch(2, 1, 3)], heat_ms: [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]] };
      render();
      await new Promise((done) => setTimeout(done, 50));
      return plots.filter(({ section }) => section.textContent.includes("Which rank waited")).map(({ plot }) => Array.from(plot.data[0]));""")
    assert edges == [[0, 8, 16, 17, 18, 19]]


@needs_browser
def test_a_live_page_renews_itself_until_the_command_has_gone(shoal, results, tmp_path):
    page = tmp_path / "page.html"
    shoal.good("report", results / "first", "-o", page)
    seen = look(page, tmp_path, """
      const original = document.getElementById("data").textContent, asked = [], seen = {};
      const ended = () => document.querySelectorAll("[role=status].note").length;
      document.querySelectorAll("details[open]").forEach((one) => { one.open = false; });
      window.setTimeout = (then, ms) => asked.push(then === refresh ? ms : 0);
      const times = async (nr) => { for (let i = 0; i < nr; i++) await refresh(); return [asked.splice(0).filter((ms) => ms >= 1000).length, ended()]; };
      window.fetch = async () => new Response("no", { status: 500 });
      seen.once = await times(1);
      window.fetch = async () => { throw new TypeError("refused"); };
      seen.twice = await times(1);
      window.fetch = async () => new Response(original);
      seen.good = await times(1);
      window.fetch = async () => { throw new TypeError("refused"); };
      seen.gone = await times(10);
      window.fetch = async () => new Response(original);
      seen.back = await times(1);
      const link = document.querySelector("nav a");
      link.focus();
      await times(1);
      seen.focus = !link.isConnected && document.activeElement.textContent === link.textContent;
      seen.fetches = document.querySelector("footer").textContent.includes("fetches nothing");
      document.querySelector("h2[tabindex]").focus();
      seen.heading = Boolean(inUse());
      document.querySelector(".plot[tabindex]").focus();
      seen.plot = Boolean(inUse());
      data.live = true;
      render();
      seen.fetchesLive = document.querySelector("footer").textContent.includes("it fetches data.json");
      return seen;""")
    assert seen == {"once": [1, 0], "twice": [1, 0], "good": [1, 0], "gone": [10, 1], "back": [1, 0], "heading": False, "plot": True,
                    "focus": True, "fetches": True, "fetchesLive": True}


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
    fails(shoal("report", tmp_path / "nowhere", "-o", tmp_path / "page.html"), 1, "nowhere' does not exist")
    fails(shoal("report", results / "first", "-o", tmp_path / "no" / "page.html"), 1, "page.html")
    assert not (tmp_path / "page.html").exists()


@needs_browser
def test_on_paper_the_page_is_light_and_its_plots_are_two_beside_each_other(shoal, results, tmp_path):
    shoal.good("report", results / "first", "-o", tmp_path / "page.html")
    seen = look(tmp_path / "page.html", tmp_path, """
      const state = async () => {
        await new Promise((done) => setTimeout(done, 50));
        return { theme: document.documentElement.dataset.theme, canvases: [...document.querySelectorAll("canvas")].map((one) => one.width / devicePixelRatio) };
      };
      const before = await state();
      dispatchEvent(new Event("beforeprint"));
      const during = await state();
      dispatchEvent(new Event("afterprint"));
      return [before, during, await state()];""", more=[DARK])
    before, during, after = seen
    assert during["theme"] == "light" and before.get("theme") is None and after == before
    assert len(during["canvases"]) == len(before["canvases"]) >= 3 and set(during["canvases"]) == {330}


# ---- Results that are not as they should be ----

# Each key of the results' texts by itself becomes something else; the page must stand every time. A linear congruential
# generator, so that it is the same each time.
FUZZ = """
  const original = JSON.parse(document.getElementById("data").textContent), odd = [null, 5, -1e308, "x", "", [], {}, [null], true, undefined];
  let state = 1, failed = [], noted = 0;
  const random = (nr) => (state = (state * 1103515245 + 12345) % 2147483648) % nr;
  const places = (value, found = []) => {
    for (const key of Object.keys(value)) {
      found.push([value, key]);
      if (value[key] && typeof value[key] === "object") places(value[key], found);
    }
    return found;
  };
  const texts = original.runs.flatMap((run, i) => Object.keys(run).filter((key) => /_text$/.test(key) && /^{/.test(run[key] || "")).map((key) => [i, key]));
  for (let n = 0; n < 160; n++) {
    const mutated = structuredClone(original), [i, key] = texts[n % texts.length], value = JSON.parse(mutated.runs[i][key]);
    const all = places(value), [holder, name] = all[random(all.length)], other = odd[random(odd.length)];
    if (other === undefined) delete holder[name];
    else holder[name] = other;
    mutated.runs[i][key] = JSON.stringify(value);
    if (n % 3 === 0) mutated.runs[i][key] = mutated.runs[i][key].slice(0, random(mutated.runs[i][key].length)); // and truncated
    data = n % 4 ? { ...mutated, runs: [mutated.runs[i]] } : mutated;
    try {
      begin();
      document.querySelectorAll("details.all").forEach((one) => { one.open = true; });
      await new Promise((done) => setTimeout(done, 0));
      if (!document.querySelector("h1") || !document.querySelector("footer")) failed.push(`${key} ${name}: no page`);
      noted += page.textContent.includes("cannot be drawn");
    } catch (e) {
      failed.push(`${key} ${name} ${JSON.stringify(other)}: ${e.stack.slice(0, 300)}`);
    }
  }
  return { failed, noted, texts: texts.length };
"""


@pytest.fixture(scope="module")
def all_kinds(results):
    """A folder of each kind of result."""
    folder, run = results, lambda *words: subprocess.run([binary(), *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    run("index", folder / "data", "-o", folder / "all.shoal", "--results", folder / "index", "-q")
    run("read", folder / "all.shoal", "--repeat", 2, "--results", folder / "read", "-q")
    run("sweep", "--vary", "in-flight=1..4", "--vary", "batch=2,4", "--repeat", 2, "--results", folder / "sweep", "-q", "--", "read",
        folder / "all.shoal")
    return [folder / name for name in ("first", "index", "read", "sweep")]


@needs_browser
def test_odd_types_in_a_result_never_break_the_page(shoal, all_kinds, tmp_path):
    shoal.good("report", *all_kinds, "-o", tmp_path / "page.html")
    seen = look(tmp_path / "page.html", tmp_path, FUZZ)
    assert seen["failed"] == [] and seen["texts"] >= 4
    assert seen["noted"] <= 8, seen  # most of it is just left out


@needs_browser
@pytest.mark.parametrize("name, change, words", [
    ("sweep", lambda r: [r.pop(key) for key in ("points", "command", "knees")], "No knee was found within these values"),
    ("first", lambda r: r.update(start=5), "Every sample once"),
    ("first", lambda r: r["metric"].update(train_au_mean_percentage=float("nan")), "values that are no numbers (NaN)"),
    ("first", lambda r: r["metric"].update(train_au_mean_percentage=float("nan")), "This run has no AU, so it neither meets nor misses the bar; it read "),
    ("first", lambda r: r["shoal"].update(version="9.0.0"), "It was written by shoal 9.0.0"),
    ("read", lambda r: r.update(repeats=7, audit="x", settings=None), "after the start"),
    ("index", lambda r: r.update(seconds=0.0004, names_per_second=None), "listed in 400 us"),
], ids=["a sweep without points", "a time that is a number", "not a number", "no AU", "another version", "a read of odd types", "a listing of no time"])
def test_what_is_odd_is_left_out_or_noted_and_the_rest_is_shown(shoal, all_kinds, tmp_path, name, change, words):
    odd = tmp_path / name
    shutil.copytree(all_kinds[0].parent / name, odd)
    [file] = [odd / file for file in ("summary.json", "read.json", "index.json", "sweep.json") if (odd / file).exists()]
    result = json.loads(file.read_text())
    change(result)
    file.write_text(json.dumps(result))
    shoal.good("report", odd, "-o", tmp_path / "page.html")
    page = look(tmp_path / "page.html", tmp_path, "return document.querySelector('main').textContent;")
    assert "cannot be drawn" not in page and "cannot be read by" not in page
    assert words.lower() in page.lower(), page[:3000]


def test_a_page_goes_to_standard_output_only_when_it_is_complete(shoal, results, tmp_path):
    page = shoal.good("report", results / "first", "-o", "-", cwd=tmp_path)
    assert page.startswith(b"<!DOCTYPE html>") and page.rstrip().endswith(b"</html>") and list(tmp_path.iterdir()) == []
    failed = shoal("report", results / "first", tmp_path / "none", "-o", "-")
    assert failed.returncode == 1 and failed.stdout == b"" and b"none' does not exist" in failed.stderr


def test_a_tool_gets_what_each_folder_has(shoal, all_kinds, tmp_path):
    (tmp_path / "killed").mkdir()
    shutil.copy(all_kinds[0] / "begin.json", tmp_path / "killed")
    told = json.loads(shoal.good("report", *all_kinds, tmp_path / "killed", "-o", tmp_path / "page.html", "--json"))
    assert (told["report"], told["runs"], told["written"]) == (str(tmp_path / "page.html"), 5, True)
    assert told["bytes"] == (tmp_path / "page.html").stat().st_size
    run, index, read, sweep, killed = told["results"]
    assert [one["kind"] for one in told["results"]] == ["run", "index", "read", "sweep", None]
    assert [one["folder"] for one in told["results"]][:4] == [str(path) for path in all_kinds]
    assert run["every_sample_once"] and not run["interrupted"] and "was killed" in killed["why"]
    of = lambda one: {figure["figure"]: figure for figure in one["figures"]}
    summary = json.loads((all_kinds[0] / "summary.json").read_text())
    assert abs(of(run)["AU %"]["mean"] - summary["metric"]["train_au_mean_percentage"]) < 1e-3 and of(run)["AU %"]["values"] == 2
    assert of(read)["samples/s"]["values"] == 2 and "names/s" in of(index) and "figures" not in sweep


def test_results_of_many_epochs_are_whole_on_the_page(shoal, results, tmp_path):
    long = tmp_path / "long"
    long.mkdir()
    summary = json.loads((results / "first" / "summary.json").read_text())
    summary["shoal"]["phases"] *= 2000  # 4,000 epochs
    text = json.dumps(summary)
    assert len(text) > 5_000_000
    (long / "summary.json").write_text(text)
    shoal.good("report", long, "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["summary_text"] == text and run["notes"] == []
    with (long / "summary.json").open("ab") as out:
        out.truncate((64 << 20) + 1)  # of no command
    shoal.good("report", long, "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["summary_text"] is None and run["notes"] == ["summary.json has more than 64 MB, and is left out"]


@needs_browser
@pytest.mark.parametrize("name, file", [("first", "summary.json"), ("read", "read.json"), ("index", "index.json")])
def test_a_truncated_result_is_named_as_damaged(shoal, all_kinds, tmp_path, name, file):
    odd = tmp_path / name
    shutil.copytree(all_kinds[0].parent / name, odd)
    (odd / file).write_bytes((odd / file).read_bytes()[:50])
    shoal.good("report", odd, "-o", tmp_path / "page.html")
    page = look(tmp_path / "page.html", tmp_path, "return document.querySelector('main').textContent;")
    assert f"{file} is damaged, and left out" in page, page[:3000]


# ---- Sweeps ----

def a_sweep(folder):
    """Two curves that bend back: with more in flight throughput falls and latency grows."""
    points = []
    for batch, slower in (("8", 1), ("16", 0.8)):
        for in_flight, rate, p50 in ((1, 100, 10), (2, 200, 10), (4, 390, 10.2), (8, 400, 20), (16, 350, 46), (32, 300, 107)):
            spread = lambda v: {"median": v, "lowest": v * 0.9, "highest": v * 1.1, "all": [v]}
            points.append({"values": {"in-flight": str(in_flight), "batch": batch}, "runs": 3, "samples_per_second": spread(rate * slower),
                           "p50_ms": spread(p50), "p99_ms": spread(3 * p50), "cached_percent": spread(90 if in_flight == 1 else 0),
                           "ceiling": 900, "ceilings": [800, 900, 950], "knee": in_flight == 4, "client_bound": "CPU" if in_flight == 32 else None})
    (folder / "sweep.json").write_text(json.dumps({
        "version": "0.1.0", "command": ["read", "x"], "complete": True, "jobs": 72, "jobs_done": 72, "repeats": 3, "cores": 2,
        "parameters": [{"name": "in-flight", "values": ["1", "2", "4", "8", "16", "32"]}, {"name": "batch", "values": ["8", "16"]}],
        "knees": [{"kind": "found", "in-flight": "4", "batch": b, "words": "here"} for b in ("8", "16")], "points": points}))


# What each button of a plot saves.
SAVED = """
  const saved = {};
  HTMLAnchorElement.prototype.click = function () { saved[this.download] = this.href; };
  for (const button of document.querySelectorAll("figure .tools button")) await button.onclick();
  return saved;
"""


@needs_browser
def test_the_curves_of_a_sweep_go_through_their_points_in_the_order_of_the_parameter(shoal, tmp_path):
    (tmp_path / "s").mkdir()
    a_sweep(tmp_path / "s")
    shoal.good("report", tmp_path / "s", "-o", tmp_path / "page.html")
    saved = look(tmp_path / "page.html", tmp_path, SAVED)
    assert sorted(name.split(".")[1] for name in saved) == ["json", "json", "png", "png", "svg", "svg"]
    svg = unquote(saved["latency-against-throughput.svg"])
    paths = [[tuple(map(float, xy.split())) for xy in re.findall(r"[\d.]+ [\d.]+", d)] for d in re.findall(r'<path d="([^"]+)"', svg)]
    assert [len(path) for path in paths if len(path) > 1] == [6] * 4  # p50 and p99 of both
    for path in paths:
        xs = [x for x, _ in path]
        assert xs[:4] == sorted(xs[:4]) and xs[3] > xs[4] > xs[5]  # it turns back, and does not zigzag
        assert [y for _, y in path] == sorted((y for _, y in path), reverse=True)  # latency only grows
    for value in ("1", "2", "4", "8", "16", "32"):
        assert f">{value}</text>" in svg
    assert svg.count("<circle") == 4 * 6 + 4 and svg.count('r="8"') == 4  # a knee and a client-bound point of each
    # A curve has one colour in both plots.
    of = lambda text: dict((name, stroke) for stroke, name in re.findall(r'fill="(#\w+)">(?:p50, )?(batch \d+)<', text))
    assert of(svg) == of(unquote(saved["throughput-by-in-flight.svg"])) and len(set(of(svg).values())) == 2
    page, _ = open_in_browser(tmp_path / "page.html", tmp_path)
    assert "At 2 of 12 points most bytes came from the page cache" in page


@needs_browser
def test_every_plot_is_saved_as_png_svg_and_json(shoal, results, tmp_path):
    shoal.good("report", results / "first", "-o", tmp_path / "page.html")
    saved = look(tmp_path / "page.html", tmp_path, SAVED)
    titles = {name.rsplit(".", 1)[0] for name in saved}
    assert "where-the-time-went" in titles and len(saved) == 3 * len(titles) >= 12
    for name, address in saved.items():
        if name.endswith(".svg"):
            ElementTree.fromstring(unquote(address.split(",", 1)[1]))
        elif name.endswith(".json"):
            assert json.loads(unquote(address.split(",", 1)[1]))["columns"]
        else:
            assert base64.b64decode(address.split(",", 1)[1])[1:4] == b"PNG"


def test_what_ended_within_a_fraction_of_its_interval_has_rates(shoal, tmp_path):
    """Steps are recorded up to 2 s, and the seconds, which the crash has cut, for a tenth of that."""
    (tmp_path / "cut").mkdir()
    summed = lambda body: body + pack("<Q", XXHASH.XXH3_64bits(body, ctypes.c_size_t(len(body))))
    head = summed(b"\x89SHSER\r\n" + pack("<IIQQQIIII", 1, 64, 1, 1790000000 * 10**9, 10**9, 0, 1, 1, 0))
    steps = summed(pack("<IIII9Q", 2, 16 + 72 + 8, 1, 0, 0, 2 * 10**9, 0, 4, 16, 16000, 10**6, 10**6, 10**9))
    second = pack("<19Q", 0, 2 * 10**8, 0, 4, 16, 16000, 10**6, 10**6, 10**8, *[0] * 10) + pack("<64I", *[0] * 64) + b"\0" * 8
    (tmp_path / "cut" / "series.0").write_bytes(head + steps + summed(pack("<IIII", 1, len(second) + 24, 1, 0) + second))
    shoal.good("report", tmp_path / "cut", "-o", tmp_path / "page.html")
    [run] = data_of(tmp_path / "page.html")
    assert run["notes"] == [] and run["time"]["columns"]["samples_per_second"][0] == 80

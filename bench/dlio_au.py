"""The utilisation and the samples per second of DLIO and of Shoal on the same files: a part of bench/dlio.py.

Four sets that are like MLPerf's workloads, in their formats and with their readers, and small. Each is run with a compute time
that leaves the processors and the disk time to spare, where both should report the same utilisation; and on a device that is
throttled to less than the accelerators ask for, where both should report the same samples per second. A further set is read from
a device that serves a number of reads per second, as a network file system does: there it counts how many reads a tool makes of the
same bytes. The tools take turns; with --at-once N, so many sets are measured side by side, which a machine allows that has time to
spare: the steps are mostly a simulated computation, and each set has a control group of its own.

A device is throttled by a control group (blkio of version 1, io of version 2), which only root can make; the page cache is told to
forget the files first. DLIO is PyPI's, or with SHOAL_DLIO_MLCOMMONS the checkout of MLCommons' that it names."""

import collections
import concurrent.futures
import glob
import json
import os
import shutil
import statistics
import threading

from common import M, Failed, number, run, run_measured, say, table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 900  # seconds of a run
AU_POINTS, RATE_PERCENT = 2.0, 3.0  # by which the two may differ
RANKS = 1  # of several, MLCommons' DLIO with TensorFlow divides each one's share of the files once more among all

# name, MLPerf's workload, keys of the files, batch, steps and seconds of a step where compute is the limit; the same where the device is,
# and its bytes per second.
Set = collections.namedtuple("Set", "name workload files batch steps compute slow_steps slow_compute slow_rate more", defaults=[{}])
SETS = [
    Set("retinanet", "retinanet_b200", {"record_length_bytes": 322957, "num_samples_per_file": 1}, 8, 60, 1.0, 440, 0.05, 25 * M),
    Set("unet3d", "unet3d_b200", {"record_length_bytes": 8 * M, "num_samples_per_file": 1}, 1, 60, 1.0, 140, 0.16, 25 * M),
    Set("resnet50", "resnet50_h100", {"record_length_bytes": 11466, "num_samples_per_file": 1251}, 200, 60, 1.0, 800, 0.04, 25 * M),
    # DLIO has read about 10 of these samples before the first step that counts: in 200 steps that is 5 % of them.
    Set("cosmoflow", "cosmoflow_h100", {"record_length_bytes": 2828486, "num_samples_per_file": 1}, 1, 120, 0.5, 800, 0.05, 25 * M),
]
# The same, of which slow_rate is reads per second.
FEW_READS = [
    Set("resnet50", "resnet50_h100", {"record_length_bytes": 11466, "num_samples_per_file": 1251}, 50, 0, 0, 500, 0.05, 250,
        {"reader.file_shuffle": "seed", "reader.sample_shuffle": "seed", "reader.shuffle_size": 2}),
]


class Throttle:
    """A control group that may read so many bytes per second, or with @reads make so many reads, from the device of a folder."""

    def __init__(self, folder, rate, reads=False):
        self.device, self.rate = whole_device(os.stat(folder).st_dev), rate
        second = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        self.path = os.path.join("/sys/fs/cgroup", "" if second else "blkio", "shoal-bench-%d-%d" % (os.getpid(), threading.get_ident()))
        unit = "iops" if reads else "bps"
        self.limit = ("io.max", "%s r" + unit + "=%d") if second else ("blkio.throttle.read_%s_device" % unit, "%s %d")

    def __enter__(self):
        try:
            os.mkdir(self.path)
            with open(os.path.join(self.path, self.limit[0]), "w", encoding="ascii") as file:
                file.write(self.limit[1] % (self.device, self.rate))
        except OSError as e:
            self.__exit__()
            raise Failed("a device cannot be throttled here: %s" % e) from None
        return self

    def __exit__(self, *_):
        if os.path.isdir(self.path):
            os.rmdir(self.path)

    def command(self, argv):
        """One that joins the group, and then is argv."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(self.path, "cgroup.procs"), *argv]


def whole_device(number_of):
    """MAJOR:MINOR of the disk that has a partition, or of what is no partition."""
    here = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(number_of), os.minor(number_of)))
    if os.path.exists(os.path.join(here, "partition")):
        here = os.path.dirname(here)
    try:
        with open(os.path.join(here, "dev"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        raise Failed("'%s' is on no device that can be throttled" % here) from None


def forget(folder):
    """Have the page cache forget the files of a folder, without being root."""
    os.sync()
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def over_the_steps(path, batch):
    """(AU, samples per second) of all steps but the first, without what lies before, behind and between them."""
    with open(path, encoding="utf-8") as file:
        epoch = json.load(file)["1"]
    compute, took = (sum(epoch[key]["block1"][1:]) for key in ("compute", "proc"))
    return 100 * compute / took, (len(epoch["proc"]["block1"]) - 1) * batch / took


class Utilisation:
    """bench is that of bench/dlio.py: it has the programs, the environment and a folder."""

    def __init__(self, bench):
        self.bench, self.args, self.results = bench, bench.args, bench.results

    def keys(self, one, steps, compute):
        files = -(-steps * one.batch * RANKS // one.files["num_samples_per_file"])
        keys = {"dataset." + key: value for key, value in one.files.items()}
        keys.update({"dataset.num_files_train": files, "dataset.record_length_bytes_stdev": 0, "reader.batch_size": one.batch,
                     "reader.read_threads": self.args.threads, "train.epochs": 1, "train.computation_time": compute, "metric.au": 0, **one.more})
        return keys

    def data(self, one, keys, limit):
        folder = os.path.join(self.bench.work, "au-%s-%s" % (one.name, limit))
        say("making %d files of %s" % (keys["dataset.num_files_train"], one.name))
        run([self.bench.shoal, "datagen", self.bench.workload_file(one.workload), "--data", folder, "-q",
             *("%s=%s" % item for item in keys.items() if item[0].startswith("dataset."))])
        os.makedirs(os.path.join(folder, "valid"), exist_ok=True)  # DLIO wants to list it, also when it is not used
        return folder

    def command(self, tool, one, keys, folder, results):
        if tool == "Shoal":
            return [self.bench.shoal, "run", self.bench.workload_file(one.workload), "--data", folder, "--results", results, "-q",
                    *("%s=%s" % item for item in keys.items())]
        keys = dict(keys, **{"dataset.data_folder": folder, "workflow.generate_data": False, "workflow.train": True, "workflow.checkpoint": False,
                             "reader.multiprocessing_context": "fork", "output.folder": results})
        return [*self.bench.dlio_command, "--config-dir=" + os.path.join(self.bench.work, "conf"), "workload=" + one.workload,
                "hydra.run.dir=" + results, *("++workload.%s=%s" % item for item in keys.items())]

    def measure(self, tool, one, keys, folder, throttle):
        """(AU, samples per second, seconds of CPU, and the first two over the steps alone)"""
        results = folder + "-results"
        command = ["mpirun", "-n", str(RANKS), "--bind-to", "none", *self.command(tool, one, keys, folder, results)]
        if throttle:
            forget(folder)
        try:
            used = run_measured(throttle.command(command) if throttle else command, env=self.bench.env, limit=LIMIT)
            found = glob.glob(os.path.join(results, "**", "summary.json"), recursive=True)
            if not found:
                raise Failed("%s wrote no summary.json" % tool)
            with open(found[0], encoding="utf-8") as file:
                metric = json.load(file)["metric"]
            steps = over_the_steps(os.path.join(os.path.dirname(found[0]), "0_output.json"), one.batch)
        finally:
            shutil.rmtree(results, ignore_errors=True)
        return metric["train_au_mean_percentage"], metric["train_throughput_mean_samples_per_second"], used.cpu, *steps

    def compare(self, one, keys, limit, throttle):
        """The figures of each tool; they take turns."""
        folder, found = self.data(one, keys, limit), {"DLIO": [], "Shoal": []}
        try:
            for turn in range(self.args.runs):
                for tool, figures in found.items():
                    say("%s, %s, run %d of %d" % (one.name, tool, turn + 1, self.args.runs))
                    figures.append(self.measure(tool, one, keys, folder, throttle))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return found

    def row(self, one, limit, found):
        """One of the table; and the verdict, by the means over the steps: DLIO's own figures have its start and its end in them."""
        mean = {tool: [statistics.mean(column) for column in zip(*figures)] for tool, figures in found.items()}
        nr = len(found["DLIO"])
        if limit == "compute":
            differ = abs(mean["Shoal"][3] - mean["DLIO"][3])
            verdict = self.results.judge("dlio", one.name + ", AU of both where compute is the limit", nr, differ, "points apart", AU_POINTS)
        elif one in FEW_READS:
            differ = mean["DLIO"][3] - mean["Shoal"][3]
            verdict = self.results.judge("dlio", one.name + ", AU below DLIO's with few reads per second", nr, differ, "points", AU_POINTS)
        else:
            differ = abs(mean["Shoal"][4] / mean["DLIO"][4] - 1) * 100
            verdict = self.results.judge("dlio", one.name + ", samples/s of both where the device is", nr, differ, "% apart", RATE_PERCENT)
        return [one.name, limit, *(spread(found[tool], column) for column in (0, 4 if limit.endswith("MB/s") else 3) for tool in ("DLIO", "Shoal")), differ, verdict,
                *(mean[tool][2] for tool in ("DLIO", "Shoal"))]

    def one_set(self, limit, one):
        """(what limits it, in words, and the figures of each tool)"""
        steps, compute = (one.steps, one.compute) if limit == "compute" else (one.slow_steps, one.slow_compute)
        keys = self.keys(one, steps, compute)
        words = {"compute": "compute", "device": "%d MB/s" % (one.slow_rate // M), "reads": "%d reads/s" % one.slow_rate}[limit]
        if limit == "compute":
            return words, self.compare(one, keys, limit, None)
        with Throttle(self.bench.work, one.slow_rate, limit == "reads") as throttle:
            return words, self.compare(one, keys, limit, throttle)

    def run(self, limits):
        load = os.getloadavg()[0]
        todo = [(limit, one) for limit in limits for one in (FEW_READS if limit == "reads" else SETS)
                if not self.args.sets or one.name in self.args.sets]
        with concurrent.futures.ThreadPoolExecutor(self.args.at_once) as pool:
            done = [(one, pool.submit(self.one_set, limit, one)) for limit, one in todo]
            try:
                rows = [self.row(one, *later.result()) for one, later in done]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        table("DLIO (%s) and Shoal on the same files, %d rank x %d readers, %d runs each by turns, %d sets at once: mean [least..most]"
              % (self.bench.dlio_name, RANKS, self.args.threads, self.args.runs, self.args.at_once),
              ["set", "limit", "AU % DLIO", "Shoal", "steps alone DLIO", "Shoal", "apart", "verdict", "CPU s DLIO", "Shoal"], rows,
              ["steps alone: AU, or samples/s where the bytes of the device are the limit, without the time that is in no step;",
               "apart: points of AU, and per cent of samples/s, of the steps alone; of reads, how far Shoal is below DLIO",
               "load average %.1f before, %.1f after" % (load, os.getloadavg()[0])])


def spread(figures, column):
    values = [figure[column] for figure in figures]
    return "%s [%s..%s]" % tuple(number(value) for value in (statistics.mean(values), min(values), max(values)))

#!/usr/bin/env python3
"""What a tool for DLIO's results makes of a folder: it knows DLIO's files and fields, and nothing of Shoal's.

    read_dlio_summary.py FOLDER

Checks that the fields are there with the types they have in DLIO, works the figures out again from the files of the
ranks, and prints them as JSON.
"""

import datetime
import json
import pathlib
import statistics
import sys

TOP = {
    "start": str, "end": str, "num_accelerators": int, "num_hosts": int, "hostname": str, "epochs": int,
    "num_files_train": int, "num_files_eval": int, "num_samples_per_file": int, "host_cpu_count": list,
    "host_processor_name": str, "host_cpuinfo": dict, "host_meminfo": dict, "host_memory_GB": list,
    "data_size_per_host_GB": float, "potential_caching": list, "metric": dict,
}

METRIC = {
    "au_percentage": list, "au_mean_percentage": float, "au_stdev_percentage": float, "au_meet_expectation": str,
    "throughput_samples_per_second": list, "throughput_mean_samples_per_second": float,
    "throughput_stdev_samples_per_second": float, "io_mean_MB_per_second": float, "io_stdev_MB_per_second": float,
}


def check(fields, values, prefix=""):
    for name, kind in fields.items():
        value = values[prefix + name]
        assert isinstance(value, kind), (prefix + name, value)


def moment(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f")


def utilisation(of, stats, block):
    """As DLIO works it out, from times: of all steps but the first, in the block's time without that one."""
    wall = (moment(stats["end"]) - moment(stats["start"])).total_seconds()
    return 100 * sum(of["compute"][block][1:]) / (wall - of["load"][block][0] - of["compute"][block][0])


def main(folder):
    top = json.loads((folder / "summary.json").read_text())
    check(TOP, top)
    metric = top["metric"]
    check(METRIC, metric, "train_")
    assert metric["train_au_meet_expectation"] in ("success", "fail")
    assert moment(top["start"]) <= moment(top["end"])
    au, rate = [], []
    for epoch in range(1, top["epochs"] + 1):
        ranks_au, ranks_rate = [], []
        for rank in range(top["num_accelerators"]):
            output = json.loads((folder / f"{rank}_output.json").read_text())
            stats = json.loads((folder / f"{rank}_per_epoch_stats.json").read_text())
            assert moment(stats[str(epoch)]["start"]) <= moment(stats[str(epoch)]["end"])
            float(stats[str(epoch)]["duration"])
            of = output[str(epoch)]
            steps = {block: len(times) for block, times in of["load"].items() if block.startswith("block")}
            for block in steps:
                proc = [load + compute for load, compute in zip(of["load"][block], of["compute"][block])]
                assert all(abs(a - b) < 1e-6 for a, b in zip(proc, of["proc"][block]))
                moment(stats[str(epoch)][block]["end"])
            # The first step of a block is outside what is measured: a block of one has no figures.
            steps = {block: nr - 1 for block, nr in steps.items()}
            total = sum(steps.values())
            for block in steps:
                again = utilisation(of, stats[str(epoch)][block], block)
                assert abs(again - of["au"][block]) <= 1e-3 * again, (again, of["au"][block])
            ranks_au.append(sum(of["au"][block] * nr for block, nr in steps.items()) / total)
            ranks_rate.append(sum(of["throughput"][block] * nr for block, nr in steps.items()) / total)
        au.append(sum(ranks_au) / len(ranks_au))
        rate.append(sum(ranks_rate))
    for mine, theirs in zip(au + rate,
                            metric["train_au_percentage"] + metric["train_throughput_samples_per_second"]):
        assert abs(mine - theirs) <= 1e-6 * abs(theirs), (mine, theirs)
    print(json.dumps({"accelerators": top["num_accelerators"], "au": statistics.mean(au),
                      "au_stdev": statistics.pstdev(au), "samples_per_second": statistics.mean(rate)}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

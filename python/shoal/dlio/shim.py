"""A `dlio_benchmark` that Shoal serves: `python -m shoal.dlio.shim install DIR` writes that command into DIR.

It takes what DLIO's takes, so that mlpstorage and scripts for DLIO start it unchanged, and runs `shoal datagen` and `shoal run`
with the workload that the arguments make. The results are in the places where DLIO has them: config.yaml, hydra.yaml and
overrides.yaml in .hydra or hydra.output_subdir, dlio.log, summary.json and the files of each rank. It exits with 0 where DLIO
does, also when the accelerators were too idle.

What it cannot do it refuses, with the key's name and exit status 2, before anything is written.
"""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from datetime import datetime

from .._errors import BadValueError, Error
from .._store import bucket_uri, parse_uri
from .hydra_args import Arguments, refuse, without_references, workload_of

_RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")

# Variables that name files. Shoal runs in the folder of its workload file, so that messages have that file's name alone.
_FILES = ("AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "CURL_CA_BUNDLE",
          "GOOGLE_APPLICATION_CREDENTIALS", "SSL_CERT_FILE")

# storage_options that say how DLIO reads, which Shoal does in its own way.
_OPTIONS_IGNORED = ("storage_library", "uri_scheme", "prefetch_window", "prefetch_workers", "stagger_workers", "s3_max_attempts")


def _number(names, default):
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), default)


def rank():
    return _number(_RANK, 0)


def nr_ranks():
    return _number(_SIZE, 1)


_noted = None  # where install found shoal


def _shoal():
    """The command: $SHOAL, where it was when this was installed, beside this Python, or in PATH."""
    noted = _noted if _noted and os.access(_noted, os.X_OK) else None
    given = os.environ.get("SHOAL") or noted or shutil.which("shoal", path=os.path.dirname(sys.executable)) or shutil.which("shoal")
    found = shutil.which(given) if given else None
    return os.path.abspath(found) if found else refuse(given or "shoal", "there is no such command: install it, or name it in SHOAL")


def _shipped(name):
    """A workload that comes with Shoal, with all defaults filled in."""
    import yaml

    done = subprocess.run([_shoal(), "workloads", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        refuse("workload=" + name, "there is no such file in workload/ of --config-dir, and none of that name comes with Shoal")
    return yaml.safe_load(done.stdout)


# ---- What is asked for


def _flag(section, path, default=False):
    value = (section or {}).get(path.split(".")[-1], default)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        value = value.strip().lower() == "true"
    if not isinstance(value, bool):
        refuse("workload." + path, "must be True or False, not %r" % (value,))
    return value


class Plan:
    """What is to be done with a workload: which commands, where the data is, where results go."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.asked = workload_of(arguments, _shipped)  # references are in it as they were given
        self.workload, self.hydra = without_references(self.asked, **arguments.hydra)
        self.options, self.environment = [], {}
        self._read_workflow()
        self._read_storage()
        self._read_places()
        _shoal()  # refused before anything is written

    def _section(self, name):
        section = self.workload.get(name)
        if section is not None and not isinstance(section, dict) and name != "model":
            refuse("workload." + name, "must be a section, not %r" % (section,))
        return section if isinstance(section, dict) else {}

    def _read_workflow(self):
        workflow = self._section("workflow")
        self.generate, self.train = _flag(workflow, "workflow.generate_data"), _flag(workflow, "workflow.train", True)
        for key, words in (("checkpoint", "writes no checkpoints"), ("profiling", "has no profilers")):
            if _flag(workflow, "workflow." + key):
                refuse("workload.workflow." + key, "Shoal %s: set it to False" % words)
        if not self.generate and not self.train:
            refuse("workload.workflow", "neither generate_data nor train is True: there is nothing to do")
        for key in ("reader_classname", "data_loader_classname"):
            if (self.workload.get("reader") or {}).get(key):
                refuse("workload.reader." + key, "Shoal reads by itself, and loads no class of DLIO's")

    def _read_storage(self):
        storage, dataset = self._section("storage"), self._section("dataset")
        kind, root = str(storage.get("storage_type", "local_fs")), str(storage.get("storage_root") or "./")
        folder = str(dataset.get("data_folder", "./data/"))
        # s3dlio reads a file system through DLIO's storage type s3, if its options say so.
        scheme = (storage.get("storage_options") or {}).get("uri_scheme")
        if kind == "s3" and scheme in ("file", "direct"):
            kind = "local_fs" if scheme == "file" else "direct_fs"
        known = ("storage_type", "storage_root", "storage_options", "storage_library", "s3_force_path_style", "post_generation_settle_seconds")
        for key in storage:
            if key not in known:
                refuse("workload.storage." + key, "Shoal has no such key")
        if kind in ("local_fs", "direct_fs"):
            self.data = os.path.join(root, folder)
            self.options += ["--direct"] if kind == "direct_fs" else []
        elif kind == "s3":
            self.data = folder if parse_uri(folder).local is None else bucket_uri(root.strip("/"), folder.strip("/"))
            self._read_s3(storage)
        else:
            refuse("workload.storage.storage_type", "Shoal reads local_fs, direct_fs and s3, not %s" % kind)

    def _read_s3(self, storage):
        options = dict(storage.get("storage_options") or {})
        for key, option in (("endpoint_url", "--endpoint"), ("region", "--region")):
            if options.get(key):
                self.options += [option, str(options[key])]
        for key, variable in (("access_key_id", "AWS_ACCESS_KEY_ID"), ("secret_access_key", "AWS_SECRET_ACCESS_KEY")):
            if options.get(key):
                self.environment[variable] = str(options[key])
        style = str(options.get("s3_force_path_style", storage.get("s3_force_path_style", ""))).lower()
        if style in ("true", "false"):
            self.options += ["--bucket-style", "path" if style == "true" else "virtual"]
        for key in options:
            if key not in ("endpoint_url", "region", "access_key_id", "secret_access_key", "s3_force_path_style", *_OPTIONS_IGNORED):
                refuse("workload.storage.storage_options." + key, "Shoal has no such option")

    def _read_places(self):
        output = self._section("output")
        given = self.hydra.get("hydra.run.dir") or output.get("folder")
        model = self.workload.get("model")
        model = (model or {}).get("name", "default") if isinstance(model, dict) else model
        if nr_ranks() > 1 and (not given or "${now:" in str(self.arguments.hydra.get("hydra.run.dir"))):
            refuse("hydra.run.dir", "must be given for %d ranks, which cannot agree on a name that has the time in it" % nr_ranks())
        self.run_dir = str(given or os.path.join("hydra_log", str(model), time.strftime("%Y-%m-%d-%H-%M-%S")))
        self.results = str(output.get("folder") or self.run_dir)
        self.log_file = os.path.join(self.results, str(output.get("log_file") or "dlio.log"))
        subdir = self.hydra.get("hydra.output_subdir", ".hydra")
        self.config_dir = os.path.join(self.run_dir, str(subdir)) if subdir else None

    def for_shoal(self):
        """The workload without what the command line says."""
        kept = {key: value for key, value in self.workload.items() if key not in ("storage", "profiling")}
        if not isinstance(kept.get("model", {}), dict):
            kept["model"] = {"name": str(kept["model"])}
        for section, keys in (("workflow", ("profiling", "query")), ("output", ("folder", "log_file")), ("dataset", ("data_folder",))):
            if isinstance(kept.get(section), dict):
                kept[section] = {key: value for key, value in kept[section].items() if key not in keys}
        return kept


    def changes(self):
        """Overrides once more as KEY=VALUE: in a file Shoal only warns of a key that it does not know, and here it refuses."""
        kept, found = self.for_shoal(), []
        for _, key, _ in self.arguments.overrides:
            value = kept
            for part in key.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if isinstance(value, (bool, int, float, str)):
                found.append("%s=%s" % (key, str(value).lower() if isinstance(value, bool) else value))
        return list(dict.fromkeys(found))


# ---- What DLIO and Hydra would have written


def _dump(path, value):
    import yaml

    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(value, file, sort_keys=False)


def write_config(plan):
    """The three files of Hydra's. The workload is as it was asked for."""
    if not plan.config_dir:
        return
    os.makedirs(plan.config_dir, exist_ok=True)
    arguments = plan.arguments
    task = [text for text in arguments.texts if not text.lstrip("+~").startswith("hydra.")]
    _dump(os.path.join(plan.config_dir, "config.yaml"), {"workload": plan.asked})
    _dump(os.path.join(plan.config_dir, "overrides.yaml"), task)
    _dump(os.path.join(plan.config_dir, "hydra.yaml"), {"hydra": {
        "run": {"dir": plan.run_dir}, "output_subdir": os.path.basename(plan.config_dir), "mode": "RUN",
        "overrides": {"hydra": [text for text in arguments.texts if text not in task], "task": task},
        "job": {"name": "dlio_benchmark", "config_name": arguments.config_name},
        "runtime": {"cwd": os.getcwd(), "choices": {"workload": arguments.workload}, "output_dir": os.path.abspath(plan.run_dir),
                    "config_sources": [{"path": os.path.abspath(arguments.config_dir or "."), "provider": "command-line"}]}}})


class Log:
    """Lines as DLIO prints them, in dlio.log as well."""

    def __init__(self, path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._file = open(path, "w", encoding="utf-8")

    def line(self, text, kind="OUTPUT"):
        for file in (self._file, sys.stdout):
            print("[%s] %s" % (kind, text), file=file, flush=True)

    def timed(self, text, when=None):
        self.line("%s %s" % (when or datetime.now().strftime("%Y-%m-%dT%H:%M:%S.%f"), text))

    def close(self):
        self._file.close()


class Epochs:
    """DLIO's lines where an epoch begins and ends, from the progress that `shoal run` prints as JSON."""

    def __init__(self, log):
        self._log, self._began = log, 0.0

    def show(self, now):
        if now["ended"] and now["step"] == now["steps"]:
            self._end(now, "%d steps completed in %.2f s" % (now["steps"], time.monotonic() - self._began))
        elif now["step"] == 0 and not now["ended"]:
            self._begin(now)

    def _begin(self, now):
        self._began = time.monotonic()
        if now["evaluation"]:
            self._log.timed("Starting eval - %d steps expected" % now["steps"])
            return
        self._log.timed("Starting epoch %d: %d steps expected" % (now["epoch"], now["steps"]))
        self._log.timed("Starting block 1")

    def _end(self, now, done):
        self._log.timed("Ending %s - %s" % ("eval" if now["evaluation"] else "block 1", done))
        which = "Epoch %d [Eval]" % now["epoch"] if now["evaluation"] else "Epoch %d - Block 1 [Training]" % now["epoch"]
        # As DLIO has it where no step counts.
        self._log.timed("%s Accelerator Utilization [AU] (%%): %.4f" % (which, now["au"] or 0))
        self._log.timed("%s Throughput (samples/second): %.4f" % (which, now["samples_per_second"]))
        if not now["evaluation"]:
            self._log.timed("Ending epoch %d - %s" % (now["epoch"], done))


def _read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _mount(path, mounts):
    """The file system that holds a path: the longest mount point that is a part of it."""
    real = os.path.realpath(path)
    return max((row for row in mounts if real == row[1] or real.startswith(row[1].rstrip("/") + "/")), key=lambda row: len(row[1]), default=None)


def print_df(plan):
    """The file systems of data and results as `df` prints them: mlpstorage's checker looks for that in the log of a run."""
    if parse_uri(plan.data).local is None:
        return
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split()[:2] for line in file]
    print("Filesystem     1K-blocks      Used Available Use% Mounted on")
    for device, where in {tuple(row) for row in (_mount(path, mounts) for path in (plan.results, plan.data)) if row}:
        facts = os.statvfs(where)
        size, free, rest = (blocks * facts.f_frsize // 1024 for blocks in (facts.f_blocks, facts.f_bfree, facts.f_bavail))
        print("%-14s %9d %9d %9d %3d%% %s" % (device, size, size - free, rest, 100 * (size - free) // max(size - free + rest, 1), where))
    print(flush=True)


def report(plan, log):
    """The metrics of a run, in DLIO's form. False: there is no whole result."""
    summary = _read_json(os.path.join(plan.results, "summary.json"))
    metric = (summary or {}).get("metric") or {}
    if not metric.get("train_au_percentage"):
        return False
    log.line("==========================================================", "METRIC")
    log.line("Number of Simulated Accelerators: %s" % summary["num_accelerators"], "METRIC")
    for words, name in (("Accelerator Utilization [AU] (%)", "au_%s_percentage"), ("Throughput (samples/second)", "throughput_%s_samples_per_second"),
                        ("I/O Throughput (MB/second)", "io_%s_MB_per_second")):
        values = [metric.get("train_" + name % which) for which in ("mean", "stdev")]
        if None not in values:
            log.line("Training %s: %.4f (%.4f)" % (words, *values), "METRIC")
    log.line("train_au_meet_expectation: %s" % metric.get("train_au_meet_expectation"), "METRIC")
    log.line("==========================================================", "METRIC")
    log.timed("outputs saved in RANKID_output.json")
    return len(metric["train_au_percentage"]) == int((plan.workload.get("train") or {}).get("epochs", 1))


# ---- To run


def _commands(plan, path):
    """What to start, for which part."""
    own = [option for option in plan.options if option != "--direct"]
    data, results = plan.data if parse_uri(plan.data).local is None else os.path.abspath(plan.data), os.path.abspath(plan.results)
    if plan.generate and not (_alone(plan) and rank()):
        yield "Generating data", [_shoal(), "datagen", path, "--data", data, "--no-catalog", *own, *plan.changes()]
    if plan.train:
        drop = ["--drop-cache"] if _drops(plan) and parse_uri(plan.data).local is not None else []
        yield "Training", [_shoal(), "run", path, "--data", data, "--results", results, *plan.options, *drop, *plan.changes()]


def _drops(plan):
    """Whether the page cache is dropped before each epoch, as DLIO 3 does. mlpstorage starts that one with skip_listing."""
    return "DLIO_DROP_CACHES_TIMEOUT" in os.environ or _flag(plan.workload.get("dataset"), "dataset.skip_listing")


def _alone(plan):
    """Whether rank 0 generates by itself: MPI starts once in a job. The others wait for it where their training starts MPI."""
    return plan.generate and plan.train and nr_ranks() > 1


# What Shoal prints as JSON beside its progress, and the words for people.
_SAID = {"message": "shoal %(command)s: %(message)s\n", "warning": "%(command)s: warning: %(warning)s\n", "note": "%(command)s: %(note)s\n"}


def _document_in(line):
    """The progress, message, warning or note that a line is, or None."""
    try:
        found = json.loads(line) if line.startswith(tuple(b'{"%s": ' % kind.encode() for kind in ("progress", *_SAID))) else None
    except ValueError:
        return None
    return found


def _words_of(line, document):
    """What a person is shown of a line that is no progress."""
    kind = next((kind for kind in _SAID if kind in (document or ())), None)
    return os.fsencode(_SAID[kind] % document) if kind else line


def _run_child(command, folder, environment, show=None):
    """Run a command to its end in a folder, and pass the signals on that end a job; its status. show() gets each progress of a run."""
    # Descriptors are not closed: by one of them a rank of MPICH talks to its launcher.
    child = subprocess.Popen(command + (["--progress", "json"] if show else []), cwd=folder, env=environment, close_fds=False,
                             stderr=subprocess.PIPE if show else None)
    before = {number: signal.signal(number, lambda number, _: child.send_signal(number)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for line in child.stderr or ():
            now = _document_in(line)
            if now is None or "progress" not in now:
                sys.stderr.buffer.write(_words_of(line, now))
                sys.stderr.flush()
            elif now["progress"] == "run" and "step" in now:
                show(now)
        return child.wait()
    except BaseException:  # dlio.log or the output cannot be written: nothing goes on unseen
        child.terminate()
        child.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(plan, log, folder, name):
    """Run the commands in turn, of the workload file of this name in a folder. The status of this command."""
    for what, command in _commands(plan, name):
        if log:
            log.timed("Running DLIO [%s] with %d process(es)" % (what, nr_ranks()))
            log.timed("served by Shoal: %s" % " ".join(command))
            if what == "Training":
                print_df(plan)
        environment = {**os.environ, **{key: os.path.abspath(os.environ[key]) for key in _FILES if os.environ.get(key)}, **plan.environment}
        if what == "Generating data" and _alone(plan):
            environment["SHOAL_MPI"] = "none"
        status = _run_child(command, folder, environment, Epochs(log).show if log and what == "Training" else None)
        if what == "Generating data" and not status and log:
            log.timed("Generation done")
        if what == "Training" and status in (0, 1):
            # Below the bar Shoal exits with 1 and DLIO with 0. Rank 0 tells that from a failure, which is one of all ranks.
            status = 0 if not log or report(plan, log) else 1
        if status:
            return status if status > 0 else 128 - status
    return 0


def run(argv):
    """dlio_benchmark ARGV..."""
    plan = Plan(Arguments(argv))
    if plan.arguments.show:
        import yaml

        if rank() == 0:
            print(yaml.safe_dump({"workload": plan.asked}, sort_keys=False), end="")
        return 0
    if plan.train and os.path.exists(os.path.join(plan.results, "summary.json")):
        # A run that then fails must not be reported by the summary of the one before.
        refuse("hydra.run.dir", "'%s' has the results of another run: choose another folder" % plan.results)
    log = None
    if rank() == 0:
        write_config(plan)
        log = Log(plan.log_file)
    with tempfile.TemporaryDirectory() as folder:
        name = plan.arguments.workload.replace("/", "_").replace(".yaml", "") + ".yaml"
        _dump(os.path.join(folder, name), plan.for_shoal())
        try:
            return _start(plan, log, folder, name)
        finally:
            if log:
                log.close()


def install(folder):
    """Write the command `dlio_benchmark` into a folder. It notes where shoal is: mpirun passes no PATH on to other hosts."""
    path = os.path.join(folder, "dlio_benchmark")
    if os.path.lexists(path):
        with open(path, "rb") as file:
            if b"shoal.dlio.shim" not in file.read(4096):
                raise BadValueError(22, "'%s' is there, and is not Shoal's: choose another folder, and put it first in PATH" % path)
    os.makedirs(folder, exist_ok=True)
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    program = _shoal()
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!%s\n# Shoal's dlio_benchmark (docs/dlio.md), written by python -m shoal.dlio.shim install.\nimport sys\n\n"
                   "sys.path.append(%r)\nfrom shoal.dlio.shim import main\n\nsys.exit(main(sys.argv[1:], %r))\n"
                   % (sys.executable, package, program))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def _say(words):
    """Once per host: what is missing may be missing on one of them."""
    if _number(_LOCAL, rank()) == 0:
        words = "dlio_benchmark (Shoal): %s%s" % ("" if rank() == 0 else "host %s: " % socket.gethostname(), words)
        print("".join(c if c.isprintable() else repr(c)[1:-1] for c in words), file=sys.stderr)


def main(argv, program=None):
    global _noted
    _noted = program
    try:
        return run(argv)
    except Error as e:
        _say(e)
        return 2
    except RecursionError:
        _say("the arguments are nested too deeply")
        return 2
    except OSError as e:
        if isinstance(e, BrokenPipeError):  # Python would try to write the rest at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _say("%s: %s" % (e.filename, e.strerror) if e.filename else "cannot write dlio.log or its output: %s" % e.strerror)
        return 1


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "install":
        sys.exit("usage: python -m shoal.dlio.shim install DIR")
    try:
        print("wrote %s; put '%s' first in PATH" % (install(sys.argv[2]), sys.argv[2]))
    except Error as e:
        sys.exit("shoal.dlio.shim: %s" % e)
    except OSError as e:
        sys.exit("shoal.dlio.shim: %s: %s" % (e.filename, e.strerror))

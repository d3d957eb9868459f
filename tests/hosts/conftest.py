"""Hosts, each of network, mount, PID and UTS namespaces: its own address, name, processes, /tmp and /dev/shm.

A bridge in a namespace of its own joins them, or a relay that delays and loses frames (relay.py); nothing of it is visible
outside. Needs root, and is skipped with a message
elsewhere. What is under `hosts.shared` is the same on all, as on a network file system. Launchers start their daemons by
an agent (rsh) that the server below answers: as sshd does, it passes on no environment.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.path.abspath(os.environ.get("SHOAL", ROOT / "build" / "shoal"))).parent
# The checkout is there on every host, even if it is below /tmp.
HOST = """set -e
mkdir "$1/checkout.$2"
mount --bind "$3" "$1/checkout.$2"
mount -t tmpfs tmpfs /tmp
mkdir -p "$3"
mount --bind "$1/checkout.$2" "$3"
umount "$1/checkout.$2"
mount -t tmpfs tmpfs /dev/shm
mount --bind "$1/hosts" /etc/hosts
hostname "$2"
ip link set lo up
: > "$1/$2.up"
exec sleep infinity
"""


def ns(pid, *kinds):
    return ["nsenter", "-t", str(pid), *kinds]


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=30)


def until(condition, limit, words):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, words
        time.sleep(0.02)


# Of ETHTOOL: the sender computes checksums, and with that all segments are of the link's size.
CHECKSUMS_OFF = """
import fcntl, array, socket, struct
value = array.array("B", struct.pack("II", 0x17, 0))
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP", b"eth0", value.buffer_info()[0]))
"""


class Host:
    def __init__(self, hosts, number):
        self.hosts, self.name, self.link = hosts, f"host{number}", f"v{number}"
        self.address = f"10.99.0.{number}"
        self.entered = []  # what entered it from outside
        self.outer = subprocess.Popen(["unshare", "-n", "-m", "-u", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c",
                                       HOST, "sh", hosts.shared, self.name, ROOT], stderr=subprocess.DEVNULL)
        until(lambda: (hosts.shared / f"{self.name}.up").exists(), 20, "the host did not start")
        children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        self.pid = int(children[0])
        self.space = os.readlink(f"/proc/{self.pid}/ns/pid")

    def connect(self):
        switch = ns(self.hosts.switch.pid, "-n")
        run(*switch, "ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        run(*switch, "ip", "link", "set", self.link, *([] if self.hosts.poor else ["master", "br0"]), "up")
        run(*ns(self.pid, "-n"), "ip", "addr", "add", self.address + "/24", "dev", "eth0")
        run(*ns(self.pid, "-n"), "ip", "link", "set", "eth0", "up")
        if self.hosts.poor:
            run(*ns(self.pid, "-n"), sys.executable, "-c", CHECKSUMS_OFF)

    def start(self, command, **options):
        environment = {"PATH": os.environ["PATH"], "HOME": "/root", "SHOAL_MODULE_DIR": str(BUILD),
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        inside = ns(self.pid, "-n", "-m", "-u", "-p", f"-w{self.hosts.shared}")
        process = subprocess.Popen([*inside, *map(str, command)], env=environment, start_new_session=True, **options)
        self.entered.append(process)
        return process

    def processes(self, name=None):
        """All that run there, or those of one name, but the first, which is the host itself."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path("/proc", pid, "stat").read_text()
                alive = words.rpartition(")")[2].split()[0] not in "ZX"
                if alive and int(pid) != self.pid and os.readlink(f"/proc/{pid}/ns/pid") == self.space and \
                        (name is None or f"({name})" in words):
                    found.append(int(pid))
        return found

    def cut(self):
        run(*ns(self.hosts.switch.pid, "-n"), "ip", "link", "set", self.link, "down")

    def freeze(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def kill(self):
        """The first process of a PID namespace takes all others with it, once those who entered are waited for."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        for process in self.entered:  # nsenter stops when what it started is stopped
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        self.outer.wait(timeout=30)


class Hosts:
    def __init__(self, nr, poor=None):
        """@poor: (seconds that each frame is delayed, share of frames that are lost)."""
        self.poor = poor
        self.shared = pathlib.Path(tempfile.mkdtemp(prefix="shoal-hosts-", dir="/var/tmp"))
        shutil.copy(pathlib.Path(__file__).parent / "rsh", self.shared / "rsh")
        (self.shared / "hosts").write_text("127.0.0.1 localhost\n" +
                                           "".join(f"10.99.0.{i} host{i}\n" for i in range(1, nr + 1)))
        self.switch = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        mine = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self.switch.pid}/ns/net") != mine, 20, "there is no network namespace")
        run(*ns(self.switch.pid, "-n"), "ip", "link", "add", "br0", "type", "bridge")
        run(*ns(self.switch.pid, "-n"), "ip", "link", "set", "br0", "up")
        self.all = [Host(self, i) for i in range(1, nr + 1)]
        for host in self.all:
            host.connect()
        if poor:
            self.relay = subprocess.Popen([*ns(self.switch.pid, "-n"), sys.executable, pathlib.Path(__file__).parent / "relay.py",
                                           *map(str, poor), "1", *(host.link for host in self.all)], stdout=subprocess.PIPE, text=True)
            assert self.relay.stdout.readline() == "ready\n"
        self.started = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.shared / "rsh.sock"))
        self.listener.listen()
        self.server = threading.Thread(target=self.serve, daemon=True)
        self.server.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        """Run a command with the caller's standard files; a launcher's daemon ends when the caller does."""
        with connection:
            data, fds, _, _ = socket.recv_fds(connection, 65536, 3)
            while len(data) < 4 + int.from_bytes(data[:4], "little"):
                data += connection.recv(65536)
            name, command = data[4:].decode().split("\0")
            host = next(h for h in self.all if h.name == name)
            process = host.start(["sh", "-c", command], stdin=fds[0], stdout=fds[1], stderr=fds[2])
            for fd in fds:
                os.close(fd)
            with contextlib.suppress(OSError):
                connection.sendall(bytes([process.wait() & 255]))

    def ranked(self, before=":"):
        """What starts each rank: it runs @before, in shell, and has its standard error in err.RANK, as a cut host's would be lost."""
        for path in self.shared.glob("err.*"):
            path.unlink()
        script = self.shared / "ranked"  # a file: launchers differ in how they quote
        script.write_text(f'{before}\nexec "$@" 2> err.${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-$SLURM_PROCID}}}}\n')
        return ["sh", script]

    def mpirun(self, mpi, per_host, *command, before=":"):
        """Start ranks on all hosts, from the first: @per_host on each, or a list of how many. @before is as in ranked()."""
        counts = per_host if isinstance(per_host, list) else [per_host] * len(self.all)
        places = ",".join(f"{h.name}:{nr}" for h, nr in zip(self.all, counts))
        if mpi == "openmpi":
            launcher = ["mpirun.openmpi", "--mca", "plm_rsh_agent", self.shared / "rsh", "--mca", "btl", "tcp,self,vader",
                        "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "-x",
                        "SHOAL_MODULE_DIR", "--host", places]
        else:
            launcher = ["mpirun.mpich", "-launcher", "rsh", "-launcher-exec", self.shared / "rsh", "-iface", "eth0", "-genv",
                        "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0", "-genv", "SHOAL_MODULE_DIR", BUILD,
                        "-hosts", places]
        nr = sum(counts)
        return self.all[0].start([*launcher, "-n", nr, *self.ranked(before), *command], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def said(self, rank):
        path = self.shared / f"err.{rank}"
        return path.read_text() if path.exists() else ""

    def end(self):
        # An accept(2) that the kernel restarts after close(2) would take what the next hosts' listener, of the same number, is for.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.server.join()
        self.listener.close()
        for host in self.all:
            host.kill()
        if self.poor:
            self.relay.kill()
            self.relay.wait()
        self.switch.kill()
        self.switch.wait()
        shutil.rmtree(self.shared, ignore_errors=True)


def why_not():
    """Why there can be no hosts here, or None."""
    for tool in ("unshare", "nsenter", "ip"):
        if not shutil.which(tool):
            return f"there is no {tool} here"
    if os.geteuid() != 0:
        return "hosts of namespaces need root"
    tried = subprocess.run(["unshare", "-n", "-m", "-u", "-p", "-f", "--mount-proc", "sh", "-c",
                            "mount -t tmpfs tmpfs /tmp && hostname x && ip link add va type veth peer name vb && "
                            "ip link add vc type bridge"], capture_output=True, text=True, timeout=30)
    return f"namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else None


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request):
    if not shutil.which(f"mpirun.{request.param}") or not (BUILD / f"shoal_mpi_{request.param}.so").exists():
        pytest.skip(f"there is no {request.param} here")
    return request.param


@contextlib.contextmanager
def made_of(*arguments):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    made = Hosts(*arguments)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def hosts():
    with made_of(2) as made:
        yield made

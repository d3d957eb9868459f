"""Load: very many ranks on one host, readers of a catalog that is replaced meanwhile, and a server that throttles.

Each case returns the seconds it took, what was seen in words, and what was wrong or None.
"""
import asyncio
import concurrent.futures
import json
import os
import resource
import subprocess
import threading
import time

HUNG = 900  # seconds; only what hangs takes as long
BODY = bytes(64)
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


def run(*words, cwd, **more):
    return subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, timeout=HUNG,
                          stdin=subprocess.DEVNULL, **more)


def own_words(done):
    """The last that a command said of itself, without what launchers add."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("shoal")] or done.stderr.splitlines()
    return "".join(lines[-1:])[:300].replace("|", " ")


# ---- Ranks ----

def ranks(shoal, place, mpi, nr):
    """An epoch of @nr ranks on this host, whatever the number of its processors."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "SHOAL_MODULE_DIR": str(shoal.parent)}
    run(shoal, "index", "--pattern", "{:07d}", "--count", nr * 100, "--size", 64, "--root", place, "-q", "-o", "ranks.cat", cwd=place)
    # Its TCP part looks all addresses up for all ranks at the start, one by one: 256 ranks on two cores took over a minute.
    over = ["--oversubscribe", "--mca", "btl", "self,vader"] if mpi == "openmpi" else []
    began = time.monotonic()
    try:
        done = run(f"mpirun.{mpi}", *over, "-n", nr, shoal, "read", "ranks.cat", "--data", "null:size=64", "--batch", 10, "--in-flight",
                   2, "-q", "--json", "--peer-timeout", 600, cwd=place, env=environment)
    except subprocess.TimeoutExpired:
        return HUNG, "", f"hung: {nr} ranks under {mpi}"
    took = time.monotonic() - began
    if done.returncode != 0:
        words = own_words(done)
        return took, f"ended with: {words}", None if words else f"silent: {nr} ranks under {mpi}"
    facts = json.loads(done.stdout)
    right = facts["audit"]["exactly_once"] is True and facts["samples"] == nr * 100
    return took, f"{facts['samples']} samples exactly once", None if right else f"wrong: {nr} ranks under {mpi}: {done.stdout[:300]}"


# ---- Readers of a catalog that is replaced ----

def readers(shoal, place, nr, seconds):
    """Each reader opens the catalog again and again; it is one of two, whole, at any time."""
    digests = set()
    for number, count in enumerate((30_000, 50_000)):
        run(shoal, "index", "--pattern", "{:07d}", "--count", count, "--size", 64, "--root", place, "-q", "-o", f"{number}.cat", cwd=place)
        digests.add(json.loads(run(shoal, "info", f"{number}.cat", "--json", cwd=place).stdout)["digest"])
    run(shoal, "merge", "0.cat", "-q", "-o", "now.cat", cwd=place)
    end, wrong, looks = time.monotonic() + seconds, [], [0] * nr

    def look(reader):
        while time.monotonic() < end and not wrong:
            info = run(shoal, "info", "now.cat", "--json", cwd=place)
            epoch = run(shoal, "read", "now.cat", "--data", "null:size=64", "--engine", "threads", "--in-flight", 2, "-q", "--json", cwd=place)
            good = info.returncode == 0 and json.loads(info.stdout)["digest"] in digests and epoch.returncode == 0 and \
                json.loads(epoch.stdout)["samples"] in (30_000, 50_000) and json.loads(epoch.stdout)["audit"]["exactly_once"] is True
            if not good:
                wrong.append(f"wrong: a reader of a catalog that is replaced: {info.stderr} {epoch.stderr} {epoch.stdout[:200]}")
            looks[reader] += 1

    threads = [threading.Thread(target=look, args=(i,)) for i in range(nr)]
    for thread in threads:
        thread.start()
    replaced = 0
    while any(thread.is_alive() for thread in threads):
        done = run(shoal, "merge", f"{replaced % 2}.cat", "-q", "--force", "-o", "now.cat", cwd=place)
        if done.returncode != 0:
            wrong.append(f"wrong: replacing a catalog: {done.stderr}")
        replaced += 1
    for thread in threads:
        thread.join()
    return seconds, f"{sum(looks)} epochs of {nr} readers while it was replaced {replaced} times", wrong[0] if wrong else None


# ---- A server that throttles ----

class Throttling:
    """Serves any object of 64 bytes; of the requests at one time only @most, the others are told to slow down."""

    def __init__(self, most):
        self.most, self.now, self.open, self.peak, self.served, self.refused = most, 0, 0, 0, 0, 0
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        threading.Thread(target=self.work, daemon=True).start()
        self.ready.wait()

    def work(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096))
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self.answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def answer(self, writer):
        self.now += 1
        if self.now > self.most:
            self.refused += 1
            head, body = "503 Slow Down", SLOW_DOWN
        else:
            await asyncio.sleep(0.01)
            self.served += 1
            head, body = "206 Partial Content\r\nContent-Range: bytes 0-63/64", BODY
        self.now -= 1
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async def leave(self):
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def end(self):
        asyncio.run_coroutine_threadsafe(self.leave(), self.loop).result(60)
        self.loop.call_soon_threadsafe(self.loop.stop)


def throttled(shoal, place, processes, in_flight, samples, most):
    """Epochs from a server that takes every connection, and few requests."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    (place / "objects").write_text("".join(f"k/{i:06}\t64\n" for i in range(samples)))
    run(shoal, "index", "objects", "--root", "s3://load", "-q", "-o", "objects.cat", cwd=place)
    server = Throttling(most)
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    words = ["read", "objects.cat", "--in-flight", in_flight, "--batch", min(samples, 1000), "--prefetch", 5, "--endpoint",
             f"http://127.0.0.1:{server.port}", "--anonymous", "-q", "--json"]
    began = time.monotonic()
    try:
        with concurrent.futures.ThreadPoolExecutor(processes) as pool:
            all_done = list(pool.map(lambda _: run(shoal, *words, cwd=place, env={**environment, "AWS_MAX_ATTEMPTS": "100"}),
                                     range(processes)))
    except subprocess.TimeoutExpired:
        return HUNG, "", f"hung: {in_flight} requests to a server that throttles"
    finally:
        server.end()
    took = time.monotonic() - began
    seen, fault = [], None
    for done in all_done:
        if done.returncode != 0:
            seen.append("ended with: " + own_words(done))
            fault = fault or (None if done.stderr else "silent: a server that throttles")
        else:
            seen.append(f"{samples} samples exactly once")
            right = json.loads(done.stdout)["audit"]["exactly_once"] is True
            fault = fault or (None if right else f"wrong: a server that throttles: {done.stdout[:300]}")
    seen += [f"at most {server.peak} connections", f"{server.served} requests served", f"{server.refused} throttled"]
    return took, "; ".join(seen), fault


def cases(shoal, place):
    """Name, and what to call."""
    return [
        ("10,000 connections to a server that takes 500 requests", lambda: throttled(shoal, place, 2, 5000, 20_000, 500)),
        ("64 readers of a catalog that is replaced", lambda: readers(shoal, place, 64, 60)),
        ("256 ranks, MPICH", lambda: ranks(shoal, place, "mpich", 256)),
        ("256 ranks, Open MPI", lambda: ranks(shoal, place, "openmpi", 256)),
    ]

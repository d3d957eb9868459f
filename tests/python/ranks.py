"""Processes that are ranks of one torch.distributed group, for the tests."""
import multiprocessing
import os
import socket
import traceback

import torch
import torch.distributed as dist

# Ranks are forked: where torch has computed with several threads before, a child waits for them for ever.
torch.set_num_threads(1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _main(function, rank, world, port, results, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        dist.init_process_group("gloo", rank=rank, world_size=world)
        results.put((rank, True, function(rank, world, *args)))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        results.put((rank, False, traceback.format_exc()))
        results.close()
        results.join_thread()  # it is sent by a thread, which the next line would end
        os._exit(1)


def _start(world, function, args):
    context = multiprocessing.get_context("fork")
    results, port = context.Queue(), free_port()
    processes = [context.Process(target=_main, args=(function, rank, world, port, results, args))
                 for rank in range(world)]
    for p in processes:
        p.start()
    return processes, results


def run_ranks(world, function, *args, seconds=60):
    """What function(rank, world, ...) gave on each rank; the words of the first that raised, and no hang."""
    processes, results = _start(world, function, args)
    try:
        found = [results.get(timeout=seconds) for _ in processes]
        for p in processes:
            p.join(seconds)
    finally:
        for p in processes:
            p.kill()
    for rank, good, words in sorted(found, key=lambda one: one[0]):
        assert good, "rank %d: %s" % (rank, words)
    return [result for _, _, result in sorted(found, key=lambda one: one[0])]


def ends_of_ranks(world, function, *args, seconds=60):
    """How the ranks' processes ended, as subprocess has it: for functions that end them. One that hangs fails."""
    processes, _ = _start(world, function, args)
    try:
        for rank, p in enumerate(processes):
            p.join(seconds)
            assert p.exitcode is not None, "rank %d still runs after %d s" % (rank, seconds)
    finally:
        for p in processes:
            p.kill()
    return [p.exitcode for p in processes]

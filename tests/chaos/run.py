#!/usr/bin/env python3
"""Faults on real runs, from a seed: whatever happens, what was acknowledged stays, and no bit changes.

    tests/chaos/run.py [--rounds N] [--seed S] [--kind NAME]... [--on GROUND]... [--with FEATURE]... [--workers N]
    tests/chaos/run.py --list
    make chaos SEED=... ROUNDS=...

One round is one fault of a kind drawn from the seed, at a moment drawn from it, on a run that trains as long as faults come. There are
two runs, and each takes its part of the rounds, one after the other: `train`, the processes of `zerofleet train`, and `nodes`, a fleet
whose processes are each in a network namespace of their own (nodes.py; root only). The disk of both fails too (disk.py). What the
run is configured with is drawn as well (features.py), with the default restarts. After each round the run must go on by itself: a new
step is reported in time. The run is started again only if a rank has used up its restarts, or chance killed it three times after the
same step, which is the rule for a poison step; the run must then list those losses. At the end:

  I1  every checkpoint that was reported as committed and is kept verifies, byte for byte
  I2  nothing else is listed as committed, and nothing is wrongly set aside as damaged
  I3  generations strictly grow
  I6  the last loss reported for each step is, to the bit, that of an undisturbed run
  I7  no recovery loses more steps than lie between two commits

ZEROFLEET names the binary. Standard library only. Exit code 1: an invariant is broken; the seed, the kinds and the logs are printed.
"""
import argparse
import collections
import random
import sys
import tempfile
import time

import chaos
import features
import network
import nodes
from chaos import Broken, kinds_of

GROUNDS = {"train": chaos.OnOneMachine, "nodes": nodes.OnNodes}


def possible(grounds):
    """{ground: the names of its kinds that are possible on this machine}; prints those that are not."""
    left = {}
    for name in grounds:
        reason = network.why_not() if name == "nodes" else None
        if reason:
            print(f"SKIPPED: {name}: {reason}", flush=True)
            continue
        for each, why in GROUNDS[name].impossible().items():
            print(f"SKIPPED: {each} on {name}: {why}", flush=True)
        left[name] = set(kinds_of(GROUNDS[name]))
    return left


def drawn(kinds, only, rounds, draw):
    """{ground: the kinds of its rounds}: each kind once, in a drawn order, then any."""
    names = sorted(only or set().union(*kinds.values()))
    draw.shuffle(names)
    listed = {ground: [] for ground in kinds}
    for turn in range(rounds):
        name = names[turn] if turn < len(names) else draw.choice(names)
        at = [ground for ground in kinds if name in kinds[ground]]
        if at:
            listed[draw.choice(at)].append(name)
    return {ground: each for ground, each in listed.items() if each}


def torment(run, names):
    """Runs the rounds, and checks what must hold; returns the number of steps."""
    run.start()
    run.await_progress()
    for turn, name in enumerate(names):
        time.sleep(run.draw.uniform(0, 0.4))  # any moment of a step
        try:
            getattr(run, name)()
            run.await_progress()
            run.may_end = ()
        except Broken as broken:
            raise Broken(f"round {turn + 1}, {name}: {broken}") from None
    run.end()
    run.close()
    run.check_generations()
    run.check_checkpoints()
    return run.check_losses()


def one(ground, names, options):
    with tempfile.TemporaryDirectory(prefix="zerofleet-chaos-", ignore_cleanup_errors=True) as folder:
        run = GROUNDS[ground](folder, options.seed, options.workers, options.wanted)
        try:
            steps = torment(run, names)
        except Broken as broken:
            run.close()
            logs = sorted(run.folder.glob("*.log"))
            told = "".join(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in logs[-8:])
            sys.exit(f"{told}\nseed {options.seed}, on {ground}, with {', '.join(run.features)}: {broken}")
        finally:
            run.close()
        recoveries = [each["seconds"] for each in run.events() if each["event"] == "recovery"]
        failed = sum(each["event"] == "save_failed" for each in run.events())
    middle = sorted(recoveries)[len(recoveries) // 2] if recoveries else 0
    print(f"seed {options.seed}, {ground}: {len(names)} faults of {len(set(names))} kinds, {len(recoveries)} recoveries "
          f"(median {middle:.2f} s, longest {max(recoveries, default=0):.2f} s), {failed} failed saves, {steps} steps, {run.spent} times "
          f"out of restarts, 0 violations; {', '.join(run.features)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = set().union(*map(kinds_of, GROUNDS.values()))
    parser.add_argument("--rounds", type=int, help="default: one of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=sorted(every))
    parser.add_argument("--on", action="append", choices=sorted(GROUNDS))
    parser.add_argument("--with", dest="wanted", action="append", choices=features.FEATURES, default=[])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        for name, ground in GROUNDS.items():
            print(f"{name}: {', '.join(sorted(kinds_of(ground)))}")
        print(f"features: {', '.join(features.FEATURES)}")
        return
    kinds = possible(options.on or list(GROUNDS))
    rounds = options.rounds or len(options.kind or set().union(*kinds.values()))
    listed = drawn(kinds, options.kind, rounds, random.Random(options.seed))
    for ground, names in listed.items():
        one(ground, names, options)
    counts = collections.Counter(name for names in listed.values() for name in names)
    print("; ".join(f"{name} {count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main()

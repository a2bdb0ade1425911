#!/usr/bin/env python3
"""Applies each mutant of tests/mutants/*.toml to a copy of the tree and expects a test to turn red.

    tests/mutants/run.py [--room ROOM] [--name NAME]... [--jobs N]      every mutant, of a room, or the named ones
    tests/mutants/run.py --list                                         what there is
    tests/mutants/run.py --check                                        only that every entry still applies

A survivor is a fault that no test would notice. README.md has the format and says what to do about one. The copies and their
builds are kept in build/mutants; the tree itself is not touched. Exit code 1: a survivor without a reason, or an entry that
does not compile.
"""
import argparse
import collections
import os
import pathlib
import queue
import shutil
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import entries  # noqa: E402
import scratch  # noqa: E402

FOLDER = entries.ROOT / "build" / "mutants"
BASELINE_SECONDS = 900
# Another program's load must not pass for a hang, and a hang should not take much longer than the test.
SHORTEST_TIMEOUT_SECONDS = 60
TIMEOUT_FACTOR = 10

Result = collections.namedtuple("Result", "mutant outcome detail seconds")
RED, SURVIVED, ERROR, SKIPPED = "red", "SURVIVED", "ERROR", "skipped"


def key_of(mutant):
    return mutant.build, mutant.test, mutant.filter


def baseline(place, mutants):
    """Builds the unmutated tree and runs the tests that the mutants name. Returns {key: seconds}, and {key: reason} of those
    that cannot be used; a test that is red without any mutant ends the program."""
    seconds, unusable = {}, {}
    for build in sorted({mutant.build for mutant in mutants}):
        chosen = [mutant for mutant in mutants if mutant.build == build]
        try:
            place.configure(build)
        except scratch.BuildError as error:
            unusable.update({key_of(mutant): f"no {build} build here: {last_line(str(error))}" for mutant in chosen})
            continue
        place.build(build, sorted({target for mutant in chosen for target in mutant.target.split()}))
        for mutant in {key_of(mutant): mutant for mutant in chosen}.values():
            outcome = place.test(mutant, BASELINE_SECONDS)
            name = " ".join(part for part in (mutant.test, mutant.filter) if part)
            if outcome.skipped:
                unusable[key_of(mutant)] = f"{name} is skipped on this machine"
            elif not outcome.green:
                sys.exit(f"{name} is red without any mutant ({outcome.summary()}):\n{outcome.output[-3000:]}")
            elif outcome.tests_run == 0:
                sys.exit(f"{mutant.room}.toml: {mutant.name}: no test of {mutant.test} matches the filter {mutant.filter!r}")
            seconds[key_of(mutant)] = outcome.seconds
    return seconds, unusable


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1][:160]


def judge(place, mutant, baseline_seconds):
    """Applies one mutant, builds, tests, reverts."""
    started = time.monotonic()

    def result(outcome, detail):
        return Result(mutant, outcome, detail, time.monotonic() - started)
    timeout = mutant.timeout_seconds or max(SHORTEST_TIMEOUT_SECONDS, TIMEOUT_FACTOR * baseline_seconds)
    try:
        place.apply(mutant)
        place.build(mutant.build, mutant.target.split())
        outcome = place.test(mutant, timeout)
    except scratch.BuildError as error:
        return result(ERROR, "does not build: " + last_line(str(error)))
    finally:
        place.revert()
    if outcome.green:
        return result(SURVIVED, mutant.survives or mutant.effect)
    return result(RED, outcome.summary())


def judge_all(mutants, seconds, places, report):
    """Deals the mutants out to the copies; those of one file go together, so that a copy compiles less."""
    waiting = queue.SimpleQueue()
    for mutant in sorted(mutants, key=lambda each: (each.build, each.test, each.file)):
        waiting.put(mutant)
    results, lock = [], threading.Lock()

    def work(place):
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            result = judge(place, mutant, seconds[key_of(mutant)])
            with lock:
                results.append(result)
                report(result)
    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def report(result):
    print(f"{result.outcome:<9}{result.mutant.room + '/' + result.mutant.name:<56} {result.seconds:5.0f} s  {result.detail}",
          flush=True)


def summarize(results):
    """Prints the summary; returns the exit code."""
    of = collections.defaultdict(list)
    for each in results:
        of[each.outcome].append(each)
    hung = sum(each.detail.startswith("hung") for each in of[RED])
    survivors = ", ".join(each.mutant.name + (f" ({each.mutant.survives})" if each.mutant.survives else "") for each in of[SURVIVED])
    print(f"\n{len(results)} mutants, {len(of[RED])} red ({hung} of them hung), survivors: {survivors or 'none'}")
    for each in of[RED]:
        if each.mutant.survives:
            print(f"{each.mutant.name} is listed as surviving, but a test is red now: drop `survives` from its entry")
    if of[SKIPPED]:
        print(f"{len(of[SKIPPED])} were skipped here: {', '.join(each.mutant.name for each in of[SKIPPED])}")
    if of[ERROR]:
        print(f"{len(of[ERROR])} do not build: {', '.join(each.mutant.name for each in of[ERROR])}")
    return 1 if of[ERROR] or any(not each.mutant.survives for each in of[SURVIVED]) else 0


def choose(mutants, rooms, names):
    unknown = [f"no room {room}" for room in rooms if room not in {mutant.room for mutant in mutants}]
    unknown += [f"no mutant {name}" for name in names if name not in {mutant.name for mutant in mutants}]
    if unknown:
        sys.exit(f"run.py: {unknown[0]}; --list shows what there is")
    return [mutant for mutant in mutants if (not rooms or mutant.room in rooms) and (not names or mutant.name in names)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", default=[], help="only those of tests/mutants/ROOM.toml")
    parser.add_argument("--name", action="append", default=[], help="only this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="copies at work at the same time")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()

    entries.self_test()
    try:
        mutants, breaches = entries.check_tree()
    except entries.BadEntry as error:
        sys.exit(f"run.py: {error}")
    if arguments.check or breaches:
        print("\n".join(breaches) if breaches else f"mutants: {len(mutants)} entries apply")
        sys.exit(1 if breaches else 0)
    mutants = choose(mutants, arguments.room, arguments.name)
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.room}/{mutant.name}: {mutant.file}: {mutant.effect}")
        return

    edited = sorted({mutant.file for mutant in mutants})
    first = scratch.Scratch(FOLDER / "0", arguments.jobs, edited)
    try:
        seconds, unusable = baseline(first, mutants)
    except scratch.BuildError as error:
        sys.exit(f"run.py: the unmutated tree does not build:\n{error}")
    print(f"unmutated: {len(seconds) - len(unusable.keys() & seconds.keys())} tests are green", flush=True)
    usable = [mutant for mutant in mutants if key_of(mutant) not in unusable]
    results = [Result(mutant, SKIPPED, unusable[key_of(mutant)], 0) for mutant in mutants if key_of(mutant) in unusable]
    for result in results:
        report(result)
    # A copy more is a build more: worth it where ccache makes that cheap.
    copies = max(1, min(arguments.jobs, len(usable) // 2)) if shutil.which("ccache") else 1
    first.jobs = max(1, arguments.jobs // copies)
    places = [first] + [scratch.Scratch(FOLDER / str(number), first.jobs, edited) for number in range(1, copies)]
    results += judge_all(usable, seconds, places, report)
    sys.exit(summarize(results))


if __name__ == "__main__":
    main()

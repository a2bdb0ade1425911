"""Differences from an oracle, by case, held to their limits."""
import sys


def judge(names, compare, tolerance):
    """Prints compare(name), a dict of differences, for each name, and exits: with 1 if any is beyond its limit."""
    bad = False
    for name in names:
        differences = compare(name)
        # Weights are compared with the most that AdamW can have moved them.
        limits = {key: tolerance * (100 if key == "weights" else 1) for key in differences}
        wrong = [key for key, value in differences.items() if not value <= limits[key]]
        bad = bad or bool(wrong)
        print(f"{name:15}", " ".join(f"{key} {value:.1e}" for key, value in differences.items()), "WRONG: " + ", ".join(wrong) if wrong else "")
    sys.exit(bad)

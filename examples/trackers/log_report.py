#!/usr/bin/env python3
"""Logs the report of a run that has ended to Weights & Biases or to MLflow: its configuration and the curves that TensorBoard gets.

    examples/trackers/log_report.py wandb RUN.jsonl [--project NAME]      needs: pip install wandb
    examples/trackers/log_report.py mlflow RUN.jsonl [--project NAME]     needs: pip install mlflow

Where they go is what WANDB_MODE and MLFLOW_TRACKING_URI say. A step that was done again after a recovery counts as it was told last.
"""
import argparse
import json
import pathlib
import sys

STEP_CURVES = {"loss": "loss/training", "grad_norm": "step/gradient_norm", "learning_rate": "step/learning_rate",
               "tokens_per_second": "speed/tokens_per_second", "mfu": "speed/mfu"}


def read_report(path):
    """(the event of its start, {step: {curve: value}}) of a report; a last line that is cut short is left out."""
    start, steps = None, {}
    text = path.read_text(encoding="utf-8")
    for line in text[:text.rfind("\n") + 1].splitlines():
        event = json.loads(line)
        if event["event"] == "start":
            start = start or event
        elif event["event"] == "step":
            steps.setdefault(event["step"], {}).update({curve: event[key] for key, curve in STEP_CURVES.items()})
        elif event["event"] == "evaluate":
            curves = {"loss/validation": event["loss"]}
            curves.update({f"loss/validation_{each['name']}": each["loss"] for each in event["sets"]})
            steps.setdefault(event["step"], {}).update(curves)
    if start is None:
        sys.exit(f"{path}: has no start: not a run's report")
    return start, dict(sorted(steps.items()))


def flat(config, prefix=""):
    """{"optimizer.name": "adamw", ...} of the nested configuration."""
    found = {}
    for key, value in config.items():
        found.update(flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return found


def log_to_wandb(project, name, start, steps):
    import wandb
    run = wandb.init(project=project, name=name, id=start["run_id"], resume="allow", config=start["config"])
    for step, curves in steps.items():
        run.log(curves, step=step)
    run.finish()


def log_to_mlflow(project, name, start, steps):
    import mlflow
    mlflow.set_experiment(project)
    with mlflow.start_run(run_name=name, tags={"run_id": start["run_id"]}):
        mlflow.log_params(flat(start["config"]))
        for step, curves in steps.items():
            mlflow.log_metrics(curves, step=step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    trackers = {"wandb": log_to_wandb, "mlflow": log_to_mlflow}
    parser.add_argument("tracker", choices=trackers)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("--project", default="zerofleet", help="W&B's project, MLflow's experiment")
    arguments = parser.parse_args()
    start, steps = read_report(arguments.report)
    try:
        trackers[arguments.tracker](arguments.project, arguments.report.stem, start, steps)
    except ModuleNotFoundError as error:
        sys.exit(f"{error}: pip install {arguments.tracker}")


if __name__ == "__main__":
    main()

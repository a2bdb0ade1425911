#!/usr/bin/env python3
"""Writes the Grafana dashboards of this folder from the tables below; `--check` says whether they are current.

A panel is a row: title, unit, and its expressions with their legends. To add one, add its row and run this file. Every
dashboard lets one choose the data source, the namespace and the run, and marks where a new generation began.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
RUN = 'namespace=~"$namespace", run=~"$run"'
# Series of a process have no run: the process's info series joins it on.
WORKER = " * on (namespace, instance) group_left (run, rank) zerofleet_worker_info{%s}" % RUN
COORDINATOR = " * on (namespace, instance) group_left (run) zerofleet_coordinator_run_info{%s}" % RUN

# A worker's pod in a Job or in a JobSet of the chart.
POD = 'exported_namespace=~"$namespace", exported_pod=~"($run)-([0-9a-f]{8}-)?workers-.*"'


def worker(series):
    return series + WORKER


def coordinator(series):
    return series + COORDINATOR


def in_an_hour(counter):
    """A counter begins anew with its process: what it has gained says more than its value."""
    return coordinator("increase(%s[1h])" % counter)


DASHBOARDS = {
    "overview": ("Zerofleet: overview", [
        ("Step", "none", [(coordinator("zerofleet_coordinator_step"), "{{run}}"),
                          (coordinator("zerofleet_coordinator_target_steps"), "{{run}}, of")]),
        ("Phase", "none", [(coordinator("zerofleet_coordinator_phase"), "{{run}} {{phase}}")]),
        ("Loss", "none", [("max by (namespace, run) (%s)" % worker("zerofleet_worker_loss"), "{{run}} training"),
                          (coordinator("zerofleet_coordinator_validation_loss"), "{{run}} validation {{set}}")]),
        ("Tokens per second", "short", [("zerofleet:tokens_per_second{%s}" % RUN, "{{run}}")]),
        ("Model FLOPs utilization", "percentunit",
         [("avg by (namespace, run) (%s)" % worker("zerofleet_worker_model_flops_utilization_ratio"), "{{run}}")]),
        ("Goodput", "percentunit", [(coordinator("zerofleet_coordinator_goodput_ratio"), "{{run}}")]),
        ("Last recovery by phase", "s", [(coordinator("zerofleet_coordinator_recovery_duration_seconds"), "{{run}} {{phase}}")]),
        ("Steps lost to failures, in an hour", "none", [(in_an_hour("zerofleet_coordinator_lost_steps_total"), "{{run}}")]),
        ("Gradient norm", "none", [("max by (namespace, run) (%s)" % worker("zerofleet_worker_grad_norm"), "{{run}}")]),
        ("Learning rate", "none", [("max by (namespace, run) (%s)" % worker("zerofleet_worker_learning_rate"), "{{run}}")]),
        ("Seconds of each phase per second, all ranks", "s",
         [("avg by (namespace, run, phase) (zerofleet:phase_seconds_per_second{%s})" % RUN, "{{run}} {{phase}}")]),
    ]),
    "membership": ("Zerofleet: membership", [
        ("Members by state", "none", [(coordinator("zerofleet_coordinator_members"), "{{run}} {{state}}")]),
        ("Generation", "none", [(coordinator("zerofleet_coordinator_generation"), "{{run}}")]),
        ("Time since each rank was heard", "s", [(coordinator("zerofleet_coordinator_heartbeat_age_seconds"), "{{run}} rank {{rank}}")]),
        ("Ranks lost in an hour, by cause", "none", [(in_an_hour("zerofleet_coordinator_rank_failures_total"), "{{run}} {{cause}}")]),
        ("Recoveries in an hour", "none", [(in_an_hour("zerofleet_coordinator_recoveries_total"), "{{run}}")]),
        ("Time to form the fleet", "s", [(coordinator("zerofleet_coordinator_rendezvous_duration_seconds"), "{{run}}")]),
        ("A rank's own time over the median", "none", [(coordinator("zerofleet_coordinator_straggler_ratio"), "{{run}} rank {{rank}}")]),
        ("Messages of an old generation refused, in an hour", "none",
         [(in_an_hour("zerofleet_coordinator_stale_messages_rejected_total"), "{{run}}")]),
    ]),
    "collectives": ("Zerofleet: collectives", [
        ("Bus bandwidth by operation and group", "Bps",
         [("zerofleet:bus_bandwidth_bytes_per_second{%s}" % RUN, "{{run}} {{operation}} {{group}} {{backend}}")]),
        ("Sent per second", "Bps",
         [("sum by (namespace, run, operation, group, backend) (%s)" % worker("rate(zerofleet_worker_collective_bytes_total[5m])"),
           "{{run}} {{operation}} {{group}} {{backend}}")]),
        ("Duration, 99th percentile", "s",
         [("histogram_quantile(0.99, sum by (le, namespace, run, operation, group) (%s))"
           % worker("rate(zerofleet_worker_collective_duration_seconds_bucket[5m])"), "{{run}} {{operation}} {{group}}")]),
        ("Bus bandwidth by rank", "Bps",
         [(worker("zerofleet_worker_collective_bus_bandwidth_bytes_per_second"), "{{run}} rank {{rank}} {{operation}}")]),
    ]),
    "memory": ("Zerofleet: memory", [
        ("In use by category", "bytes",
         [("sum by (namespace, run, rank, space, category) (%s)" % worker("zerofleet_worker_memory_bytes"),
           "{{run}} rank {{rank}} {{space}} {{category}}")]),
        ("Peak by category", "bytes",
         [("sum by (namespace, run, rank, space, category) (%s)" % worker("zerofleet_worker_memory_peak_bytes"),
           "{{run}} rank {{rank}} {{space}} {{category}}")]),
        ("Reserved and handed out", "bytes",
         [(worker("zerofleet_worker_allocator_reserved_bytes"), "{{run}} rank {{rank}} {{space}} reserved"),
          (worker("zerofleet_worker_allocator_allocated_bytes"), "{{run}} rank {{rank}} {{space}} allocated")]),
        ("Fragmentation", "percentunit", [(worker("zerofleet_worker_fragmentation_ratio"), "{{run}} rank {{rank}} {{space}}")]),
    ]),
    "checkpoints": ("Zerofleet: checkpoints", [
        ("Last committed step", "none", [(coordinator("zerofleet_coordinator_checkpoint_last_committed_step"), "{{run}}")]),
        ("Steps that a crash now would lose", "none",
         [("(zerofleet_coordinator_step - zerofleet_coordinator_checkpoint_last_committed_step)" + COORDINATOR, "{{run}}")]),
        ("Time since the last commit", "s",
         [("(time() - zerofleet_coordinator_checkpoint_last_commit_timestamp_seconds)" + COORDINATOR, "{{run}}")]),
        ("Bytes committed in an hour", "bytes", [(in_an_hour("zerofleet_coordinator_checkpoint_bytes_total"), "{{run}}")]),
        ("Saves that failed and checkpoints found damaged, in an hour", "none",
         [(in_an_hour("zerofleet_coordinator_save_failures_total"), "{{run}} not stored"),
          (in_an_hour("zerofleet_coordinator_checkpoint_verify_failures_total"), "{{run}} damaged")]),
        ("Share of time that steps wait for checkpoints", "percentunit",
         [('zerofleet:phase_seconds_per_second{phase="checkpoint", %s}' % RUN, "{{run}} rank {{rank}}")]),
    ]),
    "gpu": ("Zerofleet: GPUs", [
        ("Memory in use, as the driver counts", "bytes",
         [(worker("zerofleet_worker_device_memory_used_bytes"), "{{run}} rank {{rank}}"),
          (worker("zerofleet_worker_device_memory_total_bytes"), "{{run}} rank {{rank}}, of")]),
        ("Memory outside the allocator", "bytes", [(worker("zerofleet_worker_device_memory_runtime_bytes"), "{{run}} rank {{rank}}")]),
        # The exporter names the pod that has a GPU, and the chart names the pods by their run; a worker's pod has one.
        ("Utilization", "percent",
         [("DCGM_FI_DEV_GPU_UTIL{%s}" % POD, "{{exported_pod}} {{UUID}}")]),
        ("Power", "watt",
         [("DCGM_FI_DEV_POWER_USAGE{%s}" % POD, "{{exported_pod}} {{UUID}}")]),
    ]),
}


def variable(name, label, query):
    return {"type": "query", "name": name, "label": label, "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": {"query": query, "refId": name}, "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def panel(number, row):
    title, unit, queries = row
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {"id": number + 1, "type": "timeseries", "title": title, "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
            "fieldConfig": {"defaults": {"unit": unit, "custom": {"showPoints": "never"}}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
            "targets": [{"refId": chr(ord("A") + i), "expr": expression, "legendFormat": legend, "datasource": source}
                        for i, (expression, legend) in enumerate(queries)]}


def dashboard(name):
    title, rows = DASHBOARDS[name]
    return {
        "uid": "zerofleet-" + name, "title": title, "tags": ["zerofleet"], "schemaVersion": 39, "version": 1, "editable": True,
        "refresh": "15s", "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
            variable("namespace", "Namespace", "label_values(zerofleet_coordinator_run_info, namespace)"),
            variable("run", "Run", 'label_values(zerofleet_coordinator_run_info{namespace=~"$namespace"}, run)')]},
        "annotations": {"list": [
            {"name": "New generation", "enable": True, "iconColor": "orange", "datasource": {"type": "prometheus", "uid": "${datasource}"},
             "expr": "changes(zerofleet_coordinator_generation[5m])" + COORDINATOR + " > 0", "titleFormat": "New generation of {{run}}"}]},
        "links": [{"type": "dashboards", "tags": ["zerofleet"], "asDropdown": True, "title": "Zerofleet", "keepTime": True,
                   "includeVars": True}],
        "panels": [panel(number, row) for number, row in enumerate(rows)],
    }


def main():
    stale = []
    for name in DASHBOARDS:
        path, text = HERE / f"{name}.json", json.dumps(dashboard(name), indent=1) + "\n"
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        raise SystemExit(f"not what dashboards.py writes: {', '.join(stale)}; run deploy/grafana/dashboards.py")


if __name__ == "__main__":
    main()

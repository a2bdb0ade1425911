"""The features that a run of the chaos runner can have, and how they are drawn from its seed. Standard library only."""
import json
import subprocess

import fleet

# Features that need several ranks on a node.
WITHIN_A_NODE = ("tensor groups", "sequence parallelism")

# Name -> the changes to the configuration. Each feature is in a third of the runs. To add one, write a row.
FEATURES = {
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "sgd": {"optimizer": {"name": "sgd"}},
    "tensor groups": {"parallel": {"workers": 4, "tensor": 2}},
    "sequence parallelism": {"parallel": {"workers": 4, "tensor": 2, "sequence": True}},
    "offload to memory": {"offload": {"optimizer": "cpu"}},
    "offload to disk": {"offload": {"optimizer": "nvme", "dir": "offload"}},
    "activation checkpoints": {"activation": {"checkpointing": "block"}},
    "snapshots": {"checkpoint": {"snapshot_every_steps": 5}},
    "copies of snapshots": {"checkpoint": {"snapshot_every_steps": 5, "replicate": 1}},
    "streamed saves": {"checkpoint": {"snapshot": "stream"}},
    "rollback": {"on_divergence": "rollback"},
    # In the order of samples the number of workers changes no bit. Waits for missing workers are short.
    "fewer workers": {"restart": {"min_workers": 1, "form_timeout_seconds": 6, "load_timeout_seconds": 20, "reconnect_timeout_seconds": 20},
                      "reduce": {"order": "samples"}, "batch": {"micro_sequences": 2}},
    "a spare": {"restart": {"spares": 1}},
    "a window of losses": {"restart": {"window_steps": 50}},
    "compared parameters": {"integrity": {"every_steps": 3}},
    "replayed micro-batches": {"integrity": {"replay_every_steps": 7}},
    "averaged weights": {"ema": {"decay": 0.95, "start_step": 5}, "evaluate": {"weights": "ema"}},
}


def accepted(path, config):
    """Whether the program takes this configuration, which is left at `path`."""
    path.write_text(json.dumps(config))
    return subprocess.run([fleet.BINARY, "plan", str(path)], capture_output=True, cwd=path.parent).returncode == 0


def drawn(draw, base, path, without=(), wanted=()):
    """The names of the drawn features, including `wanted`, and the configuration; draws again until the program accepts it."""
    while True:
        names = [name for name in FEATURES if name not in without and (draw.random() < 1 / 3 or name in wanted)]
        config = fleet.merged(base, {"parallel": {"zero_stage": draw.randint(0, 3)}})
        for name in names:
            config = fleet.merged(config, FEATURES[name])
        if accepted(path, config):
            return [f"stage {config['parallel']['zero_stage']}", *names], config

"""DeepSpeed's configurations: values go to keys with the same meaning, and something is said about every key."""

import json

import pytest

from zerofleet.deepspeed import to_yaml, translate
from zerofleet.errors import Error

STAGE3 = {
    "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
    "gradient_clipping": 0.5, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.99], "eps": 1e-6,
                                                                       "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10, "total_num_steps": 200, "warmup_max_lr": 2e-4}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True},
                          "overlap_comm": True, "stage3_max_live_parameters": 1e9},
    "steps_per_print": 10, "something_else": 1,
}


def test_values_land_where_they_mean_the_same():
    config, _ = translate(STAGE3, workers=3)
    assert config == {
        "batch": {"micro_sequences": 4, "global_sequences": 24}, "precision": "bf16",
        "optimizer": {"name": "adamw", "learning_rate": 2e-4, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6,
                      "weight_decay": 0.01, "grad_clip": 0.5},
        "schedule": {"decay": "linear", "min_learning_rate": 0.0, "warmup_steps": 10}, "steps": 200,
        "parallel": {"zero_stage": 3, "workers": 3}, "offload": {"optimizer": "cpu"}}


def test_what_a_file_leaves_out_is_what_deepspeed_takes():
    config, _ = translate({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "eps": "auto"}}})
    assert config["optimizer"] == {"name": "adamw", "learning_rate": 1e-4, "beta1": 0.9, "beta2": 0.999,
                                   "weight_decay": 0.0, "grad_clip": 0.0}
    assert config["schedule"] == {"decay": "constant", "warmup_steps": 0}
    config, fates = translate({"optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "scheduler": {
        "type": "WarmupCosineLR", "params": {"total_num_steps": 50, "cos_min_ratio": 0.01}}})
    assert config["optimizer"] == {"name": "sgd", "learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0,
                                   "grad_clip": 0.0}
    assert config["schedule"] == {"decay": "cosine", "warmup_steps": 1000, "min_learning_rate": pytest.approx(0.001)}
    config, fates = translate({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}})
    assert config["optimizer"]["learning_rate"] == 1e-3  # whatever the optimizer's is
    assert ("(no scheduler.params.warmup_type)",
            "DeepSpeed's warm-up is then logarithmic; here it is linear") in fates


@pytest.mark.parametrize("micro", [{}, {"train_micro_batch_size_per_gpu": "auto"}])
def test_accumulation_without_a_micro_batch_says_how_large_one_is(micro):
    given = {"train_batch_size": 32, "gradient_accumulation_steps": 4, **micro}
    config, fates = translate(given, workers=4)
    assert config["batch"] == {"global_sequences": 32, "micro_sequences": 2}
    assert not any("give it in the configuration" in text for _, text in fates)
    with pytest.raises(Error, match="32 is no multiple of gradient_accumulation_steps, 4, times 3 workers"):
        translate(given, workers=3)
    config, _ = translate({"train_batch_size": 32, "gradient_accumulation_steps": "auto", **micro}, workers=3)
    assert config["batch"] == {"global_sequences": 32}


def test_every_key_has_a_fate(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(STAGE3))
    text = to_yaml(str(path), 3)
    for key in ("zero_optimization.overlap_comm", "zero_optimization.stage3_max_live_parameters", "steps_per_print",
                "something_else", "zero_optimization.offload_optimizer.pin_memory"):
        assert f"#   {key} -> " in text
    assert "    micro_sequences" not in text and "  micro_sequences: 4" in text


@pytest.mark.parametrize("change, message", [
    ({"optimizer": {"type": "Lion"}}, "optimizer.type: Lion is not supported"),
    ({"scheduler": {"type": "OneCycle"}}, "scheduler.type: OneCycle is not supported"),
    ({"optimizer": {"type": "Adam", "params": {"adam_w_mode": False}}}, "L2 regularisation"),
    ({"optimizer": {"type": "SGD", "params": {"nesterov": True}}}, "optimizer.params.nesterov: true is not supported"),
    ({"optimizer": {"type": "AdamW", "params": {"amsgrad": True}}}, "optimizer.params.amsgrad: true is not supported"),
])
def test_what_would_train_another_thing_is_refused(change, message):
    with pytest.raises(Error, match=message):
        translate({**STAGE3, **change})


def test_fp16_becomes_bf16_and_says_so():
    config, fates = translate({"fp16": {"enabled": True, "initial_scale_power": 16}})
    assert config["precision"] == "bf16"
    assert any("fp16 is not supported" in text for key, text in fates if key == "fp16.enabled")
    assert ("fp16.initial_scale_power", "left out: there is no loss scale in bf16 and fp32") in fates


def test_what_is_auto_is_left_to_the_user():
    config, fates = translate({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}})
    assert "precision" not in config
    for name in ("bf16", "fp16"):
        assert (f"{name}.enabled", "auto: give it in precision of the configuration") in fates


def test_which_weights_decay_is_said():
    _, fates = translate(STAGE3)
    assert any(key == "optimizer.params.weight_decay" and "two or more dimensions" in text for key, text in fates)

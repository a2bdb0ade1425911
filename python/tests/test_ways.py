"""Ways into a run and out of it: scripts, loops of the user's own, transformers' Trainer, the command line."""

import json
import os
import subprocess
import sys
import textwrap

import torch

import fleet
import models
import zerofleet


def script(folder, text, *arguments, code=0):
    """Runs a script in a folder of its own; what it has printed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.py").write_text(textwrap.dedent(text))
    done = subprocess.run([*arguments, "script.py"], cwd=folder, env=fleet.environment(), capture_output=True, text=True,
                          timeout=400)
    assert done.returncode == code, done.stderr
    return done.stdout


def settings(folder, **changes):
    """fleet.config for a script in a folder, without a module: the script has it."""
    return {**fleet.config("", folder, **changes), "model": {}}


TRAIN = """
    import sys
    import models, zerofleet as zf

    if __name__ == "__main__":
        zf.train(models.build_gpt2, data=models.Tokens(40), loss=models.causal_loss, config={config!r},
                 options={options!r})
        print("done", *sys.argv[1:])
    """


def test_a_script_and_zerofleet_run_and_a_configuration_are_the_same_run(tmp_path):
    want = fleet.steps(fleet.train(tmp_path / "a", fleet.config("gpt2", tmp_path / "a")))
    report = ["--report", "report.jsonl"]
    text = script(tmp_path / "b", TRAIN.format(config=settings(tmp_path / "b"), options=report), sys.executable)
    assert text.endswith("done\n")
    assert fleet.steps(fleet.events(tmp_path / "b")) == want
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "script.py").write_text(textwrap.dedent(TRAIN.format(config=settings(folder), options=[])))
    done = subprocess.run([sys.executable, "-m", "zerofleet", "run", *report, "script.py", "--", "--mine", "7"], cwd=folder, env=fleet.environment(), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0 and done.stdout.endswith("done --mine 7\n"), done.stderr
    assert fleet.steps(fleet.events(folder)) == want


def test_a_loop_of_the_users_own_gives_the_same_bits(tmp_path):
    want = fleet.steps(fleet.train(tmp_path / "a", fleet.config("gpt2", tmp_path / "a")))
    script(tmp_path / "b", f"""
        import models, zerofleet as zf

        run = zf.steps(models.build_gpt2, data=models.Tokens(40), config={settings(tmp_path / "b")!r},
                       options=["--report", "report.jsonl"])
        for micro in run:
            with micro:
                micro.backward(*models.causal_loss(run.model, micro.batch))
        print("done")
        """, sys.executable)
    assert fleet.steps(fleet.events(tmp_path / "b")) == want


def test_transformers_trainer_changes_by_two_lines(tmp_path):
    text = script(tmp_path, """
        import models, torch, transformers
        from zerofleet.integrations.transformers import Trainer

        if __name__ == "__main__":
            torch.manual_seed(5)
            model = models.build_llama()
            before = model.lm_head.weight.detach().clone()
            args = transformers.TrainingArguments(
                output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=4,
                learning_rate=0.01, lr_scheduler_type="cosine", warmup_steps=1, weight_decay=0.1, seed=3, report_to=[],
                use_cpu=True)
            Trainer(model=model, args=args, train_dataset=models.Tokens(40),
                    zerofleet={"parallel": {"workers": 2, "zero_stage": 3}}).train()
            assert not torch.equal(before, model.lm_head.weight)
            print("done")
        """, sys.executable)
    assert text.endswith("done\n")
    checkpoint = zerofleet.Checkpoint(tmp_path / "out" / "zerofleet")
    assert checkpoint.step == 4 and checkpoint.config["batch"] == {**checkpoint.config["batch"], "global_sequences": 8}


def test_the_command_line_reads_checkpoints_of_modules(tmp_path):
    fleet.train(tmp_path, fleet.config("llama", tmp_path))
    checkpoints = tmp_path / "checkpoints"
    step = checkpoints / f"step-{fleet.STEPS:08d}"
    for arguments in (["checkpoint", "list", checkpoints], ["checkpoint", "verify", step],
                      ["plan", checkpoints / ".torch" / "run.json"], ["checkpoint", "export", step, tmp_path / "hf"]):
        done = fleet.command(*arguments)
        assert done.returncode == 0, done.stderr
    refused = fleet.command("generate", "--checkpoint", step, "--prompt", "a")
    assert refused.returncode == 2 and "its model is a PyTorch module, models:llama" in refused.stderr


def test_a_module_takes_a_checkpoints_weights(tmp_path):
    fleet.train(tmp_path, fleet.config("qwen2", tmp_path, steps=2))
    checkpoint = zerofleet.Checkpoint(tmp_path / "checkpoints")
    values = checkpoint.state_dict()
    model = zerofleet.load(checkpoint.path, models.build_qwen2())
    assert checkpoint.step == 2 and checkpoint.config["model"]["torch"] == "models:qwen2"
    assert torch.equal(values["lm_head.weight"], values["model.embed_tokens.weight"])  # tied: both names
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, values[name])


def test_deepspeeds_configuration_is_translated_by_the_command_line(tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}}))
    done = fleet.command("config", "--from-deepspeed", tmp_path / "ds.json", "--workers", "2")
    assert done.returncode == 0 and "zero_stage: 3" in done.stdout, done.stderr
    missing = fleet.command("config", "--from-deepspeed", tmp_path / "none.json")
    assert missing.returncode == 2 and os.path.basename(str(tmp_path / "none.json")) in missing.stderr

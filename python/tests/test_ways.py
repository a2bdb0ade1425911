"""How runs are started and how they end: scripts, the user's own loops, transformers' Trainer, the command line."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import torch

import fleet
import models
import zerofleet


def script(folder, text, *arguments, code=0):
    """Runs a script in a folder of its own; returns its output, or its stderr if it should fail."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.py").write_text(textwrap.dedent(text))
    done = subprocess.run([*arguments, "script.py"], cwd=folder, env=fleet.environment(), capture_output=True, text=True,
                          timeout=400)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def settings(folder, **changes):
    """fleet.config for a script in a folder, without a module, which the script has."""
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


LOOP = """
    import models, zerofleet as zf

    run = zf.steps(models.{build}, data=models.Tokens(40), config={config!r}, options=["--report", "report.jsonl"])
    for micro in run:
        {before}
        with micro:
            {body}
    print("done")
    """


def loop(folder, build="Slow", before="pass", body="micro.backward(*models.branches_loss(run.model, micro.batch))", code=0,
         **changes):
    """Runs a user's own loop; returns what it has printed."""
    return script(folder, LOOP.format(build=build, before=before, body=body, config=settings(folder, **changes)),
                  sys.executable, code=code)


def test_a_worker_killed_within_a_loop_of_the_users_own_changes_no_bit(tmp_path):
    changes = {"steps": 8, "parallel": {"zero_stage": 3, "workers": 2}}
    loop(tmp_path / "calm", **changes)
    mark = tmp_path / "backward"
    os.environ["ZF_TEST_MARK"] = str(mark)
    killer = threading.Thread(target=lambda: (fleet.await_file(mark), os.kill(int(mark.read_text()), signal.SIGKILL)))
    killer.start()
    try:
        loop(tmp_path / "kill", **changes, checkpoint={"dir": str(tmp_path / "kill" / "checkpoints"), "every_steps": 2})
    finally:
        del os.environ["ZF_TEST_MARK"]
        killer.join()
    got = fleet.events(tmp_path / "kill")
    assert [e["failed_ranks"] for e in got if e["event"] == "recovery"] in ([[0]], [[1]])  # the other rank has stayed
    assert fleet.steps(got) == fleet.steps(fleet.events(tmp_path / "calm"))


def test_a_loop_may_be_in_a_module_that_python_runs(tmp_path):
    (tmp_path / "mine").mkdir()
    text = LOOP.format(build="Slow", before="assert there == 'there'", config=settings(tmp_path),
                       body="micro.backward(*models.branches_loss(run.model, micro.batch))")
    for name, contents in (("__init__", ""), ("other", "there = 'there'"),
                           ("loop", "from .other import there\n" + textwrap.dedent(text))):
        (tmp_path / "mine" / f"{name}.py").write_text(contents)
    assert "done" in script(tmp_path, "import runpy", sys.executable, "-m", "mine.loop")
    assert len(fleet.steps(fleet.events(tmp_path))) == fleet.STEPS


IN_A_WORKER = "'ZEROFLEET_LAUNCHER_PID' in __import__('os').environ"


@pytest.mark.parametrize("changes, line", [
    ({"body": f"assert not {IN_A_WORKER}, 'seven'; micro.backward(*models.branches_loss(run.model, micro.batch))"},
     "AssertionError: seven"),
    ({"before": f"assert not {IN_A_WORKER}, 'eight'"}, "AssertionError: eight"),
    ({"before": f"if {IN_A_WORKER}: break"}, "zerofleet.steps: the loop was left before the run's end"),
    ({"before": "break"}, "zerofleet.steps: the loop was left before the run's end"),
    ({"before": f"if {IN_A_WORKER}: continue"}, "zerofleet.steps: a micro-batch was passed over"),
    ({"body": f"if not {IN_A_WORKER}: micro.backward(*models.branches_loss(run.model, micro.batch))"},
     "micro.backward: was not called for a micro-batch"),
    ({"body": "micro.backward(models.branches_loss(run.model, micro.batch)[0].detach())"},
     "micro.backward: the loss does not depend on any parameter"),
    ({"precision": "fp16"}, "precision: "),
])
def test_what_goes_wrong_in_a_loop_is_one_line(changes, line, tmp_path):
    err = loop(tmp_path, code=2, **changes)
    assert "Traceback" not in err and err.strip().splitlines()[-1].startswith("zerofleet: "), err
    assert line in err.strip().splitlines()[-1], err


def test_a_script_has_its_signals_back_after_a_run(tmp_path):
    text = script(tmp_path, """
        import os, signal, time
        import models, zerofleet as zf

        if __name__ == "__main__":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & has it ignored
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            zf.train(models.ConvNet, data=models.Images(40), loss=models.class_loss, config={config!r})
            assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            except KeyboardInterrupt:
                print("interrupted")
        """.format(config=settings(tmp_path, steps=1)), sys.executable)
    assert text.endswith("interrupted\n")


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
                    zerofleet={"parallel": {"workers": 2, "zero_stage": 3}}).train().training_loss > 0
            assert not torch.equal(before, model.lm_head.weight)
            print("done")
        """, sys.executable)
    assert text.endswith("done\n")
    checkpoint = zerofleet.Checkpoint(tmp_path / "out" / "zerofleet")
    assert list(checkpoint.losses) == [1, 2, 3, 4]
    assert checkpoint.step == 4 and checkpoint.config["batch"] == {**checkpoint.config["batch"], "global_sequences": 8}


def test_transformers_trainer_trains_what_requires_a_gradient(tmp_path):
    """Frozen parts stay frozen, also below PEFT's adapters; epochs are as many steps as in transformers."""
    text = script(tmp_path, """
        import models, torch, transformers
        from zerofleet.integrations.transformers import Trainer

        if __name__ == "__main__":
            for name, model in (("frozen", models.build_llama()), ("lora", models.build_lora())):
                if name == "frozen":
                    model.model.embed_tokens.requires_grad_(False)
                before = {n: p.detach().clone() for n, p in model.named_parameters()}
                trained = {n for n, p in model.named_parameters() if p.requires_grad}
                args = transformers.TrainingArguments(
                    output_dir=name, per_device_train_batch_size=3, num_train_epochs=0.5, learning_rate=0.01,
                    report_to=[], use_cpu=True)
                done = Trainer(model=model, args=args, train_dataset=models.Tokens(40)).train()
                assert done.global_step == 7, done  # of 3 of the 20 samples
                changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
                assert changed and changed <= trained, changed - trained
            print("done")
        """, sys.executable)
    assert text.endswith("done\n")


@pytest.mark.parametrize("changes, line", [
    ("label_smoothing_factor=0.1", "label_smoothing_factor: 0.1 is not supported"),
    ("optim='adafactor'", "optim: adafactor is not supported"),
    ("eval_strategy='steps', eval_steps=0.5", "eval_steps: must be a number of steps, got 0.5"),
])
def test_transformers_arguments_that_would_change_the_numbers_are_refused(changes, line, tmp_path):
    err = script(tmp_path, f"""
        import models, transformers
        from zerofleet.integrations.transformers import Trainer

        if __name__ == "__main__":
            args = transformers.TrainingArguments(output_dir="out", max_steps=2, report_to=[], use_cpu=True, {changes})
            Trainer(model=models.build_llama(), args=args, train_dataset=models.Tokens(40),
                    eval_dataset=models.Tokens(10)).train()
        """, sys.executable, code=2)
    assert line in err.strip().splitlines()[-1], err


def test_the_weight_of_a_loss_is_what_transformers_has_divided_by():
    import peft
    import transformers as tf

    from zerofleet.integrations.transformers import loss_of

    def tuned(kind):
        return peft.get_peft_model(models.build_llama(), kind(task_type="CAUSAL_LM", num_virtual_tokens=3))

    labels = torch.randint(0, models.VOCAB, (2, 6))
    labels[0, 0] = labels[1, 3] = -100
    batch = {"input_ids": torch.arange(12).reshape(2, 6), "labels": labels}
    masked = tf.BertForMaskedLM(tf.BertConfig(vocab_size=models.VOCAB, hidden_size=16, num_hidden_layers=1,
                                              num_attention_heads=2, intermediate_size=16))
    for model, count in ((models.build_llama(), 9), (models.build_gpt2(), 9), (models.build_t5(), 10),
                         (models.build_lora(), 9), (tuned(peft.PromptTuningConfig), 10), (tuned(peft.PrefixTuningConfig), 9),
                         (masked, 10)):
        assert int(loss_of(model.eval(), batch)[1]) == count, type(model).__name__


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

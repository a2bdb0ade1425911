"""transformers' arguments, without a run: what becomes of them, and what is refused."""

import pytest
import transformers

import models
import zerofleet
from zerofleet.integrations.transformers import Trainer, config_of


def arguments(folder, **changes):
    return transformers.TrainingArguments(output_dir=str(folder), use_cpu=True, report_to=[], **changes)


def test_epochs_are_of_the_batch_that_is_taken(tmp_path):
    args = arguments(tmp_path, per_device_train_batch_size=2, num_train_epochs=3, save_strategy="epoch")
    assert config_of(args, 40, {"parallel": {"workers": 2}})["steps"] == 30
    config = config_of(args, 40, {"batch": {"global_sequences": 8}})
    assert (config["steps"], config["checkpoint"]["every_steps"], config["batch"]["global_sequences"]) == (15, 5, 8)


@pytest.mark.parametrize("method", ["training_step", "create_optimizer", "create_scheduler", "get_train_dataloader"])
def test_a_method_of_the_scripts_own_is_refused(method, tmp_path, capsys):
    own = type("Own", (Trainer,), {method: lambda self, *given: None})
    with pytest.raises(SystemExit) as ended:
        own(model=models.build_llama(), args=arguments(tmp_path), train_dataset=models.Tokens(4)).train()
    assert ended.value.code == 2
    assert f"zerofleet: {method}: is the script's own, and would not be called; " in capsys.readouterr().err


@pytest.mark.parametrize("resume, options", [(None, []), (True, []), (False, ["--resume", "none"]),
                                             ("runs/step-00000010", ["--resume", "runs/step-00000010"])])
def test_a_checkpoint_to_resume_from_is_passed_on(resume, options, tmp_path, monkeypatch):
    class Began(Exception):
        pass

    def train(*given, options, **others):
        raise Began(options)

    monkeypatch.setattr(zerofleet, "train", train, raising=False)
    with pytest.raises(Began) as began:
        Trainer(model=models.build_llama(), args=arguments(tmp_path), train_dataset=models.Tokens(4)).train(resume)
    assert began.value.args == (options,)
